// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The probe's kernels do the work that their bytes are counted for. Numbers are whole and small, so that sums are
// exact.

#include "tools/cleave-run/GpuProbeKernels.h"

#include "test/ptx/PtxInterpreter.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

/// Four floats at an address that is a multiple of 16.
struct alignas(16) Group {
  float values[4] = {0, 0, 0, 0};
};

/// Runs an entry on blocks of 256 threads; the error is the test's.
void launch(const char *entry, uint32_t blocks, std::vector<uint64_t> arguments, const ptx::Memory &memory) {
  auto module = ptx::Module::parse(gpuProbePtx);
  ASSERT_TRUE(std::holds_alternative<ptx::Module>(module)) << std::get<std::string>(module);
  ptx::Launch how;
  how.entry = entry;
  how.blocks = blocks;
  how.threads = 256;
  how.arguments = std::move(arguments);
  auto error = ptx::run(std::get<ptx::Module>(module), how, memory);
  EXPECT_FALSE(error) << *error;
}

uint64_t address(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

std::vector<Group> wholeNumbers(size_t count) {
  std::vector<Group> groups(count);
  for (size_t i = 0; i != 4 * count; ++i)
    groups[i / 4].values[i % 4] = static_cast<float>(i % 1013) - 500;
  return groups;
}

// Every element is doubled once, by a grid that goes over the data several times and ends in the middle of a block.
TEST(GpuProbeKernelsTest, Scale) {
  constexpr uint32_t count = 256 * 2 * 3 + 77;
  std::vector<Group> source = wholeNumbers(count), target(count + 1);
  ptx::Memory memory;
  memory.allow(source.data(), source.size() * sizeof(Group), /*writable=*/false);
  memory.allow(target.data(), count * sizeof(Group));
  launch("probe_scale", 2, {address(source.data()), address(target.data()), count}, memory);
  for (uint32_t i = 0; i != 4 * count; ++i)
    ASSERT_EQ(target[i / 4].values[i % 4], 2 * source[i / 4].values[i % 4]) << i;
  EXPECT_EQ(target[count].values[0], 0);
}

// A sum a row, where a row is no multiple of the block.
TEST(GpuProbeKernelsTest, Sum) {
  constexpr uint32_t rows = 5, row = 256 + 45;
  std::vector<Group> source = wholeNumbers(static_cast<size_t>(rows) * row);
  std::vector<float> target(rows);
  ptx::Memory memory;
  memory.allow(source.data(), source.size() * sizeof(Group), /*writable=*/false);
  memory.allow(target.data(), rows * sizeof(float));
  launch("probe_sum", rows, {address(source.data()), address(target.data()), row}, memory);
  for (uint32_t i = 0; i != rows; ++i) {
    double sum = 0;
    for (uint32_t j = 0; j != row; ++j)
      for (float value : source[i * row + j].values)
        sum += value;
    EXPECT_EQ(target[i], sum) << i;
  }
}

TEST(GpuProbeKernelsTest, Nothing) { launch("probe_nothing", 1, {}, {}); }

} // namespace
