// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes that decide how work is divided among a GPU's threads: rows from one element to more than registers and blocks
// hold, sums of columns, few results of many elements, transposes.

#include "test/property/GpuCases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <sys/mman.h>

namespace cleave::test {
namespace {

std::string unary(const std::string &operation, const Tensor &x, const Tensor &y) {
  return "dfg." + operation + " : (" + x.type() + ") -> " + y.type() + "\n";
}

double roundingOf(const std::string &element) { return std::ldexp(1.0, -precisionOf(element)); }

KernelCase softmaxCase(Random &random, const Shape &shape, int64_t dim, const std::string &element) {
  Tensor x = Tensor(element, shape).fill(random, -4, 4), y(element, shape);
  forEachIndex(shape, [&](const Shape &index) {
    if (index[dim] != 0)
      return;
    Shape at = index;
    double largest = -INFINITY, sum = 0;
    for (at[dim] = 0; at[dim] < shape[dim]; ++at[dim])
      largest = std::fmax(largest, x.real(at));
    for (at[dim] = 0; at[dim] < shape[dim]; ++at[dim])
      sum += std::exp(x.real(at) - largest);
    for (at[dim] = 0; at[dim] < shape[dim]; ++at[dim])
      y.setReal(y.position(at), std::exp(x.real(at) - largest) / sum);
  });
  return {"  %y0 = " + unary("softmax %a {dim = " + std::to_string(dim) + " : i64}", x, y),
          {x},
          {y},
          roundingOf(element) + 1e-5,
          1e-7};
}

// Rows for a part of a warp, a warp, a block, and a block that goes through them several times; whole and uneven
// vectors.
TEST(GpuRows, Softmax) {
  Random random(1);
  std::vector<KernelCase> cases;
  for (int64_t length : {1, 2, 3, 4, 5, 31, 32, 33, 64, 100, 128, 129, 500, 768, 1000, 1023, 1024, 2048, 4099, 9000})
    for (const std::string element : {"f32", "bf16"})
      cases.push_back(softmaxCase(random, {length < 200 ? 37 : 3, length}, 1, element));
  cases.push_back(softmaxCase(random, {2, 3, 70}, 2, "f64"));
  cases.push_back(softmaxCase(random, {1, 70000}, 1, "f32"));
  expectKernels(cases);
}

// Many rows of a length that fits a warp's registers, so that a block has several groups and a thread several rounds.
TEST(GpuRows, ManyRows) {
  Random random(2);
  std::vector<KernelCase> cases;
  for (int64_t length : {6, 130, 132})
    cases.push_back(softmaxCase(random, {2051, length}, 1, "f32"));
  expectKernels(cases);
}

// What rows need of rows past a sum of columns of what they made: it reads what it would have read before.
TEST(GpuRows, RowsPastColumns) {
  Random random(8);
  std::vector<KernelCase> cases;
  for (const Shape &shape : {Shape{50, 7}, Shape{300, 129}, Shape{3, 9000}}) {
    KernelCase softmax = softmaxCase(random, shape, 1, "f32");
    const Tensor &p = softmax.expected[0];
    Tensor columns("f32", {shape[1]}), largest("f32", {shape[0], 1}), scaled("f32", shape);
    std::vector<double> sums(columns.size()), maxima(largest.size());
    forEachIndex(shape, [&](const Shape &index) {
      sums[index[1]] += p.real(index);
      maxima[index[0]] = std::fmax(maxima[index[0]], p.real(index));
    });
    for (int64_t i = 0; i < columns.size(); ++i)
      columns.setReal(i, sums[i]);
    forEachIndex(shape,
                 [&](const Shape &index) { scaled.setReal(scaled.position(index), p.real(index) * maxima[index[0]]); });
    cases.push_back(
        {"  %0 = " + unary("softmax %a {dim = 1 : i64}", p, p) + "  %y0 = " +
             unary("reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>}", p, columns) + "  %1 = " +
             unary("reduce %0 {kind = #dfg.reduce_kind<max>, dims = array<i64: 1>, keep_dims}", p, largest) +
             "  %y1 = dfg.mul %0, %1 : (" + p.type() + ", " + largest.type() + ") -> " + p.type(),
         softmax.inputs,
         {columns, scaled},
         1e-5,
         1e-6});
  }
  expectKernels(cases);
}

/// The sum of the labels' log-softmax, and the gradient by the logits of minus that sum.
KernelCase lossCase(Random &random, const Shape &shape, const std::string &element) {
  int64_t rows = shape[0], columns = shape[1];
  Tensor x = Tensor(element, shape).fill(random, -4, 4), y = Tensor("i64", {rows, 1});
  y.fill(random, 0, static_cast<double>(columns - 1));
  Tensor loss("f32", {}), gradient(element, shape);
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i)
      sum += std::exp(x.real({r, i}));
    int64_t label = y.integer({r, 0});
    total += x.real({r, label}) - std::log(sum);
    for (int64_t i = 0; i < columns; ++i)
      gradient.setReal(gradient.position({r, i}), std::exp(x.real({r, i})) / sum - (i == label ? 1 : 0));
  }
  loss.setReal(0, total);
  Tensor wide("f32", shape), mask("i1", shape), numbers("i64", {1, columns}), each("f32", {rows, 1});
  std::string binary = " : (" + wide.type() + ", " + wide.type() + ") -> " + wide.type() + "\n";
  std::string select = " : (" + mask.type() + ", " + wide.type() + ", " + loss.type() + ") -> " + wide.type() + "\n";
  return {"  %zero = dfg.constant dense<0.0> : " + loss.type() + "\n  %one = dfg.constant dense<1.0> : " + wide.type() +
              "\n  %0 = " + unary("cast %a {to = f32}", x, wide) + "  %1 = " +
              unary("log_softmax %0 {dim = 1 : i64}", wide, wide) + "  %2 = dfg.iota {dim = 1 : i64} : () -> " +
              numbers.type() + "\n  %3 = dfg.compare %2, %b {comparison = #dfg.comparison<equal>} : (" +
              numbers.type() + ", " + y.type() + ") -> " + mask.type() + "\n  %4 = dfg.select %3, %1, %zero" + select +
              "  %y0 = " + unary("reduce %4 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0, 1>}", wide, loss) +
              "  %5 = dfg.select %3, %one, %zero" + select + "  %6 = " +
              unary("reduce %5 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims}", wide, each) +
              "  %7 = " + unary("exp %1", wide, wide) + "  %8 = dfg.mul %7, %6 : (" + wide.type() + ", " + each.type() +
              ") -> " + wide.type() + "\n  %9 = dfg.sub %8, %5" + binary +
              "  %y1 = " + unary("cast %9 {to = " + element + "}", wide, gradient),
          {x, y},
          {loss, gradient},
          roundingOf(element) + 1e-5,
          1e-6};
}

