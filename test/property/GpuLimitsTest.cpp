// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels at the limits of what a GPU, or the code for it, allows.

#include "test/property/GpuCases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cleave::test {
namespace {

std::string nameOf(int64_t input) { return {'%', static_cast<char>('a' + input)}; }

/// The sum of the inputs %0, %1, ... of a body as %y0.
std::string sumOf(int64_t count, const std::string &type) {
  std::string text, sum = "%0";
  for (int64_t i = 1; i < count; ++i) {
    std::string next = i + 1 == count ? "%y0" : "%s" + std::to_string(i);
    text += "  " + next + " = dfg.add " + sum + ", %" + std::to_string(i) + " : (" + type + ", " + type + ") -> " +
            type + "\n";
    sum = next;
  }
  return text;
}

// More sums of columns in one launch than shared memory holds what threads leave there: 4096 bytes each.
TEST(GpuLimits, ManySumsOfColumns) {
  constexpr int64_t count = 25;
  Random random(31);
  std::vector<KernelCase> cases;
  for (const Shape &shape : {Shape{70, 128}, Shape{33, 5}}) {
    KernelCase sums;
    Tensor y("f32", {shape[1]});
    std::vector<double> expected(y.size());
    for (int64_t i = 0; i < count; ++i) {
      Tensor x = Tensor("f32", shape).fill(random, -1, 1);
      forEachIndex(shape, [&](const Shape &index) { expected[index[1]] += x.real(index); });
      sums.body += "  %" + std::to_string(i) + " = dfg.reduce " + nameOf(i) +
                   " {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>} : (" + x.type() + ") -> " + y.type() + "\n";
      sums.inputs.push_back(x);
    }
    for (int64_t i = 0; i < y.size(); ++i)
      y.setReal(i, expected[i]);
    sums.body += sumOf(count, y.type());
    sums.expected = {y};
    sums.absolute = 1e-4;
    cases.push_back(sums);
  }
  expectKernels(cases);
}

// More transposed operands in one launch than shared memory holds squares of: those that are left are read in place.
TEST(GpuLimits, ManyTransposedOperands) {
  constexpr int64_t count = 14;
  Random random(32);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "f64"}) {
    KernelCase sums;
    Tensor y(element, {100, 70});
    std::vector<double> expected(y.size());
    for (int64_t i = 0; i < count; ++i) {
      Tensor x = Tensor(element, {70, 100}).fill(random, -1, 1);
      forEachIndex(x.getShape(),
                   [&](const Shape &index) { expected[y.position({index[1], index[0]})] += x.real(index); });
      sums.body += "  %" + std::to_string(i) + " = dfg.transpose " + nameOf(i) +
                   " {permutation = array<i64: 1, 0>} : (" + x.type() + ") -> " + y.type() + "\n";
      sums.inputs.push_back(x);
    }
    // One that lies straight, so that there is no better order.
    Tensor z = Tensor(element, y.getShape()).fill(random, -1, 1);
    sums.body +=
        "  %" + std::to_string(count) + " = dfg.abs " + nameOf(count) + " : (" + z.type() + ") -> " + z.type() + "\n";
    for (int64_t i = 0; i < y.size(); ++i)
      y.setReal(i, expected[i] + std::fabs(z.real(i)));
    sums.inputs.push_back(z);
    sums.body += sumOf(count + 1, y.type());
    sums.expected = {y};
    sums.absolute = 1e-4;
    cases.push_back(sums);
  }
  expectKernels(cases);
}

// A step of momentum whose outputs lie where its inputs lie: whoever reads these must not count on their staying.
TEST(GpuLimits, UpdatesInPlace) {
  for (int64_t size : {1000, 1002, 70001}) {
    Random random(33);
    Tensor g = Tensor("f32", {size}).fill(random, -1, 1), m = g, w = g;
    m.fill(random, -1, 1);
    w.fill(random, -1, 1);
    std::string t = g.type(), binary = " : (" + t + ", " + t + ") -> " + t + "\n";
    KernelCase step{"  %y0 = dfg.add %a, %b" + binary + "  %y1 = dfg.sub %c, %y0" + binary, {g, m, w}, {m, w}};
    GpuKernels kernels(graphText("k", step), GpuOptions(), {{1, 0}, {2, 1}});
    ASSERT_TRUE(static_cast<bool>(kernels));
    constexpr size_t alignment = 64;
    size_t stride = llvm::alignTo(g.getBytes().size(), alignment);
    std::vector<char> storage(3 * stride + alignment);
    char *begin = storage.data() + -reinterpret_cast<uintptr_t>(storage.data()) % alignment;
    ptx::Memory memory;
    for (int64_t i = 0; i < 3; ++i) {
      const Tensor &input = i == 0 ? g : i == 1 ? m : w;
      std::copy(input.getBytes().begin(), input.getBytes().end(), begin + i * stride);
      memory.allow(begin + i * stride, input.getBytes().size(), /*writable=*/i != 0);
    }
    kernels.run(0, {begin, begin + stride, begin + 2 * stride, begin + stride, begin + 2 * stride}, memory);
    const float *sums = reinterpret_cast<const float *>(begin + stride);
    const float *weights = reinterpret_cast<const float *>(begin + 2 * stride);
    for (int64_t i = 0; i < size; ++i) {
      float sum = static_cast<float>(g.real(i)) + static_cast<float>(m.real(i));
      ASSERT_EQ(sums[i], sum) << i;
      ASSERT_EQ(weights[i], static_cast<float>(w.real(i)) - sum) << i;
    }
  }
}

