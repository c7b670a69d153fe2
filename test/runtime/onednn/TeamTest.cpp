// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads: the OpenMP team that a kernel is made for, and devices that make and run kernels at the same time.

#include "KernelHarness.h"

#include <omp.h>

#include <thread>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

static std::vector<Tensor> operands() { return {pseudorandom({4, 2048}, 1), pseudorandom({2048, 128}, 2)}; }

// The choice depends on the team's size, which must not leak into the calling thread.
TEST(Team, IsRestored) {
  omp_set_num_threads(3);
  std::vector<Tensor> inputs = operands();
  LibraryKernelQuery query = openQuery("matmul", inputs, {4, 128});
  auto before = oneDnnLibrary().choose(query, 1);
  auto other = oneDnnLibrary().choose(query, 7);
  auto after = oneDnnLibrary().choose(query, 1);
  ASSERT_TRUE(before && other && after);
  EXPECT_EQ(before->desc.scratchBytes, after->desc.scratchBytes);
  EXPECT_GE(other->desc.scratchBytes, before->desc.scratchBytes);
  runChoice(*before, inputs, 1);
  EXPECT_EQ(omp_get_max_threads(), 3);
}

// Every device has a thread that loads and runs kernels of its own while others do; results may not depend on that.
TEST(Team, RunsBesideOthers) {
  std::vector<Tensor> inputs = operands();
  Tensor expected = runKernel(openQuery("matmul", inputs, {4, 128}), inputs);
  std::vector<std::thread> devices;
  std::vector<Tensor> results(4);
  devices.reserve(results.size());
  for (Tensor &result : results)
    devices.emplace_back([&] {
      for (int round = 0; round != 3; ++round)
        result = runKernel(openQuery("matmul", inputs, {4, 128}), inputs);
    });
  for (std::thread &device : devices)
    device.join();
  for (const Tensor &result : results)
    expectNear(result, expected, 0, 0);
}
