// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes scheduling problems down shortly, and makes random ones.

#ifndef CLEAVE_TEST_PASSES_SCHEDULE_PROBLEMBUILDER_H
#define CLEAVE_TEST_PASSES_SCHEDULE_PROBLEMBUILDER_H

#include "passes/schedule/Problem.h"

#include <random>

namespace cleave::schedule {

/// Each call appends a task and returns the value that it writes.
class ProblemBuilder {
public:
  explicit ProblemBuilder(unsigned numDevices) { problem.numDevices = numDevices; }

  unsigned parameter(unsigned device, uint64_t bytes) {
    return add({device, {}, false, 1, false, false, {}, {}}, bytes);
  }
  unsigned input(unsigned device, uint64_t bytes) { return add({device, {}, false, 1, true, true, {}, {}}, bytes); }
  unsigned launch(unsigned device, std::vector<unsigned> reads, uint64_t bytes, double seconds = 1) {
    return add({device, {}, false, seconds, false, false, std::move(reads), {}}, bytes);
  }
  /// Reads a value of its device and writes another of that size.
  unsigned collective(unsigned value, double seconds = 1) {
    return add({problem.values[value].device, {}, true, seconds, false, false, {value}, {}},
               problem.values[value].bytes);
  }
  /// A collective that writes its result over what it reads.
  unsigned collectiveInPlace(unsigned value, double seconds = 1) {
    unsigned result = collective(value, seconds);
    problem.values[result].inPlaceOf = value;
    return result;
  }
  unsigned transfer(unsigned value, unsigned target, double seconds = 1) {
    return add({problem.values[value].device, target, false, seconds, false, false, {value}, {}},
               problem.values[value].bytes, target);
  }
  /// A copy to the host's memory, and one back.
  unsigned offload(unsigned value, double seconds = 1) {
    unsigned kept = copy(value, HostCopy::Offload, seconds);
    problem.values[kept].inHost = true;
    return kept;
  }
  unsigned fetch(unsigned value, double seconds = 1) { return copy(value, HostCopy::Fetch, seconds); }
  void output(unsigned value) {
    problem.tasks.push_back({problem.values[value].device, {}, false, 0.5, true, true, {value}, {}});
  }
  /// Another value that the last task writes: a second result, or scratch memory.
  unsigned also(uint64_t bytes) {
    Task &task = problem.tasks.back();
    task.writes.push_back(static_cast<unsigned>(problem.values.size()));
    problem.values.push_back({task.device, bytes, {}});
    return task.writes.back();
  }
  /// The task that writes a value.
  unsigned writerOf(unsigned value) const { return usesOf(problem)[value].writer; }

  Problem problem;

private:
  unsigned copy(unsigned value, HostCopy way, double seconds) {
    unsigned device = problem.values[value].device;
    return add({device, {}, false, seconds, true, false, {value}, {}, {}, way}, problem.values[value].bytes);
  }
  unsigned add(Task task, uint64_t bytes, std::optional<unsigned> device = {}) {
    auto value = static_cast<unsigned>(problem.values.size());
    problem.values.push_back({device.value_or(task.device), bytes, {}});
    task.writes.push_back(value);
    problem.tasks.push_back(std::move(task));
    return value;
  }
};

/// A random graph of `numLaunches` launches over 1 to 3 devices; values reach other devices by one transfer each.
Problem randomProblem(uint64_t seed, unsigned numLaunches);

} // namespace cleave::schedule

#endif // CLEAVE_TEST_PASSES_SCHEDULE_PROBLEMBUILDER_H
