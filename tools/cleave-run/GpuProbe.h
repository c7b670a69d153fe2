// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures a GPU with what plans run on it: the kernel libraries, kernels in PTX, copies, launches and graphs.

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_GPUPROBE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_GPUPROBE_H

#include "runtime/Error.h"
#include "tools/cleave-run/GpuMachineFile.h"

#include <functional>

namespace cleave {

struct GpuProbeOptions {
  /// Calls of more operations, or of more bytes, are left out.
  double mostWork = 2e12;
  uint64_t mostBytes = uint64_t(1) << 30;
  /// A call is repeated for so long, three times, in seconds.
  double seconds = 0.02;
  /// After so many seconds no further call is begun; what is known is enough then.
  double deadline = 45;
  /// Is told what is measured next.
  std::function<void(const std::string &)> progress;
  /// Is given what is known, each time that more of it is.
  std::function<void(const GpuMeasurement &)> known;
};

/// Measures the first of the driver's GPUs, and copies between the first two devices. Status::Unsupported or
/// Status::Infeasible without CUDA or a GPU. A library that is missing, a kernel that it refuses, and whatever else
/// fails while the GPU still answers are left out and said to `progress`; where nothing is left, the first error is
/// returned.
runtime::Expected<GpuMeasurement> probeGpu(const GpuProbeOptions &options);

/// The whole of `cleave-run --probe-gpu`: measures, and writes a machine file to `path` (standard output if empty or
/// "-"). Returns the exit code.
int runGpuProbe(const std::string &path, std::ostream &out, std::ostream &err);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_GPUPROBE_H
