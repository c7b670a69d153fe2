// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Building formulas of dfg operators, all in the name of one node.

#ifndef CLEAVE_PASSES_TRAIN_ARITHMETIC_H
#define CLEAVE_PASSES_TRAIN_ARITHMETIC_H

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Builders.h"

namespace cleave {

/// Appends operators at a builder's insertion point. Numbers among the operands become scalars of the other operand's
/// element type.
class Arithmetic {
public:
  Arithmetic(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}

  static mlir::RankedTensorType typeOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
  static mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return location; }

  /// A scalar constant: a tensor without dimensions.
  mlir::Value number(mlir::Type elementType, double value);
  mlir::Value integer(int64_t value);

  mlir::Value add(mlir::Value lhs, mlir::Value rhs) { return dfg::AddOp::create(builder, location, lhs, rhs); }
  mlir::Value add(mlir::Value lhs, double rhs) { return add(lhs, number(elementOf(lhs), rhs)); }
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs) { return dfg::SubOp::create(builder, location, lhs, rhs); }
  mlir::Value sub(double lhs, mlir::Value rhs) { return sub(number(elementOf(rhs), lhs), rhs); }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) { return dfg::MulOp::create(builder, location, lhs, rhs); }
  mlir::Value mul(mlir::Value lhs, double rhs) { return mul(lhs, number(elementOf(lhs), rhs)); }
  mlir::Value div(mlir::Value lhs, mlir::Value rhs) { return dfg::DivOp::create(builder, location, lhs, rhs); }
  mlir::Value div(double lhs, mlir::Value rhs) { return div(number(elementOf(rhs), lhs), rhs); }
  mlir::Value pow(mlir::Value lhs, mlir::Value rhs) { return dfg::PowOp::create(builder, location, lhs, rhs); }
  mlir::Value pow(double lhs, mlir::Value rhs) { return pow(number(elementOf(rhs), lhs), rhs); }
  mlir::Value min(mlir::Value lhs, double rhs) {
    return dfg::MinOp::create(builder, location, lhs, number(elementOf(lhs), rhs));
  }
  mlir::Value max(mlir::Value lhs, double rhs) {
    return dfg::MaxOp::create(builder, location, lhs, number(elementOf(lhs), rhs));
  }
  mlir::Value sqrt(mlir::Value value) { return dfg::SqrtOp::create(builder, location, value); }
  mlir::Value sign(mlir::Value value) { return dfg::SignOp::create(builder, location, value); }
  mlir::Value floor(mlir::Value value) { return dfg::FloorOp::create(builder, location, value); }
  mlir::Value cos(mlir::Value value) { return dfg::CosOp::create(builder, location, value); }
  mlir::Value compare(mlir::Value lhs, dfg::Comparison comparison, mlir::Value rhs) {
    return dfg::CompareOp::create(builder, location, lhs, rhs, comparison);
  }
  mlir::Value select(mlir::Value condition, mlir::Value then, mlir::Value otherwise) {
    return dfg::SelectOp::create(builder, location, condition, then, otherwise);
  }

  /// The value itself where it has the element type already.
  mlir::Value cast(mlir::Value value, mlir::Type elementType);
  /// The value itself where it has the shape already.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// The positions along `dim` of a tensor of `rank`, with size one in all other dimensions.
  mlir::Value positions(int64_t rank, int64_t dim, int64_t size);

  mlir::Value reduce(mlir::Value value, dfg::ReduceKind kind, llvm::ArrayRef<int64_t> dims, bool keepDims);
  /// The sum of all elements, a scalar.
  mlir::Value sum(mlir::Value value);
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> dims, bool keepDims);

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_ARITHMETIC_H
