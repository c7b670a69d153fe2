// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What there is to schedule, free of any IR: tasks on devices, and the values that they write and read. All programs of
// a module are one problem, because sends and receives tie their orders together. A device of the problem stands for
// all devices of a program's mesh: they run the same list, each on its own memory.

#ifndef CLEAVE_PASSES_SCHEDULE_PROBLEM_H
#define CLEAVE_PASSES_SCHEDULE_PROBLEM_H

#include <cstdint>
#include <optional>
#include <vector>

namespace cleave::schedule {

/// A tensor in one device's memory, written by one task and read by any number. Reshapes of it are the same value; a
/// kernel's scratch memory is a value that nobody reads.
struct Value {
  unsigned device = 0;
  uint64_t bytes = 0;
  /// The value whose bytes this one takes over: the same number, read last by the task that writes this one.
  std::optional<unsigned> inPlaceOf;
  /// Holds something else in every step, although nothing that runs once needs to wait for it: a parameter that the
  /// step writes. What reads it runs in every step.
  bool changes = false;
  /// Lies in the device's part of the host's memory.
  bool inHost = false;
  /// Programs that take turns on one arena keep this in one place: the number of what is in it, a part of a parameter
  /// or what one kernel makes of such parts.
  std::optional<unsigned> shared = {};
};

/// A copy between a device's arena and its part of the host's memory.
enum class HostCopy { None, Offload, Fetch };

/// A kernel or host action on the compute queue of `device`, or a collective on its collective queue, or, with a
/// `target`, a transfer: a send that meets a receive. A device has a send queue for each device that it sends to, and a
/// receive queue for each that it receives from: what one peer has ready never waits for what another has not. What is
/// copied to the host's memory has a send queue, what comes back a receive queue.
struct Task {
  unsigned device = 0;
  std::optional<unsigned> target;
  bool collective = false;
  /// The estimated duration.
  double seconds = 0;
  /// Belongs to every step, whatever it depends on: inputs and outputs.
  bool everyStep = false;
  /// Runs as soon as it can, before other tasks of its device.
  bool early = false;
  /// Indices of values. A transfer reads one value of `device` and writes one of `target`.
  std::vector<unsigned> reads, writes;
  /// Tasks of its device that come first, besides those that write what it reads.
  std::vector<unsigned> after = {};
  HostCopy hostCopy = HostCopy::None;

  /// Whether it leaves the compute queue free while other devices are waited for.
  bool communicates() const { return target || collective || hostCopy != HostCopy::None; }
};

struct Problem {
  unsigned numDevices = 0;
  /// Whether a device of the problem stands for several; absent: it does not.
  std::vector<bool> standsForSeveral;
  /// By device: the number of its arena. Devices with the same number take turns on it; absent: each has its own.
  std::vector<unsigned> arenas;
  /// Whether a device's compute queue keeps the order of `tasks`, but for those that are early; absent: it does not.
  std::vector<bool> ordered;
  std::vector<Value> values;
  /// Each device's tasks in the model's order.
  std::vector<Task> tasks;

  bool isOrdered(unsigned device) const { return device < ordered.size() && ordered[device]; }
  bool isSeveral(unsigned device) const { return device < standsForSeveral.size() && standsForSeveral[device]; }
};

/// Who writes a value, and who reads it in ascending order.
struct ValueUses {
  unsigned writer = 0;
  std::vector<unsigned> readers;
};

/// The uses of every value. Expects each value to be written once.
std::vector<ValueUses> usesOf(const Problem &problem);

/// By task those that come first, without repetition: the writers of what it reads, and Task::after.
std::vector<std::vector<unsigned>> dependenciesOf(const Problem &problem, const std::vector<ValueUses> &uses);

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_PROBLEM_H