// Rows too long for registers, each of which begins somewhere else between two multiples of what a thread loads at
// once: for all of these, in slices of longer rows, and beside operands that all rows share.
TEST(GpuRows, RaggedRows) {
  Random random(9);
  std::vector<KernelCase> cases;
  for (int64_t length : {33001, 33002, 33003, 40037})
    for (const std::string element : {"f32", "bf16", "f64"})
      cases.push_back(softmaxCase(random, {5, length}, 1, element));
  cases.push_back(softmaxCase(random, {2, 3, 33001}, 2, "f32"));
  for (int64_t start : {0, 1, 2, 3}) {
    Shape shape = {3, 33001};
    Tensor x = Tensor("f32", {3, 33007}).fill(random, -1, 1), scale = Tensor("f32", {33001}).fill(random, 1, 2);
    Tensor slice("f32", shape), y("f32", shape);
    std::vector<double> sums(3);
    forEachIndex(shape, [&](const Shape &index) {
      slice.setReal(slice.position(index), x.real({index[0], index[1] + start}));
      sums[index[0]] += slice.real(index) * scale.real(index[1]);
    });
    forEachIndex(shape, [&](const Shape &index) {
      y.setReal(y.position(index), slice.real(index) * scale.real(index[1]) - sums[index[0]]);
    });
    Tensor each("f32", {3, 1});
    cases.push_back(
        {"  %0 = " +
             unary("slice %a {starts = array<i64: 0, " + std::to_string(start) + ">, limits = array<i64: 3, " +
                       std::to_string(start + 33001) + ">, strides = array<i64: 1, 1>}",
                   x, slice) +
             "  %1 = dfg.mul %0, %b : (" + slice.type() + ", " + scale.type() + ") -> " + slice.type() + "\n  %2 = " +
             unary("reduce %1 {kind = #dfg.reduce_kind<sum>, dims = array<i64: 1>, keep_dims}", slice, each) +
             "  %y0 = dfg.sub %1, %2 : (" + slice.type() + ", " + each.type() + ") -> " + y.type(),
         {x, scale},
         {y},
         1e-5,
         2e-3});
  }
  expectKernels(cases);
}

