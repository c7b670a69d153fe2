// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What this process may use of the host that it runs on.

#ifndef CLEAVE_RUNTIME_HOSTTOPOLOGY_H
#define CLEAVE_RUNTIME_HOSTTOPOLOGY_H

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

struct HostTopology {
  /// One hardware thread of each core that the process may run on, by the operating system's number; neighbours in the
  /// list share caches and NUMA nodes. At least one.
  std::vector<unsigned> cores;
  /// The other hardware threads of these cores (SMT).
  std::vector<unsigned> siblings;
  /// Processors' time that the process's control group may take, in processors; infinite without a quota.
  double quota = std::numeric_limits<double>::infinity();
  /// Bytes of memory that the process may take: the host's, or what its control group allows; 0 where unknown.
  uint64_t memoryBytes = 0;
  /// Bytes of the cache that a core has for itself (its second level); 0 where nobody says so.
  uint64_t ownCacheBytes = 0;

  /// How many threads can compute at the same time without taking turns: a thread for each core, within the quota.
  unsigned usableCores() const;
};

/// Of the calling thread's affinity, when it is called first. By hwloc where the build has it; otherwise every hardware
/// thread counts as a core.
const HostTopology &hostTopology();

/// The processors that a control group and those above it allow, the smallest of them. `root` is where control groups
/// are mounted ("/sys/fs/cgroup"), `membership` the text of /proc/self/cgroup; version 2's cpu.max and version 1's
/// cpu.cfs_quota_us are read. Infinite where nothing limits.
double processorQuota(const std::string &root, std::string_view membership);
/// The same of bytes of memory: version 2's memory.max and version 1's memory.limit_in_bytes.
double memoryQuota(const std::string &root, std::string_view membership);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_HOSTTOPOLOGY_H
