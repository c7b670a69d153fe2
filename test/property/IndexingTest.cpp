// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that read, write and find positions against loops over the positions, on random shapes.

#include "test/property/KernelCases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cleave::test {
namespace {

constexpr const char *types[] = {"f32", "f64", "f16", "bf16", "i1", "i8", "i16", "i32", "i64", "ui8", "ui64"};
constexpr const char *numbers[] = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "ui8", "ui64"};

Shape randomShape(Random &random) {
  Shape shape;
  for (size_t i = 0, rank = 1 + random() % 4; i < rank; ++i)
    shape.push_back(1 + static_cast<int64_t>(random() % 9));
  return shape;
}

Tensor randomTensor(Random &random, const std::string &element, const Shape &shape) {
  return Tensor(element, shape).fill(random, 0, element == "i1" ? 1 : 20);
}

/// Whole numbers, of which sums and products are exact.
Tensor wholeTensor(Random &random, const std::string &element, const Shape &shape, double low, double high) {
  Tensor tensor = Tensor(element, shape).fill(random, low, high);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setReal(i, std::round(tensor.real(i)));
  return tensor;
}

std::string dimText(size_t dim) { return "dim = " + std::to_string(dim) + " : i64"; }

/// The index of `shape` that stands for `index` in all dimensions but those of size one, with `position` in `dim`.
Shape lineIndex(const Shape &index, const Shape &shape, size_t dim, int64_t position) {
  Shape result(index);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = i == dim ? position : shape[i] == 1 ? 0 : index[i];
  return result;
}

/// Indices for `input` along `dim`, `count` of them, some outside; in other dimensions of size one where `shared`.
Tensor randomIndices(Random &random, const std::string &element, const Shape &input, size_t dim, int64_t count,
                     bool shared) {
  Shape shape(input);
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = i == dim ? count : shared ? 1 : shape[i];
  auto size = static_cast<double>(input[dim]);
  return Tensor(element, shape).fill(random, -1.5 * size, 1.5 * size);
}

// Line by line, with indices from the end, indices outside, and indices that all lines share.
TEST(Indexing, GatherElements) {
  Random random(31);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (const std::string indexType : {"i32", "i64"})
      for (bool shared : {false, true}) {
        Tensor x = randomTensor(random, element, randomShape(random));
        size_t dim = random() % x.getShape().size();
        int64_t size = x.getShape()[dim], count = static_cast<int64_t>(random() % 12);
        Tensor indices = randomIndices(random, indexType, x.getShape(), dim, count, shared);
        Shape shape(x.getShape());
        shape[dim] = count;
        Tensor y(element, shape);
        forEachIndex(shape, [&](const Shape &index) {
          int64_t at = indices.integer(lineIndex(index, indices.getShape(), dim, index[dim]));
          at = std::clamp<int64_t>(at < 0 ? at + size : at, 0, size - 1);
          y.setReal(y.position(index), x.real(lineIndex(index, shape, dim, at)));
        });
        cases.push_back({"  %y0 = dfg.gather_elements %a, %b {" + dimText(dim) + "} : (" + x.type() + ", " +
                             indices.type() + ") -> " + y.type(),
                         {x, indices},
                         {y}});
      }
  expectKernels(cases);
}

double joined(const std::string &kind, double a, double b) {
  return kind == "sum" ? a + b : kind == "product" ? a * b : kind == "max" ? std::max(a, b) : std::min(a, b);
}

