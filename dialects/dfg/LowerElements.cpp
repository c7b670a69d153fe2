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
static bool isUnsigned(Value value) { return value.getType().isUnsignedInteger(); }

//===-- unsigned integers -------------------------------------------------------------------------------------===//

Type signlessType(Type type) {
  return type.isUnsignedInteger() ? IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth()) : type;
}

Value ElementBuilder::viewedAs(Value value, Type type) const {
  if (value.getType() == type)
    return value;
  return UnrealizedConversionCastOp::create(builder, location, type, value).getResult(0);
}

Value ElementBuilder::bits(Value value) const { return viewedAs(value, signlessType(value.getType())); }

//===-- constants ---------------------------------------------------------------------------------------------===//

Value ElementBuilder::integer(Type type, int64_t value) const {
  return viewedAs(arith::ConstantOp::create(builder, location, builder.getIntegerAttr(signlessType(type), value)),
                  type);
}

Value ElementBuilder::index(int64_t value) const { return integer(builder.getIndexType(), value); }

/// A constant of an integer type from its bits.
static Value constantOf(const ElementBuilder &e, Type type, const APInt &bits) {
  OpBuilder &builder = e.getBuilder();
  auto attribute = builder.getIntegerAttr(signlessType(type), bits);
  return e.viewedAs(arith::ConstantOp::create(builder, e.getLocation(), attribute), type);
}

Value ElementBuilder::constant(Type type, double value) const {
  if (auto floatType = dyn_cast<FloatType>(type))
    return arith::ConstantOp::create(builder, location, builder.getFloatAttr(floatType, value));
  bool exact = false;
  llvm::APSInt converted(type.getIntOrFloatBitWidth(), type.isUnsignedInteger());
  llvm::APFloat(value).convertToInteger(converted, llvm::APFloat::rmTowardZero, &exact);
  return constantOf(*this, type, converted);
}

Value ElementBuilder::lowest(Type type) const {
  if (isa<FloatType>(type))
    return constant(type, -std::numeric_limits<double>::infinity());
  if (type.isInteger(1) || type.isUnsignedInteger())
    return integer(type, 0);
  return constantOf(*this, type, APInt::getSignedMinValue(type.getIntOrFloatBitWidth()));
}

Value ElementBuilder::highest(Type type) const {
  if (isa<FloatType>(type))
    return constant(type, std::numeric_limits<double>::infinity());
  if (type.isInteger(1))
    return integer(type, 1);
  unsigned width = type.getIntOrFloatBitWidth();
  return constantOf(*this, type,
                    type.isUnsignedInteger() ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width));
}

//===-- arithmetic --------------------------------------------------------------------------------------------===//

template <typename FloatOp, typename IntegerOp, typename UnsignedOp>
Value ElementBuilder::binary(Value a, Value b) const {
  if (isFloat(a))
    return FloatOp::create(builder, location, a, b);
  Value result = isUnsigned(a) ? UnsignedOp::create(builder, location, bits(a), bits(b)).getResult()
                               : IntegerOp::create(builder, location, a, b).getResult();
  return viewedAs(result, a.getType());
}

Value ElementBuilder::add(Value a, Value b) const { return binary<arith::AddFOp, arith::AddIOp, arith::AddIOp>(a, b); }
Value ElementBuilder::sub(Value a, Value b) const { return binary<arith::SubFOp, arith::SubIOp, arith::SubIOp>(a, b); }
Value ElementBuilder::mul(Value a, Value b) const { return binary<arith::MulFOp, arith::MulIOp, arith::MulIOp>(a, b); }

Value ElementBuilder::div(Value a, Value b) const {
  if (isFloat(a))
    return arith::DivFOp::create(builder, location, a, b);
  // The processor traps on 0 and on the smallest number by -1: those divide by 1 and are replaced.
  Value zero = integer(a.getType(), 0), one = integer(a.getType(), 1), byZero = equal(b, zero);
  if (isUnsigned(a))
    return select(byZero, zero, binary<arith::DivFOp, arith::DivSIOp, arith::DivUIOp>(a, select(byZero, one, b)));
  Value byMinusOne = equal(b, integer(a.getType(), -1));
  Value special = arith::OrIOp::create(builder, location, byZero, byMinusOne);
  Value quotient = arith::DivSIOp::create(builder, location, a, select(special, one, b));
  return select(byZero, zero, select(byMinusOne, neg(a), quotient));
}

