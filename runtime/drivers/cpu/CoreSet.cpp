// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Affinity through sched_setaffinity, with sets large enough for any machine.

#include "runtime/drivers/cpu/CoreSet.h"

#include "runtime/HostTopology.h"

#include <cstddef>
#include <sched.h>

namespace cleave::runtime {

namespace {
/// A cpu_set_t for `numCores` cores.
class Mask {
public:
  explicit Mask(unsigned numCores) : size(CPU_ALLOC_SIZE(numCores)), set(CPU_ALLOC(numCores)) { CPU_ZERO_S(size, set); }
  ~Mask() { CPU_FREE(set); }
  Mask(const Mask &) = delete;
  Mask &operator=(const Mask &) = delete;

  const size_t size;
  cpu_set_t *const set;
};
} // namespace

CoreSet availableCores() {
  const HostTopology &host = hostTopology();
  CoreSet cores = host.cores;
  cores.insert(cores.end(), host.siblings.begin(), host.siblings.end());
  return cores;
}

void stayOn(const CoreSet &cores) {
  if (cores.empty())
    return;
  unsigned highest = 0;
  for (unsigned core : cores)
    highest = core > highest ? core : highest;
  Mask mask(highest + 1);
  for (unsigned core : cores)
    CPU_SET_S(core, mask.size, mask.set);
  (void)sched_setaffinity(0, mask.size, mask.set);
}

} // namespace cleave::runtime
