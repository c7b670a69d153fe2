// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What carries the channels of a plan between GPUs. Unlike a Communicator's calls, those of a link return at once: they
// put work on streams, and streams wait for each other.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALINKS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALINKS_H

#include "runtime/Channels.h"
#include "runtime/drivers/cuda/CudaApi.h"

#include <memory>

namespace cleave::runtime {

/// A communication of a plan.
struct CudaChannel {
  uint32_t entry = 0; ///< its place among those that run
  Phase phase = Phase::Body;
  uint32_t number = 0;
  const Channel *channel = nullptr;
};

/// A site's end of a communication: where its tensors are, and the stream on which it takes its turn.
struct CudaEnd {
  /// Device addresses; null where the instruction names no such buffer: a send has no target, a receive no source.
  struct Operand {
    std::byte *source = nullptr, *target = nullptr;
  };
  uint32_t site = 0;
  int gpu = 0;
  cudaStream_t stream = nullptr;
  std::vector<Operand> operands;
};

/// A channel between given ends.
class CudaLink {
public:
  virtual ~CudaLink() = default;
  /// Puts the communication on the streams of all ends: what a stream does afterwards comes after everything that its
  /// end gives has been taken and everything that it gets is there. Can be captured in a graph.
  virtual Error enqueue() = 0;
};

/// Makes links. Used by one thread at a time, but for what can fail on the way.
class CudaLinks {
public:
  virtual ~CudaLinks() = default;
  /// What follows are the communications of a step, which are recorded in a graph, or are not.
  virtual void beginStep(bool isCaptured) { (void)isCaptured; }
  /// A link between the ends that are in this process, ordered by their sites; `channel` outlives it. Every process
  /// makes its links in the same order. Status::Unsupported when these GPUs cannot be linked so.
  virtual Expected<std::unique_ptr<CudaLink>> connect(const CudaChannel &channel, std::vector<CudaEnd> ends) = 0;

  /// Whether a communication can fail in ways of which its stream says nothing, and just never ends.
  virtual bool canFail() const { return false; }
  /// What has failed so, to be asked for while waiting for streams; these do not wait for other processes any more
  /// then, and communications fail from there on. Status::Lost. Thread-safe.
  virtual Error check() { return Error::success(); }
  /// Nobody waits for other processes any more: this one is lost to them. Thread-safe.
  virtual void abort(const Error &why) { (void)why; }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDALINKS_H
