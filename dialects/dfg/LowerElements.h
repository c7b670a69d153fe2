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

/// The signless type of an unsigned integer's width; other types as they are. What is built here passes unsigned values
/// through casts (`builtin.unrealized_conversion_cast`) to and from it, because arith has no unsigned types; the casts
/// vanish where the lowered code gives up those types (passes/codegen/LowerBody.h).
mlir::Type signlessType(mlir::Type type);

/// Builds scalar computations at a builder's insertion point. Operands of one call have one type: f32, f64, a signless
/// integer that counts as signed, or an unsigned one. f16 and bf16 are widened before and narrowed after.
class ElementBuilder {
public:
  ElementBuilder(mlir::OpBuilder &builder, mlir::Location location) : builder(builder), location(location) {}

  mlir::OpBuilder &getBuilder() const { return builder; }
  mlir::Location getLocation() const { return location; }

  /// `value` as a constant; integers truncate it and saturate.
  mlir::Value constant(mlir::Type type, double value) const;
  mlir::Value integer(mlir::Type type, int64_t value) const;
  mlir::Value index(int64_t value) const;

  /// An integer under another type of its width, and under the signless one.
  mlir::Value viewedAs(mlir::Value value, mlir::Type type) const;
  mlir::Value bits(mlir::Value value) const;

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
  /// Of the bits of integers, or of truth values.
  mlir::Value conjunction(mlir::Value a, mlir::Value b) const;
  mlir::Value disjunction(mlir::Value a, mlir::Value b) const;
  mlir::Value exclusion(mlir::Value a, mlir::Value b) const;
  /// Bits that leave are lost; a count that is negative or not below the width shifts everything out. To the right,
  /// signed integers keep their sign.
  mlir::Value shiftLeft(mlir::Value a, mlir::Value count) const;
  mlir::Value shiftRight(mlir::Value a, mlir::Value count) const;
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
  mlir::Value integerPower(mlir::Value base, mlir::Value exponent, bool hasNoSign) const;
  /// The float, signed or unsigned operation by the operands' type; truth values count as unsigned.
  template <typename FloatOp, typename IntegerOp, typename UnsignedOp>
  mlir::Value binary(mlir::Value a, mlir::Value b) const;
  template <typename SignedOp, typename UnsignedOp>
  mlir::Value shifted(mlir::Value a, mlir::Value count, mlir::Value rest) const;

  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_LOWERELEMENTS_H
