// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers that whole classes of operators give to the interfaces in the same way.

#ifndef CLEAVE_DIALECTS_DFG_ANSWERS_H
#define CLEAVE_DIALECTS_DFG_ANSWERS_H

#include "dialects/interfaces/Interfaces.h"

namespace cleave::dfg {

/// NumPy's broadcast of two shapes; fails where a pair of sizes differs and neither is one.
llvm::FailureOr<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

/// The type of an elementwise result: the broadcast shape, and `elementType` or, where that is null, the element type
/// of the last operand. Errors name the operands' shapes.
llvm::LogicalResult inferElementwise(std::optional<mlir::Location> location, llvm::StringRef name,
                                     mlir::ValueRange operands, mlir::Type elementType,
                                     llvm::SmallVectorImpl<mlir::Type> &types);

/// Factors d0, d1, ... of the result's dimensions; broadcast dimensions carry none. `linear` is the rule's.
SplitRule elementwiseSplitRule(mlir::Operation *op, llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linear = {});

/// SplitRule::linear of a conversion: it is linear where it loses nothing, from a float to a wider one.
llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linearCast(mlir::Operation *op);

/// Lowers to one linalg.generic whose body is the operator's `buildElement`.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> lowerElementwise(ElementwiseInterface op, mlir::OpBuilder &builder,
                                                                 mlir::ValueRange operands);

/// Computes an elementwise operator on known operands.
llvm::FailureOr<llvm::SmallVector<HostTensor>> evaluateElementwise(mlir::Operation *op,
                                                                   llvm::ArrayRef<HostTensor> operands);

/// Folds an operator of one result whose operands are constants, by EvaluateInterface; results of more than 1024
/// elements stay unfolded, so that constants in the IR stay small.
mlir::OpFoldResult foldByEvaluation(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);

/// The same of an elementwise operator, which else reads what a dfg.broadcast reads, and not its result, where the
/// other operands leave it the shape that it has.
mlir::OpFoldResult foldElementwise(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);

/// The cost of moving elements: every byte read and written once, no arithmetic.
OpCost movementCost(mlir::Operation *op);

/// Positions in one device's part of a dimension: each moved to the part's nearest element, and whether it lies in the
/// part (i1).
struct LocalPositions {
  mlir::Value nearest, inside;
};

/// `indices` into a dimension of `size` elements, of which a device has `part` from `start` (an i64 scalar) on.
LocalPositions localPositions(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value indices, int64_t size,
                              mlir::Value start, int64_t part);

/// A value of the shape of indices, broadcast against a gather's result of `rank` whose dimensions from `dim` on they
/// are.
mlir::Value alignedPositions(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, int64_t dim,
                             int64_t rank);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_ANSWERS_H
