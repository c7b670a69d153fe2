// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans on several processes with simulated GPUs and a NCCL by MPI: that they compute what they should, whatever the
// order of streams, in graphs and without. Whatever is done wrong with CUDA or NCCL ends them with exit code 99.

#include "../FaultRuns.h"

#include "runtime/tensorfile/TensorFile.h"

namespace cleave::runtime::test {
namespace {

class CudaProcessesTest : public FaultRuns {
protected:
  CudaProcessesTest() : FaultRuns("cleave-run-simulated", "cuda") {}

  /// The file has 0, factor, 2 factor, ...
  void write(const std::string &file, int64_t elements, float factor) const {
    HostTensor tensor = *HostTensor::allocate({ElementType::F32, {elements}, std::nullopt});
    for (int64_t i = 0; i != elements; ++i)
      tensor.as<float>()[static_cast<size_t>(i)] = factor * static_cast<float>(i);
    Error error = writeTensorFile((folder / file).string(), tensor);
    ASSERT_FALSE(error) << error.text();
  }

  /// Runs five steps on so many ranks and expects `factor` times the input.
  void expectMultiple(const std::string &plan, int64_t elements, float factor, const std::string &ranks,
                      const std::vector<std::string> &environment) const {
    write("x.npy", elements, 1);
    write("y.npy", elements, factor);
    std::vector<std::string> before = {"env"};
    before.insert(before.end(), environment.begin(), environment.end());
    MpiRun run(
        folder,
        {"-n", ranks, program, plan, "--input", "x=x.npy", "--expect", "y=y.npy", "--repeat", "5", "--in-flight", "2"},
        "", before);
    EXPECT_EQ(run.wait(seconds(60)), 0) << plan << " on " << ranks << " ranks: " << run.errors();
  }

  /// mesh.plan doubles, and sums twice over four devices; chain.plan doubles four times.
  void expectAll(const std::string &ranks, const std::vector<std::string> &environment) const {
    expectMultiple("mesh.plan", 10, 2 * 4 * 4, ranks, environment);
    expectMultiple("chain.plan", 4, 16, ranks, environment);
  }
};

// A rank a device: everything goes over NCCL.
TEST_F(CudaProcessesTest, ComputesOnFourRanks) {
  for (const char *seed : {"0", "1", "3", "4"})
    expectAll("4", {"CLEAVE_SIMULATED_GPUS=4", std::string("CLEAVE_SIMULATED_SEED=") + seed});
}

// Two devices a rank, which share a GPU: what stays in a rank is copied, the rest goes over NCCL.
TEST_F(CudaProcessesTest, ComputesOnTwoRanks) {
  for (const char *graphs : {"1", "0"})
    expectAll("2", {"CLEAVE_SIMULATED_GPUS=2", "CLEAVE_GPUS=0,0,1,1", "CLEAVE_SIMULATED_SEED=5",
                    std::string("CLEAVE_CUDA_GRAPHS=") + graphs});
}

} // namespace
} // namespace cleave::runtime::test
