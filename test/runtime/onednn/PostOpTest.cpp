// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fused epilogues: each post operation on a convolution and a matrix product equals the same step after the plain
// kernel.

#include "Functions.h"
#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <dnnl.h>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

/// A kernel whose plain result the epilogues start from, in an open query.
struct Base {
  LibraryKernelQuery query;
  std::vector<Tensor> inputs;
  Tensor plain;
};

Base convolution() {
  std::vector<Tensor> inputs{pseudorandom({1, 17, 6, 6}, 1), pseudorandom({33, 17, 3, 3}, 2), pseudorandom({33}, 3)};
  LibraryKernelQuery query = openQuery("convolution", inputs, {1, 33, 6, 6});
  query.desc.ints = {{"pads_begin", {1, 1}}, {"pads_end", {1, 1}}};
  return {query, inputs, runKernel(query, inputs)};
}

Base matmul() {
  std::vector<Tensor> inputs{pseudorandom({6, 17}, 1), pseudorandom({17, 33}, 2), pseudorandom({33}, 3)};
  LibraryKernelQuery query = openQuery("matmul", inputs, {6, 33});
  return {query, inputs, runKernel(query, inputs)};
}

Tensor map(const Tensor &tensor, const std::function<double(double)> &value) {
  Tensor result = tensor;
  for (float &element : result.values)
    element = static_cast<float>(value(element));
  return result;
}

void addInput(Base &base, const Tensor &input) {
  base.inputs.push_back(input);
  base.query.desc.inputs.push_back(f32(input.shape));
  base.query.anyInputs.push_back(true);
}

/// Whether an epilogue is refused because a kernel would interpret it, as convolutions of processors without AVX2 do.
bool isInterpreted(const LibraryKernelQuery &query) {
  auto choice = oneDnnLibrary().choose(query, 1);
  if (choice || !choice.error().text().ends_with("one element after the other"))
    return false;
  EXPECT_NE(dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx2) << choice.error().text();
  return true;
}

int lastInput(const Base &base) { return static_cast<int>(base.inputs.size()) - 1; }

} // namespace

// Every elementwise name, fused.
TEST(PostOp, FusesElementwiseFunctions) {
  for (const Base &base : {convolution(), matmul()})
    for (const Function &function : functions()) {
      if (function.positive)
        continue;
      SCOPED_TRACE(base.query.desc.operation + " " + function.name);
      LibraryKernelQuery query = base.query;
      query.desc.postOps = {{function.name, function.alpha, function.beta, -1}};
      if (isInterpreted(query))
        continue;
      expectNear(runKernel(query, base.inputs), map(base.plain, function.value), 2e-5, 1e-5);
    }
}

// A residual that has a buffer of its own, of the output's shape and per channel, in a layout left open.
TEST(PostOp, FusesBinaryFunctions) {
  for (Base base : {convolution(), matmul()}) {
    Shape shape = base.plain.shape, channels(shape.size(), 1);
    channels[1] = shape[1];
    addInput(base, pseudorandom(shape, 4));
    addInput(base, pseudorandom(channels, 5));
    int last = lastInput(base);
    base.query.desc.postOps = {{"binary_add", 0, 0, last - 1}, {"relu"}, {"binary_mul", 0, 0, last}};
    if (isInterpreted(base.query))
      continue;
    Tensor expected = tabulate(shape, [&](const Shape &index) {
      double value = std::max(double(base.plain.at(index)) + base.inputs[last - 1].at(index), 0.0);
      return value * base.inputs[last].values[index[1]];
    });
    expectNear(runKernel(base.query, base.inputs), expected, 1e-5, 1e-5);
    // The residual of an earlier kernel has a layout already.
    base.query.anyInputs[last - 1] = false;
    if (shape.size() == 4)
      base.query.desc.inputs[last - 1].layout = blockedLayout(shape, 1, 16);
    auto choice = oneDnnLibrary().choose(base.query, 1);
    if (shape.size() == 4 && !choice)
      GTEST_SKIP() << "this processor's convolution takes no residual in blocks of 16: " << choice.error().text();
    Tensor actual = runChoice(*choice, base.inputs);
    expectNear(actual, expected, 1e-5, 1e-5);
  }
}

