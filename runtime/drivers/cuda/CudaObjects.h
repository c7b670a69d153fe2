// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What CUDA hands out, as objects that give it back.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAOBJECTS_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAOBJECTS_H

#include "runtime/drivers/cuda/CudaApi.h"

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace cleave::runtime {

/// A handle of the CUDA runtime, or none, which the function `release` of its table takes back. Errors of that are
/// those of work long done, which someone else has been told.
template <typename Handle, auto release> class CudaObject {
public:
  CudaObject() = default;
  CudaObject(const CudaRuntime &cuda, Handle handle) : cuda(&cuda), handle(handle) {}
  CudaObject(CudaObject &&other) noexcept : cuda(other.cuda), handle(std::exchange(other.handle, nullptr)) {}
  CudaObject &operator=(CudaObject &&other) noexcept {
    std::swap(cuda, other.cuda);
    std::swap(handle, other.handle);
    return *this;
  }
  ~CudaObject() {
    if (handle)
      (void)(cuda->*release)(handle);
  }

  Handle get() const { return handle; }
  explicit operator bool() const { return handle != nullptr; }

private:
  const CudaRuntime *cuda = nullptr;
  Handle handle = nullptr;
};

using CudaStream = CudaObject<cudaStream_t, &CudaRuntime::cudaStreamDestroy>;
using CudaEvent = CudaObject<cudaEvent_t, &CudaRuntime::cudaEventDestroy>;
using CudaGraph = CudaObject<cudaGraph_t, &CudaRuntime::cudaGraphDestroy>;
using CudaGraphExec = CudaObject<cudaGraphExec_t, &CudaRuntime::cudaGraphExecDestroy>;
using CudaCode = CudaObject<cudaLibrary_t, &CudaRuntime::cudaLibraryUnload>;
using CudaMemory = CudaObject<void *, &CudaRuntime::cudaFree>;
using PinnedMemory = CudaObject<void *, &CudaRuntime::cudaFreeHost>;

/// A stream of the GPU, which waits for no other.
Expected<CudaStream> createCudaStream(const CudaRuntime &cuda, int gpu);
/// An event of the GPU; only one that is `timed` tells times.
Expected<CudaEvent> createCudaEvent(const CudaRuntime &cuda, int gpu, bool timed = false);
/// Memory of the GPU; none for 0 bytes. Status::Infeasible, with what is free, when there is not so much.
Expected<CudaMemory> allocateCudaMemory(const CudaRuntime &cuda, int gpu, uint64_t bytes);
/// Memory of the host that copies reach without detours; none for 0 bytes. Status::Infeasible when there is not so
/// much.
Expected<PinnedMemory> allocatePinnedMemory(const CudaRuntime &cuda, uint64_t bytes);

/// Copies host memory to the GPU in pieces of bounded size, through memory that is pinned once. Used by one thread at a
/// time.
class CudaUpload {
public:
  explicit CudaUpload(const CudaRuntime &cuda) : cuda(cuda) {}
  /// Returns when the bytes are there.
  Error copy(std::span<const std::byte> source, std::byte *target, cudaStream_t stream, int gpu);

private:
  /// Large enough for the full speed of the bus, small enough to pin anywhere.
  static constexpr uint64_t pieceBytes = uint64_t(4) << 20;
  struct Piece {
    PinnedMemory memory;
    CudaEvent taken;
  };
  Error prepare(int gpu);

  const CudaRuntime &cuda;
  int eventsOf = -1; ///< the GPU of the events
  Piece pieces[2];
};

/// Copies memory of a GPU to the host, the same way, on a stream of its own. Thread-safe.
class CudaDownload {
public:
  CudaDownload(const CudaRuntime &cuda, int gpu) : cuda(cuda), gpu(gpu) {}
  /// Returns when the bytes are there. What writes them on the GPU must be over.
  Error copy(const std::byte *source, std::span<std::byte> target);

private:
  static constexpr uint64_t pieceBytes = uint64_t(4) << 20;
  Error prepare();

  const CudaRuntime &cuda;
  const int gpu;
  std::mutex mutex;
  CudaStream stream;
  PinnedMemory pieces;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAOBJECTS_H
