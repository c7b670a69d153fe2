#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# That an include which goes up the layers is found, and one of a folder without a layer: in a tree of one file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tools" "$tree/runtime/tensorfile"
cp tools/lint tools/layers.txt "$tree/tools"
cat >"$tree/runtime/tensorfile/Planted.h" <<'END'
#include "runtime/Error.h"
#include "runtime/tensorfile/TensorFile.h"
#include "runtime/training/Dataset.h"
#include "passes/cost/Machine.h"
#include "tools/nowhere/Nothing.h"
#include <vector>
END
if found=$("$tree/tools/lint" includes runtime/tensorfile/Planted.h 2>&1); then
  echo "expected tools/lint includes to fail" >&2
  exit 1
fi
lines=$(sed -n "s,^runtime/tensorfile/Planted.h:\([0-9]*\):.*,\1,p" <<<"$found" | tr '\n' ' ')
if [ "$lines" != "3 4 5 " ]; then
  printf 'expected lines 3, 4 and 5, got:\n%s\n' "$found" >&2
  exit 1
fi
