// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conformance tests of communicators, for the links of the cuda driver: on one GPU and on several, with streams in
// several orders, and on real GPUs where there are some.

#include "CudaCommunicator.h"
#include "../CommunicatorConformance.h"

namespace cleave::runtime::test {
namespace {

template <uint64_t seed, int gpus> std::unique_ptr<Communicator> simulate(const Channels &channels) {
  return createCudaCommunicator(channels, simulated::Options{.seed = seed, .gpus = gpus});
}

std::unique_ptr<Communicator> createReal(const Channels &channels) { return createCudaCommunicator(channels, {}); }

bool hasGpu() {
  auto library = cudaRuntime();
  int count = 0;
  return library && (*library)->cudaGetDeviceCount(&count) == cudaSuccess && count != 0;
}

bool everywhere(uint32_t) { return true; }

const CommunicatorKind kinds[] = {{"cuda", everywhere, createReal, false, hasGpu},
                                  {"cuda_simulated_0", everywhere, simulate<0, 1>, false},
                                  {"cuda_simulated_1", everywhere, simulate<1, 2>, false},
                                  {"cuda_simulated_2", everywhere, simulate<2, 3>, false},
                                  {"cuda_simulated_3", everywhere, simulate<3, 1>, false}};
INSTANTIATE_TEST_SUITE_P(Cuda, CommunicatorConformanceTest, testing::ValuesIn(kinds),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace cleave::runtime::test
