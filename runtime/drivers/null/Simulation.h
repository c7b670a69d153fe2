// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs queues in simulated time. An instruction begins when its queue, its waits, its step and its device allow, and
// ends as many seconds later as it is said to take; all ends of a communication begin when the last can, and end
// together, after the longest time that one of them is said to take. These
// times do not depend on the order in which the simulation gets to the queues, so it goes through them one at a time.

#ifndef CLEAVE_RUNTIME_DRIVERS_NULL_SIMULATION_H
#define CLEAVE_RUNTIME_DRIVERS_NULL_SIMULATION_H

#include "runtime/Driver.h"
#include "runtime/Step.h"
#include "runtime/Trace.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <thread>

namespace cleave::runtime {

struct SimulatedQueue;

/// What the queues of a simulated device share for one program. Times in nanoseconds.
struct NullDeviceState {
  uint32_t device = 0;
  uint32_t index = 0; ///< the site's, in the context
  std::vector<SimulatedQueue *> queues;
  /// By EntryPhase::index: the queues with instructions, and whether there is one.
  std::vector<uint32_t> activeQueues;
  std::vector<uint8_t> takesPart;
  uint64_t endedQueues = 0; ///< how often a queue has ended a step
  /// The latest end of an instruction in the device's even and odd steps.
  std::array<int64_t, 2> stepEnd = {};
};

/// An instruction, and what it waits for: values of the device's queues, by their indices. All devices of a program
/// share them.
struct SimulatedCommand {
  const Instruction *instruction = nullptr;
  std::vector<Wait> waits;
};
using SimulatedList = std::vector<SimulatedCommand>;

/// A queue's list and how far it is.
struct SimulatedQueue {
  const Queue *owner = nullptr;
  NullDeviceState *device = nullptr;
  Trace::Track *track = nullptr;
  std::vector<const SimulatedList *> lists; ///< by EntryPhase::index
  std::deque<std::shared_ptr<Step>> steps;
  bool runnable = false;            ///< the simulation will look at it
  bool begun = false;               ///< the first of `steps`
  bool meeting = false;             ///< it waits for the other ends of a communication
  std::shared_ptr<const Step> step; ///< the last that began
  StepTimes times;                  ///< of that step
  int64_t time = 0;                 ///< when the last instruction ended, or the step began
  std::vector<int64_t> ends;        ///< of the step's instructions so far
};

/// The simulation of all null devices of an executor: one thread, which sleeps when no queue can go on.
class Simulation {
public:
  explicit Simulation(DriverContext &context) : context(context), thread([this] { serve(); }) {}
  ~Simulation();
  /// What a queue of that index runs in a phase; the same list for all devices of its program. Before the first submit.
  const SimulatedList *share(const SimulatedQueue &queue, uint32_t index, EntryPhase phase,
                             const std::vector<Command> &commands);
  /// Queues the step; the thread takes it from there.
  void submit(SimulatedQueue &queue, std::shared_ptr<Step> step);
  /// Waits until the thread has nothing more to do, so that queues can go.
  void settle();

private:
  /// A communication that waits for more of its ends.
  struct Meeting {
    std::vector<SimulatedQueue *> queues;
    int64_t ready = 0, duration = 0;
  };
  /// EntryPhase::index, step, channel, and which of the groups that use the channel apart from each other.
  using MeetingKey = std::tuple<size_t, uint64_t, uint32_t, uint32_t>;
  /// Where a site meets others: its group's number and size.
  struct Group {
    uint32_t number = 0, size = 0;
  };

  void serve();
  void wake(SimulatedQueue &queue);
  void advance(SimulatedQueue &queue);
  bool begin(SimulatedQueue &queue);
  std::optional<int64_t> readyTime(const SimulatedQueue &queue, const SimulatedCommand &command) const;
  bool runNext(SimulatedQueue &queue);
  bool meet(SimulatedQueue &queue, uint32_t channel, Group group, int64_t ready);
  std::optional<std::pair<uint32_t, Group>> groupOf(const SimulatedQueue &queue, const Action &action) const;
  void complete(SimulatedQueue &queue, int64_t begin, int64_t end);
  void finish(SimulatedQueue &queue);
  int64_t duration(const SimulatedQueue &queue) const;
  static const SimulatedCommand &nextCommand(const SimulatedQueue &queue);

  DriverContext &context;
  std::map<std::tuple<const Program *, uint32_t, Phase>, SimulatedList> lists;
  // Only the thread touches these.
  std::deque<SimulatedQueue *> runnable;
  std::map<MeetingKey, Meeting> meetings;

  std::mutex mutex;
  std::condition_variable arrived, idled;
  bool idle = false;
  std::deque<std::pair<SimulatedQueue *, std::shared_ptr<Step>>> arrivals;
  bool stopping = false;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_NULL_SIMULATION_H