/// The position of the largest or smallest element along `dim`, one element after the other; 0 where all are NaN.
KernelCase argCase(const Tensor &x, int64_t dim, bool isMax, bool isLast) {
  Shape shape = x.getShape();
  shape[dim] = 1;
  Tensor y("i64", shape);
  int64_t position = 0;
  forEachIndex(shape, [&](const Shape &index) {
    double best = isMax ? -INFINITY : INFINITY;
    int64_t found = 0;
    Shape at = index;
    for (at[dim] = 0; at[dim] < x.getShape()[dim]; ++at[dim]) {
      double value = x.real(at);
      if (isMax ? value > best : value < best)
        found = at[dim];
      else if (isLast && value == best)
        found = at[dim];
      else
        continue;
      best = value;
    }
    y.setInteger(position++, found);
  });
  return {std::string("  %y0 = dfg.arg_reduce %a {kind = #dfg.arg_kind<") + (isMax ? "max" : "min") +
              ">, dim = " + std::to_string(dim) + " : i64, keep_dims" + (isLast ? ", last" : "") + "} : (" + x.type() +
              ") -> " + y.type(),
          {x},
          {y}};
}

// Positions of extremes that many threads look for together: few long rows, columns, equal elements, and such as are no
// numbers.
TEST(GpuLimits, PositionsOfExtremes) {
  Random random(34);
  std::vector<KernelCase> cases;
  const std::vector<std::pair<Shape, int64_t>> forms = {{{3, 5000}, 1}, {{1, 70001}, 1},  {{70, 33}, 1},
                                                        {{900, 7}, 0},  {{4, 50, 30}, 1}, {{6, 1}, 1}};
  for (const std::string element : {"f32", "bf16", "f64", "i32", "i8"})
    for (bool isMax : {false, true})
      for (bool isLast : {false, true})
        for (const auto &[shape, dim] : forms) {
          Tensor x(element, shape);
          for (int64_t i = 0; i < x.size(); ++i)
            x.setReal(i, static_cast<double>(random() % 100) - 50);
          cases.push_back(argCase(x, dim, isMax, isLast));
        }
  for (bool isMax : {false, true})
    for (bool isLast : {false, true}) {
      Tensor x("f32", {6, 300});
      const double worst = isMax ? -INFINITY : INFINITY;
      const double kinds[6][3] = {{NAN, NAN, NAN}, {worst, worst, worst}, {NAN, worst, NAN},
                                  {worst, NAN, 1}, {NAN, 0.0, -0.0},      {NAN, -worst, 2}};
      for (int64_t row = 0; row < 6; ++row)
        for (int64_t i = 0; i < 300; ++i)
          x.setReal(row * 300 + i, kinds[row][i == 0 ? 0 : i % 2 + 1]);
      cases.push_back(argCase(x, 1, isMax, isLast));
    }
  expectKernels(cases);
}

GpuKernelInfo compiled(const std::string &body, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs) {
  GpuKernels kernels(graphText("k", {body, inputs, outputs}), GpuOptions());
  return kernels ? kernels.getObject().kernels[0] : GpuKernelInfo();
}

// One row of a vocabulary has more than one thread.
TEST(GpuLimits, RowsHaveManyThreads) {
  Tensor x("f32", {1, 50257}), y("i64", {1});
  GpuKernelInfo info = compiled("  %y0 = dfg.arg_reduce %a {kind = #dfg.arg_kind<max>, dim = 1 : i64} : (" + x.type() +
                                    ") -> " + y.type(),
                                {x}, {y});
  ASSERT_FALSE(info.launches.empty());
  EXPECT_GE(info.launches[0].blocks * info.launches[0].threads, 900);
}

// Sorting merges again and again: of all the merged lines only two need memory at a time, each with its positions.
TEST(GpuLimits, ScratchIsReused) {
  Tensor x("f32", {8, 1024}), y("i64", {8, 1024});
  GpuKernelInfo info =
      compiled("  %y0 = dfg.arg_sort %a {dim = 1 : i64} : (" + x.type() + ") -> " + y.type(), {x}, {y});
  EXPECT_GT(info.launches.size(), 5u);
  EXPECT_LE(info.scratchBytes, 2 * 8 * 1024 * (4 + 8));
}

// Rows that do not fit registers, of logits that are cast first: each loop casts them again, and none leaves them in
// memory.
TEST(GpuLimits, CheapStepsAreRepeated) {
  Random random(35);
  std::vector<KernelCase> cases;
  for (int64_t length : {40000, 40001}) {
    Tensor x = Tensor("bf16", {2, length}).fill(random, -4, 4), y("f32", x.getShape());
    for (int64_t r = 0; r < 2; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < length; ++i)
        sum += std::exp(x.real({r, i}));
      for (int64_t i = 0; i < length; ++i)
        y.setReal(y.position({r, i}), std::exp(x.real({r, i})) / sum);
    }
    std::string t = y.type();
    cases.push_back({"  %0 = dfg.cast %a {to = f32} : (" + x.type() + ") -> " + t +
                         "\n  %y0 = dfg.softmax %0 {dim = 1 : i64} : (" + t + ") -> " + t,
                     {x},
                     {y},
                     1e-4,
                     1e-9});
    GpuKernelInfo info = compiled(cases.back().body, {x}, {y});
    EXPECT_EQ(info.launches.size(), 1u);
    EXPECT_EQ(info.scratchBytes, 0u);
  }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
