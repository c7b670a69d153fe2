// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar arithmetic with the dialect's meaning as arith and math operations.

#include "dialects/dfg/LowerElements.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

using namespace mlir;

namespace cleave::dfg {

Type computeType(Type storage) {
  return storage.isF16() || storage.isBF16() ? Type(Float32Type::get(storage.getContext())) : storage;
}

static bool isFloat(Value value) { return isa<FloatType>(value.getType()); }
static bool isBool(Value value) { return value.getType().isInteger(1); }

//===-- constants ---------------------------------------------------------------------------------------------===//

Value ElementBuilder::integer(Type type, int64_t value) const {
  return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, value));
}

Value ElementBuilder::index(int64_t value) const { return integer(builder.getIndexType(), value); }

Value ElementBuilder::constant(Type type, double value) const {
  if (auto floatType = dyn_cast<FloatType>(type))
    return arith::ConstantOp::create(builder, location, builder.getFloatAttr(floatType, value));
  bool exact = false;
  llvm::APSInt converted(type.getIntOrFloatBitWidth(), /*isUnsigned=*/false);
  llvm::APFloat(value).convertToInteger(converted, llvm::APFloat::rmTowardZero, &exact);
  return arith::ConstantOp::create(builder, location, builder.getIntegerAttr(type, converted));
}

Value ElementBuilder::lowest(Type type) const {
  if (isa<FloatType>(type))
    return constant(type, -std::numeric_limits<double>::infinity());
  if (type.isInteger(1))
    return integer(type, 0);
  return arith::ConstantOp::create(
      builder, location, builder.getIntegerAttr(type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth())));
}

Value ElementBuilder::highest(Type type) const {
  if (isa<FloatType>(type))
    return constant(type, std::numeric_limits<double>::infinity());
  if (type.isInteger(1))
    return integer(type, 1);
  return arith::ConstantOp::create(
      builder, location, builder.getIntegerAttr(type, APInt::getSignedMaxValue(type.getIntOrFloatBitWidth())));
}

//===-- arithmetic --------------------------------------------------------------------------------------------===//

Value ElementBuilder::add(Value a, Value b) const {
  return isFloat(a) ? arith::AddFOp::create(builder, location, a, b).getResult()
                    : arith::AddIOp::create(builder, location, a, b).getResult();
}

Value ElementBuilder::sub(Value a, Value b) const {
  return isFloat(a) ? arith::SubFOp::create(builder, location, a, b).getResult()
                    : arith::SubIOp::create(builder, location, a, b).getResult();
}

Value ElementBuilder::mul(Value a, Value b) const {
  return isFloat(a) ? arith::MulFOp::create(builder, location, a, b).getResult()
                    : arith::MulIOp::create(builder, location, a, b).getResult();
}

Value ElementBuilder::div(Value a, Value b) const {
  if (isFloat(a))
    return arith::DivFOp::create(builder, location, a, b);
  // The processor traps on 0 and on the smallest number by -1: those divide by 1 and are replaced.
  Value zero = integer(a.getType(), 0), one = integer(a.getType(), 1);
  Value byZero = equal(b, zero), byMinusOne = equal(b, integer(a.getType(), -1));
  Value special = arith::OrIOp::create(builder, location, byZero, byMinusOne);
  Value quotient = arith::DivSIOp::create(builder, location, a, select(special, one, b));
  return select(byZero, zero, select(byMinusOne, neg(a), quotient));
}

Value ElementBuilder::remainder(Value a, Value b) const {
  if (isFloat(a))
    return arith::RemFOp::create(builder, location, a, b);
  Value zero = integer(a.getType(), 0), one = integer(a.getType(), 1);
  Value special = arith::OrIOp::create(builder, location, equal(b, zero), equal(b, integer(a.getType(), -1)));
  return arith::RemSIOp::create(builder, location, a, select(special, one, b));
}

Value ElementBuilder::max(Value a, Value b) const {
  if (isFloat(a))
    return arith::MaximumFOp::create(builder, location, a, b);
  if (isBool(a))
    return arith::OrIOp::create(builder, location, a, b);
  return arith::MaxSIOp::create(builder, location, a, b);
}

Value ElementBuilder::min(Value a, Value b) const {
  if (isFloat(a))
    return arith::MinimumFOp::create(builder, location, a, b);
  if (isBool(a))
    return arith::AndIOp::create(builder, location, a, b);
  return arith::MinSIOp::create(builder, location, a, b);
}

Value ElementBuilder::neg(Value a) const {
  if (isFloat(a))
    return arith::NegFOp::create(builder, location, a);
  return sub(integer(a.getType(), 0), a);
}

Value ElementBuilder::abs(Value a) const {
  if (isFloat(a))
    return math::AbsFOp::create(builder, location, a);
  return select(less(a, integer(a.getType(), 0)), neg(a), a);
}

Value ElementBuilder::exp(Value a) const { return math::ExpOp::create(builder, location, a); }
Value ElementBuilder::log(Value a) const { return math::LogOp::create(builder, location, a); }
Value ElementBuilder::sqrt(Value a) const { return math::SqrtOp::create(builder, location, a); }

Value ElementBuilder::pow(Value a, Value b) const {
  return isFloat(a) ? math::PowFOp::create(builder, location, a, b).getResult() : integerPower(a, b);
}

