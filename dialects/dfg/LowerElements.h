// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic on single elements, built with arith and math operations: one vocabulary for floats and integers, with
// the meaning that the dialect gives to wrapping, division by zero, NaN and conversions.

#ifndef CLEAVE_DIALECTS_DFG_LOWERELEMENTS_H
#define CLEAVE_DIALECTS_DFG_LOWERELEMENTS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace cleave::dfg {

/// The type in which elements of `storage` are computed: f32 for f16 and bf16, else the same.
mlir::Type computeType(mlir::Type storage);

/// Builds scalar computations at a builder's insertion point. Operands of one call have one type: f32, f64, or a
/// signless integer that counts as signed. f16 and bf16 are widened before and narrowed after.
class ElementBuilder {
public:
  ElementBuilder(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}

  mlir::OpBuilder &getBuilder() const { return builder; }
  mlir::Location getLocation() const { return location; }

  /// `value` as a constant; integers truncate it and saturate.
  mlir::Value constant(mlir::Type type, double value) const;
  mlir::Value integer(mlir::Type type, int64_t value) const;
  mlir::Value index(int64_t value) const;

  /// The smallest and the largest value of a type: infinities for floats, false and true for i1.
  mlir::Value lowest(mlir::Type type) const;
  mlir::Value highest(mlir::Type type) const;

  mlir::Value add(mlir::Value a, mlir::Value b) const;
  mlir::Value sub(mlir::Value a, mlir::Value b) const;
  mlir::Value mul(mlir::Value a, mlir::Value b) const;
  /// Integers: truncated, 0 for a division by zero.
  mlir::Value div(mlir::Value a, mlir::Value b) const;
  /// NaN if either is NaN. On i1 disjunction and conjunction.
  mlir::Value max(mlir::Value a, mlir::Value b) const;
  mlir::Value min(mlir::Value a, mlir::Value b) const;
  mlir::Value neg(mlir::Value a) const;
  mlir::Value abs(mlir::Value a) const;
  mlir::Value exp(mlir::Value a) const;
  mlir::Value log(mlir::Value a) const;
  mlir::Value sqrt(mlir::Value a) const;
  mlir::Value pow(mlir::Value a, mlir::Value b) const;
  /// The remainder with the dividend's sign; integers: 0 for a remainder by zero.
  mlir::Value remainder(mlir::Value a, mlir::Value b) const;

  /// Ordered comparisons: false where an operand is NaN. i1 compares as 0 and 1.
  mlir::Value equal(mlir::Value a, mlir::Value b) const;
  mlir::Value less(mlir::Value a, mlir::Value b) const;
  mlir::Value lessOrEqual(mlir::Value a, mlir::Value b) const;
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) const;

  /// Conversion by the rules of `dfg.cast`.
  mlir::Value convert(mlir::Value value, mlir::Type type) const;
  /// f16 and bf16 as f32; other values as they are.
  mlir::Value widen(mlir::Value value) const { return convert(value, computeType(value.getType())); }

private:
  mlir::Value floatToInteger(mlir::Value value, mlir::IntegerType type) const;
  mlir::Value narrowFloat(mlir::Value value, mlir::FloatType type) const;
  mlir::Value roundToOdd(mlir::Value value) const;
  mlir::Value integerPower(mlir::Value base, mlir::Value exponent) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_LOWERELEMENTS_H
