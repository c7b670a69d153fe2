// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures collectives between devices of one process, or of several: `cleave-run --collectives`, also under mpirun,
// and `cleave bench --collectives`.

#ifndef CLEAVE_RUNTIME_PROFILE_COLLECTIVEBENCH_H
#define CLEAVE_RUNTIME_PROFILE_COLLECTIVEBENCH_H

#include "runtime/Error.h"

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace cleave::runtime {

class Processes;

struct CollectiveBenchOptions {
  /// Names of operations; none: all of collectiveNames().
  std::vector<std::string> operations;
  /// Bytes as nccl-tests counts them: the larger of a device's two buffers.
  std::vector<uint64_t> sizes = {uint64_t(64) << 10, uint64_t(1) << 20, uint64_t(16) << 20, uint64_t(64) << 20};
  uint32_t devices = 2;
  /// Each measurement is the best of this many rounds.
  unsigned rounds = 5;
  /// Measure the ceiling, too.
  bool ceiling = true;
  std::string jsonFile;
  /// Among which the devices are divided; null for one alone.
  Processes *processes = nullptr;
};

/// One operation at one size. Rates in bytes a second.
struct CollectiveResult {
  std::string operation;
  uint64_t bytes = 0;
  double seconds = 0;
  /// Bytes by seconds, and that times the share of them that must cross between devices, as nccl-tests defines both.
  double algbw = 0, busbw = 0;
  /// How long all devices' cores together need to read and write, without any exchange, as many bytes as the operation
  /// must read and write; and at what rate.
  double ceilingSeconds = 0, ceilingRate = 0;
  /// What MPI's own operation takes in the same run, where there is a process for each device; otherwise 0.
  double peerSeconds = 0;
};

/// "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "permute", "send".
std::vector<std::string> collectiveNames();

/// Runs the measurements. Status::Usage for an unknown operation or a size that the devices cannot share;
/// Status::Infeasible when memory is short.
Expected<std::vector<CollectiveResult>> measureCollectives(const CollectiveBenchOptions &options);

/// Measures, prints a table to `out` and writes the JSON file if there is one; of several processes rank 0 does.
/// Returns the exit code.
int runCollectiveBench(const CollectiveBenchOptions &options, std::ostream &out, std::ostream &err);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_COLLECTIVEBENCH_H