// Many updates of few whole numbers, in order; updates outside are dropped.
TEST(Indexing, ScatterElements) {
  Random random(32);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (const std::string kind : {"", "sum", "product", "max", "min"})
      for (bool shared : {false, true}) {
        if (element == "i1" && kind == "sum")
          continue;
        bool small = kind == "product" || element == "i8" || element == "ui8";
        double largest = element == "i1" ? 1 : small ? 2 : 20;
        Tensor x = wholeTensor(random, element, randomShape(random), 0, largest);
        size_t dim = random() % x.getShape().size();
        int64_t size = x.getShape()[dim], count = static_cast<int64_t>(random() % (small ? 5 : 20));
        Tensor indices = randomIndices(random, "i64", x.getShape(), dim, count, shared);
        Shape shape(x.getShape());
        shape[dim] = count;
        Tensor updates = wholeTensor(random, element, shape, 0, largest), y = x;
        forEachIndex(shape, [&](const Shape &index) {
          int64_t at = indices.integer(lineIndex(index, indices.getShape(), dim, index[dim]));
          at = at < 0 ? at + size : at;
          if (at < 0 || at >= size)
            return;
          int64_t place = y.position(lineIndex(index, y.getShape(), dim, at));
          y.setReal(place, kind.empty() ? updates.real(index) : joined(kind, y.real(place), updates.real(index)));
        });
        std::string reduction = kind.empty() ? "" : ", reduction = #dfg.reduce_kind<" + kind + ">";
        cases.push_back({"  %y0 = dfg.scatter_elements %a, %b, %c {" + dimText(dim) + reduction + "} : (" + x.type() +
                             ", " + indices.type() + ", " + updates.type() + ") -> " + y.type(),
                         {x, indices, updates},
                         {y}});
      }
  expectKernels(cases);
}

// Sums of whole numbers, which no order of additions changes.
TEST(Indexing, CumulativeSum) {
  Random random(33);
  std::vector<KernelCase> cases;
  for (const std::string element : numbers)
    for (bool exclusive : {false, true})
      for (int repeat = 0; repeat < 2; ++repeat) {
        Tensor x = wholeTensor(random, element, randomShape(random), -8, 8), y = x;
        size_t dim = random() % x.getShape().size();
        forEachIndex(x.getShape(), [&](const Shape &index) {
          double sum = 0;
          for (int64_t i = 0; i < index[dim] + (exclusive ? 0 : 1); ++i)
            sum += x.real(lineIndex(index, x.getShape(), dim, i));
          y.setReal(y.position(index), sum);
        });
        cases.push_back({"  %y0 = dfg.cumulative_sum %a {" + dimText(dim) + (exclusive ? ", exclusive" : "") + "} : (" +
                             x.type() + ") -> " + y.type(),
                         {x},
                         {y}});
      }
  expectKernels(cases);
}

// Lines of many lengths with equal elements, infinities and NaN among them.
TEST(Indexing, ArgSort) {
  Random random(34);
  std::vector<KernelCase> cases;
  for (const std::string element : numbers)
    for (bool descending : {false, true})
      for (int64_t size : {0, 1, 3, 8, 33}) {
        Shape shape = randomShape(random);
        size_t dim = random() % shape.size();
        shape[dim] = size;
        Tensor x = Tensor(element, shape).fill(random, -9, 9), y("i64", shape);
        for (int64_t i = 0; x.isFloat() && i < x.size() / 8; ++i)
          x.setReal(static_cast<int64_t>(random() % x.size()),
                    i % 2 ? std::nan("") : std::numeric_limits<double>::infinity());
        forEachIndex(shape, [&](const Shape &index) {
          if (index[dim] != 0)
            return;
          std::vector<int64_t> order(size);
          std::iota(order.begin(), order.end(), 0);
          // NaN in front of the order from the largest on, else at its end.
          auto key = [&](int64_t i) {
            double value = x.real(lineIndex(index, shape, dim, i));
            return std::pair(std::isnan(value), std::isnan(value) ? 0 : value);
          };
          std::stable_sort(order.begin(), order.end(),
                           [&](int64_t a, int64_t b) { return descending ? key(a) > key(b) : key(a) < key(b); });
          for (int64_t i = 0; i < size; ++i)
            y.setInteger(y.position(lineIndex(index, shape, dim, i)), order[i]);
        });
        cases.push_back({"  %y0 = dfg.arg_sort %a {" + dimText(dim) + (descending ? ", descending" : "") + "} : (" +
                             x.type() + ") -> " + y.type(),
                         {x},
                         {y}});
      }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
