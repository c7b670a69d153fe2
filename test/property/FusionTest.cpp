// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several operators in one kernel: what is fused computes the same, nothing needless is stored, work can be divided,
// and the object is always the same.

#include "test/property/KernelCases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cleave::test {
namespace {

/// Writes random graphs of elementwise operators, reductions and movements on one matrix, computing their values
/// alongside.
class RandomGraph {
public:
  RandomGraph(Random &random, const Shape &shape) : random(random), shape(shape) {
    for (int i = 0; i < 2; ++i)
      add(Tensor("f32", shape).fill(random, -2, 2), "");
    kernelCase.inputs = values;
  }

  void grow() {
    switch (random() % 8) {
    case 0:
      return unary("tanh", "", [](double x) { return std::tanh(x); });
    case 1:
      return unary("abs", "", [](double x) { return std::fabs(x); });
    case 2:
      return binary("add", [](double a, double b) { return a + b; });
    case 3:
      return binary("mul", [](double a, double b) { return a * b; });
    case 4:
      return binary("max", [](double a, double b) { return std::fmax(a, b); });
    case 5:
      return reduceAndRepeat(random() % 2);
    case 6:
      return reverse();
    default:
      return unary("clamp", "{low = -3.0 : f64, high = 2.5 : f64}",
                   [](double x) { return std::fmin(std::fmax(x, -3.0), 2.5); });
    }
  }

  /// The case whose outputs are the last value and, where `two`, one before it.
  KernelCase finish(bool two) {
    std::vector<size_t> outputs = {values.size() - 1};
    if (two)
      outputs.push_back(2 + random() % (values.size() - 2));
    for (size_t i = 0; i < outputs.size(); ++i) {
      // A reshape to the same shape gives the value its output's name.
      kernelCase.body +=
          "  %y" + std::to_string(i) + " = dfg.reshape " + name(outputs[i]) + " : (" + type() + ") -> " + type() + "\n";
      kernelCase.expected.push_back(values[outputs[i]]);
    }
    kernelCase.relative = 1e-4;
    kernelCase.absolute = 1e-4;
    return kernelCase;
  }

private:
  std::string type() const { return values[0].type(); }
  std::string name(size_t value) const { return value == 0 ? "%a" : value == 1 ? "%b" : "%v" + std::to_string(value); }
  size_t pick() { return values.size() - 1 - random() % std::min<size_t>(values.size(), 3); }

  void add(Tensor value, const std::string &operation) {
    values.push_back(std::move(value));
    if (!operation.empty())
      kernelCase.body += "  " + name(values.size() - 1) + " = " + operation + "\n";
  }

  template <typename Formula> void unary(const std::string &operation, const std::string &attributes, Formula formula) {
    size_t from = pick();
    Tensor result("f32", shape);
    for (int64_t i = 0; i < result.size(); ++i)
      result.setReal(i, formula(values[from].real(i)));
    add(result, "dfg." + operation + " " + name(from) + " " + attributes + " : (" + type() + ") -> " + type());
  }

  template <typename Formula> void binary(const std::string &operation, Formula formula) {
    size_t left = pick(), right = pick();
    Tensor result("f32", shape);
    for (int64_t i = 0; i < result.size(); ++i)
      result.setReal(i, formula(values[left].real(i), values[right].real(i)));
    add(result, "dfg." + operation + " " + name(left) + ", " + name(right) + " : (" + type() + ", " + type() + ") -> " +
                    type());
  }

  /// The largest element along a dimension, subtracted from all.
  void reduceAndRepeat(int64_t dim) {
    size_t from = pick();
    Tensor result("f32", shape);
    forEachIndex(shape, [&](const Shape &index) {
      double best = -INFINITY;
      for (int64_t i = 0; i < shape[dim]; ++i) {
        Shape at = index;
        at[dim] = i;
        best = std::fmax(best, values[from].real(at));
      }
      result.setReal(result.position(index), values[from].real(index) - best);
    });
    Shape reduced = shape;
    reduced[dim] = 1;
    std::string reducedType = Tensor("f32", reduced).type(), reducedName = "%r" + std::to_string(values.size());
    kernelCase.body += "  " + reducedName + " = dfg.reduce " + name(from) +
                       " {kind = #dfg.reduce_kind<max>, dims = array<i64: " + std::to_string(dim) +
                       ">, keep_dims} : (" + type() + ") -> " + reducedType + "\n";
    add(result, "dfg.sub " + name(from) + ", " + reducedName + " : (" + type() + ", " + reducedType + ") -> " + type());
  }

  void reverse() {
    size_t from = pick();
    Tensor result("f32", shape);
    forEachIndex(shape, [&](const Shape &index) {
      Shape at = index;
      at[1] = shape[1] - 1 - index[1];
      result.setReal(result.position(index), values[from].real(at));
    });
    add(result, "dfg.reverse " + name(from) + " {dims = array<i64: 1>} : (" + type() + ") -> " + type());
  }

