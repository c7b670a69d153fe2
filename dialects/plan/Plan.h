// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect in C++.

#ifndef CLEAVE_DIALECTS_PLAN_PLAN_H
#define CLEAVE_DIALECTS_PLAN_PLAN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/plan/PlanOpsDialect.h.inc"
#include "dialects/plan/PlanOpsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanOpsAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanOpsTypes.h.inc"

#include "dialects/plan/PlanOpsInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

namespace cleave::plan {

/// The name of the attribute that holds a `#plan.nest`, on the operations of a native kernel's `loops`.
inline constexpr llvm::StringLiteral nestAttrName = "plan.nest";

/// The name of the attribute that holds a list of `#plan.gpu_step`, likewise for kernels of GPUs.
inline constexpr llvm::StringLiteral stepsAttrName = "plan.steps";

/// The bytes that a tensor takes in memory, with its layout's padding; i1 takes one byte an element.
int64_t storageBytes(mlir::RankedTensorType type);

/// The layout of a tensor type; null where it is dense and row-major.
LayoutAttr getLayout(mlir::Type type);

/// The same type without a layout.
mlir::RankedTensorType withoutLayout(mlir::RankedTensorType type);

/// The module's attribute that says for which processor devices of the driver cpu get their kernels:
/// `plan.processor = {name = "x86-64-v3", features = ["avx", "avx2", ...]}`, both as LLVM names them.
inline constexpr llvm::StringLiteral processorAttrName = "plan.processor";

struct Processor {
  llvm::StringRef name;
  llvm::SmallVector<llvm::StringRef> features;

  bool hasFeature(llvm::StringRef feature) const { return llvm::is_contained(features, feature); }
};

/// The module's processor; none where nothing was chosen.
std::optional<Processor> getProcessor(mlir::ModuleOp module);
void setProcessor(mlir::ModuleOp module, const Processor &processor);

} // namespace cleave::plan

#endif // CLEAVE_DIALECTS_PLAN_PLAN_H
