// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dfg dialect in C++: operators, attributes, enums.

#ifndef CLEAVE_DIALECTS_DFG_DFG_H
#define CLEAVE_DIALECTS_DFG_DFG_H

#include "dialects/dfg/Answers.h"
#include "dialects/interfaces/Interfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dfg/DfgOpsDialect.h.inc"
#include "dialects/dfg/DfgOpsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dfg/DfgOpsAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/dfg/DfgOps.h.inc"

namespace cleave::dfg {

/// On a graph whose entry shares its arena with others, to train, evaluate or take a batch: the samples of a step, the
/// size of dimension 0 of its inputs; an i64.
inline constexpr llvm::StringLiteral samplesAttrName = "dfg.samples";

/// The model's node name that a location carries, and the node's operator type; empty where it carries none.
llvm::StringRef getNodeName(mlir::Location location);
llvm::StringRef getNodeKind(mlir::Location location);

/// The location of a model's node.
mlir::Location getNodeLocation(mlir::MLIRContext *context, llvm::StringRef name, llvm::StringRef kind);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_DFG_H