  Random &random;
  Shape shape;
  std::vector<Tensor> values;
  KernelCase kernelCase;
};

// Random graphs: the optimized code agrees with the reference and with the formulas, whatever was fused and divided.
TEST(Fusion, RandomGraphs) {
  Random random(41);
  std::vector<KernelCase> cases;
  for (int i = 0; i < 60; ++i) {
    RandomGraph graph(random, {1 + static_cast<int64_t>(random() % 40), 1 + static_cast<int64_t>(random() % 40)});
    for (int k = 0; k < 2 + i % 8; ++k)
      graph.grow();
    cases.push_back(graph.finish(i % 3 == 0));
  }
  expectKernels(cases);
}

NativeKernelInfo infoOf(const std::string &body, const std::vector<Tensor> &inputs,
                        const std::vector<Tensor> &outputs) {
  LoadedKernels kernels(graphText("k", {body, inputs, outputs}), NativeOptions());
  return kernels ? kernels.getObject().kernels[0] : NativeKernelInfo{"", -1, 0};
}

// A chain of elementwise operators needs no memory of its own and can be divided anywhere.
TEST(Fusion, ChainsStoreNothing) {
  Tensor x("f32", {8, 100});
  std::string t = x.type();
  NativeKernelInfo info = infoOf("  %0 = dfg.exp %a : (" + t + ") -> " + t + "\n  %1 = dfg.add %0, %a : (" + t + ", " +
                                     t + ") -> " + t + "\n  %y0 = dfg.mul %1, %0 : (" + t + ", " + t + ") -> " + t,
                                 {x}, {x});
  EXPECT_EQ(info.scratchBytes, 0u);
  EXPECT_EQ(info.parallelExtent, 800);
}

// Softmax keeps a row's maximum and sum on the stack and its powers in the result: rows are divided among cores.
TEST(Fusion, SoftmaxRunsRowByRow) {
  Tensor x("f32", {6, 4, 100});
  NativeKernelInfo info =
      infoOf("  %y0 = dfg.softmax %a {dim = 2 : i64} : (" + x.type() + ") -> " + x.type(), {x}, {x});
  EXPECT_EQ(info.scratchBytes, 0u);
  EXPECT_EQ(info.parallelExtent, 24);
}

// Layer normalization with scale and bias is one pass over rows.
TEST(Fusion, LayerNormRunsRowByRow) {
  Tensor x("f32", {5, 96}), scale("f32", {96});
  std::string t = x.type(), s = scale.type();
  NativeKernelInfo info = infoOf("  %0 = dfg.layer_norm %a {dims = array<i64: 1>, epsilon = 1.0e-5 : f64} : (" + t +
                                     ") -> " + t + "\n  %1 = dfg.mul %0, %b : (" + t + ", " + s + ") -> " + t +
                                     "\n  %y0 = dfg.add %1, %c : (" + t + ", " + s + ") -> " + t,
                                 {x, scale, scale}, {x});
  EXPECT_EQ(info.scratchBytes, 0u);
  EXPECT_EQ(info.parallelExtent, 5);
}

// A value that several results need, and inputs that are returned unchanged, are copied, never lost.
TEST(Fusion, SharedResults) {
  Random random(42);
  Tensor x = Tensor("f32", {7, 9}).fill(random, -2, 2), y = x;
  for (int64_t i = 0; i < y.size(); ++i)
    y.setReal(i, std::fabs(x.real(i)));
  std::string t = x.type();
  KernelCase kernelCase{"  %y0 = dfg.abs %a : (" + t + ") -> " + t + "\n  %y1 = dfg.reshape %y0 : (" + t + ") -> " + t +
                            "\n  %y2 = dfg.reshape %a : (" + t + ") -> " + t,
                        {x},
                        {y, y, x}};
  expectKernels({kernelCase});
}

// Constants of several values, truth values among them, lie in the object.
TEST(Fusion, Constants) {
  Tensor x("f32", {3}), y("f32", {3});
  for (int64_t i = 0; i < 3; ++i) {
    x.setReal(i, 10);
    y.setReal(i, i == 1 ? 10 : static_cast<double>(i) + 1);
  }
  KernelCase kernelCase{"  %0 = dfg.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>\n"
                        "  %1 = dfg.constant dense<[false, true, false]> : tensor<3xi1>\n"
                        "  %y0 = dfg.select %1, %a, %0 : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>",
                        {x},
                        {y}};
  expectKernels({kernelCase});
}

// The object's bytes depend on the kernels alone, not on the threads that compiled them or on the run.
TEST(Fusion, SameBytes) {
  std::string text;
  Random random(43);
  for (int i = 0; i < 20; ++i) {
    RandomGraph graph(random, {5, 7});
    for (int k = 0; k < 4; ++k)
      graph.grow();
    text += graphText("k" + std::to_string(i), graph.finish(false));
  }
  NativeOptions one, four;
  four.threads = 4;
  LoadedKernels first(text, one), second(text, four), third(text, four);
  EXPECT_FALSE(first.getObject().image.empty());
  EXPECT_EQ(first.getObject().image, second.getObject().image);
  EXPECT_EQ(second.getObject().image, third.getObject().image);
}

// A processor that LLVM does not know is refused by name.
TEST(Fusion, UnknownProcessor) {
  mlir::MLIRContext context;
  NativeOptions options;
  options.cpu = "abacus";
  auto object = compileNativeKernels(context, {}, options);
  ASSERT_FALSE(static_cast<bool>(object));
  EXPECT_EQ(llvm::toString(object.takeError()),
            "native kernels expect native or an x86-64 processor as LLVM names it, as x86-64-v3, got 'abacus'");
}

// Code for an older processor names no feature that it lacks.
TEST(Fusion, OlderProcessor) {
  Tensor x("f32", {100});
  NativeOptions options;
  options.cpu = "x86-64-v3";
  LoadedKernels kernels(graphText("k", {"  %y0 = dfg.exp %a : (" + x.type() + ") -> " + x.type(), {x}, {x}}), options);
  const std::vector<std::string> &features = kernels.getObject().features;
  EXPECT_TRUE(std::count(features.begin(), features.end(), "avx2"));
  EXPECT_FALSE(std::count(features.begin(), features.end(), "avx512f"));
  Tensor y = kernels.run(0, {x}, {x})[0];
  EXPECT_EQ(y.real(int64_t(99)), 1.0);
}

} // namespace
} // namespace cleave::test
