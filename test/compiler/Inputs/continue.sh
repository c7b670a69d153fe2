#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# continue.sh STAGES PLAN ARGUMENTS...: compiles; then, for each stage of a list with commas, dumps the module after it,
# has cleave-opt go on as the dump says in its first line, and expects the bytes of the plan, and of its weights, that
# the compiler wrote.
set -eu
stages=$1 plan=$2
shift 2
rm -rf kept && mkdir kept
cleave compile "$@" -o "$plan" >kept/log
mv "$plan"* kept/
for stage in $(echo "$stages" | tr , ' '); do
  cleave compile "$@" --emit-ir="$stage" -o dump.mlir
  eval "pipeline=$(sed -n "1s,^// cleave-opt --pass-pipeline=,,p" dump.mlir)"
  [ -n "$pipeline" ] || { echo "the dump after $stage does not say how to go on"; exit 1; }
  # Parameters in the plan's own file of weights are found there.
  for weights in kept/*.weights; do [ ! -e "$weights" ] || cp "$weights" .; done
  cleave-opt dump.mlir --pass-pipeline="$pipeline" -o /dev/null
  for file in kept/"$plan"*; do cmp "$file" "$(basename "$file")"; done
  rm "$plan"*
  echo "$stage: equal"
done
