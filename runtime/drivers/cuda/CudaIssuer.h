// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs steps on the cuda devices of a process. One thread puts them on streams, in the order in which they are
// submitted; another waits until each is over and hands it back.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAISSUER_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAISSUER_H

#include "runtime/Step.h"
#include "runtime/drivers/cuda/CudaPhase.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

namespace cleave::runtime {

/// The first step of a phase runs carefully; those after it are graphs, unless CLEAVE_CUDA_GRAPHS is 0, a trace is
/// wanted, or CUDA refuses. With CLEAVE_CUDA_SYNC=1 all run carefully. A GPU that has failed stays so: all later steps
/// fail at once, with its error.
///
/// The two threads note in the process's logbook what they do: the issuing one each command of a step that is no graph,
/// the finishing one which step it waits for, since what a GPU does meanwhile nobody tells.
class CudaIssuer {
public:
  CudaIssuer(const CudaRuntime &cuda, DriverContext &shared);
  /// Waits for the steps that were submitted.
  ~CudaIssuer();

  /// What carries the plan's channels. Before the first step.
  void linkBy(std::unique_ptr<CudaLinks> made) { links = std::move(made); }
  /// The commands of a queue; not while steps run.
  Error record(CudaSite &site, const Queue &owner, uint32_t queue, EntryPhase phase, std::vector<Command> commands);
  /// A queue has got the step, which runs when all queues that have commands of its phase have.
  void submit(std::shared_ptr<Step> step);

private:
  /// Two steps of a phase can be under way: one computes while the host prepares the next.
  static constexpr size_t numSlots = 2;
  struct Running {
    std::unique_ptr<CudaPhase> phase;
    std::array<CudaSlot, numSlots> slots;
    bool hasRun = false, refusesGraphs = false;
    uint32_t arrived = 0; ///< queues that have got the step that comes next
    uint64_t issued = 0;
  };
  /// A step on its way.
  struct Flight {
    std::shared_ptr<Step> step;
    Running *running = nullptr;
    CudaSlot *slot = nullptr;
    CudaMode mode = CudaMode::Careful;
    int64_t begin = 0;
    Error error;
  };
  /// Where an event of a GPU stands on the host's clock.
  struct Clock {
    CudaEvent event;
    int64_t time = 0;
  };

  void serve();
  void finishSteps();
  Flight issue(std::shared_ptr<Step> step, RunningInstruction &activity);
  /// Orders and links all phases, before the first step.
  Error build();
  Error start(Flight &flight, RunningInstruction &activity);
  Error startReplay(Flight &flight, RunningInstruction &activity);
  void finish(Flight &flight, RunningInstruction &activity);
  /// Steps take slots in turns: all processes record and replay the same graphs with the same steps, as NCCL wants it.
  CudaSlot &takeSlot(Running &running);
  CudaMode modeOf(const Running &running) const;
  /// Waits until no step is on its way.
  void drain();
  /// After an error in the middle: the streams are empty then. The error, that of a lost GPU if it is one.
  Error stop(const Running &running, const Error &error);
  Error prepareOrigin(const Running &running);
  /// What a thread begins with: without a GPU of its own CUDA would take GPU 0, also where that is others'.
  void chooseGpu() const;
  void tellOthers(const CudaPhase &phase, const Error &error) const;
  /// From here on no step runs; what `error` was is known.
  void lose(const Error &error);
  /// Adds a step to the trace.
  void trace(const Flight &flight);
  /// From here on timeOf knows the GPU, and events of the next seconds well. Before its first step, and then by the
  /// finishing thread.
  Error setClock(int gpu);
  /// From the GPU's mark to the event.
  float millisecondsTo(int gpu, cudaEvent_t event) const;
  /// When the event was, in nanoseconds of the steady clock.
  int64_t timeOf(int gpu, cudaEvent_t event) const;

  const CudaRuntime &cuda;
  DriverContext &shared;
  const bool isCareful, usesGraphs;
  CudaUpload upload;
  std::unique_ptr<CudaLinks> links;
  std::map<size_t, Running> phases; ///< by EntryPhase::index
  std::map<int, Clock> clocks;      ///< by GPU
  CudaStream origin;                ///< graphs run there, one after the other
  int originGpu = 0;
  CudaMode lastMode = CudaMode::Careful;
  bool isBuilt = false;
  Error unbuilt; ///< why phases could not be ordered and linked

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Step>> submitted;
  std::deque<Flight> flights; ///< that the second thread has not finished
  bool isStopping = false, hasStopped = false;
  Error lost;
  std::thread issuing, finishing;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_CUDAISSUER_H
