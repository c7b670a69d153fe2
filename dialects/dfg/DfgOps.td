// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All operators of the dfg dialect.

#ifndef CLEAVE_DIALECTS_DFG_OPS
#define CLEAVE_DIALECTS_DFG_OPS

include "dialects/dfg/DfgContractionOps.td"
include "dialects/dfg/DfgElementwiseOps.td"
include "dialects/dfg/DfgGraphOps.td"
include "dialects/dfg/DfgIndexingOps.td"
include "dialects/dfg/DfgMovementOps.td"
include "dialects/dfg/DfgRandomOps.td"
include "dialects/dfg/DfgReductionOps.td"
include "dialects/dfg/DfgTrainingOps.td"
include "dialects/dfg/DfgTrigonometricOps.td"

#endif // CLEAVE_DIALECTS_DFG_OPS