// `sum` reads the output buffer: what the harness puts there as the extra input comes back, scaled.
TEST(PostOp, AddsToTheOutput) {
  for (Base base : {convolution(), matmul()})
    for (float scale : {0.0f, 0.5f}) {
      addInput(base, pseudorandom(base.plain.shape, 4));
      base.query.desc.postOps = {{"sum", scale, 0, lastInput(base)}, {"relu"}};
      Tensor expected = tabulate(base.plain.shape, [&](const Shape &index) {
        return std::max(base.plain.at(index) + (scale == 0 ? 1.0 : scale) * base.inputs.back().at(index), 0.0);
      });
      auto choice = oneDnnLibrary().choose(base.query, 1);
      ASSERT_TRUE(choice) << choice.error().text();
      EXPECT_EQ(choice->desc.inputs.back(), choice->desc.outputs[0]);
      expectNear(runKernel(base.query, base.inputs), expected, 1e-5, 1e-5);
      base.inputs.pop_back();
      base.query.desc.inputs.pop_back();
      base.query.anyInputs.pop_back();
    }
}

// A convolution by way of a matrix product, as oneDNN computes row-major images, interprets post operations one element
// after the other, a hundred times slower than a kernel of ours behind it; a rectifier and a sum it does not. A matrix
// product computes all in its inner loop.
TEST(PostOp, IsRefusedWhereItIsInterpreted) {
  std::vector<Tensor> inputs{pseudorandom({1, 64, 14, 14}, 1), pseudorandom({64, 16, 1, 1}, 2)};
  LibraryKernelQuery query = openQuery("convolution", inputs, {1, 64, 14, 14});
  query.desc.ints["groups"] = {4};
  query.anyInputs = {false, true};
  query.anyOutputs = {};
  auto plain = oneDnnLibrary().choose(query, 1);
  ASSERT_TRUE(plain) << plain.error().text();
  ASSERT_NE(plain->desc.implementation.find("gemm"), std::string::npos) << plain->desc.implementation;
  query.desc.postOps = {{"relu"}};
  EXPECT_TRUE(oneDnnLibrary().choose(query, 1));
  query.desc.inputs.push_back(f32({1, 64, 14, 14}));
  for (const LibraryPostOp &postOp : {LibraryPostOp{"binary_add", 0, 0, 2}, LibraryPostOp{"sigmoid"}}) {
    LibraryKernelQuery asked = query;
    asked.desc.postOps = {postOp};
    if (postOp.argument < 0)
      asked.desc.inputs.pop_back();
    auto choice = oneDnnLibrary().choose(asked, 1);
    ASSERT_FALSE(choice) << choice->desc.implementation;
    EXPECT_EQ(choice.error().status(), Status::Unsupported);
    EXPECT_NE(
        choice.error().message().find("computes post operation \"" + postOp.kind + "\" one element after the other"),
        std::string::npos)
        << choice.error().message();
  }
  Base product = matmul();
  addInput(product, pseudorandom(product.plain.shape, 4));
  product.query.desc.postOps = {{"binary_add", 0, 0, lastInput(product)}};
  EXPECT_TRUE(oneDnnLibrary().choose(product.query, 1));
}

// A buffer of its own for the input of `sum` would lose the addition silently.
TEST(PostOp, RefusesSumOutsideTheOutput) {
  Base base = matmul();
  addInput(base, pseudorandom(base.plain.shape, 4));
  base.query.desc.postOps = {{"sum", 1, 0, lastInput(base)}};
  base.query.anyInputs = {};
  base.query.anyOutputs = {};
  auto choice = oneDnnLibrary().choose(base.query, 1);
  ASSERT_TRUE(choice) << choice.error().text();
  auto kernel = createOneDnnProvider()->load(choice->desc, 1);
  ASSERT_TRUE(kernel) << kernel.error().text();
  std::vector<std::vector<float>> buffers(6, std::vector<float>(1 << 16));
  void *arguments[] = {buffers[0].data(), buffers[1].data(), buffers[2].data(),
                       buffers[3].data(), buffers[4].data(), buffers[5].data()};
  Error error = (*kernel)->run(arguments);
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("expects input 3 in the output's buffer"), std::string::npos) << error.message();
}
