// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one element of an elementwise operator is, and the linalg operation around it.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace cleave::dfg {

FailureOr<SmallVector<Value>> lowerElementwise(ElementwiseInterface op, OpBuilder &builder, ValueRange operands) {
  LinalgBuilder lower(builder, op.getLoc());
  RankedTensorType result = tensorType(op->getResult(0));
  Type element = result.getElementType();
  if (result.getNumElements() == 0)
    return SmallVector<Value>{lower.empty(result.getShape(), element)};
  SmallVector<AffineMap> maps;
  for (Value operand : operands)
    maps.push_back(lower.broadcast(tensorType(operand).getShape(), result.getShape()));
  Value lowered =
      lower.map(result.getShape(), element, operands, maps, [&](const ElementBuilder &e, ValueRange elements) {
        SmallVector<Value> wide;
        for (Value value : elements.drop_back())
          wide.push_back(e.widen(value));
        return e.convert(op.buildElement(e.getBuilder(), wide), element);
      });
  return SmallVector<Value>{lowered};
}

namespace {
/// The vocabulary of the definitions below.
struct Elements : ElementBuilder {
  Elements(OpBuilder &builder, Operation *op) : ElementBuilder(builder, op->getLoc()) {}

  template <typename Op> Value call(Value a) const { return Op::create(getBuilder(), getLocation(), a); }
  template <typename Op> Value call(Value a, Value b) const { return Op::create(getBuilder(), getLocation(), a, b); }

  Value like(Value a, double value) const { return constant(a.getType(), value); }
  Value scaled(Value a, double factor) const { return mul(a, like(a, factor)); }
  Value offset(Value a, double term) const { return add(a, like(a, term)); }
  Value isPositive(Value a) const { return lessOrEqual(like(a, 0), a); }
};
} // namespace

//===-- of all numbers ----------------------------------------------------------------------------------------===//

Value NegOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).neg(x[0]); }
Value AbsOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).abs(x[0]); }

Value SignOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value zero = e.like(x[0], 0);
  Value negative = e.select(e.less(x[0], zero), e.like(x[0], -1), x[0]);
  return e.select(e.less(zero, x[0]), e.like(x[0], 1), negative);
}

Value ReluOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  return e.max(x[0], e.like(x[0], 0));
}

Value ClampOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value low = e.like(x[0], getLow().convertToDouble()), high = e.like(x[0], getHigh().convertToDouble());
  return e.min(e.max(x[0], low), high);
}

Value AddOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).add(x[0], x[1]); }
Value SubOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).sub(x[0], x[1]); }
Value MulOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).mul(x[0], x[1]); }
Value DivOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).div(x[0], x[1]); }
Value PowOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).pow(x[0], x[1]); }
Value MaxOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).max(x[0], x[1]); }
Value MinOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).min(x[0], x[1]); }

Value ModOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value rest = e.remainder(x[0], x[1]);
  if (getTruncated())
    return rest;
  // The divisor's sign: a remainder of the other sign moves by one divisor.
  Value zero = e.like(rest, 0);
  Value isZero = e.equal(rest, zero);
  Value differs = e.exclusion(e.less(rest, zero), e.less(x[1], zero));
  Value moves = e.select(isZero, e.integer(builder.getI1Type(), 0), differs);
  return e.select(moves, e.add(rest, x[1]), rest);
}

Value CompareOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  switch (getComparison()) {
  case Comparison::Equal:
    return e.equal(x[0], x[1]);
  case Comparison::Less:
    return e.less(x[0], x[1]);
  case Comparison::LessOrEqual:
    return e.lessOrEqual(x[0], x[1]);
  case Comparison::Greater:
    return e.less(x[1], x[0]);
  case Comparison::GreaterOrEqual:
    return e.lessOrEqual(x[1], x[0]);
  }
  llvm_unreachable("all comparisons are handled");
}

Value SelectOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).select(x[0], x[1], x[2]);
}

Value CastOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).convert(x[0], getTo()); }

//===-- of truth values and bits ------------------------------------------------------------------------------===//

Value NotOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  return e.exclusion(x[0], e.integer(x[0].getType(), x[0].getType().isInteger(1) ? 1 : -1));
}

Value AndOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).conjunction(x[0], x[1]); }

Value OrOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).disjunction(x[0], x[1]); }

Value XorOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).exclusion(x[0], x[1]); }

Value ShiftLeftOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).shiftLeft(x[0], x[1]);
}

Value ShiftRightOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).shiftRight(x[0], x[1]);
}

//===-- of floats ---------------------------------------------------------------------------------------------===//

Value ExpOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).exp(x[0]); }
Value LogOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).log(x[0]); }
Value SqrtOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).sqrt(x[0]); }

Value ReciprocalOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  return e.div(e.like(x[0], 1), x[0]);
}

Value FloorOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::FloorOp>(x[0]);
}

Value CeilOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::CeilOp>(x[0]);
}

Value RoundOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::RoundEvenOp>(x[0]);
}

Value SinOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).call<math::SinOp>(x[0]); }
Value CosOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).call<math::CosOp>(x[0]); }

Value AsinOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::AsinOp>(x[0]);
}

Value AcosOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::AcosOp>(x[0]);
}

Value AtanOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::AtanOp>(x[0]);
}

Value SinhOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::SinhOp>(x[0]);
}

Value CoshOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::CoshOp>(x[0]);
}

Value AsinhOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::AsinhOp>(x[0]);
}

Value AcoshOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::AcoshOp>(x[0]);
}

Value AtanhOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::AtanhOp>(x[0]);
}

Value TanhOp::buildElement(OpBuilder &builder, ValueRange x) {
  return Elements(builder, *this).call<math::TanhOp>(x[0]);
}

Value ErfOp::buildElement(OpBuilder &builder, ValueRange x) { return Elements(builder, *this).call<math::ErfOp>(x[0]); }

Value SigmoidOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  return e.div(e.like(x[0], 1), e.offset(e.exp(e.neg(x[0])), 1));
}

/// max(x, 0) + log(1 + e^-|x|): the exponential never overflows.
Value SoftplusOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value decay = e.exp(e.neg(e.abs(x[0])));
  return e.add(e.max(x[0], e.like(x[0], 0)), e.call<math::Log1pOp>(decay));
}

Value LeakyReluOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value below = e.scaled(x[0], getAlpha().convertToDouble());
  return e.select(e.isPositive(x[0]), x[0], below);
}

Value EluOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value below = e.scaled(e.call<math::ExpM1Op>(x[0]), getAlpha().convertToDouble());
  return e.select(e.isPositive(x[0]), x[0], below);
}

Value GeluOp::buildElement(OpBuilder &builder, ValueRange x) {
  Elements e(builder, *this);
  Value half = e.scaled(x[0], 0.5);
  if (!getApproximate())
    return e.mul(half, e.offset(e.call<math::ErfOp>(e.scaled(x[0], 0.70710678118654752440)), 1));
  Value cube = e.mul(x[0], e.mul(x[0], x[0]));
  Value inner = e.scaled(e.add(x[0], e.scaled(cube, 0.044715)), 0.79788456080286535588);
  return e.mul(half, e.offset(e.call<math::TanhOp>(inner), 1));
}

} // namespace cleave::dfg
