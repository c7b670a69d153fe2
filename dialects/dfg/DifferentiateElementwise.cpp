// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of elementwise operators: the cotangent times the derivative, summed where an operand repeats. Where the
// derivative follows from the result, it is taken from there. At kinks each operator has the derivative that PyTorch
// gives it.

#include "dialects/dfg/Gradient.h"

#include <cmath>

using namespace mlir;

namespace cleave::dfg {

namespace {
/// The cotangent of one operand, of the result's shape.
using Derivative = llvm::function_ref<Value(const GradientBuilder &g, Value cotangent)>;
} // namespace

/// One derivative an operand.
static Gradients differentiateEach(Operation *op, OpBuilder &builder, const GradientRequest &request,
                                   ArrayRef<Derivative> derivatives) {
  SmallVector<Value> gradients(op->getNumOperands());
  Value cotangent = cotangentOf(op, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, op);
  for (auto [index, derivative] : llvm::enumerate(derivatives))
    if (request.needed[index] && derivative)
      gradients[index] = g.sumTo(derivative(g, cotangent), shapeOf(op->getOperand(index)));
  return gradients;
}

using G = const GradientBuilder &;

//===-- one operand -------------------------------------------------------------------------------------------===//

Gradients NegOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[](G g, Value dy) { return g.neg(dy); }});
}

Gradients AbsOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.make<SignOp>(getInput())); }});
}

Gradients ExpOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) { return g.mul(dy, getResult()); }});
}

Gradients LogOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) { return g.div(dy, getInput()); }});
}

Gradients SqrtOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(g.mul(dy, 0.5), getResult()); }});
}

Gradients ReciprocalOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.neg(g.mul(dy, g.square(getResult()))); }});
}

Gradients SinOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.make<CosOp>(getInput())); }});
}

Gradients CosOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.neg(g.mul(dy, g.make<SinOp>(getInput()))); }});
}

Gradients TanhOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.sub(1, g.square(getResult()))); }});
}

Gradients ErfOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    Value bell = g.make<ExpOp>(g.neg(g.square(getInput())));
    return g.mul(dy, g.mul(bell, 2 / std::sqrt(M_PI)));
  }});
}

Gradients ReluOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    return g.where(g.compare(getResult(), Comparison::Greater, 0), dy);
  }});
}

Gradients SigmoidOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.mul(getResult(), g.sub(1, getResult()))); }});
}

Gradients SoftplusOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.make<SigmoidOp>(getInput())); }});
}

Gradients LeakyReluOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    Value below = g.mul(dy, getAlpha().convertToDouble());
    return g.select(g.compare(getInput(), Comparison::Greater, 0), dy, below);
  }});
}

/// Below zero the derivative is alpha e^x, which is the result plus alpha.
Gradients EluOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    Value below = g.mul(dy, g.add(getResult(), getAlpha().convertToDouble()));
    return g.select(g.compare(getInput(), Comparison::Greater, 0), dy, below);
  }});
}

/// With phi the normal distribution's density and Phi its integral: Phi(x) + x phi(x).
static Value geluDerivative(G g, Value x) {
  Value integral = g.mul(g.add(g.make<ErfOp>(g.mul(x, M_SQRT1_2)), 1), 0.5);
  Value density = g.mul(g.make<ExpOp>(g.mul(g.square(x), -0.5)), M_2_SQRTPI * M_SQRT1_2 / 2);
  return g.add(integral, g.mul(x, density));
}

/// With t = tanh(u) and u = a (x + b x^3): (1 + t) / 2 + x (1 - t^2) u' / 2.
static Value approximateGeluDerivative(G g, Value x) {
  const double a = M_2_SQRTPI * M_SQRT1_2, b = 0.044715;
  Value square = g.square(x);
  Value tanh = g.make<TanhOp>(g.mul(x, g.add(g.mul(square, a * b), a)));
  Value inner = g.add(g.mul(square, 3 * a * b), a);
  Value slope = g.mul(g.mul(x, g.sub(1, g.square(tanh))), inner);
  return g.mul(g.add(g.add(tanh, 1), slope), 0.5);
}

Gradients GeluOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    // Many roundings in a row would be too many in a narrow type.
    Value x = g.widen(getInput());
    Value derivative = getApproximate() ? approximateGeluDerivative(g, x) : geluDerivative(g, x);
    return g.cast(g.mul(g.widen(dy), derivative), elementOf(getInput()));
  }});
}

Gradients ClampOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    Value above = g.compare(getInput(), Comparison::GreaterOrEqual, getLow().convertToDouble());
    Value below = g.compare(getInput(), Comparison::LessOrEqual, getHigh().convertToDouble());
    return g.where(g.make<AndOp>(above, below), dy);
  }});
}

