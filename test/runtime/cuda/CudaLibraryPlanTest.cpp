// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Library kernels in a plan of the cuda driver, on simulated libraries.

#include "../PlanBuilder.h"
#include "SimulatedCuda.h"
#include "SimulatedLibraries.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"

#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

std::unique_ptr<fb::TensorTypeT> matrix(int64_t rows, int64_t columns) {
  auto type = std::make_unique<fb::TensorTypeT>();
  type->element = fb::ElementType::F32;
  type->shape = {rows, columns};
  return type;
}

/// y = x w + c, where y takes the place of c: x is [2, 3], w [3, 2].
PlanBuilder productPlan() {
  PlanBuilder builder("cuda");
  uint32_t device = builder.device("a");
  std::vector<uint32_t> arguments;
  std::vector<Point> loaded;
  for (auto [name, rows, columns] : {std::tuple("x", 2, 3), std::tuple("w", 3, 2), std::tuple("c", 2, 2)}) {
    uint32_t flat = builder.buffer(device, name, rows * columns);
    loaded.push_back(builder.loadInput(device, builder.input(name, rows * columns), flat));
    uint64_t offset = builder.program(device).buffers[flat]->offset;
    arguments.push_back(builder.bufferAt(device, name, rows * columns, offset, static_cast<int32_t>(flat)));
    builder.program(device).buffers.back()->type = matrix(rows, columns);
  }
  auto kernel = std::make_unique<fb::KernelT>();
  kernel->name = "product";
  kernel->inputs.push_back(matrix(2, 3));
  kernel->inputs.push_back(matrix(3, 2));
  kernel->inputs.push_back(matrix(2, 2));
  kernel->outputs.push_back(matrix(2, 2));
  fb::LibraryKernelT library;
  library.library = "cublaslt";
  library.operation = "matmul";
  auto sum = std::make_unique<fb::PostOpT>();
  sum->kind = "sum";
  sum->argument = 2;
  library.post_ops.push_back(std::move(sum));
  kernel->body.Set(std::move(library));
  builder.plan.kernels.push_back(std::move(kernel));
  arguments.push_back(arguments.back());
  Point done = builder.call(device, "product", 0, arguments, {loaded.back()});
  builder.storeOutput(device, builder.output("y", 4), 4, {done});
  return builder;
}

// Measuring algorithms runs a kernel many times, with its real arguments: what it adds to must still be added to once.
// The choice is made in the first step, and graphs keep it.
TEST(CudaLibraryPlanTest, ChoosesWithoutTraces) {
  for (uint64_t seed = 0; seed != 6; ++seed) {
    simulated::Cuda cuda({.seed = seed});
    replaceCudaLibrary<CublasLt>(&simulated::cublasLt());
    {
      Plan plan = productPlan().read();
      Error unsound = verifyPlan(plan);
      ASSERT_FALSE(unsound) << unsound.text();
      MemorySource none;
      auto executor = Executor::create(plan, "main", none);
      ASSERT_TRUE(executor) << executor.error().text();
      for (unsigned step = 0; step != 4; ++step) {
        std::vector<HostTensor> inputs = *allocateTensors(plan->entries[0].inputs);
        for (HostTensor &input : inputs)
          for (size_t i = 0; i != input.as<float>().size(); ++i)
            input.as<float>()[i] = static_cast<float>(i + step + 1);
        std::vector<HostTensor> outputs = *allocateTensors(plan->entries[0].outputs);
        auto times = (*executor)->wait(*(*executor)->submit(inputs, outputs));
        ASSERT_TRUE(times) << times.error().text();
        auto x = inputs[0].as<float>(), w = inputs[1].as<float>(), c = inputs[2].as<float>();
        for (size_t row = 0; row != 2; ++row)
          for (size_t column = 0; column != 2; ++column) {
            double expected = c[2 * row + column];
            for (size_t k = 0; k != 3; ++k)
              expected += static_cast<double>(x[3 * row + k]) * w[2 * k + column];
            EXPECT_EQ(outputs[0].as<float>()[2 * row + column], expected) << "step " << step;
          }
      }
      EXPECT_EQ(cuda.graphLaunches(), 3u);
    }
    replaceCudaLibrary<CublasLt>(nullptr);
    EXPECT_EQ(cuda.misuse(), "");
  }
}

} // namespace
} // namespace cleave::runtime::test
