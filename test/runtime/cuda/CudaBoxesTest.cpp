// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which kernels boxes go through; what these compute the tests of communicators ask.

#include "SimulatedCuda.h"

#include "runtime/drivers/cuda/CudaBoxes.h"

#include <gtest/gtest.h>
#include <set>

namespace cleave::runtime::test {
namespace {

class CudaBoxesTest : public testing::Test {
protected:
  CudaBoxesTest() {
    memory = std::move(*allocateCudaMemory(runtime, 0, 4096));
    stream = std::move(*createCudaStream(runtime, 0));
    begin = reinterpret_cast<uint64_t>(memory.get());
  }
  ~CudaBoxesTest() override {
    memory = {};
    stream = {};
    EXPECT_EQ(cuda.misuse(), "");
  }

  /// The kernels that the launch calls.
  std::set<std::string> kernelsOf(Expected<CudaBoxLaunch> launch) {
    std::set<std::string> called;
    EXPECT_TRUE(launch) << launch.error().text();
    if (!launch)
      return called;
    for (const char *kernel : {"copy_1", "copy_2", "copy_4", "copy_8", "copy_16", "combine_bf16_sum", "combine_f16_sum",
                               "combine_bf16_pair_sum", "combine_f16_pair_sum", "combine_i16_sum"})
      cuda.setKernel(std::string("cleave_") + kernel, [&called, kernel](const uint64_t *) { called.insert(kernel); });
    EXPECT_FALSE(launch->enqueue(stream.get()));
    EXPECT_EQ(runtime.cudaStreamSynchronize(stream.get()), cudaSuccess);
    return called;
  }
  std::set<std::string> combine(ElementType element, uint64_t offset, uint64_t bytes, uint64_t targetOffset = 2048) {
    CudaLinkKernels kernels(runtime);
    CudaBoxUse box{0, 0, {offset, offset, {}, bytes}};
    uint64_t sources[] = {begin, begin + 1024}, targets[] = {begin + targetOffset};
    return kernelsOf(CudaBoxLaunch::combine(runtime, kernels, 0, {&box, 1}, element, Combiner::Sum, sources, targets));
  }

  simulated::Cuda cuda;
  const CudaRuntime &runtime = **cudaRuntime();
  CudaMemory memory;
  CudaStream stream;
  uint64_t begin = 0;
};

// A box at an odd address must not make all others move by bytes.
TEST_F(CudaBoxesTest, CopiesEachBoxByItsOwnWidth) {
  CudaLinkKernels kernels(runtime);
  const CudaBoxUse boxes[] = {{begin, begin + 1024, {0, 0, {}, 64}},
                              {begin, begin + 1024, {65, 101, {}, 3}},
                              {begin, begin + 1024, {128, 256, {{2, 16, 24}}, 8}}};
  EXPECT_EQ(kernelsOf(CudaBoxLaunch::copy(runtime, kernels, 0, boxes)),
            std::set<std::string>({"copy_1", "copy_8", "copy_16"}));
}

// Floats of 16 bits alone are half of what a thread can load; an odd one has no other with it.
TEST_F(CudaBoxesTest, CombinesShortFloatsInPairs) {
  using Names = std::set<std::string>;
  EXPECT_EQ(combine(ElementType::BF16, 0, 64), Names{"combine_bf16_pair_sum"});
  EXPECT_EQ(combine(ElementType::F16, 4, 12), Names{"combine_f16_pair_sum"});
  EXPECT_EQ(combine(ElementType::F16, 2, 12), Names{"combine_f16_sum"});
  EXPECT_EQ(combine(ElementType::BF16, 0, 14), Names{"combine_bf16_sum"});
  EXPECT_EQ(combine(ElementType::BF16, 0, 64, 2050), Names{"combine_bf16_sum"});
  EXPECT_EQ(combine(ElementType::I16, 0, 64), Names{"combine_i16_sum"});
}

} // namespace
} // namespace cleave::runtime::test
