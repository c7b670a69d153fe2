// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linked with cleave-run's sources, makes a program that runs plans for GPUs where there are none: on a simulated CUDA
// with simulated libraries, its own kernels by the PTX interpreter. CLEAVE_SIMULATED_GPUS says how many GPUs there are
// (1), CLEAVE_SIMULATED_SEED in which order streams run (0). With CLEAVE_SIMULATED_ROUTINES=0 cuDNN's routines compute
// no convolutions: its engines and products do. With CLEAVE_SIMULATED_HANG="2:twice:5" the function
// "twice" of mpirun's rank 2 never ends when it runs for the sixth time; so does "ncclCommInitRank". "2:network:5"
// loses the network of rank 2 before its sixth group of NCCL's calls. Whatever was done wrong with CUDA ends the
// program with exit code 99.

#include "SimulatedCuda.h"
#include "SimulatedLibraries.h"
#ifdef CLEAVE_SIMULATED_NCCL
#include "SimulatedNccl.h"
#endif

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <unistd.h>

namespace {

using namespace cleave;

uint64_t numberIn(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class SimulatedGpus {
public:
  SimulatedGpus() {
    simulated::Options options;
    options.seed = numberIn("CLEAVE_SIMULATED_SEED", 0);
    options.gpus = static_cast<int>(numberIn("CLEAVE_SIMULATED_GPUS", 1));
    options.bytesOfGpu = uint64_t(8) << 30;
    cuda.emplace(options);
    addHang();
    runtime::replaceCudaLibrary<runtime::CublasLt>(&simulated::cublasLt());
    runtime::replaceCudaLibrary<runtime::Cudnn>(&simulated::cudnn());
    simulated::libraryRefusals.engines = false;
    simulated::libraryRefusals.convolutions = numberIn("CLEAVE_SIMULATED_ROUTINES", 1) == 0;
  }
  ~SimulatedGpus() {
    std::string misuse = cuda->misuse();
    if (misuse.empty())
      return;
    std::fprintf(stderr, "CUDA was misused:\n%s\n", misuse.c_str());
    _exit(99);
  }

private:
  void addHang() {
    const char *text = std::getenv("CLEAVE_SIMULATED_HANG"), *rank = std::getenv("OMPI_COMM_WORLD_RANK");
    std::istringstream in(text ? text : "");
    std::string of, entry;
    uint64_t after = 0;
    if (std::getline(in, of, ':') && std::getline(in, entry, ':') && in >> after && rank && of == rank) {
#ifdef CLEAVE_SIMULATED_NCCL
      if (entry == "network")
        return nccl.loseNetwork(after);
#endif
      cuda->hangKernel(entry, after);
    }
  }

  std::optional<simulated::Cuda> cuda;
#ifdef CLEAVE_SIMULATED_NCCL
  simulated::NcclLibrary nccl;
#endif
};

/// Before main begins until after it ends.
const SimulatedGpus gpus;

} // namespace
