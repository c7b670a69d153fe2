// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of the simulated CUDA: allocations, and copies that must stay within them.

#include "Simulation.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cleave::simulated {

bool Simulation::isAllocated(const void *begin, uint64_t bytes, int gpu) const {
  auto *first = static_cast<const std::byte *>(begin);
  auto found = allocations.upper_bound(first);
  if (found == allocations.begin())
    return false;
  --found;
  const auto &[start, allocation] = *found;
  bool isKind = gpu == -2 ? allocation.gpu >= 0 : allocation.gpu == gpu;
  return isKind && first + bytes <= start + allocation.bytes;
}

ptx::Memory Simulation::reachable(int gpu) const {
  ptx::Memory memory;
  for (const auto &[begin, allocation] : allocations)
    if (allocation.gpu == gpu || (allocation.gpu >= 0 && peers.count({gpu, allocation.gpu})))
      memory.allow(begin, allocation.bytes);
  return memory;
}

/// Memory with a pattern in it that is no number anyone expects.
static void *allocate(Simulation &simulation, uint64_t bytes, int gpu) {
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xcb, bytes);
  simulation.allocations[static_cast<std::byte *>(memory)] = {bytes, gpu};
  return memory;
}

static cudaError_t allocateOnGpu(void **memory, size_t bytes) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaMalloc"))
    return code;
  uint64_t &used = simulation.used[currentGpu()];
  if (bytes > simulation.options.bytesOfGpu - used)
    return simulation.fail(cudaErrorMemoryAllocation);
  used += bytes;
  *memory = allocate(simulation, bytes, currentGpu());
  return cudaSuccess;
}

static cudaError_t allocateOnHost(void **memory, size_t bytes) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaMallocHost"))
    return code;
  *memory = allocate(simulation, bytes, -1);
  return cudaSuccess;
}

/// As CUDA does, after everything that runs.
static cudaError_t release(void *memory, bool isHost) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (!memory)
    return cudaSuccess;
  cudaError_t code = simulation.awaitAll();
  auto found = simulation.allocations.find(static_cast<std::byte *>(memory));
  if (found == simulation.allocations.end() || (found->second.gpu < 0) != isHost)
    return simulation.misuse("memory given back that is not there");
  simulation.checkGraphs(memory, static_cast<std::byte *>(memory) + found->second.bytes,
                         isHost ? "memory of the host" : "memory of a GPU");
  if (!isHost)
    simulation.used[found->second.gpu] -= found->second.bytes;
  std::free(memory);
  simulation.allocations.erase(found);
  return code;
}

static cudaError_t releaseOnGpu(void *memory) { return release(memory, false); }
static cudaError_t releaseOnHost(void *memory) { return release(memory, true); }

static cudaError_t getInfo(size_t *free, size_t *total) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  *total = simulation.options.bytesOfGpu;
  *free = *total - simulation.used[currentGpu()];
  return cudaSuccess;
}

/// Whether both sides of a copy lie where its kind says; on the host in pinned memory, unless it waits (`isSync`).
static bool isSound(Simulation &simulation, const void *target, const void *source, size_t bytes, cudaMemcpyKind kind,
                    bool isSync) {
  auto onHost = [&](const void *side) { return isSync || simulation.isAllocated(side, bytes, -1); };
  auto onGpu = [&](const void *side) { return simulation.isAllocated(side, bytes, -2); };
  switch (kind) {
  case cudaMemcpyHostToDevice:
    return onHost(source) && onGpu(target);
  case cudaMemcpyDeviceToHost:
    return onGpu(source) && onHost(target);
  case cudaMemcpyDeviceToDevice:
    return onGpu(source) && onGpu(target);
  case cudaMemcpyDefault:
    return (onGpu(source) || onHost(source)) && (onGpu(target) || onHost(target));
  default:
    return false;
  }
}

/// Waits for no stream, as with streams that do not wait for the default one. A copy to a GPU is over only when the
/// device is synchronized: CUDA promises no more of memory that is not pinned.
static cudaError_t copyNow(void *target, const void *source, size_t bytes, cudaMemcpyKind kind) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.beginUnsafe("cudaMemcpy"))
    return code;
  if (!isSound(simulation, target, source, bytes, kind, true))
    return simulation.misuse("a copy beyond an allocation");
  if (kind != cudaMemcpyHostToDevice) {
    std::memcpy(target, source, bytes);
    return cudaSuccess;
  }
  auto *first = static_cast<const std::byte *>(source);
  Task task;
  task.work = [target, copy = std::vector<std::byte>(first, first + bytes)] {
    std::memcpy(target, copy.data(), copy.size());
    return cudaSuccess;
  };
  simulation.defaultStream = simulation.put(currentGpu(), 0, std::move(task), {simulation.defaultStream});
  simulation.dawdle();
  return cudaSuccess;
}