// Sums of everything, of elements that rows make: rows that stay in registers, and longer ones, of uneven lengths.
TEST(GpuRows, Loss) {
  Random random(7);
  std::vector<KernelCase> cases;
  for (int64_t length : {1, 2, 5, 128, 129, 1000, 4099, 40001})
    for (const std::string element : {"f32", "bf16"})
      cases.push_back(lossCase(random, {length < 200 ? 300 : 3, length}, element));
  expectKernels(cases);
}

// Normalization along a dimension that is not the last: neighbouring threads have neighbouring groups.
TEST(GpuRows, SoftmaxOfColumns) {
  Random random(3);
  std::vector<KernelCase> cases;
  for (const Shape &shape : {Shape{20, 7}, Shape{64, 64}, Shape{9, 256}, Shape{700, 12}, Shape{100, 132}})
    cases.push_back(softmaxCase(random, shape, 0, "f32"));
  cases.push_back(softmaxCase(random, {3, 40, 32}, 1, "f32"));
  cases.push_back(softmaxCase(random, {3, 40, 36}, 1, "bf16"));
  expectKernels(cases);
}

// Layer normalization with scale and bias: means and variances are known to all lanes, and rows stay in registers.
TEST(GpuRows, LayerNorm) {
  Random random(4);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "bf16"})
    for (int64_t length : {1, 7, 64, 96, 768, 1600, 5000}) {
      int64_t rows = 5;
      Tensor x = Tensor(element, {rows, length}).fill(random, -2, 5), y(element, {rows, length});
      Tensor scale = Tensor(element, {length}).fill(random, 0.5, 2),
             bias = Tensor(element, {length}).fill(random, -1, 1);
      for (int64_t r = 0; r < rows; ++r) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < length; ++i)
          mean += x.real({r, i}) / static_cast<double>(length);
        for (int64_t i = 0; i < length; ++i)
          variance += std::pow(x.real({r, i}) - mean, 2) / static_cast<double>(length);
        for (int64_t i = 0; i < length; ++i)
          y.setReal(y.position({r, i}),
                    (x.real({r, i}) - mean) / std::sqrt(variance + 1e-5) * scale.real(i) + bias.real(i));
      }
      std::string t = x.type(), s = scale.type();
      double unit = element == "bf16" ? 0.05 : 2e-5;
      cases.push_back({"  %0 = dfg.layer_norm %a {dims = array<i64: 1>, epsilon = 1.0e-5 : f64} : (" + t + ") -> " + t +
                           "\n  %1 = dfg.mul %0, %b : (" + t + ", " + s + ") -> " + t + "\n  %y0 = dfg.add %1, %c : (" +
                           t + ", " + s + ") -> " + t,
                       {x, scale, bias},
                       {y},
                       unit,
                       unit});
    }
  expectKernels(cases);
}

