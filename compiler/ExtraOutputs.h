// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes values inside of a model visible: further outputs of its graph.

#ifndef CLEAVE_COMPILER_EXTRAOUTPUTS_H
#define CLEAVE_COMPILER_EXTRAOUTPUTS_H

#include "runtime/Error.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Gives out the results of the model nodes whose names match one of the patterns (as in a placement file), each under
/// its node's name, in the order of the graph. Of a node that has become several operators the last counts.
/// Status::Usage when a pattern is malformed or matches no node.
runtime::Error addOutputs(mlir::ModuleOp module, const std::vector<std::string> &patterns);

} // namespace cleave

#endif // CLEAVE_COMPILER_EXTRAOUTPUTS_H