Value ElementBuilder::remainder(Value a, Value b) const {
  if (isFloat(a))
    return arith::RemFOp::create(builder, location, a, b);
  Value zero = integer(a.getType(), 0), one = integer(a.getType(), 1), special = equal(b, zero);
  if (!isUnsigned(a))
    special = arith::OrIOp::create(builder, location, special, equal(b, integer(a.getType(), -1)));
  return binary<arith::RemFOp, arith::RemSIOp, arith::RemUIOp>(a, select(special, one, b));
}

Value ElementBuilder::max(Value a, Value b) const {
  if (isBool(a))
    return arith::OrIOp::create(builder, location, a, b);
  return binary<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>(a, b);
}

Value ElementBuilder::min(Value a, Value b) const {
  if (isBool(a))
    return arith::AndIOp::create(builder, location, a, b);
  return binary<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>(a, b);
}

Value ElementBuilder::conjunction(Value a, Value b) const {
  return viewedAs(arith::AndIOp::create(builder, location, bits(a), bits(b)), a.getType());
}

Value ElementBuilder::disjunction(Value a, Value b) const {
  return viewedAs(arith::OrIOp::create(builder, location, bits(a), bits(b)), a.getType());
}

Value ElementBuilder::exclusion(Value a, Value b) const {
  return viewedAs(arith::XOrIOp::create(builder, location, bits(a), bits(b)), a.getType());
}

Value ElementBuilder::shiftLeft(Value a, Value count) const {
  return shifted<arith::ShLIOp, arith::ShLIOp>(a, count, integer(a.getType(), 0));
}

Value ElementBuilder::shiftRight(Value a, Value count) const {
  Value zero = integer(a.getType(), 0);
  Value rest = isUnsigned(a) ? zero : select(less(a, zero), integer(a.getType(), -1), zero);
  return shifted<arith::ShRSIOp, arith::ShRUIOp>(a, count, rest);
}

/// A shift by `count`, which is read as unsigned; `rest` where it shifts everything out.
template <typename SignedOp, typename UnsignedOp>
Value ElementBuilder::shifted(Value a, Value count, Value rest) const {
  Value width = arith::ConstantOp::create(
      builder, location,
      builder.getIntegerAttr(signlessType(a.getType()), int64_t(a.getType().getIntOrFloatBitWidth())));
  Value fits = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult, bits(count), width);
  Value inside = select(fits, bits(count), integer(signlessType(a.getType()), 0));
  Value result = isUnsigned(a) ? UnsignedOp::create(builder, location, bits(a), inside).getResult()
                               : SignedOp::create(builder, location, a, inside).getResult();
  return select(fits, viewedAs(result, a.getType()), rest);
}

Value ElementBuilder::neg(Value a) const {
  if (isFloat(a))
    return arith::NegFOp::create(builder, location, a);
  return sub(integer(a.getType(), 0), a);
}

Value ElementBuilder::abs(Value a) const {
  if (isFloat(a))
    return math::AbsFOp::create(builder, location, a);
  return isUnsigned(a) ? a : select(less(a, integer(a.getType(), 0)), neg(a), a);
}

Value ElementBuilder::exp(Value a) const { return math::ExpOp::create(builder, location, a); }
Value ElementBuilder::log(Value a) const { return math::LogOp::create(builder, location, a); }
Value ElementBuilder::sqrt(Value a) const { return math::SqrtOp::create(builder, location, a); }

Value ElementBuilder::pow(Value a, Value b) const {
  if (isFloat(a))
    return math::PowFOp::create(builder, location, a, b);
  return viewedAs(integerPower(bits(a), bits(b), isUnsigned(a)), a.getType());
}

