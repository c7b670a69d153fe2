// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Library kernels in a plan that the cuda driver runs on a simulated CUDA: on streams that run late and in captured
// graphs, with algorithms chosen while the plan's own buffers hold what steps need.

#include "../PlanBuilder.h"
#include "SimulatedCuda.h"
#include "SimulatedLibraries.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

constexpr int64_t rows = 3, depth = 4, columns = 5;

std::unique_ptr<fb::TensorTypeT> typeOf(std::vector<int64_t> shape) {
  auto type = std::make_unique<fb::TensorTypeT>();
  type->element = fb::ElementType::F32;
  type->shape = std::move(shape);
  return type;
}

std::unique_ptr<fb::AttributeT> attribute(const char *name, std::vector<int64_t> values) {
  auto made = std::make_unique<fb::AttributeT>();
  made->name = name;
  made->ints = std::move(values);
  return made;
}

uint32_t addKernel(PlanBuilder &builder, const char *name, fb::LibraryKernelT library,
                   std::vector<std::vector<int64_t>> inputs, std::vector<int64_t> output, uint64_t scratchBytes) {
  auto kernel = std::make_unique<fb::KernelT>();
  kernel->name = name;
  for (auto &shape : inputs)
    kernel->inputs.push_back(typeOf(std::move(shape)));
  kernel->outputs.push_back(typeOf(std::move(output)));
  kernel->scratch_bytes = scratchBytes;
  kernel->body.Set(std::move(library));
  builder.plan.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(builder.plan.kernels.size() - 1);
}

/// relu(x w + b), to which the kernel adds what its own buffer holds from step to step; then the largest of two columns
/// each. w is 0.5 and b is -1.
PlanBuilder productPlan() {
  PlanBuilder builder("cuda");
  builder.entry().samples = rows * depth;
  uint32_t device = builder.device("gpu0");
  fb::LibraryKernelT product;
  product.library = "cublaslt";
  product.operation = "matmul";
  for (const char *kind : {"sum", "relu"}) {
    auto post = std::make_unique<fb::PostOpT>();
    post->kind = kind;
    post->argument = std::string(kind) == "sum" ? 3 : -1;
    product.post_ops.push_back(std::move(post));
  }
  uint32_t multiply =
      addKernel(builder, "product", std::move(product), {{rows, depth}, {depth, columns}, {columns}, {rows, columns}},
                {rows, columns}, 1 << 20);
  fb::LibraryKernelT pooling;
  pooling.library = "cudnn";
  pooling.operation = "pooling.max";
  pooling.attributes.push_back(attribute("kernel", {2}));
  uint32_t pool = addKernel(builder, "pooling", std::move(pooling), {{1, rows, columns}}, {1, rows, columns - 1}, 0);

  uint32_t w = builder.constant("w", depth * columns, 0.5), b = builder.constant("b", columns, -1);
  uint32_t kept = builder.constant("kept", rows * columns, 0);
  builder.input("x", rows * depth);
  builder.output("y", rows * (columns - 1));
  auto buffer = [&](const char *name, int64_t length, std::vector<int64_t> shape) {
    uint32_t flat = builder.buffer(device, name, length);
    uint64_t offset = builder.program(device).buffers[flat]->offset;
    uint32_t shaped = builder.bufferAt(device, name, length, offset, static_cast<int32_t>(flat));
    builder.program(device).buffers[shaped]->type = typeOf(std::move(shape));
    return std::pair(flat, shaped);
  };
  auto [xFlat, x] = buffer("x", rows * depth, {rows, depth});
  auto [wFlat, wShaped] = buffer("w", depth * columns, {depth, columns});
  auto [bFlat, bShaped] = buffer("b", columns, {columns});
  auto [sumFlat, sum] = buffer("sum", rows * columns, {rows, columns});
  uint32_t image = builder.bufferAt(device, "image", rows * columns, builder.program(device).buffers[sumFlat]->offset,
                                    static_cast<int32_t>(sumFlat));
  builder.program(device).buffers[image]->type = typeOf({1, rows, columns});
  auto [yFlat, y] = buffer("y", rows * (columns - 1), {1, rows, columns - 1});
  uint32_t scratch = builder.buffer(device, "scratch", ElementType::U8, {1 << 20});
  builder.keep(device, w, wFlat);
  builder.keep(device, b, bFlat);
  builder.keep(device, kept, sumFlat);
  Point ready = builder.loadInput(device, 0, xFlat);
  Point made = builder.call(device, "multiply", multiply, {x, wShaped, bShaped, sum, sum, scratch}, {ready});
  Point pooled = builder.call(device, "pool", pool, {image, y}, {made});
  builder.storeOutput(device, 0, yFlat, {pooled});
  return builder;
}

