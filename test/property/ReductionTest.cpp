// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions and normalizations against plain loops in double.

#include "test/property/KernelCases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace cleave::test {
namespace {

constexpr const char *floats[] = {"f32", "f64", "f16", "bf16"};
constexpr const char *numbers[] = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "ui8", "ui64"};

std::string array(const Shape &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

/// `index` with the dimensions in `dims` set to zero.
Shape zeroed(Shape index, const Shape &dims) {
  for (int64_t dim : dims)
    index[dim] = 0;
  return index;
}

/// The shape with the dimensions in `dims` of size one.
Shape kept(Shape shape, const Shape &dims) {
  for (int64_t dim : dims)
    shape[dim] = 1;
  return shape;
}

Shape dropped(const Shape &shape, const Shape &dims) {
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!std::count(dims.begin(), dims.end(), static_cast<int64_t>(i)))
      result.push_back(shape[i]);
  return result;
}

// All kinds over all sorts of dimensions; of no elements the neutral one remains.
TEST(Reduction, Reduce) {
  const std::vector<std::pair<Shape, Shape>> reductions = {
      {{7, 33}, {1}},       {{33, 7}, {0}},   {{4, 5, 6}, {1}}, {{2, 3, 4, 5}, {2, 3}}, {{2, 3, 4, 5}, {0, 2}},
      {{70}, {0}},          {{2, 3}, {0, 1}}, {{5, 4}, {}},     {{3, 0, 2}, {1}},       {{1, 1, 130}, {2}},
      {{2, 40, 3, 3}, {1}}, {{}, {}},         {{0, 4}, {1}}};
  Random random(31);
  std::vector<KernelCase> cases;
  for (const std::string element : numbers)
    for (const std::string kind : {"sum", "product", "max", "min"})
      for (const auto &[shape, dims] : reductions) {
        bool keep = random() % 2;
        Tensor x = Tensor(element, shape).fill(random, kind == "product" ? 0.8 : -9, kind == "product" ? 1.2 : 9);
        if (!x.isFloat() && kind == "product")
          x.fill(random, -3, 3);
        Tensor wide("f64", kept(shape, dims)), y(element, keep ? kept(shape, dims) : dropped(shape, dims));
        double infinity = std::numeric_limits<double>::infinity();
        int64_t smallest = x.isUnsigned() ? 0 : std::numeric_limits<int64_t>::min() >> (64 - 8 * x.width());
        std::vector<uint64_t> wrapped(wide.size(), kind == "sum" ? 0 : 1);
        double start = kind == "sum" ? 0 : kind == "product" ? 1 : kind == "max" ? -infinity : infinity;
        for (int64_t i = 0; i < wide.size(); ++i)
          wide.setReal(i, start);
        double magnitude = 1;
        forEachIndex(shape, [&, dims = dims](const Shape &index) {
          int64_t to = wide.position(zeroed(index, dims));
          double a = wide.real(to), b = x.real(index);
          wide.setReal(to, kind == "sum"       ? a + b
                           : kind == "product" ? a * b
                           : kind == "max"     ? std::fmax(a, b)
                                               : std::fmin(a, b));
          uint64_t integer = x.isFloat() ? 0 : static_cast<uint64_t>(x.integer(index));
          wrapped[to] = kind == "sum" ? wrapped[to] + integer : wrapped[to] * integer;
          magnitude += std::fabs(b);
        });
        for (int64_t i = 0; i < y.size(); ++i) {
          if (y.isFloat())
            y.setReal(i, wide.real(i));
          else if (kind == "sum" || kind == "product")
            y.setInteger(i, static_cast<int64_t>(wrapped[i]));
          else
            y.setInteger(i, std::isinf(wide.real(i)) ? (kind == "max" ? smallest : ~smallest)
                                                     : static_cast<int64_t>(wide.real(i)));
        }
        KernelCase kernelCase{"  %y0 = dfg.reduce %a {kind = #dfg.reduce_kind<" + kind + ">, dims = " + array(dims) +
                                  (keep ? ", keep_dims" : "") + "} : (" + x.type() + ") -> " + y.type(),
                              {x},
                              {y}};
        if (y.isFloat() && (kind == "sum" || kind == "product")) {
          double unit = element == "f64" ? 1e-16 : 6e-8;
          kernelCase.absolute = kind == "sum" ? magnitude * unit : 0;
          kernelCase.relative = std::ldexp(1.0, -precisionOf(element)) + (kind == "product" ? 70 * unit : 0);
        }
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

// A NaN anywhere is the maximum and the minimum.
TEST(Reduction, MaximumOfNan) {
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (const std::string kind : {"max", "min"}) {
      Tensor x(element, {3, 40}), y(element, {3});
      x.setReal(40 + 17, std::nan(""));
      y.setReal(1, std::nan(""));
      cases.push_back({"  %y0 = dfg.reduce %a {kind = #dfg.reduce_kind<" + kind + ">, dims = array<i64: 1>} : (" +
                           x.type() + ") -> " + y.type(),
                       {x},
                       {y}});
    }
  expectKernels(cases);
}

// Conjunction and disjunction of truth values.
TEST(Reduction, TruthValues) {
  Random random(32);
  std::vector<KernelCase> cases;
  for (const std::string kind : {"product", "max", "min"}) {
    Tensor x = Tensor("i1", {50, 3}).fill(random, 0, 1), y("i1", {50});
    forEachIndex({50}, [&](const Shape &index) {
      int64_t sum = x.integer({index[0], 0}) + x.integer({index[0], 1}) + x.integer({index[0], 2});
      y.setInteger(index[0], kind == "max" ? sum > 0 : sum == 3);
    });
    cases.push_back({"  %y0 = dfg.reduce %a {kind = #dfg.reduce_kind<" + kind + ">, dims = array<i64: 1>} : (" +
                         x.type() + ") -> " + y.type(),
                     {x},
                     {y}});
  }
  expectKernels(cases);
}

// The first or the last of equal extremes, along each dimension.
TEST(Reduction, ArgReduce) {
  Random random(33);
  std::vector<KernelCase> cases;
  for (const std::string element : numbers)
    for (const std::string kind : {"max", "min"})
      for (bool last : {false, true})
        for (int64_t dim = 0; dim < 3; ++dim) {
          Shape shape = {4, 9, 20};
          // Few different values, so that many are equal.
          Tensor x(element, shape);
          for (int64_t i = 0; i < x.size(); ++i)
            x.setReal(i, static_cast<double>(random() % 5) - (x.isUnsigned() ? 0 : 2));
          bool keep = random() % 2;
          Tensor y("i64", keep ? kept(shape, {dim}) : dropped(shape, {dim}));
          int64_t position = 0;
          forEachIndex(kept(shape, {dim}), [&](const Shape &index) {
            int64_t best = 0;
            for (int64_t i = 1; i < shape[dim]; ++i) {
              Shape at = index, bestAt = index;
              at[dim] = i;
              bestAt[dim] = best;
              double a = x.real(at), b = x.real(bestAt);
              if (kind == "max" ? a > b : a < b)
                best = i;
              else if (last && a == b)
                best = i;
            }
            y.setInteger(position++, best);
          });
          cases.push_back({"  %y0 = dfg.arg_reduce %a {kind = #dfg.arg_kind<" + kind +
                               ">, dim = " + std::to_string(dim) + " : i64" + (keep ? ", keep_dims" : "") +
                               (last ? ", last" : "") + "} : (" + x.type() + ") -> " + y.type(),
                           {x},
                           {y}});
        }
  expectKernels(cases);
}

/// Calls `body` with the positions of the elements that are normalized together.
void forEachGroup(const Tensor &x, const Shape &dims, const std::function<void(const std::vector<int64_t> &)> &body) {
  Shape along;
  for (int64_t dim : dims)
    along.push_back(x.getShape()[dim]);
  forEachIndex(kept(x.getShape(), dims), [&](const Shape &index) {
    std::vector<int64_t> positions;
    forEachIndex(along, [&](const Shape &inner) {
      Shape at = index;
      for (size_t i = 0; i < dims.size(); ++i)
        at[dims[i]] = inner[i];
      positions.push_back(x.position(at));
    });
    body(positions);
  });
}

// Softmax and its logarithm along any dimension; large numbers do not overflow.
TEST(Reduction, Softmax) {
  Random random(34);
  std::vector<KernelCase> cases;
  const std::vector<std::pair<Shape, int64_t>> forms = {{{3, 70}, 1}, {{70, 3}, 0},    {{2, 5, 4, 6}, 1}, {{1, 10}, 1},
                                                        {{4, 1}, 1},  {{2, 3, 33}, 2}, {{200}, 0}};
  for (const std::string element : floats)
    for (bool logarithm : {false, true})
      for (const auto &[shape, dim] : forms) {
        Tensor x = Tensor(element, shape).fill(random, -80, 120), y(element, shape);
        forEachGroup(x, {dim}, [&](const std::vector<int64_t> &positions) {
          double max = -INFINITY, sum = 0;
          for (int64_t i : positions)
            max = std::max(max, x.real(i));
          for (int64_t i : positions)
            sum += std::exp(x.real(i) - max);
          for (int64_t i : positions)
            y.setReal(i, logarithm ? x.real(i) - max - std::log(sum) : std::exp(x.real(i) - max) / sum);
        });
        KernelCase kernelCase{std::string("  %y0 = dfg.") + (logarithm ? "log_softmax" : "softmax") +
                                  " %a {dim = " + std::to_string(dim) + " : i64} : (" + x.type() + ") -> " + y.type(),
                              {x},
                              {y}};
        kernelCase.relative = 16 * std::ldexp(1.0, -std::min(precisionOf(element), 52));
        kernelCase.absolute = element == "f64" ? 1e-15 : 2e-7;
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

// Layer normalization over one and several dimensions, of numbers far from zero, where one-pass formulas cancel.
TEST(Reduction, LayerNorm) {
  Random random(35);
  std::vector<KernelCase> cases;
  const std::vector<std::pair<Shape, Shape>> forms = {
      {{3, 70}, {1}}, {{2, 5, 8}, {1, 2}}, {{2, 3, 5, 7}, {2, 3}}, {{6, 9}, {0}}, {{2, 40, 6}, {1}}};
  for (const std::string element : floats)
    for (const auto &[shape, dims] : forms) {
      Tensor x = Tensor(element, shape).fill(random, 95, 105), y(element, shape);
      forEachGroup(x, dims, [&](const std::vector<int64_t> &positions) {
        double mean = 0, variance = 0, count = static_cast<double>(positions.size());
        for (int64_t i : positions)
          mean += x.real(i) / count;
        for (int64_t i : positions)
          variance += (x.real(i) - mean) * (x.real(i) - mean) / count;
        for (int64_t i : positions)
          y.setReal(i, (x.real(i) - mean) / std::sqrt(variance + 1e-3));
      });
      KernelCase kernelCase{"  %y0 = dfg.layer_norm %a {dims = " + array(dims) + ", epsilon = 1.0e-3 : f64} : (" +
                                x.type() + ") -> " + y.type(),
                            {x},
                            {y}};
      kernelCase.relative = 8 * std::ldexp(1.0, -precisionOf(element));
      kernelCase.absolute = element == "f64" ? 1e-12 : 2e-5;
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

// Batch normalization with given statistics, with and without space.
TEST(Reduction, BatchNorm) {
  Random random(36);
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (const Shape &shape : {Shape{2, 5}, Shape{2, 5, 9}, Shape{1, 5, 3, 4}}) {
      Tensor x = Tensor(element, shape).fill(random, -3, 3), y(element, shape);
      std::vector<Tensor> inputs = {x};
      for (int i = 0; i < 4; ++i)
        inputs.push_back(Tensor(element, {5}).fill(random, 0.5, 2));
      forEachIndex(shape, [&](const Shape &index) {
        auto of = [&](int i) { return inputs[i].real(index[1]); };
        y.setReal(y.position(index), of(1) * (x.real(index) - of(3)) / std::sqrt(of(4) + 0.01) + of(2));
      });
      std::string operandTypes = x.type();
      for (int i = 1; i < 5; ++i)
        operandTypes += ", " + inputs[i].type();
      KernelCase kernelCase{"  %y0 = dfg.batch_norm %a, %b, %c, %d, %e {epsilon = 0.01 : f64} : (" + operandTypes +
                                ") -> " + y.type(),
                            inputs,
                            {y}};
      kernelCase.relative = 4 * std::ldexp(1.0, -precisionOf(element));
      kernelCase.absolute = element == "f64" ? 1e-14 : 2e-6;
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

// Local response normalization with even and odd windows, and every way to compute the power.
TEST(Reduction, Lrn) {
  Random random(37);
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (int64_t size : {1, 4, 5})
      for (double beta : {0.5, 0.75, 1.0, 0.6}) {
        Tensor x = Tensor(element, {2, 7, 3, 4}).fill(random, -3, 3), y(element, x.getShape());
        forEachIndex(x.getShape(), [&](const Shape &index) {
          double sum = 0;
          for (int64_t c = index[1] - (size - 1) / 2; c <= index[1] + size / 2; ++c)
            if (c >= 0 && c < 7)
              sum += std::pow(x.real({index[0], c, index[2], index[3]}), 2);
          y.setReal(y.position(index), x.real(index) / std::pow(1.5 + 0.3 / static_cast<double>(size) * sum, beta));
        });
        KernelCase kernelCase{"  %y0 = dfg.lrn %a {size = " + std::to_string(size) +
                                  " : i64, alpha = 0.3 : f64, beta = " + std::to_string(beta) +
                                  " : f64, k = 1.5 : f64} : (" + x.type() + ") -> " + y.type(),
                              {x},
                              {y}};
        kernelCase.relative = 8 * std::ldexp(1.0, -precisionOf(element));
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