/// A sum over `dims` of the squares of a tensor, plus one.
KernelCase sumCase(Random &random, const Shape &shape, const Shape &dims, const std::string &element) {
  Tensor x = Tensor(element, shape).fill(random, -1, 1);
  Shape kept = shape;
  for (int64_t dim : dims)
    kept[dim] = 1;
  Tensor y(element, kept);
  std::vector<double> sums(y.size(), 1);
  double terms = 1;
  for (int64_t dim : dims)
    terms *= static_cast<double>(shape[dim]);
  forEachIndex(shape, [&](const Shape &index) {
    Shape to = index;
    for (int64_t dim : dims)
      to[dim] = 0;
    sums[y.position(to)] += x.real(index) * x.real(index);
  });
  for (int64_t i = 0; i < y.size(); ++i)
    y.setReal(i, sums[i]);
  std::string list;
  for (int64_t dim : dims)
    list += (list.empty() ? "" : ", ") + std::to_string(dim);
  // f16 and bf16 are squared in their own type.
  double square = element == "f32" || element == "f64" ? 0 : roundingOf(element);
  return {"  %0 = dfg.mul %a, %a : (" + x.type() + ", " + x.type() + ") -> " + x.type() +
              "\n  %1 = dfg.reduce %0 {kind = #dfg.reduce_kind<sum>, dims = array<i64: " + list + ">, keep_dims} : (" +
              x.type() + ") -> " + y.type() + "\n  %2 = dfg.constant dense<1.0> : " + y.type() +
              "\n  %y0 = dfg.add %1, %2 : (" + y.type() + ", " + y.type() + ") -> " + y.type(),
          {x},
          {y},
          4 * roundingOf(element) + square + std::sqrt(terms) * (element == "f64" ? 1e-15 : 8e-7),
          0};
}

// Few ragged rows, which several blocks share.
TEST(GpuRows, RaggedSums) {
  Random random(10);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "bf16"})
    for (int64_t length : {70001, 200003})
      cases.push_back(sumCase(random, {3, length}, {1}, element));
  cases.push_back(sumCase(random, {300001}, {0}, "f32"));
  expectKernels(cases);
}

// Sums of columns, as of the gradients of biases: columns by warps and less, rows by lanes, long ones by several
// blocks.
TEST(GpuRows, SumsOfColumns) {
  Random random(5);
  std::vector<KernelCase> cases;
  for (const Shape &shape : {Shape{1, 5}, Shape{3, 1000}, Shape{7, 33}, Shape{129, 10}, Shape{1000, 64},
                             Shape{2000, 40}, Shape{513, 256}, Shape{5000, 3}, Shape{30000, 5}})
    cases.push_back(sumCase(random, shape, {0}, "f32"));
  cases.push_back(sumCase(random, {300, 96}, {0}, "bf16"));
  cases.push_back(sumCase(random, {7, 20, 96}, {0, 1}, "f32"));
  expectKernels(cases);
}

// The statistics of batch normalization: dimensions in front of and behind the one that stays.
TEST(GpuRows, SumsAroundAChannel) {
  Random random(6);
  std::vector<KernelCase> cases;
  for (const Shape &shape : {Shape{2, 3, 5, 7}, Shape{4, 16, 8, 8}, Shape{8, 3, 56, 56}, Shape{40, 2, 30, 31}})
    cases.push_back(sumCase(random, shape, {0, 2, 3}, "f32"));
  expectKernels(cases);
}

