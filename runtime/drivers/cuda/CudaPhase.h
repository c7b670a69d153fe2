// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A phase of an entry on all cuda devices: its commands with their streams, in the order in which they are put there,
// and the memory of the host through which inputs and outputs go.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAPHASE_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAPHASE_H

#include "runtime/TileLoad.h"
#include "runtime/drivers/cuda/CudaLinks.h"
#include "runtime/drivers/cuda/CudaSchedule.h"
#include "runtime/drivers/cuda/CudaSite.h"
#include "runtime/watch/CrashReport.h"
#include "runtime/watch/Fault.h"

#include <functional>

namespace cleave::runtime {

class Step;

/// How a step is put on streams.
enum class CudaMode {
  Careful, ///< waiting for each command, so that a fault names its node; library kernels choose their algorithms
  Eager,   ///< one command after the other, without waiting
  Replay,  ///< as one graph
};

/// What one step in flight needs for itself: pinned memory at addresses that graphs keep, and events.
struct CudaSlot {
  bool isReady = false, isBusy = false;
  PinnedMemory staging;
  std::vector<CudaEvent> ends; ///< by list
  CudaGraphExec graph;
  CudaEvent replayed;
  struct Timing {
    CudaEvent begin, end;
  };
  std::vector<std::vector<Timing>> timings; ///< by list and command, when traced

  std::byte *at(uint64_t offset) const { return static_cast<std::byte *>(staging.get()) + offset; }
};

class CudaPhase {
public:
  CudaPhase(const CudaRuntime &cuda, DriverContext &shared, EntryPhase phase)
      : cuda(cuda), shared(shared), phase(phase) {}

  /// The commands of a queue of a site. Before the others.
  Error add(CudaSite &site, const Queue &owner, uint32_t queue, std::vector<Command> commands);
  /// Orders the commands and links the channels.
  Error build(CudaLinks &links);
  /// How many queues have commands.
  size_t numLists() const { return lists.size(); }
  /// The GPU of one of them.
  int firstGpu() const { return lists.front().site->gpu; }

  /// Makes the slot's memory and events, at its first use.
  Error prepare(CudaSlot &slot) const;
  /// Puts the step's inputs, and parameters that the body loads, into the slot's memory.
  Error fill(const CudaSlot &slot, const Step &step) const;
  /// Whether steps may wait for other processes.
  bool waitsForOthers() const;
  /// For what is done with all of a step: `on device "d0"`, or with the names of several.
  std::string devicesText() const;

  /// Puts the step on the streams, in a mode that is not Replay. The thread's activity is always the command that is
  /// put there, and, carefully, waited for.
  Error enqueue(CudaSlot &slot, uint64_t step, CudaMode mode, CudaUpload &upload, RunningInstruction &running);
  /// Records the step as the slot's graph, which begins on `origin`, a stream of the GPU `gpu`.
  Error capture(CudaSlot &slot, cudaStream_t origin, int gpu, CudaUpload &upload);
  /// Starts the slot's graph.
  Error replay(CudaSlot &slot, uint64_t step, cudaStream_t origin, int gpu);
  /// Waits until the step is over. Everything that went wrong on a GPU.
  Error await(const CudaSlot &slot, CudaMode mode) const;
  /// Waits until the streams are empty.
  Error settle() const;
  /// Puts what the step has stored into its outputs.
  void store(const CudaSlot &slot, const Step &step) const;
  /// An event of the step's beginning for each of its GPUs, when traced.
  std::map<int, cudaEvent_t> timedEvents(const CudaSlot &slot) const;
  /// Adds the step's commands to the trace. `clock` gives the nanoseconds at which an event of a GPU was.
  void trace(const CudaSlot &slot, uint64_t step, const std::function<int64_t(int gpu, cudaEvent_t)> &clock) const;

private:
  struct Task {
    Command command;
    std::vector<void *> arguments;
    std::vector<uint64_t> sizes;
    TileLoad load;
    Fault *fault = nullptr; ///< for tests
    CudaEvent reached;      ///< if the command signals
    uint64_t staging = 0;   ///< where its bytes are in a slot's memory
    bool isStaged = false;
    bool isInHost = false; ///< a load of what is kept in the host's memory
  };
  struct List {
    CudaSite *site = nullptr;
    const Queue *owner = nullptr;
    uint32_t queue = 0;
    std::vector<Task> tasks;

    cudaStream_t stream() const { return site->streams[queue].stream.get(); }
  };
  /// Commands that are put on streams at once: one, or those that a link joins.
  struct Turn {
    CudaTurn places;
    std::unique_ptr<CudaLink> link;
    /// The events that its streams wait for first.
    struct Wait {
      uint32_t list = 0;
      cudaEvent_t event = nullptr;
    };
    std::vector<Wait> waits;
  };

  const Task &at(const CudaPlace &place) const { return lists[place.list].tasks[place.index]; }
  Error linkUp(Turn &turn) const;
  /// With other processes: lets communications come in the same order on all, which `order` alone does not say of sends
  /// and their receives.
  Error orderForAll(std::vector<std::vector<CudaStep>> &steps) const;
  Error enqueueForked(CudaSlot &slot, cudaStream_t origin, cudaEvent_t forked, CudaUpload &upload);
  Error enqueue(Turn &turn, CudaSlot &slot, uint64_t step, CudaMode mode, CudaUpload &upload,
                RunningInstruction *running);
  Error enqueue(const List &list, const Task &task, const CudaSlot &slot, CudaMode mode, CudaUpload &upload);
  Error begin();
  Error end(CudaSlot &slot);
  Error wait(const List &list, cudaEvent_t event) const;
  /// Waits on the host; `wait` does so, `ask` asks whether it is over.
  template <typename Wait, typename Ask> Error await(const char *what, const Wait &wait, const Ask &ask) const;
  Error awaitStream(const List &list, const char *what) const;
  Error record(const List &list, cudaEvent_t event) const;
  /// The error with its device and action.
  Error named(const CudaPlace &place, const Error &error) const;
  template <typename Visit> void forEachTask(const Visit &visit) const {
    for (const List &list : lists)
      for (const Task &task : list.tasks)
        visit(list, task);
  }

  const CudaRuntime &cuda;
  DriverContext &shared;
  const EntryPhase phase;
  std::vector<List> lists;
  std::vector<Turn> turns;
  CudaLinks *links = nullptr;
  uint64_t stagingBytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAPHASE_H
