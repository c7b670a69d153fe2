// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operators, with operands that broadcast.

#include "test/property/split/OperatorTemplates.h"

using namespace mlir;

namespace cleave::test {
namespace {

constexpr Bounds wide = {-20, 20};

/// Where a function of the bounds' ends lies, if it is monotonous between them.
template <typename Function> Bounds between(Bounds bounds, Function function) {
  double a = function(bounds.low), b = function(bounds.high);
  return {std::min(a, b), std::max(a, b)};
}

double largest(Bounds bounds) { return std::max(std::fabs(bounds.low), std::fabs(bounds.high)); }
Bounds around(double magnitude) { return {-magnitude, magnitude}; }
Bounds hull(Bounds a, Bounds b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

/// The name of an operator without its dialect.
template <typename Op> StringRef nameOf() { return Op::getOperationName().drop_front(strlen("dfg.")); }

template <typename Op, typename Result>
void addUnary(TemplateList &list, Elements elements, Bounds bounds, Rounding rounding, Result result,
              bool jumps = false) {
  list.push_back({nameOf<Op>(), elements, 0, 4, bounds, jumps,
                  [=](GraphBuilder &g, Value x) { return g.add<Op>(rounding, result(g.boundsOf(x)), x); }});
}

/// A shape that broadcasts with `shape`: sizes of one, and dimensions that are missing.
SmallVector<int64_t> partner(GraphBuilder &g, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> sizes(shape);
  if (g.dice.oneIn(2))
    return sizes;
  sizes.erase(sizes.begin(), sizes.begin() + g.dice.between(0, static_cast<int64_t>(sizes.size())));
  for (int64_t &size : sizes)
    if (g.dice.oneIn(3))
      size = 1;
  // And the other way round: the partner is the larger one.
  for (auto [from, size] : llvm::zip(llvm::reverse(shape), llvm::reverse(sizes)))
    if (from == 1 && g.dice.oneIn(2))
      size = g.size();
  return sizes;
}

template <typename Op, typename Result>
void addBinary(TemplateList &list, Elements elements, Bounds bounds, Bounds second, Rounding rounding, Result result) {
  list.push_back({nameOf<Op>(), elements, 0, 4, bounds, false, [=](GraphBuilder &g, Value x) {
                    Value y = g.any(elementOf(x), partner(g, shapeOf(x)), second);
                    Bounds made = result(g.boundsOf(x), g.boundsOf(y));
                    if (g.dice.oneIn(3) && bounds.low <= second.low && bounds.high >= second.high &&
                        g.boundsOf(x).low >= second.low && g.boundsOf(x).high <= second.high)
                      return g.add<Op>(rounding, hull(made, result(g.boundsOf(y), g.boundsOf(x))), y, x);
                    return g.add<Op>(rounding, made, x, y);
                  }});
}

void addUnaries(TemplateList &list) {
  auto same = [](Bounds b) { return b; };
  addUnary<dfg::NegOp>(list, Elements::Number, wide, Rounding::Exact, [](Bounds b) { return Bounds{-b.high, -b.low}; });
  addUnary<dfg::AbsOp>(list, Elements::Number, wide, Rounding::Exact, [](Bounds b) { return Bounds{0, largest(b)}; });
  addUnary<dfg::SignOp>(list, Elements::Number, wide, Rounding::Exact, [](Bounds) { return Bounds(); }, true);
  addUnary<dfg::ReluOp>(list, Elements::Number, wide, Rounding::Exact, [](Bounds b) { return Bounds{0, largest(b)}; });
  addUnary<dfg::NotOp>(list, Elements::Bool, {0, 1}, Rounding::Exact, same);
  auto rounded = [](Bounds b) { return Bounds{b.low - 1, b.high + 1}; };
  addUnary<dfg::FloorOp>(list, Elements::Float, wide, Rounding::Exact, rounded, true);
  addUnary<dfg::CeilOp>(list, Elements::Float, wide, Rounding::Exact, rounded, true);
  addUnary<dfg::RoundOp>(list, Elements::Float, wide, Rounding::Exact, rounded, true);

  auto monotonous = [](double (*function)(double)) { return [=](Bounds b) { return between(b, function); }; };
  addUnary<dfg::ExpOp>(list, Elements::Float, {-4, 4}, Rounding::Inexact, monotonous(std::exp));
  addUnary<dfg::LogOp>(list, Elements::Float, {0.1, 20}, Rounding::Inexact, monotonous(std::log));
  addUnary<dfg::SqrtOp>(list, Elements::Float, {0.01, 50}, Rounding::Inexact, monotonous(std::sqrt));
  addUnary<dfg::ReciprocalOp>(list, Elements::Float, {0.5, 5}, Rounding::Inexact,
                              [](Bounds b) { return between(b, [](double x) { return 1 / x; }); });
  addUnary<dfg::TanhOp>(list, Elements::Float, {-5, 5}, Rounding::Inexact, monotonous(std::tanh));
  addUnary<dfg::ErfOp>(list, Elements::Float, {-3, 3}, Rounding::Inexact, monotonous(std::erf));
  auto unit = [](Bounds) { return Bounds(); };
  addUnary<dfg::SinOp>(list, Elements::Float, {-10, 10}, Rounding::Inexact, unit);
  addUnary<dfg::CosOp>(list, Elements::Float, {-10, 10}, Rounding::Inexact, unit);
  addUnary<dfg::SigmoidOp>(list, Elements::Float, {-10, 10}, Rounding::Inexact, [](Bounds) { return Bounds{0, 1}; });
  addUnary<dfg::SoftplusOp>(list, Elements::Float, wide, Rounding::Inexact,
                            [](Bounds b) { return Bounds{0, largest(b) + 1}; });
  addUnary<dfg::AsinOp>(list, Elements::Float, {-0.95, 0.95}, Rounding::Inexact, monotonous(std::asin));
  addUnary<dfg::AcosOp>(list, Elements::Float, {-0.95, 0.95}, Rounding::Inexact, monotonous(std::acos));
  addUnary<dfg::AtanOp>(list, Elements::Float, {-10, 10}, Rounding::Inexact, monotonous(std::atan));
  addUnary<dfg::SinhOp>(list, Elements::Float, {-3, 3}, Rounding::Inexact, monotonous(std::sinh));
  addUnary<dfg::CoshOp>(list, Elements::Float, {-3, 3}, Rounding::Inexact,
                        [](Bounds b) { return Bounds{1, std::cosh(largest(b))}; });
  addUnary<dfg::AsinhOp>(list, Elements::Float, {-10, 10}, Rounding::Inexact, monotonous(std::asinh));
  addUnary<dfg::AcoshOp>(list, Elements::Float, {1.1, 10}, Rounding::Inexact, monotonous(std::acosh));
  addUnary<dfg::AtanhOp>(list, Elements::Float, {-0.9, 0.9}, Rounding::Inexact, monotonous(std::atanh));
}

/// Operators with attributes.
void addFormed(TemplateList &list) {
  auto alpha = [](GraphBuilder &g) { return g.at().getF64FloatAttr(g.dice.real(0.01, 1.5)); };
  list.push_back({"leaky_relu", Elements::Float, 0, 4, wide, false, [=](GraphBuilder &g, Value x) {
                    return g.add<dfg::LeakyReluOp>(Rounding::Inexact, around(1.5 * largest(g.boundsOf(x))), x,
                                                   alpha(g));
                  }});
  list.push_back({"elu", Elements::Float, 0, 4, {-5, 5}, false, [=](GraphBuilder &g, Value x) {
                    return g.add<dfg::EluOp>(Rounding::Inexact, Bounds{-1.5, 1 + largest(g.boundsOf(x))}, x, alpha(g));
                  }});
  list.push_back({"gelu", Elements::Float, 0, 4, {-5, 5}, false, [](GraphBuilder &g, Value x) {
                    return g.add<dfg::GeluOp>(Rounding::Inexact, Bounds{-1, 1 + largest(g.boundsOf(x))}, x,
                                              g.dice.oneIn(2));
                  }});
  list.push_back({"clamp", Elements::Number, 0, 4, wide, false, [](GraphBuilder &g, Value x) {
                    Bounds limits = {g.dice.real(-5, 0), g.dice.real(1, 5)};
                    return g.add<dfg::ClampOp>(Rounding::Exact, limits, x, g.at().getF64FloatAttr(limits.low),
                                               g.at().getF64FloatAttr(limits.high));
                  }});
  list.push_back({"cast", Elements::Any, 0, 4, {-100, 100}, true, [](GraphBuilder &g, Value x) {
                    OpBuilder &b = g.at();
                    Type to = g.dice.of<Type>({b.getF32Type(), b.getF32Type(), b.getF64Type(), b.getF16Type(),
                                               b.getI1Type(), b.getIntegerType(8), b.getI32Type(), b.getI64Type()});
                    return g.add<dfg::CastOp>(Rounding::Exact, g.boundsOf(x), x, to);
                  }});
}

void addBinaries(TemplateList &list) {
  auto sum = [](Bounds a, Bounds b) { return around(largest(a) + largest(b)); };
  addBinary<dfg::AddOp>(list, Elements::Number, wide, wide, Rounding::Inexact, sum);
  addBinary<dfg::SubOp>(list, Elements::Number, wide, wide, Rounding::Inexact, sum);
  addBinary<dfg::MulOp>(list, Elements::Number, wide, {-3, 3}, Rounding::Inexact,
                        [](Bounds a, Bounds b) { return around(largest(a) * largest(b)); });
  addBinary<dfg::DivOp>(list, Elements::Number, wide, {1, 5}, Rounding::Inexact,
                        [](Bounds a, Bounds) { return around(largest(a)); });
  addBinary<dfg::PowOp>(list, Elements::Number, {1, 3}, {0, 3}, Rounding::Inexact,
                        [](Bounds a, Bounds b) { return Bounds{1, std::pow(largest(a), largest(b))}; });
  addBinary<dfg::MaxOp>(list, Elements::Number, wide, wide, Rounding::Exact, hull);
  addBinary<dfg::MinOp>(list, Elements::Number, wide, wide, Rounding::Exact, hull);
  addBinary<dfg::AndOp>(list, Elements::Bool, {0, 1}, {0, 1}, Rounding::Exact, hull);
  addBinary<dfg::OrOp>(list, Elements::Bool, {0, 1}, {0, 1}, Rounding::Exact, hull);
  addBinary<dfg::XorOp>(list, Elements::Bool, {0, 1}, {0, 1}, Rounding::Exact, hull);
  addBinary<dfg::ShiftLeftOp>(list, Elements::Integer, {-8, 8}, {0, 2}, Rounding::Exact, [](Bounds a, Bounds) {
    return Bounds{4 * std::min(a.low, 0.0), 4 * std::max(a.high, 0.0)};
  });
  addBinary<dfg::ShiftRightOp>(list, Elements::Integer, wide, {0, 3}, Rounding::Exact,
                               [](Bounds a, Bounds) { return Bounds{std::min(a.low, -1.0), std::max(a.high, 0.0)}; });
}

/// Random numbers, whose counters may be any, and dropout, which does nothing outside of training.
void addRandom(TemplateList &list) {
  list.push_back({"random", Elements::Number, 0, 4, {-100, 100}, true, [](GraphBuilder &g, Value x) {
                    Value counter = g.add<dfg::CastOp>(Rounding::Exact, g.boundsOf(x), x, g.i64());
                    Value key = g.any(g.i64(), partner(g, shapeOf(x)), {-100, 100});
                    return g.add<dfg::RandomOp>(Rounding::Exact, Bounds{0, 1}, counter, key);
                  }});
  list.push_back({"dropout", Elements::Float, 0, 4, wide, false, [](GraphBuilder &g, Value x) {
                    return g.add<dfg::DropoutOp>(Rounding::Exact, g.boundsOf(x), x, g.at().getF64FloatAttr(0.5));
                  }});
}

/// Operators that compare their operands, and the choice between two.
void addComparing(TemplateList &list) {
  list.push_back({"mod", Elements::Number, 0, 4, wide, true, [](GraphBuilder &g, Value x) {
                    Value y = g.exact(g.any(elementOf(x), partner(g, shapeOf(x)), {1, 5}));
                    return g.add<dfg::ModOp>(Rounding::Exact, around(largest(g.boundsOf(y))), x, y, g.dice.oneIn(2));
                  }});
  list.push_back({"compare", Elements::Any, 0, 4, {-3, 3}, true, [](GraphBuilder &g, Value x) {
                    Value y = g.exact(g.any(elementOf(x), partner(g, shapeOf(x)), {-3, 3}));
                    auto kind = static_cast<dfg::Comparison>(g.dice.below(dfg::getMaxEnumValForComparison() + 1));
                    return g.add<dfg::CompareOp>(Rounding::Exact, Bounds{0, 1}, x, y, kind);
                  }});
  list.push_back({"select", Elements::Any, 0, 4, wide, false, [](GraphBuilder &g, Value x) {
                    Value y = g.any(elementOf(x), partner(g, shapeOf(x)), wide);
                    auto joined = dfg::broadcastShapes(shapeOf(x), shapeOf(y));
                    Value condition = g.any(g.i1(), partner(g, *joined), {0, 1});
                    return g.add<dfg::SelectOp>(Rounding::Exact, hull(g.boundsOf(x), g.boundsOf(y)), condition, x, y);
                  }});
}

} // namespace

void addElementwiseTemplates(TemplateList &list) {
  addUnaries(list);
  addFormed(list);
  addBinaries(list);
  addComparing(list);
  addRandom(list);
}

} // namespace cleave::test