// One result of very many elements: blocks leave partial results, and a second launch joins them.
TEST(GpuRows, FewResults) {
  Random random(7);
  std::vector<KernelCase> cases;
  cases.push_back(sumCase(random, {100003}, {0}, "f32"));
  cases.push_back(sumCase(random, {400, 512}, {0, 1}, "f32"));
  cases.push_back(sumCase(random, {3, 70001}, {1}, "f32"));
  cases.push_back(sumCase(random, {2, 65536}, {1}, "f16"));
  cases.push_back(sumCase(random, {70000}, {0}, "f64"));
  expectKernels(cases);
}

// Transposes, whole and uneven against the tiles in which they are done.
TEST(GpuRows, Transposes) {
  Random random(8);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "i8", "bf16", "f64"})
    for (const Shape &shape : {Shape{64, 64}, Shape{33, 100}, Shape{5, 300}, Shape{257, 31}}) {
      Tensor x = Tensor(element, shape).fill(random, -50, 50), y(element, {shape[1], shape[0]});
      forEachIndex(shape, [&](const Shape &index) { y.setReal(y.position({index[1], index[0]}), x.real(index)); });
      cases.push_back({"  %y0 = " + unary("transpose %a {permutation = array<i64: 1, 0>}", x, y), {x}, {y}});
    }
  Tensor x = Tensor("f32", {3, 40, 4, 33}).fill(random, -9, 9), y("f32", {3, 4, 40, 33}), z("f32", {3, 4, 33, 40});
  forEachIndex(x.getShape(), [&](const Shape &index) {
    y.setReal(y.position({index[0], index[2], index[1], index[3]}), x.real(index));
    z.setReal(z.position({index[0], index[2], index[3], index[1]}), x.real(index));
  });
  cases.push_back({"  %y0 = " + unary("transpose %a {permutation = array<i64: 0, 2, 1, 3>}", x, y), {x}, {y}});
  cases.push_back({"  %y0 = " + unary("transpose %a {permutation = array<i64: 0, 2, 3, 1>}", x, z), {x}, {z}});
  expectKernels(cases);
}

// Elementwise operators on numbers of elements that are no multiples of a vector, and on operands that repeat.
TEST(GpuRows, Elementwise) {
  Random random(9);
  std::vector<KernelCase> cases;
  for (int64_t size : {1, 2, 3, 31, 257, 4096, 100001, 300000}) {
    Tensor x = Tensor("f32", {size}).fill(random, -2, 2), y = x;
    for (int64_t i = 0; i < size; ++i)
      y.setReal(i, std::fabs(x.real(i)) + x.real(i));
    std::string t = x.type();
    cases.push_back(
        {"  %0 = dfg.abs %a : (" + t + ") -> " + t + "\n  %y0 = dfg.add %0, %a : (" + t + ", " + t + ") -> " + t,
         {x},
         {y}});
  }
  for (const Shape &shape : {Shape{700, 384}, Shape{301, 77}}) {
    Tensor x = Tensor("bf16", shape).fill(random, -2, 2), bias = Tensor("bf16", {shape[1]}).fill(random, -2, 2), y = x;
    forEachIndex(shape, [&](const Shape &index) { y.setReal(y.position(index), x.real(index) + bias.real(index[1])); });
    std::string t = x.type();
    cases.push_back({"  %y0 = dfg.add %a, %b : (" + t + ", " + bias.type() + ") -> " + t, {x, bias}, {y}});
  }
  expectKernels(cases);
}

GpuKernelInfo infoOf(const std::string &body, const std::vector<Tensor> &inputs, const std::vector<Tensor> &outputs) {
  GpuKernels kernels(graphText("k", {body, inputs, outputs}), GpuOptions());
  return kernels ? kernels.getObject().kernels[0] : GpuKernelInfo();
}