/// Rows of bytes, from pitch to pitch.
struct Rows {
  const std::byte *begin;
  size_t pitch;

  const std::byte *at(size_t row) const { return begin + row * pitch; }
};

/// Whether a row of the one side has bytes of a row of the other. Rows of a side follow each other.
static bool overlap(const Rows &left, const Rows &right, size_t width, size_t rows) {
  for (size_t i = 0, j = 0; i != rows && j != rows;) {
    if (left.at(i) + width <= right.at(j))
      ++i;
    else if (right.at(j) + width <= left.at(i))
      ++j;
    else
      return true;
  }
  return false;
}

/// Rows of `width` bytes; checked when it is put on the stream and again when it runs.
static cudaError_t copyRows(void *target, size_t targetPitch, const void *source, size_t sourcePitch, size_t width,
                            size_t rows, cudaMemcpyKind kind, cudaStream_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Stream *stream = simulation.find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  if (rows == 0 || width == 0)
    return cudaSuccess;
  auto check = [=, &simulation] {
    for (size_t row : {size_t(0), rows - 1})
      if (!isSound(simulation, static_cast<std::byte *>(target) + row * targetPitch,
                   static_cast<const std::byte *>(source) + row * sourcePitch, width, kind, false))
        return false;
    return true;
  };
  if (!check() || (rows > 1 && (targetPitch < width || sourcePitch < width)))
    return simulation.misuse("a copy beyond an allocation, or with memory that is not pinned");
  if (overlap({static_cast<const std::byte *>(target), targetPitch},
              {static_cast<const std::byte *>(source), sourcePitch}, width, rows))
    return simulation.misuse("a copy whose sides overlap");
  simulation.put(*stream,
                 [=, &simulation] {
                   if (!check())
                     return simulation.misuse("a copy with memory that was given back");
                   for (size_t row = 0; row != rows; ++row)
                     std::memcpy(static_cast<std::byte *>(target) + row * targetPitch,
                                 static_cast<const std::byte *>(source) + row * sourcePitch, width);
                   return cudaSuccess;
                 },
                 {target, source});
  return cudaSuccess;
}

static cudaError_t copyRowsLater(void *target, size_t targetPitch, const void *source, size_t sourcePitch, size_t width,
                                 size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (std::max(targetPitch, sourcePitch) > static_cast<size_t>(simulation.options.mostPitch) ||
      std::min(targetPitch, sourcePitch) < width)
    return simulation.fail(cudaErrorInvalidPitchValue);
  return copyRows(target, targetPitch, source, sourcePitch, width, rows, kind, stream);
}

static cudaError_t copyLater(void *target, const void *source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copyRows(target, bytes, source, bytes, bytes, 1, kind, stream);
}

static cudaError_t copyBetween(void *target, int, const void *source, int, size_t bytes, cudaStream_t stream) {
  return copyRows(target, bytes, source, bytes, bytes, 1, cudaMemcpyDeviceToDevice, stream);
}

static cudaError_t fillLater(void *target, int value, size_t bytes, cudaStream_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  Stream *stream = simulation.find(handle);
  if (!stream || !simulation.isAllocated(target, bytes, -2))
    return simulation.misuse("filling beyond an allocation");
  simulation.put(*stream,
                 [=] {
                   std::memset(target, value, bytes);
                   return cudaSuccess;
                 },
                 {target});
  return cudaSuccess;
}

void fillMemory(runtime::CudaRuntime &table) {
  table.cudaMalloc = allocateOnGpu;
  table.cudaMallocHost = allocateOnHost;
  table.cudaFree = releaseOnGpu;
  table.cudaFreeHost = releaseOnHost;
  table.cudaMemGetInfo = getInfo;
  table.cudaMemcpy = copyNow;
  table.cudaMemcpyAsync = copyLater;
  table.cudaMemcpy2DAsync = copyRowsLater;
  table.cudaMemcpyPeerAsync = copyBetween;
  table.cudaMemsetAsync = fillLater;
}

} // namespace cleave::simulated
