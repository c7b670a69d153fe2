// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators of training steps against plain loops over all their indices: gradients that no other operator computes,
// sums that are not rounded, and barriers.

#include "test/property/WindowLoops.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace cleave::test {
namespace {

constexpr const char *floats[] = {"f32", "f64", "f16", "bf16"};

bool isNarrow(const std::string &element) { return element == "f16" || element == "bf16"; }

/// Sums of narrow products in f32 are wrong by the roundings of f32 alone.
void allowWideRounding(KernelCase &kernelCase, int64_t terms) { allowRounding(kernelCase, "f32", terms); }

// Every element of the filter sums over all samples and positions, in groups; of narrow types also in f32.
TEST(Training, ConvFilterGradient) {
  Random random(51);
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (size_t space = 1; space <= 3; ++space)
      for (int64_t groups : {1, 2})
        for (bool wide : {false, true}) {
          if (wide && !isNarrow(element))
            continue;
          Windows windows(random, space);
          int64_t batch = 1 + below(random, 3), in = 1 + below(random, 3), out = 1 + below(random, 3);
          Tensor x = Tensor(element, joined({batch, in * groups}, windows.input)).fill(random, -2, 2);
          Tensor dy = Tensor(element, joined({batch, out * groups}, windows.positions())).fill(random, -2, 2);
          Tensor dw(wide ? "f32" : element, joined({out * groups, in}, windows.window));
          forEachIndex(dw.getShape(), [&](const Shape &index) {
            Sum sum;
            int64_t group = index[0] / out;
            forEachIndex(joined({batch}, windows.positions()), [&](const Shape &at) {
              Shape from = {at[0], group * in + index[1]}, position(at.begin() + 1, at.end());
              if (windows.at(position, spaceOf(index), from))
                sum.add(x, x.position(from), dy, dy.position(joined({at[0], index[0]}, position)));
            });
            sum.store(dw, dw.position(index));
          });
          KernelCase kernelCase{"  %y0 = dfg.conv_filter_gradient %a, %b {" + windows.attributes() +
                                    ", groups = " + std::to_string(groups) + " : i64} : (" + x.type() + ", " +
                                    dy.type() + ") -> " + dw.type(),
                                {x, dy},
                                {dw}};
          int64_t terms = batch * elementsOf(windows.positions());
          wide ? allowWideRounding(kernelCase, terms) : allowRounding(kernelCase, element, terms);
          cases.push_back(std::move(kernelCase));
        }
  expectKernels(cases);
}

// Products of narrow types whose sums are given as they are.
TEST(Training, WideProduct) {
  Random random(52);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f16", "bf16"})
    for (int64_t depth : {1, 17, 300}) {
      Tensor a = Tensor(element, {5, depth}).fill(random, -2, 2), b = Tensor(element, {depth, 33}).fill(random, -2, 2);
      Tensor y("f32", {5, 33});
      forEachIndex(y.getShape(), [&](const Shape &index) {
        Sum sum;
        for (int64_t k = 0; k < depth; ++k)
          sum.add(a, a.position({index[0], k}), b, b.position({k, index[1]}));
        sum.store(y, y.position(index));
      });
      KernelCase kernelCase{"  %y0 = dfg.dot_general %a, %b {wide, lhs_batch = array<i64>, rhs_batch = array<i64>, "
                            "lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 0>} : (" +
                                a.type() + ", " + b.type() + ") -> " + y.type(),
                            {a, b},
                            {y}};
      allowWideRounding(kernelCase, depth);
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

/// Adds what position `at` of a pooling's cotangent gives to the elements of its window; false where there are none.
bool spread(const Windows &windows, const std::string &kind, const Tensor &x, const Shape &at, double cotangent,
            std::vector<double> &sums) {
  Shape largest;
  double best = 0;
  int64_t count = 0;
  std::vector<Shape> inside;
  forEachIndex(windows.window, [&](const Shape &offset) {
    Shape from = {at[0], at[1]};
    if (!windows.at(spaceOf(at), offset, from))
      return;
    ++count;
    inside.push_back(from);
    double value = x.real(from);
    // NaN is larger than every number; among equal ones the first counts.
    if (largest.empty() || value > best || (std::isnan(value) && !std::isnan(best))) {
      largest = from;
      best = value;
    }
  });
  if (count == 0)
    return false;
  if (kind == "max") {
    sums[x.position(largest)] += cotangent;
    return true;
  }
  double share = cotangent / static_cast<double>(kind == "average" ? count : elementsOf(windows.window));
  for (const Shape &index : inside)
    sums[x.position(index)] += share;
  return true;
}

/// The gradient of a pooling whose input is of whole numbers, among which the largest is often there twice, some NaN
/// instead; none where a window has no element at all, and so neither a maximum nor a mean.
std::optional<KernelCase> poolCase(Random &random, const Windows &windows, const std::string &kind,
                                   const std::string &element, int64_t nans) {
  Tensor x = Tensor(element, joined({2, 3}, windows.input)).fill(random, -2, 2);
  for (int64_t i = 0; i < x.size(); ++i)
    x.setReal(i, std::round(x.real(i)));
  for (int64_t i = 0; i < nans; ++i)
    x.setReal(below(random, x.size()), std::numeric_limits<double>::quiet_NaN());
  Tensor dy = Tensor(element, joined({2, 3}, windows.positions())).fill(random, -2, 2);
  Tensor dx(element, x.getShape());
  std::vector<double> sums(x.size());
  bool anyEmpty = false;
  forEachIndex(dy.getShape(), [&](const Shape &at) { anyEmpty |= !spread(windows, kind, x, at, dy.real(at), sums); });
  if (anyEmpty)
    return std::nullopt;
  for (int64_t i = 0; i < dx.size(); ++i)
    dx.setReal(i, sums[i]);
  bool isMax = kind == "max";
  KernelCase kernelCase{"  %y0 = dfg.pool_gradient %a" + std::string(isMax ? ", %b" : "") + " {kind = #dfg.pool_kind<" +
                            kind.substr(0, kind.find(',')) + ">, " + (kind.size() > 7 ? "count_include_pad, " : "") +
                            "window = " + array(windows.window) + ", " + windows.attributes() + "} : (" + dy.type() +
                            (isMax ? ", " + x.type() : std::string()) + ") -> " + dx.type(),
                        {dy},
                        {dx}};
  if (isMax)
    kernelCase.inputs.push_back(x);
  allowRounding(kernelCase, element, elementsOf(windows.window));
  // Sums of equal shares lie in the middle between two numbers often, and become either.
  kernelCase.relative *= 2;
  return kernelCase;
}

constexpr const char *poolings[] = {"max", "average", "average, count_include_pad"};

// Windows that overlap and such that leave positions out; a NaN.
TEST(Training, PoolGradient) {
  Random random(53);
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (size_t space = 1; space <= 3; ++space)
      for (const std::string kind : poolings)
        for (int64_t nans : {0, 1})
          if (nans == 0 || kind == "max")
            if (auto kernelCase = poolCase(random, Windows(random, space), kind, element, nans))
              cases.push_back(std::move(*kernelCase));
  expectKernels(cases);
}

// Positions that many windows cover; windows of more elements than a byte counts; strides and dilations with a divisor
// in common, with none, and larger than each other; fewer windows than elements of theirs at a position, and only one;
// windows with several NaN.
TEST(Training, PoolGradientOfWideWindows) {
  struct Dim {
    int64_t window, stride, dilation, before, after, input;
  };
  Random random(56);
  std::vector<KernelCase> cases;
  for (const std::vector<Dim> &dims : {std::vector<Dim>{{12, 1, 1, 5, 6, 13}, {11, 2, 1, 3, 2, 20}},
                                       {{5, 2, 3, 4, 1, 17}, {4, 5, 2, 0, 3, 23}},
                                       {{5, 4, 6, 2, 2, 30}, {3, 6, 4, 1, 1, 19}},
                                       {{2, 2, 1, 0, 0, 8}, {2, 2, 1, 0, 0, 6}},
                                       {{9, 3, 2, 0, 0, 20}, {4, 1, 3, 0, 0, 11}},
                                       {{7, 1, 1, 0, 0, 7}, {5, 2, 1, 0, 0, 5}},
                                       {{7, 3, 7, 6, 6, 45}}}) {
    Windows windows(random, 0);
    for (const Dim &dim : dims) {
      windows.window.push_back(dim.window);
      windows.strides.push_back(dim.stride);
      windows.dilations.push_back(dim.dilation);
      windows.before.push_back(dim.before);
      windows.after.push_back(dim.after);
      windows.input.push_back(dim.input);
    }
    windows.pads = joined(windows.before, windows.after);
    for (const std::string element : {"f32", "bf16"})
      for (const std::string kind : poolings)
        if (auto kernelCase = poolCase(random, windows, kind, element, kind == "max" ? 9 : 0))
          cases.push_back(std::move(*kernelCase));
  }
  EXPECT_EQ(cases.size(), 42U);
  expectKernels(cases);
}

// Positions from the end, outside, and many that are equal, which are summed.
TEST(Training, GatherGradient) {
  Random random(54);
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (const std::string indexType : {"i32", "i64"})
      for (int64_t dim : {0, 1}) {
        int64_t size = 3 + below(random, 5);
        Shape shape = {4, 5}, positions = {2, 7};
        shape[dim] = size;
        Shape gathered(shape.begin(), shape.begin() + dim);
        gathered.insert(gathered.end(), positions.begin(), positions.end());
        gathered.insert(gathered.end(), shape.begin() + dim + 1, shape.end());
        auto reach = static_cast<double>(size);
        Tensor dy = Tensor(element, gathered).fill(random, -2, 2);
        Tensor indices = Tensor(indexType, positions).fill(random, -1.5 * reach, 1.5 * reach);
        Tensor dx(element, shape);
        std::vector<double> sums(dx.size());
        forEachIndex(gathered, [&](const Shape &index) {
          int64_t at = indices.integer({index[dim], index[dim + 1]});
          Shape to(index.begin(), index.begin() + dim);
          to.push_back(std::clamp<int64_t>(at < 0 ? at + size : at, 0, size - 1));
          to.insert(to.end(), index.begin() + dim + 2, index.end());
          sums[dx.position(to)] += dy.real(index);
        });
        for (int64_t i = 0; i < dx.size(); ++i)
          dx.setReal(i, sums[i]);
        KernelCase kernelCase{"  %y0 = dfg.gather_gradient %a, %b {dim = " + std::to_string(dim) + " : i64} : (" +
                                  dy.type() + ", " + indices.type() + ") -> " + dx.type(),
                              {dy, indices},
                              {dx}};
        allowRounding(kernelCase, element, elementsOf(positions));
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

// Barriers are their inputs, bit by bit, also between operators that would be joined.
TEST(Training, Barrier) {
  Random random(55);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "f64", "f16", "bf16", "i1", "i8", "i16", "i32", "i64", "ui8", "ui64"}) {
    Tensor x = Tensor(element, {3, 7}).fill(random, 0, element == "i1" ? 1 : 20);
    std::string type = " : (" + x.type() + ") -> " + x.type() + "\n";
    cases.push_back({"  %y0 = dfg.barrier %a {number = 0 : i64}" + type, {x}, {x}});
    if (element == "i1")
      continue;
    Tensor negative(element, x.getShape());
    for (int64_t i = 0; i < x.size(); ++i)
      negative.setReal(i, -x.real(i));
    cases.push_back({"  %0 = dfg.neg %a" + type + "  %1 = dfg.barrier %0 {number = 1 : i64}" + type +
                         "  %y0 = dfg.neg %1" + type + "  %y1 = dfg.barrier %1 {number = 2 : i64}" + type,
                     {x},
                     {x, negative}});
  }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
