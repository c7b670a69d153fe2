// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The probe on a simulated GPU: what it calls is allowed, what it finds is complete, and what it took is given back.
// Times mean nothing there, so that their values are not looked at.

#include "tools/cleave-run/GpuProbe.h"

#include "test/runtime/cuda/SimulatedCuda.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::runtime;

namespace {

class GpuProbeTest : public testing::Test {
protected:
  GpuProbeTest() {
    replaceCudaLibrary(&simulated::cublasLt());
    replaceCudaLibrary(&simulated::cudnn());
    options.mostWork = 1e6; // the smallest product and the smallest convolution
    options.mostBytes = 1 << 18;
    options.seconds = 0;
    options.progress = [this](const std::string &text) { said.push_back(text); };
  }
  ~GpuProbeTest() override {
    replaceCudaLibrary<CublasLt>(nullptr);
    replaceCudaLibrary<Cudnn>(nullptr);
  }

  GpuProbeOptions options;
  std::vector<std::string> said;
};

// One GPU, and two of which the link is between different ones.
TEST_F(GpuProbeTest, MeasuresWhatThereIs) {
  for (int gpus : {1, 2}) {
    simulated::Cuda cuda({.seed = 7, .gpus = gpus});
    auto measured = probeGpu(options);
    ASSERT_TRUE(bool(measured)) << measured.error().message();
    EXPECT_EQ(measured->chip, "sm_90");
    EXPECT_EQ(measured->gpus, static_cast<unsigned>(gpus));
    EXPECT_GT(measured->memory, 0u);
    EXPECT_LE(measured->memory, uint64_t(1) << 30);
    EXPECT_GT(measured->linkBandwidth, 0);
    for (const GpuSample &sample : measured->samples)
      EXPECT_GT(sample.seconds, 0) << sample.costClass;
    EXPECT_EQ(cuda.misuse(), "");
  }
  // Nothing was left out.
  EXPECT_FALSE(std::ranges::any_of(said, [](const std::string &text) { return text.starts_with("left out"); }));
  EXPECT_GT(simulated::heuristicSearches + simulated::measuredSearches, 0);
  EXPECT_GT(simulated::tf32Products, 0);
  auto hasSaid = [&](const std::string &text) { return std::ranges::count(said, text) == 2; };
  EXPECT_TRUE(hasSaid("matrix products, bf16") && hasSaid("convolutions, f32") && hasSaid("matrix products, tf32") &&
              hasSaid("convolutions, tf32") && hasSaid("copies between devices"));
}

// A call that fails leaves out what it belongs to, says so, and costs nothing of the rest.
TEST_F(GpuProbeTest, LeavesOutWhatFails) {
  simulated::Cuda cuda({.seed = 1});
  cuda.failKernel("probe_sum", cudaErrorInvalidValue, /*late=*/false);
  auto measured = probeGpu(options);
  ASSERT_TRUE(bool(measured)) << measured.error().message();
  EXPECT_EQ(
      std::ranges::count_if(
          said, [](const std::string &text) { return text.starts_with("left out: launching the probe's kernel"); }),
      1);
  EXPECT_GT(measured->linkBandwidth, 0);
  EXPECT_TRUE(std::ranges::count(said, "convolutions, tf32"));
}

// A GPU that is lost is an error, which says what failed; what was known before is not lost with it.
TEST_F(GpuProbeTest, KeepsWhatIsKnown) {
  simulated::Cuda cuda({.seed = 1});
  cuda.failKernel("probe_sum", cudaErrorLaunchFailure, /*late=*/true);
  std::vector<GpuMeasurement> known;
  options.known = [&](const GpuMeasurement &measured) { known.push_back(measured); };
  auto measured = probeGpu(options);
  ASSERT_FALSE(bool(measured));
  EXPECT_NE(measured.error().message().find("waiting for a graph"), std::string::npos) << measured.error().message();
  ASSERT_EQ(known.size(), 3u); // launches, steps, copies from the host
  EXPECT_GT(known.front().launch, 0);
  EXPECT_GT(known.back().step, 0);
  EXPECT_GT(known.back().hostBandwidth, 0);
}

// Too little memory is not a crash, and no machine file of nothing.
TEST_F(GpuProbeTest, LittleMemory) {
  simulated::Cuda cuda({.seed = 1, .bytesOfGpu = 1000});
  auto measured = probeGpu(options);
  ASSERT_FALSE(bool(measured));
  EXPECT_EQ(measured.error().status(), Status::Infeasible) << measured.error().message();
}

} // namespace
