// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dist dialect in C++.

#ifndef CLEAVE_DIALECTS_DIST_DIST_H
#define CLEAVE_DIALECTS_DIST_DIST_H

#include "dialects/interfaces/SplitRule.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/DistOpsDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistOpsAttributes.h.inc"

#include "dialects/dist/DistOpsInterfaces.h.inc"

namespace cleave::dist {
/// Verifies that operand and result of a collective are parts of one tensor, as its layouts say.
llvm::LogicalResult verifyCollective(mlir::Operation *op, mlir::SymbolTableCollection &symbols);
} // namespace cleave::dist

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

namespace cleave::dist {

/// The discardable attribute of dfg operators that holds a PlaceAttr.
inline constexpr llvm::StringLiteral placeAttrName = "dist.place";
/// The discardable attribute of dfg operators of a placed graph that holds a RecomputeAttr. Without it an operator is
/// computed again as others of its mesh are.
inline constexpr llvm::StringLiteral recomputeAttrName = "dist.recompute";
/// The discardable attribute of dfg operators that holds the model's own group (`ctx_group`) as a StringAttr.
inline constexpr llvm::StringLiteral groupAttrName = "dist.group";

/// The discardable attribute of a module that lists the machine's devices.
inline constexpr llvm::StringLiteral devicesAttrName = "dist.devices";
/// The attributes of a program's arguments and results: which input or output of the graph they are.
inline constexpr llvm::StringLiteral inputAttrName = "dist.input";
inline constexpr llvm::StringLiteral outputAttrName = "dist.output";
/// The attribute of a program's arguments and results that holds their LayoutAttr.
inline constexpr llvm::StringLiteral layoutAttrName = "dist.layout";
/// The attribute of a program's arguments and results that holds the WithinAttr of a part of an input or output.
inline constexpr llvm::StringLiteral withinAttrName = "dist.within";
/// On an operation of a program that reads a parameter: steps write the parameter.
inline constexpr llvm::StringLiteral changesAttrName = "dist.changes";
/// On a collective, an integer: what it brings is for a part of the step, and others bring the same for other parts.
/// Collectives of different numbers are not joined.
inline constexpr llvm::StringLiteral againAttrName = "dist.again";
/// On a graph or program: its operators are to run in the order in which they stand.
inline constexpr llvm::StringLiteral orderedAttrName = "dist.ordered";

/// The most that the shares of a mesh's axis may be together: products of two of their sums do not overflow.
inline constexpr int64_t mostShares = int64_t(1) << 30;

/// A device of the machine, as the module's `dist.devices` describes it.
struct Device {
  llvm::StringRef name;   ///< Distinct in a module.
  llvm::StringRef driver; ///< The runtime's driver.
  int64_t cores = 1;      ///< At least one.
  int64_t memory = 0;     ///< Bytes that a plan may use; 0: no limit.
  /// Of a GPU the architecture that code is compiled for, as "sm_90"; of a processor its name, as "x86-64-v3", or empty
  /// for the one that compiles; empty of what is neither.
  llvm::StringRef chip = {};

  /// Whether it gets a GPU's kernels: the driver "cuda" runs it, or "null" stands for it where it is not at hand.
  bool isGpu() const { return driver == "cuda" || (driver == "null" && !chip.empty()); }
  /// Whether it runs a processor's code on this host: the driver "cpu" does, and every driver that a program adds.
  bool isProcessor() const { return driver != "cuda" && driver != "null"; }
};

/// The placement of an operator; null where it has none.
PlaceAttr getPlace(mlir::Operation *op);
/// What the backward pass computes again of an operator; null where its mesh's options say it.
RecomputeAttr getRecompute(mlir::Operation *op);

/// The machine's devices by their indices; empty where the module names none. The names live as long as the context.
llvm::SmallVector<Device> getDevices(mlir::ModuleOp module);

/// The first device of a program's mesh, of whose kind all are; one of the driver "cpu" where the module names none.
Device getDeviceOf(ProgramOp program);

/// Writes the module's `dist.devices`.
void setDevices(mlir::ModuleOp module, llvm::ArrayRef<Device> devices);

/// The module's machine; null where it has none.
MachineOp getMachine(mlir::ModuleOp module);

/// Gives a module the devices, the machine and the meshes of another, which it must not have yet.
void copyTarget(mlir::ModuleOp from, mlir::ModuleOp to);

/// Verifies what a dist.machine says, for the dialect, which knows its form alone. Whoever reads machines attaches one
/// to the dialect (registerMachineReader in passes/cost); without it, contents are not verified.
class MachineReaderInterface : public mlir::DialectInterface::Base<MachineReaderInterface> {
public:
  explicit MachineReaderInterface(mlir::Dialect *dialect) : Base(dialect) {}
  /// Reports the first mistake at the operation.
  virtual llvm::LogicalResult verify(MachineOp machine) const = 0;
};

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_DIST_H
