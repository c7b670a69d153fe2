// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes CUDA's objects, each on its GPU.

#include "runtime/drivers/cuda/CudaObjects.h"

#include <algorithm>
#include <cstring>

namespace cleave::runtime {

Expected<CudaStream> createCudaStream(const CudaRuntime &cuda, int gpu) {
  cudaStream_t stream = nullptr;
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  if (Error error = checkCuda(cuda, cuda.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"))
    return error;
  return CudaStream(cuda, stream);
}

Expected<CudaEvent> createCudaEvent(const CudaRuntime &cuda, int gpu, bool timed) {
  cudaEvent_t event = nullptr;
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  if (Error error = checkCuda(cuda, cuda.cudaEventCreateWithFlags(&event, flags), "making an event"))
    return error;
  return CudaEvent(cuda, event);
}

Expected<CudaMemory> allocateCudaMemory(const CudaRuntime &cuda, int gpu, uint64_t bytes) {
  void *memory = nullptr;
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  if (bytes == 0)
    return CudaMemory();
  cudaError_t code = cuda.cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    size_t free = 0, total = 0;
    (void)cuda.cudaGetLastError(); // the failure stays in nobody's way
    (void)cuda.cudaMemGetInfo(&free, &total);
    return makeError(Status::Infeasible, "GPU ", gpu, " expects to hold ", bytes, " bytes, got ", free, " free of ",
                     total, "; use more devices, or a smaller batch");
  }
  if (Error error = checkCuda(cuda, code, "allocating memory of a GPU"))
    return error;
  return CudaMemory(cuda, memory);
}

Expected<PinnedMemory> allocatePinnedMemory(const CudaRuntime &cuda, uint64_t bytes) {
  void *memory = nullptr;
  if (bytes == 0)
    return PinnedMemory();
  if (Error error =
          checkCuda(cuda, cuda.cudaMallocHost(&memory, bytes), "pinning memory of the host", Status::Infeasible))
    return Error(error.status(), error.message() + ", of " + std::to_string(bytes) + " bytes");
  return PinnedMemory(cuda, memory);
}

Error CudaUpload::prepare(int gpu) {
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  for (Piece &piece : pieces) {
    if (!piece.memory) {
      auto made = allocatePinnedMemory(cuda, pieceBytes);
      if (!made)
        return made.error();
      piece.memory = std::move(*made);
    }
    if (eventsOf == gpu)
      continue;
    auto made = createCudaEvent(cuda, gpu);
    if (!made)
      return made.error();
    piece.taken = std::move(*made);
  }
  eventsOf = gpu;
  return Error::success();
}

/// While one piece is on its way the other is filled.
Error CudaUpload::copy(std::span<const std::byte> source, std::byte *target, cudaStream_t stream, int gpu) {
  if (Error error = prepare(gpu))
    return error;
  for (uint64_t begin = 0, turn = 0; begin < source.size(); begin += pieceBytes, ++turn) {
    Piece &piece = pieces[turn % 2];
    uint64_t bytes = std::min<uint64_t>(pieceBytes, source.size() - begin);
    if (turn >= 2)
      if (Error error = checkCuda(cuda, cuda.cudaEventSynchronize(piece.taken.get()), "waiting for a copy"))
        return error;
    std::memcpy(piece.memory.get(), source.data() + begin, bytes);
    cudaError_t code = cuda.cudaMemcpyAsync(target + begin, piece.memory.get(), bytes, cudaMemcpyHostToDevice, stream);
    if (Error error = checkCuda(cuda, code, "copying to a GPU"))
      return error;
    if (Error error = checkCuda(cuda, cuda.cudaEventRecord(piece.taken.get(), stream), "recording an event"))
      return error;
  }
  return checkCuda(cuda, cuda.cudaStreamSynchronize(stream), "copying to a GPU");
}

Error CudaDownload::prepare() {
  if (!stream) {
    auto made = createCudaStream(cuda, gpu);
    if (!made)
      return made.error();
    stream = std::move(*made);
  }
  if (Error error = checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU"))
    return error;
  if (pieces)
    return Error::success();
  auto made = allocatePinnedMemory(cuda, 2 * pieceBytes);
  if (made)
    pieces = std::move(*made);
  return made.error();
}

/// While one piece is on its way the other is emptied.
Error CudaDownload::copy(const std::byte *source, std::span<std::byte> target) {
  std::lock_guard lock(mutex);
  if (Error error = prepare())
    return error;
  auto piece = [&](uint64_t turn) { return static_cast<std::byte *>(pieces.get()) + turn % 2 * pieceBytes; };
  auto sizeOf = [&](uint64_t turn) { return std::min<uint64_t>(pieceBytes, target.size() - turn * pieceBytes); };
  const uint64_t turns = (target.size() + pieceBytes - 1) / pieceBytes;
  for (uint64_t turn = 0; turn <= turns; ++turn) {
    if (turn != turns)
      if (Error error = checkCuda(cuda,
                                  cuda.cudaMemcpyAsync(piece(turn), source + turn * pieceBytes, sizeOf(turn),
                                                       cudaMemcpyDeviceToHost, stream.get()),
                                  "copying from a GPU"))
        return error;
    if (turn != 0)
      std::memcpy(target.data() + (turn - 1) * pieceBytes, piece(turn - 1), sizeOf(turn - 1));
    if (Error error = checkCuda(cuda, cuda.cudaStreamSynchronize(stream.get()), "copying from a GPU"))
      return error;
  }
  return Error::success();
}

} // namespace cleave::runtime
