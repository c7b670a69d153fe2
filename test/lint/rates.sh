#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# That a rate which stands where it should not is found: a check that finds nothing checks nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

expected=$(grep -n . Inputs/rates.txt | sed -n '/launchSeconds/,/Option/p' | cut -d: -f1)
if found=$(../../tools/lint rates test/lint/Inputs/rates.txt 2>&1); then
  echo "expected tools/lint rates to fail" >&2
  exit 1
fi
lines=$(grep -oP '^test/lint/Inputs/rates.txt:\K[0-9]+' <<<"$found")
if [ "$lines" != "$expected" ]; then
  printf 'expected lines:\n%s\ngot:\n%s\n' "$expected" "$found" >&2
  exit 1
fi
