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

template <uint64_t seed, int gpus> CommunicatorKind kindOf(const char *name) {
  return {name, everywhere, simulate<seed, gpus>, /*carriesErrors=*/false, nullptr, /*isSlow=*/true};
}

const CommunicatorKind kinds[] = {{"cuda", everywhere, createReal, /*carriesErrors=*/false, hasGpu},
                                  kindOf<0, 1>("cuda_simulated_0"),
                                  kindOf<1, 2>("cuda_simulated_1"),
                                  kindOf<2, 3>("cuda_simulated_2"),
                                  kindOf<3, 1>("cuda_simulated_3")};
INSTANTIATE_TEST_SUITE_P(Cuda, CommunicatorConformanceTest, testing::ValuesIn(kinds),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace cleave::runtime::test
