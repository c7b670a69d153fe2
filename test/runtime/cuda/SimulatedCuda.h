// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CUDA runtime without a GPU, for tests: device memory is the host's, kernels are run by the PTX interpreter, and
// streams run late, in an order chosen at random among all that streams and events allow, so that a missing wait shows
// as a wrong result. Misuse that CUDA would let pass, or punish with a crash, is noted.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDCUDA_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDCUDA_H

#include "runtime/drivers/cuda/CudaApi.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cleave::simulated {

class Simulation;

struct Options {
  /// Chooses the order in which streams run, and how early: at every call, now and then, or when somebody waits.
  uint64_t seed = 0;
  int gpus = 1;
  uint64_t bytesOfGpu = uint64_t(1) << 30;
  /// Whether GPUs can reach each other's memory.
  bool peers = true;
  /// As in sm_90.
  int capability = 90;
  /// Whether streams can be captured.
  bool captures = true;
  /// Whether there is memory for graphs.
  bool holdsGraphs = true;
  /// The most bytes from row to row of a copy.
  int mostPitch = 0x7fffffff;
  /// How late every other wait for an event comes back.
  int lateMilliseconds = 0;
};

/// Stands in for the CUDA runtime as long as it lives. One at a time.
class Cuda {
public:
  explicit Cuda(Options options = {});
  ~Cuda();
  Cuda(const Cuda &) = delete;

  /// What was done wrong so far, one line each: use of what is gone, copies beyond an allocation or with memory that is
  /// not pinned, broken rules of capture, threads that chose no GPU. Asked for at the end, also what was never given
  /// back.
  std::string misuse() const;
  /// Has `run` stand in for the function of that name. It gets the values of the parameters.
  using HostKernel = std::function<void(const uint64_t *arguments)>;
  void setKernel(const std::string &entry, HostKernel run);
  /// The next launch of the function fails with `code`: at once, or, if `late`, when it runs; then the GPU is lost.
  void failKernel(const std::string &entry, cudaError_t code, bool late);
  /// The function never ends when it runs for the time `after`, counted from 0, or later. NCCL's functions do so, too,
  /// where they are simulated.
  void hangKernel(const std::string &entry, uint64_t after);
  /// Nothing happens for so many seconds, on the clock of the GPUs.
  void pass(double seconds);
  /// How many graphs were made.
  uint64_t graphs() const;
  /// How many graphs were started, and kernels launched outside of them.
  uint64_t graphLaunches() const;
  uint64_t kernelLaunches() const;
  /// How many libraries of kernels are loaded.
  uint64_t libraries() const;

private:
  std::unique_ptr<Simulation> simulation;
};

/// Puts work on a stream, in the host's memory: what a simulated library does. Captured like any other work.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// What a simulated NCCL does on a stream.
struct Communication {
  int gpu = 0;
  /// Whether it is over; called until it is.
  std::function<bool()> work;
  /// What it reads and writes: addresses on the GPU, and bytes.
  std::vector<std::pair<const void *, uint64_t>> buffers;
  /// Kept by the graphs that it is captured in. Communications with different ones must be ordered by streams.
  std::shared_ptr<void> kept;
};
void enqueue(cudaStream_t stream, Communication communication);

/// What tells the captures of streams apart; null for a stream that is not captured.
const void *captureOf(cudaStream_t stream);

/// Lets time pass: perhaps runs something.
void progress();

/// Adds to Cuda::misuse.
void noteMisuse(const std::string &what);

/// Where the function of that name runs: does not return once it is to hang.
void meetHang(const std::string &entry);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDCUDA_H