// What belongs together is one launch without memory of its own: values stay in registers, and the parts of a
// concatenation, which do not need each other, run side by side.
TEST(GpuRows, OneLaunch) {
  Tensor x("f32", {64, 1024}), wide("f32", {64, 3072}), scale("f32", {1024});
  std::string t = x.type(), s = scale.type();
  const std::vector<GpuKernelInfo> infos = {
      infoOf("  %y0 = " + unary("softmax %a {dim = 1 : i64}", x, x), {x}, {x}),
      infoOf("  %0 = dfg.layer_norm %a {dims = array<i64: 1>, epsilon = 1.0e-5 : f64} : (" + t + ") -> " + t +
                 "\n  %y0 = dfg.mul %0, %b : (" + t + ", " + s + ") -> " + t,
             {x, scale}, {x}),
      infoOf("  %y0 = dfg.concat %a, %b, %c {dim = 1 : i64} : (" + t + ", " + t + ", " + t + ") -> " + wide.type(),
             {x, x, x}, {wide})};
  for (const GpuKernelInfo &info : infos) {
    EXPECT_EQ(info.launches.size(), 1u);
    EXPECT_EQ(info.scratchBytes, 0u);
  }
}

// A long sum of few results keeps the GPU busy: its blocks are many, and a second launch joins what they leave.
TEST(GpuRows, LongSumsAreDivided) {
  Tensor x("f32", {8192, 768}), y("f32", {768});
  GpuKernelInfo info =
      infoOf("  %y0 = " + unary("reduce %a {kind = #dfg.reduce_kind<sum>, dims = array<i64: 0>}", x, y), {x}, {y});
  ASSERT_EQ(info.launches.size(), 2u);
  EXPECT_GE(info.launches[0].blocks * info.launches[0].threads, 64 * 1024);
  EXPECT_LT(info.launches[1].blocks, info.launches[0].blocks);
}

// Elements beyond 2^31 are found: of a tensor that takes addresses, but, as nobody writes the most of it, no memory.
TEST(GpuRows, BeyondThirtyTwoBits) {
  constexpr int64_t size = (int64_t(1) << 31) + 4096, start = size - 64, count = 48;
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char *input = static_cast<char *>(memory);
  alignas(64) char output[64] = {};
  for (int64_t i = 0; i < count; ++i)
    input[start + i] = static_cast<char>(i - 20);
  std::string from = "tensor<" + std::to_string(size) + "xi8>", to = "tensor<" + std::to_string(count) + "xi8>";
  GpuKernels kernels("dfg.graph @k(%a: " + from + ") -> (" + to + ") {\n  %0 = dfg.slice %a {starts = array<i64: " +
                         std::to_string(start) + ">, limits = array<i64: " + std::to_string(start + count) +
                         ">, strides = array<i64: 1>} : (" + from + ") -> " + to + "\n  %1 = dfg.abs %0 : (" + to +
                         ") -> " + to + "\n  dfg.return %1 : " + to + "\n}",
                     GpuOptions());
  ASSERT_TRUE(static_cast<bool>(kernels));
  ptx::Memory allowed;
  allowed.allow(input, size, /*writable=*/false);
  allowed.allow(output, sizeof(output));
  kernels.run(0, {input, output}, allowed);
  for (int64_t i = 0; i < count; ++i)
    EXPECT_EQ(output[i], std::abs(static_cast<int>(i) - 20));
  munmap(memory, size);
}

// The text depends on the kernels alone, not on the threads that compiled them or on the run.
TEST(GpuRows, SameText) {
  std::string text;
  for (int64_t i = 0; i < 20; ++i) {
    Tensor x("f32", {5 + i, 33});
    text += graphText("k" + std::to_string(i), {"  %y0 = " + unary("tanh %a", x, x), {x}, {x}});
  }
  GpuOptions one, four;
  four.threads = 4;
  GpuKernels first(text, one), second(text, four), third(text, four);
  EXPECT_FALSE(first.getObject().ptx.empty());
  EXPECT_EQ(first.getObject().ptx, second.getObject().ptx);
  EXPECT_EQ(second.getObject().ptx, third.getObject().ptx);
}

} // namespace
} // namespace cleave::test