/// Squares and multiplies, bit by bit of the exponent; wraps. Negative exponents give the truncated reciprocal: 1 and
/// -1 have one, all else is 0.
Value ElementBuilder::integerPower(Value base, Value exponent) const {
  Type type = base.getType();
  Value zero = integer(type, 0), one = integer(type, 1);
  auto loop = scf::ForOp::create(
      builder, location, index(0), index(type.getIntOrFloatBitWidth() - 1), index(1), ValueRange{one, base, exponent},
      [&](OpBuilder &nested, Location, Value, ValueRange carried) {
        ElementBuilder e(nested, location);
        Value odd = arith::TruncIOp::create(nested, location, nested.getI1Type(), carried[2]);
        Value result = e.select(odd, e.mul(carried[0], carried[1]), carried[0]);
        Value rest = arith::ShRUIOp::create(nested, location, carried[2], one);
        scf::YieldOp::create(nested, location, ValueRange{result, e.mul(carried[1], carried[1]), rest});
      });
  Value odd = arith::TruncIOp::create(builder, location, builder.getI1Type(), exponent);
  Value minusOne = integer(type, -1);
  Value ofMinusOne = select(odd, minusOne, one);
  Value reciprocal = select(equal(base, one), one, select(equal(base, minusOne), ofMinusOne, zero));
  return select(less(exponent, zero), reciprocal, loop.getResult(0));
}

//===-- comparisons -------------------------------------------------------------------------------------------===//

static Value compare(const ElementBuilder &e, Value a, Value b, arith::CmpFPredicate onFloats,
                     arith::CmpIPredicate onIntegers, arith::CmpIPredicate onBools) {
  if (isFloat(a))
    return arith::CmpFOp::create(e.getBuilder(), e.getLocation(), onFloats, a, b);
  return arith::CmpIOp::create(e.getBuilder(), e.getLocation(), isBool(a) ? onBools : onIntegers, a, b);
}

Value ElementBuilder::equal(Value a, Value b) const {
  return compare(*this, a, b, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq, arith::CmpIPredicate::eq);
}

Value ElementBuilder::less(Value a, Value b) const {
  return compare(*this, a, b, arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt, arith::CmpIPredicate::ult);
}

Value ElementBuilder::lessOrEqual(Value a, Value b) const {
  return compare(*this, a, b, arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle, arith::CmpIPredicate::ule);
}

Value ElementBuilder::select(Value condition, Value a, Value b) const {
  return arith::SelectOp::create(builder, location, condition, a, b);
}

//===-- conversions -------------------------------------------------------------------------------------------===//

Value ElementBuilder::convert(Value value, Type type) const {
  Type from = value.getType();
  if (from == type)
    return value;
  if (type.isInteger(1)) {
    if (isFloat(value))
      return arith::CmpFOp::create(builder, location, arith::CmpFPredicate::UNE, value, constant(from, 0));
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, value, integer(from, 0));
  }
  if (auto floatType = dyn_cast<FloatType>(type)) {
    if (isFloat(value))
      return from.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth()
                 ? arith::ExtFOp::create(builder, location, type, value).getResult()
                 : narrowFloat(value, floatType);
    // 16-bit floats are made by way of f32.
    Type wide = computeType(type);
    Value converted = isBool(value) ? arith::UIToFPOp::create(builder, location, wide, value).getResult()
                                    : arith::SIToFPOp::create(builder, location, wide, value).getResult();
    return convert(converted, type);
  }
  if (isFloat(value))
    return floatToInteger(widen(value), cast<IntegerType>(type));
  if (from.getIntOrFloatBitWidth() > type.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(builder, location, type, value);
  return isBool(value) ? arith::ExtUIOp::create(builder, location, type, value).getResult()
                       : arith::ExtSIOp::create(builder, location, type, value).getResult();
}

Value ElementBuilder::floatToInteger(Value value, IntegerType type) const {
  double bound = std::ldexp(1.0, type.getWidth() - 1);
  Value converted = arith::FPToSIOp::create(builder, location, type, value);
  Value upper = constant(value.getType(), bound), lower = constant(value.getType(), -bound);
  converted = select(lessOrEqual(upper, value), highest(type), converted);
  converted = select(less(value, lower), lowest(type), converted);
  Value isNan = arith::CmpFOp::create(builder, location, arith::CmpFPredicate::UNO, value, value);
  return select(isNan, integer(type, 0), converted);
}

Value ElementBuilder::narrowFloat(Value value, FloatType type) const {
  if (type.getWidth() == 16 && value.getType().isF64())
    value = roundToOdd(value);
  return arith::TruncFOp::create(builder, location, type, value);
}

/// An f64 as an f32 that rounds to 16 bits as the f64 would: where it is inexact, its last bit is set, so that no tie
/// appears that was none. Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008.
Value ElementBuilder::roundToOdd(Value value) const {
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  Value nearest = arith::TruncFOp::create(builder, location, f32, value);
  Value back = arith::ExtFOp::create(builder, location, value.getType(), nearest);
  Value bits = arith::BitcastOp::create(builder, location, i32, nearest);
  Value tooLarge = less(abs(value), abs(back));
  Value towardsZero = select(tooLarge, sub(bits, integer(i32, 1)), bits);
  Value odd = arith::OrIOp::create(builder, location, towardsZero, integer(i32, 1));
  Value inexact = arith::CmpFOp::create(builder, location, arith::CmpFPredicate::ONE, value, back);
  // An infinity that came from a finite number stays: both 16-bit types end far below f32, or at the same exponent.
  Value finite = less(abs(nearest), highest(f32));
  Value change = arith::AndIOp::create(builder, location, inexact, finite);
  return arith::BitcastOp::create(builder, location, f32, select(change, odd, bits));
}

} // namespace cleave::dfg
