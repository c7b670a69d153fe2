// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What was measured of GPUs, and the machine file that says it to the compiler.

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_GPUMACHINEFILE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_GPUMACHINEFILE_H

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace cleave {

/// Calls of one size, which is operations of contractions and convolutions, and bytes read and written of others.
struct GpuSample {
  std::string costClass;   ///< "contraction", "convolution", "elementwise", "reduction", "movement"
  std::string elementType; ///< "f32", "bf16", "tf32"
  double size = 0;
  double seconds = 0; ///< of a call without what its launch takes
  double rate() const { return size / seconds; }
};

struct GpuMeasurement {
  std::string name;    ///< as the GPU calls itself: "NVIDIA H100 80GB HBM3"
  std::string chip;    ///< "sm_90"
  unsigned gpus = 1;   ///< of this host, which are taken as alike
  uint64_t memory = 0; ///< bytes that are free
  /// Seconds of a call that does hardly anything, in a graph that is replayed, behind others that it waits for; its
  /// code is not at hand, as steps of many different kernels find it.
  double launch = 0;
  double launchAlone = 0;                    ///< of one that does nothing, launched by the host one after the other
  double step = 0;                           ///< seconds until the host knows that a graph which does nothing is over
  double hostBandwidth = 0, hostLatency = 0; ///< copies in a graph, from memory of the host that is pinned
  /// Copies from one device to another: of GPUs where there are several, else of logical devices on one.
  double linkBandwidth = 0, linkLatency = 0;
  std::vector<GpuSample> samples;
};

/// The kind's name in the file: of "NVIDIA A100-SXM4-80GB" it is "a100".
std::string gpuKindName(const std::string &name);

/// Writes a machine file of one host (docs/formats.md). Samples of one class and type differ in size.
void writeGpuMachineFile(const GpuMeasurement &measured, std::ostream &out);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_GPUMACHINEFILE_H
