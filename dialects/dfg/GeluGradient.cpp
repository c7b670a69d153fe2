// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares operators with the formula, term by term: sums and products may have changed their sides since
// GeluOp::differentiate wrote them, and equal terms may be one operator. With t = tanh(a x (1 + b x^2)):
//
//   ((t + 1) + (x (1 - t^2)) (a + 3 a b x^2)) / 2

#include "dialects/dfg/GeluGradient.h"

#include "dialects/dfg/Dfg.h"

#include <cmath>

using namespace mlir;

namespace cleave::dfg {

namespace {

using Term = llvm::function_ref<bool(Value)>;

/// Whether the value is the sum or product of two terms, on whichever side each is.
template <typename Op> bool joins(Value value, Term first, Term second) {
  auto op = value.getDefiningOp<Op>();
  return op && ((first(op.getLhs()) && second(op.getRhs())) || (first(op.getRhs()) && second(op.getLhs())));
}

/// Whether the value is a constant with this number everywhere, as float32 has it.
bool isNumber(Value value, double number) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat() &&
         std::abs(elements.getSplatValue<FloatAttr>().getValueAsDouble() - number) <= 1e-6 * std::abs(number);
}

/// The terms of the derivative at `x`.
class Derivative {
public:
  explicit Derivative(Value x) : x(x) {}

  bool is(Value value) const {
    auto sum = [&](Value term) {
      return joins<AddOp>(
          term, [&](Value t) { return joins<AddOp>(t, [&](Value v) { return isTanh(v); }, number(one)); },
          [&](Value slope) { return isSlope(slope); });
    };
    return joins<MulOp>(value, sum, number(half));
  }

private:
  static constexpr double one = 1, half = 0.5, a = M_2_SQRTPI * M_SQRT1_2, b = 0.044715;

  static std::function<bool(Value)> number(double wanted) {
    return [wanted](Value value) { return isNumber(value, wanted); };
  }
  bool isX(Value value) const { return value == x; }
  bool isSquare(Value value) const {
    auto self = [&](Value v) { return isX(v); };
    return joins<MulOp>(value, self, self);
  }
  /// a + factor x^2.
  bool isPolynomial(Value value, double factor) const {
    auto quadratic = [&](Value v) { return joins<MulOp>(v, [&](Value w) { return isSquare(w); }, number(factor)); };
    return joins<AddOp>(value, quadratic, number(a));
  }
  bool isTanh(Value value) const {
    auto tanh = value.getDefiningOp<TanhOp>();
    return tanh &&
           joins<MulOp>(
               tanh.getInput(), [&](Value v) { return isX(v); }, [&](Value v) { return isPolynomial(v, a * b); });
  }
  /// 1 - t^2.
  bool isSlopeOfTanh(Value value) const {
    auto difference = value.getDefiningOp<SubOp>();
    auto self = [&](Value v) { return isTanh(v); };
    return difference && isNumber(difference.getLhs(), one) && joins<MulOp>(difference.getRhs(), self, self);
  }
  bool isSlope(Value value) const {
    auto outer = [&](Value v) {
      return joins<MulOp>(v, [&](Value w) { return isX(w); }, [&](Value w) { return isSlopeOfTanh(w); });
    };
    return joins<MulOp>(value, outer, [&](Value v) { return isPolynomial(v, 3 * a * b); });
  }

  Value x;
};

/// A tanh from which the value is computed by at most so many sums and products.
TanhOp findTanh(Value value, unsigned steps) {
  Operation *op = value.getDefiningOp();
  if (auto tanh = dyn_cast_or_null<TanhOp>(op))
    return tanh;
  if (steps != 0 && isa_and_nonnull<AddOp, MulOp>(op))
    for (Value operand : op->getOperands())
      if (TanhOp found = findTanh(operand, steps - 1))
        return found;
  return nullptr;
}

} // namespace

Value findGeluTanhGradientInput(Operation *product, unsigned chained) {
  auto mul = dyn_cast<MulOp>(product);
  if (!mul || mul.getLhs() == mul.getRhs())
    return nullptr;
  Value derivative = chained == 0 ? mul.getRhs() : mul.getLhs();
  // Half of a sum, whose first term is a sum with tanh.
  TanhOp tanh = findTanh(derivative, 3);
  auto argument = tanh ? tanh.getInput().getDefiningOp<MulOp>() : nullptr;
  if (!argument)
    return nullptr;
  for (Value x : argument.getOperands())
    if (x.getType() == mul.getType() && mul.getOperand(chained).getType() == mul.getType() &&
        Derivative(x).is(derivative))
      return x;
  return nullptr;
}

} // namespace cleave::dfg
