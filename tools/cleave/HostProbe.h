// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures this host: what the runtime's devices reach by operator class and size, and what lies between them.

#ifndef CLEAVE_TOOLS_CLEAVE_HOSTPROBE_H
#define CLEAVE_TOOLS_CLEAVE_HOSTPROBE_H

#include "passes/cost/Machine.h"
#include "tools/cleave/Diagnostics.h"

namespace cleave::tool {

struct HostProbeOptions {
  std::vector<unsigned> cores; ///< of the devices to measure, ascending, the first 1
  double seconds = 1;          ///< to measure each model for
};

/// Seconds of a communication of two sizes.
struct LinkMeasurement {
  std::string operation;
  double smallBytes = 0, smallSeconds = 0, largeBytes = 0, largeSeconds = 0;
};

struct HostMeasurement {
  Machine machine; ///< one host of the machine's cores as devices of one core
  std::vector<LinkMeasurement> links;
  double seconds = 0;      ///< that all of it took
  double medianSpread = 0; ///< of the times of a node: the distance of the quartiles as a part of its time
  unsigned samples = 0;    ///< nodes that were measured
};

/// Measures. Devices of several kinds are measured one after the other; links and slowdowns between two devices that
/// have the cores between them.
Expected<HostMeasurement> probeHost(const HostProbeOptions &options);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_HOSTPROBE_H
