// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The generated operator definitions: one translation unit, as they take long to compile.

#include "dialects/dfg/Dfg.h"

using namespace mlir;
using namespace cleave::dfg;

#define GET_OP_CLASSES
#include "dialects/dfg/DfgOps.cpp.inc"