/// Squares and multiplies, bit by bit of the exponent; wraps. Negative exponents give the truncated reciprocal: 1 and
/// -1 have one, all else is 0.
Value ElementBuilder::integerPower(Value base, Value exponent, bool hasNoSign) const {
  Type type = base.getType();
  Value zero = integer(type, 0), one = integer(type, 1);
  auto loop = scf::ForOp::create(
      builder, location, index(0), index(type.getIntOrFloatBitWidth() - !hasNoSign), index(1),
      ValueRange{one, base, exponent}, [&](OpBuilder &nested, Location, Value, ValueRange carried) {
        ElementBuilder e(nested, location);
        Value odd = arith::TruncIOp::create(nested, location, nested.getI1Type(), carried[2]);
        Value result = e.select(odd, e.mul(carried[0], carried[1]), carried[0]);
        Value rest = arith::ShRUIOp::create(nested, location, carried[2], one);
        scf::YieldOp::create(nested, location, ValueRange{result, e.mul(carried[1], carried[1]), rest});
      });
  if (hasNoSign)
    return loop.getResult(0);
  Value odd = arith::TruncIOp::create(builder, location, builder.getI1Type(), exponent);
  Value minusOne = integer(type, -1);
  Value ofMinusOne = select(odd, minusOne, one);
  Value reciprocal = select(equal(base, one), one, select(equal(base, minusOne), ofMinusOne, zero));
  return select(less(exponent, zero), reciprocal, loop.getResult(0));
}

//===-- comparisons -------------------------------------------------------------------------------------------===//

static Value compare(const ElementBuilder &e, Value a, Value b, arith::CmpFPredicate onFloats,
                     arith::CmpIPredicate onIntegers, arith::CmpIPredicate onUnsigned) {
  OpBuilder &builder = e.getBuilder();
  if (isFloat(a))
    return arith::CmpFOp::create(builder, e.getLocation(), onFloats, a, b);
  arith::CmpIPredicate predicate = isBool(a) || isUnsigned(a) ? onUnsigned : onIntegers;
  return arith::CmpIOp::create(builder, e.getLocation(), predicate, e.bits(a), e.bits(b));
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
  bool hasNoSign = isBool(value) || isUnsigned(value);
  if (type.isInteger(1)) {
    if (isFloat(value))
      return arith::CmpFOp::create(builder, location, arith::CmpFPredicate::UNE, value, constant(from, 0));
    Value zero = integer(signlessType(from), 0);
    return arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, bits(value), zero);
  }
  if (auto floatType = dyn_cast<FloatType>(type)) {
    if (isFloat(value))
      return from.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth()
                 ? arith::ExtFOp::create(builder, location, type, value).getResult()
                 : narrowFloat(value, floatType);
    // 16-bit floats are made by way of f32.
    Type wide = computeType(type);
    Value converted = hasNoSign ? arith::UIToFPOp::create(builder, location, wide, bits(value)).getResult()
                                : arith::SIToFPOp::create(builder, location, wide, value).getResult();
    return convert(converted, type);
  }
  if (isFloat(value))
    return floatToInteger(widen(value), cast<IntegerType>(type));
  Type target = signlessType(type);
  unsigned width = from.getIntOrFloatBitWidth(), wanted = type.getIntOrFloatBitWidth();
  Value result = bits(value);
  if (width > wanted)
    result = arith::TruncIOp::create(builder, location, target, result);
  else if (width < wanted)
    result = hasNoSign ? arith::ExtUIOp::create(builder, location, target, result).getResult()
                       : arith::ExtSIOp::create(builder, location, target, result).getResult();
  return viewedAs(result, type);
}

Value ElementBuilder::floatToInteger(Value value, IntegerType type) const {
  bool hasNoSign = type.isUnsigned();
  double upper = std::ldexp(1.0, type.getWidth() - !hasNoSign), lower = hasNoSign ? 0 : -upper;
  Type target = signlessType(type);
  if (type.getWidth() < 32) {
    // By way of 32 bits, within the limits: what vectors of all processors do. Beside NaN the limit is taken, which is
    // 0 of types without sign.
    Value least = constant(value.getType(), lower), most = constant(value.getType(), upper - 1);
    if (!hasNoSign)
      value = select(equal(value, value), value, constant(value.getType(), 0));
    value = select(less(least, value), value, least);
    value = select(less(value, most), value, most);
    Value wide = arith::FPToSIOp::create(builder, location, builder.getI32Type(), value);
    return viewedAs(arith::TruncIOp::create(builder, location, target, wide), type);
  }
  Value converted = hasNoSign ? arith::FPToUIOp::create(builder, location, target, value).getResult()
                              : arith::FPToSIOp::create(builder, location, target, value).getResult();
  converted = viewedAs(converted, type);
  converted = select(lessOrEqual(constant(value.getType(), upper), value), highest(type), converted);
  converted = select(less(value, constant(value.getType(), lower)), lowest(type), converted);
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
