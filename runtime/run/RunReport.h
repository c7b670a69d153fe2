// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run found out, as text and as JSON.

#ifndef CLEAVE_RUNTIME_RUN_RUNREPORT_H
#define CLEAVE_RUNTIME_RUN_RUNREPORT_H

#include "runtime/Comparison.h"
#include "runtime/Executor.h"
#include "runtime/Trace.h"

#include <iosfwd>
#include <optional>

namespace cleave::runtime {

/// Times in milliseconds.
struct Latency {
  double median = 0, p10 = 0, p90 = 0, p99 = 0;
};

/// Order statistics of `samples` (milliseconds, not empty): the nearest one to each quantile.
Latency latencyOf(std::vector<double> samples);

struct OutputReport {
  std::string name;
  TensorType type;
  std::optional<Comparison> comparison; ///< absent when nothing was expected
  std::string values;                   ///< what is shown of the elements, as describeValues says it
};

/// A line about a tensor's elements: the first of them, and of scores along the last dimension which is the largest.
std::string describeValues(const HostTensor &tensor);

/// What the instructions of one node took, on all devices and in all steps together.
struct NodeTime {
  std::string node;
  uint64_t instructions = 0; ///< that ran
  double seconds = 0;
};

/// The nodes of the steps of a trace without its first `leftOut`, the longest first.
std::vector<NodeTime> nodeTimes(const Trace &trace, uint64_t leftOut);

struct RunReport {
  std::string entry;
  unsigned steps = 0;
  bool simulated = false; ///< times are those of the null driver
  Latency latency;
  double stepsPerSecond = 0;
  std::vector<DeviceMemory> devices;
  std::vector<OutputReport> outputs;
  std::vector<NodeTime> nodes; ///< where a profile was asked for

  /// The largest arena of a device, in bytes.
  uint64_t peakBytes() const;
  void print(std::ostream &out) const;
  void writeJson(std::ostream &out) const;

private:
  void printNodes(std::ostream &out) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RUN_RUNREPORT_H
