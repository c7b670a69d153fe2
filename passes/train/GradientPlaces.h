// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places of operators that differentiation makes.
//
// A gradient operator inherits its forward operator's mesh and split. Its factors are its own, so the split comes over
// by way of the tensors: the layouts in which the forward operator takes its operands and leaves its results are also
// those of the values from which the gradient is computed; the cotangent of a result lies as the result does, that of
// an operand as the operand. What a new operator reads cuts its factors (followLayouts), then what it makes. So a
// gradient is partial exactly over the axes over which its operand was replicated, and communication is inserted by the
// stage that inserts all communication.

#ifndef CLEAVE_PASSES_TRAIN_GRADIENTPLACES_H
#define CLEAVE_PASSES_TRAIN_GRADIENTPLACES_H

#include "passes/distribute/OperatorLayouts.h"

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Places new operators of one graph.
class GradientPlaces {
public:
  explicit GradientPlaces(mlir::ModuleOp module) : module(module) {}

  /// The layouts of a placed operator; fails, with a diagnostic, where its split does not fit.
  llvm::FailureOr<OperatorLayouts> layoutsOf(mlir::Operation *op);

  /// From now on values lie as `forward` takes and leaves them; `cotangents` as its results. New operators get its
  /// mesh.
  mlir::LogicalResult follow(mlir::Operation *forward, mlir::ValueRange cotangents);
  /// From now on nothing is known; new operators get this mesh.
  void begin(mlir::FlatSymbolRefAttr mesh, mlir::StringAttr by);
  /// A value lies, or is to lie, so. Partial axes are left out.
  void hint(mlir::Value value, const dist::Layout &layout);
  /// How a value lies, as far as that is known.
  const dist::Layout *find(mlir::Value value) const;

  /// The gradients of a placed operator by its operands (DifferentiateInterface), whose operators are appended at
  /// `builder`, placed, and added to `created`. A gradient is to lie as the operand does. Fails, with a diagnostic,
  /// where there is none, or a place does not fit.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>> differentiate(mlir::Operation *op, const GradientRequest &request,
                                                                mlir::OpBuilder &builder,
                                                                llvm::SmallVectorImpl<mlir::Operation *> &created);

  /// Places operators in the order in which they stand; constants stay without one.
  mlir::LogicalResult place(llvm::ArrayRef<mlir::Operation *> operators);

  /// The shape of a mesh of the module.
  const dist::MeshShape &shapeOf(mlir::FlatSymbolRefAttr mesh);

private:
  mlir::ModuleOp module;
  mlir::FlatSymbolRefAttr mesh;
  mlir::StringAttr by;
  llvm::DenseMap<mlir::Value, dist::Layout> layouts;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<dist::MeshShape>> shapes;
};

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_GRADIENTPLACES_H