/// The same in plain loops.
struct Expected {
  std::vector<double> kept = std::vector<double>(rows * columns, 0);
  std::vector<double> step(const std::vector<float> &x) {
    std::vector<double> y;
    for (int64_t i = 0; i != rows; ++i)
      for (int64_t j = 0; j != columns; ++j) {
        double sum = kept[i * columns + j] - 1;
        for (int64_t k = 0; k != depth; ++k)
          sum += x[i * depth + k] * 0.5;
        kept[i * columns + j] = std::max(sum, 0.0);
      }
    for (int64_t i = 0; i != rows; ++i)
      for (int64_t j = 0; j + 1 != columns; ++j)
        y.push_back(std::max(kept[i * columns + j], kept[i * columns + j + 1]));
    return y;
  }
};

// Choosing algorithms runs kernels on the plan's own buffers: the sum that a step adds to must be what it was. In
// graphs the same kernels run again, with the addresses that were captured.
//
// Every other seed has a cuBLASLt without epilogues, in whose place a kernel of the driver follows on the stream.
TEST(CudaLibraryPlan, RunsStepsAsLoopsDo) {
  for (uint64_t seed = 0; seed != 8; ++seed)
    for (bool captures : {true, false}) {
      simulated::libraryRefusals = {};
      if (seed % 2 == 1)
        simulated::libraryRefusals.heuristic = {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS};
      simulated::Options options;
      options.seed = seed;
      options.captures = captures;
      simulated::Cuda cuda(options);
      replaceCudaLibrary(&simulated::cublasLt());
      replaceCudaLibrary(&simulated::cudnn());
      Plan plan = productPlan().read();
      Error unsound = verifyPlan(plan);
      ASSERT_FALSE(unsound) << unsound.text();
      MemorySource values;
      auto executor = Executor::create(plan, "main", values);
      ASSERT_TRUE(executor) << executor.error().text();
      Expected expected;
      for (int step = 0; step != 5; ++step) {
        HostTensor input = *HostTensor::allocate({runtime::ElementType::F32, {rows * depth}, std::nullopt});
        HostTensor output = *HostTensor::allocate({runtime::ElementType::F32, {rows * (columns - 1)}, std::nullopt});
        std::vector<float> x;
        for (float &element : input.as<float>())
          x.push_back(element = 0.25f * static_cast<float>((step * 7 + static_cast<int>(x.size()) * 5) % 11) - 1);
        auto ticket = (*executor)->submit(0, {input}, {output});
        ASSERT_TRUE(ticket) << ticket.error().text();
        Error error = (*executor)->wait(*ticket).error();
        ASSERT_FALSE(error) << error.text();
        std::vector<double> wanted = expected.step(x);
        auto given = output.as<float>();
        for (size_t i = 0; i != wanted.size(); ++i)
          ASSERT_FLOAT_EQ(given[i], wanted[i]) << "seed " << seed << ", step " << step << ", element " << i;
      }
      if (captures) {
        EXPECT_GT(cuda.graphLaunches(), 0u);
      }
      executor->reset();
      EXPECT_EQ(cuda.misuse(), "");
    }
}

} // namespace
} // namespace cleave::runtime::test
