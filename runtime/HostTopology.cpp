// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks hwloc for cores and caches, and the kernel's control groups for quotas, which hwloc does not know.

#include "runtime/HostTopology.h"

#ifdef CLEAVE_HWLOC
#include <hwloc.h>
#endif

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>

namespace cleave::runtime {

static constexpr double unlimited = std::numeric_limits<double>::infinity();

/// The first words of a file; nothing where it cannot be read.
static std::vector<std::string> readWords(const std::string &path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; words.size() < 2 && file >> word;)
    words.push_back(word);
  return words;
}

/// A quota in units per period; infinite where they are no such numbers ("max", "-1").
static double quotaOf(const std::string &quota, const std::string &period) {
  char *end = nullptr;
  double time = std::strtod(quota.c_str(), &end), of = std::strtod(period.c_str(), nullptr);
  return end != quota.c_str() && time > 0 && of > 0 ? time / of : unlimited;
}

static double quotaOfFolder(const std::string &folder) {
  std::vector<std::string> limit = readWords(folder + "/cpu.max");
  if (limit.size() == 2)
    return quotaOf(limit[0], limit[1]);
  std::vector<std::string> quota = readWords(folder + "/cpu.cfs_quota_us"),
                           period = readWords(folder + "/cpu.cfs_period_us");
  return quota.empty() || period.empty() ? unlimited : quotaOf(quota[0], period[0]);
}

/// Bytes that a group may take; infinite where nothing says so ("max", or version 1's largest number).
static double memoryOfFolder(const std::string &folder) {
  for (const char *file : {"/memory.max", "/memory.limit_in_bytes"})
    if (std::vector<std::string> limit = readWords(folder + file); !limit.empty())
      return quotaOf(limit[0], "1");
  return unlimited;
}

/// The least limit of a controller that a group and those above it have.
static double leastOfGroups(const std::string &root, std::string_view membership, const std::string &controller,
                            double (*limitOf)(const std::string &folder)) {
  double least = unlimited;
  std::istringstream lines{std::string(membership)};
  // "0::/user.slice" of version 2, "4:cpu,cpuacct:/docker/0a1b" of version 1.
  for (std::string line; std::getline(lines, line);) {
    size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    std::string mount = root;
    if (!controllers.empty()) {
      if (("," + controllers + ",").find("," + controller + ",") == std::string::npos)
        continue;
      mount += "/" + controllers;
    }
    // A container sees its own group as the root of the mount, whatever its path is called outside.
    for (;;) {
      least = std::min(least, limitOf(mount + (path == "/" ? "" : path)));
      if (path.empty() || path == "/")
        break;
      path.resize(path.find_last_of('/'));
    }
  }
  return least;
}

double processorQuota(const std::string &root, std::string_view membership) {
  return leastOfGroups(root, membership, "cpu", quotaOfFolder);
}

double memoryQuota(const std::string &root, std::string_view membership) {
  return leastOfGroups(root, membership, "memory", memoryOfFolder);
}

unsigned HostTopology::usableCores() const {
  double allowed = std::min<double>(static_cast<double>(cores.size()), quota);
  return std::max(1u, static_cast<unsigned>(allowed));
}

/// The hardware threads that the calling thread may run on.
static std::set<unsigned> affinity() {
  // The kernel refuses a mask that is smaller than its own.
  for (unsigned count = 1024; count <= 1u << 20; count *= 2) {
    size_t size = CPU_ALLOC_SIZE(count);
    cpu_set_t *mask = CPU_ALLOC(count);
    bool known = sched_getaffinity(0, size, mask) == 0, isTooSmall = !known && errno == EINVAL;
    std::set<unsigned> threads;
    for (unsigned thread = 0; known && thread != count; ++thread)
      if (CPU_ISSET_S(thread, size, mask))
        threads.insert(thread);
    CPU_FREE(mask);
    if (!threads.empty())
      return threads;
    if (!isTooSmall)
      break;
  }
  return {0};
}

static HostTopology readTopology() {
  HostTopology host;
  std::set<unsigned> allowed = affinity();
#ifdef CLEAVE_HWLOC
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) == 0) {
    if (hwloc_topology_load(topology) == 0) {
      for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core));) {
        bool isFirst = true;
        unsigned thread = 0;
        hwloc_bitmap_foreach_begin(thread, core->cpuset) {
          if (allowed.erase(thread))
            (isFirst ? host.cores : host.siblings).push_back(thread), isFirst = false;
        }
        hwloc_bitmap_foreach_end();
      }
      if (hwloc_obj_t cache = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L2CACHE, 0))
        host.ownCacheBytes = cache->attr->cache.size;
    }
    hwloc_topology_destroy(topology);
  }
#endif
  // What hwloc does not show.
  host.cores.insert(host.cores.end(), allowed.begin(), allowed.end());
  if (host.ownCacheBytes == 0)
    host.ownCacheBytes = static_cast<uint64_t>(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 0L));
  std::ifstream membership("/proc/self/cgroup");
  std::ostringstream text;
  text << membership.rdbuf();
  host.quota = processorQuota("/sys/fs/cgroup", text.str());
  double physical = static_cast<double>(std::max(sysconf(_SC_PHYS_PAGES), 0L)) *
                    static_cast<double>(std::max(sysconf(_SC_PAGE_SIZE), 0L));
  host.memoryBytes = static_cast<uint64_t>(std::min(physical, memoryQuota("/sys/fs/cgroup", text.str())));
  return host;
}

const HostTopology &hostTopology() {
  static const HostTopology host = readTopology();
  return host;
}

} // namespace cleave::runtime
