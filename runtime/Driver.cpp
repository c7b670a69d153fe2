// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What drivers are told of the run.

#include "runtime/Driver.h"

#include "runtime/Processes.h"

#include <set>

namespace cleave::runtime {

bool DriverContext::hasOthers() const { return options.processes && options.processes->count() > 1; }

bool DriverContext::isHere(const Site &site) const {
  return !hasOthers() || options.rankOfDevice[site.device] == options.processes->rank();
}

std::vector<uint32_t> DriverContext::activeQueues(uint32_t site) const {
  std::vector<uint32_t> counts;
  for (const EntryContext &running : entries)
    for (Phase phase : {Phase::Prepare, Phase::Body}) {
      std::set<uint32_t> busy;
      if (const Program *program = running.sites[site].program)
        for (const Instruction &instruction : program->instructions(phase))
          busy.insert(instruction.queue);
      counts.push_back(static_cast<uint32_t>(busy.size()));
    }
  return counts;
}

} // namespace cleave::runtime
