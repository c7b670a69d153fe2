// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dist dialect in C++.

#ifndef CLEAVE_DIALECTS_DIST_DIST_H
#define CLEAVE_DIALECTS_DIST_DIST_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/DistOpsDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistOpsAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

namespace cleave::dist {

/// The discardable attribute of dfg operators that holds a PlaceAttr.
inline constexpr llvm::StringLiteral placeAttrName = "dist.place";
/// The discardable attribute of dfg operators that holds the model's own group (`ctx_group`) as a StringAttr.
inline constexpr llvm::StringLiteral groupAttrName = "dist.group";

/// The placement of an operator; null where it has none.
PlaceAttr getPlace(mlir::Operation *op);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_DIST_H