Gradients CastOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  if (!isa<FloatType>(elementOf(getInput())))
    return noGradients(*this);
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) { return g.cast(dy, elementOf(getInput())); }});
}

//===-- trigonometry ------------------------------------------------------------------------------------------===//

Gradients AsinOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(dy, g.make<SqrtOp>(g.sub(1, g.square(getInput())))); }});
}

Gradients AcosOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request, {[&](G g, Value dy) {
    return g.neg(g.div(dy, g.make<SqrtOp>(g.sub(1, g.square(getInput())))));
  }});
}

Gradients AtanOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(dy, g.add(g.square(getInput()), 1)); }});
}

Gradients SinhOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.make<CoshOp>(getInput())); }});
}

Gradients CoshOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.mul(dy, g.make<SinhOp>(getInput())); }});
}

Gradients AsinhOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(dy, g.make<SqrtOp>(g.add(g.square(getInput()), 1))); }});
}

Gradients AcoshOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(dy, g.make<SqrtOp>(g.add(g.square(getInput()), -1))); }});
}

Gradients AtanhOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(dy, g.sub(1, g.square(getInput()))); }});
}

//===-- two operands ------------------------------------------------------------------------------------------===//

Gradients AddOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  auto pass = [](G, Value dy) { return dy; };
  return differentiateEach(*this, builder, request, {pass, pass});
}

Gradients SubOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[](G, Value dy) { return dy; }, [](G g, Value dy) { return g.neg(dy); }});
}

Gradients MulOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(
      *this, builder, request,
      {[&](G g, Value dy) { return g.mul(dy, getRhs()); }, [&](G g, Value dy) { return g.mul(dy, getLhs()); }});
}

Gradients DivOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {[&](G g, Value dy) { return g.div(dy, getRhs()); },
                            [&](G g, Value dy) { return g.neg(g.mul(g.div(dy, getRhs()), getResult())); }});
}

/// The value of a constant with one element everywhere; none where it is no such constant.
static std::optional<double> splatValue(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  return elements.getSplatValue<FloatAttr>().getValueAsDouble();
}

Gradients PowOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  auto byBase = [&](G g, Value dy) {
    if (splatValue(getRhs()) == 2.0)
      return g.mul(dy, g.mul(getLhs(), 2));
    return g.mul(dy, g.mul(getRhs(), g.make<PowOp>(getLhs(), g.add(getRhs(), -1))));
  };
  // A power of zero stays zero when the exponent moves.
  auto byExponent = [&](G g, Value dy) {
    Value factor = g.mul(getResult(), g.make<LogOp>(getLhs()));
    return g.mul(dy, g.except(g.compare(getLhs(), Comparison::Equal, 0), factor));
  };
  return differentiateEach(*this, builder, request, {byBase, byExponent});
}

/// The cotangent for the operand that is `chosen`; between equal ones it is halved.
static Value whereChosen(G g, Value cotangent, Value chosen, Value other, Comparison better) {
  Value shared = g.where(g.compare(chosen, Comparison::Equal, other), g.mul(cotangent, 0.5));
  return g.select(g.compare(chosen, better, other), cotangent, shared);
}

static Gradients differentiateChoice(Operation *op, OpBuilder &builder, const GradientRequest &request,
                                     Comparison better) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  return differentiateEach(op, builder, request,
                           {[&](G g, Value dy) { return whereChosen(g, dy, lhs, rhs, better); },
                            [&](G g, Value dy) { return whereChosen(g, dy, rhs, lhs, better); }});
}

Gradients MaxOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateChoice(*this, builder, request, Comparison::Greater);
}

Gradients MinOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateChoice(*this, builder, request, Comparison::Less);
}

/// The dividend minus a whole multiple of the divisor, which the result tells.
Gradients ModOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  auto byDivisor = [&](G g, Value dy) {
    Value multiple = g.make<RoundOp>(g.div(g.sub(getResult(), getLhs()), getRhs()));
    return g.mul(dy, multiple);
  };
  return differentiateEach(*this, builder, request, {[](G, Value dy) { return dy; }, byDivisor});
}

Gradients SelectOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  return differentiateEach(*this, builder, request,
                           {nullptr, [&](G g, Value dy) { return g.where(getCondition(), dy); },
                            [&](G g, Value dy) { return g.except(getCondition(), dy); }});
}

//===-- locally constant --------------------------------------------------------------------------------------===//

Gradients SignOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients FloorOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients CeilOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients RoundOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients NotOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients AndOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients OrOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients XorOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients ShiftLeftOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients ShiftRightOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }
Gradients CompareOp::differentiate(OpBuilder &, const GradientRequest &) { return noGradients(*this); }

} // namespace cleave::dfg
