// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A queue of a device: runs its list of commands in order, once for each step that is submitted. A command waits for
// values of other queues' timelines and signals its own. When a command fails, its value and those after it in the
// step carry the error to whoever waits for them; the next step starts anew.

#ifndef CLEAVE_RUNTIME_QUEUE_H
#define CLEAVE_RUNTIME_QUEUE_H

#include "runtime/Buffer.h"
#include "runtime/Plan.h"

#include <memory>
#include <vector>

namespace cleave::runtime {

class Queue;
class Step;

/// The `value`-th command of another queue of the same device.
struct TimelinePoint {
  Queue *queue = nullptr;
  uint32_t value = 0;
};

/// An instruction bound to its device's memory.
struct Command {
  const Instruction *instruction = nullptr;
  /// What must be over first, own queue excluded.
  std::vector<TimelinePoint> waits;
  /// Whether another queue waits for this command.
  bool signals = false;
  /// The buffers that the action names, in the order in which it names them.
  std::vector<Buffer> buffers;
};

/// Runs commands in order. Destroying it requires that all submitted steps have ended.
class Queue {
public:
  virtual ~Queue() = default;
  /// Fixes what a step of `phase` runs on this queue. Once for each phase, before the first submit.
  virtual Error record(EntryPhase phase, std::vector<Command> commands) = 0;
  /// Starts the list of the step's phase and returns at once. Steps come in the order in which they were made.
  virtual void submit(std::shared_ptr<Step> step) = 0;
  /// Runs the list of the step's phase on the calling thread, if that computes as the queue's own would. Needs that all
  /// steps before have ended. Whether it has run.
  virtual bool runHere(Step & /*step*/) { return false; }
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_QUEUE_H
