// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the gradients of all operators are made of: builds dfg operators with few words.

#ifndef CLEAVE_DIALECTS_DFG_GRADIENT_H
#define CLEAVE_DIALECTS_DFG_GRADIENT_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

namespace cleave::dfg {

/// What DifferentiateInterface::differentiate returns: one value an operand, null where there is none.
using Gradients = llvm::FailureOr<llvm::SmallVector<mlir::Value>>;

/// Builds operators at a builder's insertion point, all with the location of the operator that is differentiated. A
/// number beside a value stands for a constant of the value's element type.
class GradientBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Operation *op) : builder(builder), location(op->getLoc()) {}

  mlir::OpBuilder &getBuilder() const { return builder; }
  mlir::Location getLocation() const { return location; }

  /// Appends an operator of one result.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) const {
    return Op::create(builder, location, std::forward<Args>(args)...);
  }

  /// A scalar of the element type of `like`.
  mlir::Value scalar(double value, mlir::Value like) const;
  /// A tensor of zeros.
  mlir::Value zeros(mlir::Type type) const;

  mlir::Value add(mlir::Value a, mlir::Value b) const { return make<AddOp>(a, b); }
  mlir::Value add(mlir::Value a, double b) const { return make<AddOp>(a, scalar(b, a)); }
  mlir::Value sub(mlir::Value a, mlir::Value b) const { return make<SubOp>(a, b); }
  mlir::Value sub(double a, mlir::Value b) const { return make<SubOp>(scalar(a, b), b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) const { return make<MulOp>(a, b); }
  mlir::Value mul(mlir::Value a, double b) const { return make<MulOp>(a, scalar(b, a)); }
  mlir::Value div(mlir::Value a, mlir::Value b) const { return make<DivOp>(a, b); }
  mlir::Value div(double a, mlir::Value b) const { return make<DivOp>(scalar(a, b), b); }
  mlir::Value neg(mlir::Value a) const { return make<NegOp>(a); }
  mlir::Value square(mlir::Value a) const { return make<MulOp>(a, a); }

  mlir::Value compare(mlir::Value a, Comparison comparison, mlir::Value b) const {
    return make<CompareOp>(a, b, comparison);
  }
  mlir::Value compare(mlir::Value a, Comparison comparison, double b) const {
    return make<CompareOp>(a, scalar(b, a), comparison);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) const {
    return make<SelectOp>(condition, a, b);
  }
  /// `a` where the condition is true, else zero.
  mlir::Value where(mlir::Value condition, mlir::Value a) const { return select(condition, a, scalar(0, a)); }
  /// Zero where the condition is true, else `a`.
  mlir::Value except(mlir::Value condition, mlir::Value a) const { return select(condition, scalar(0, a), a); }

  /// The value with another element type; the same where it has that type.
  mlir::Value cast(mlir::Value value, mlir::Type element) const;
  /// f16 and bf16 as f32; other values as they are.
  mlir::Value widen(mlir::Value value) const;
  /// The value under another shape; the same where it has that shape.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape) const;
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape) const;
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation) const;
  mlir::Value reduce(mlir::Value value, ReduceKind kind, llvm::ArrayRef<int64_t> dims, bool keepDims) const;
  mlir::Value sum(mlir::Value value, llvm::ArrayRef<int64_t> dims, bool keepDims) const {
    return reduce(value, ReduceKind::Sum, dims, keepDims);
  }
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> dims) const;

  /// The gradient of an operand that NumPy's rule broadcasts: `value` summed over what repeats `shape`.
  mlir::Value sumTo(mlir::Value value, llvm::ArrayRef<int64_t> shape) const;

  mlir::Value isZero(mlir::Value a) const { return compare(a, Comparison::Equal, 0); }
  /// One where the value is zero, else the value.
  mlir::Value nonZero(mlir::Value a) const { return select(isZero(a), scalar(1, a), a); }
  /// The product of all factors but `factor` itself, which may be zero, from the product of those that are not zero and
  /// the number of those that are.
  mlir::Value otherFactors(mlir::Value factor, mlir::Value product, mlir::Value zeros) const;

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
};

llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);

/// The answer of operators whose results do not depend smoothly on any operand.
Gradients noGradients(mlir::Operation *op);

/// The first result's cotangent; null where there is none, or where its elements are no real numbers.
mlir::Value cotangentOf(mlir::Operation *op, const GradientRequest &request);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_GRADIENT_H
