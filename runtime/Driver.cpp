// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of drivers.

#include "runtime/Driver.h"

#include "runtime/Processes.h"
#include "runtime/drivers/cpu/CpuDriver.h"
#ifdef CLEAVE_CUDA
#include "runtime/drivers/cuda/CudaDriver.h"
#endif
#include "runtime/drivers/null/NullDriver.h"

#include <algorithm>
#include <set>

namespace cleave::runtime {

namespace {
struct Registration {
  const char *name;
  Expected<std::unique_ptr<Driver>> (*create)(DriverContext &);
};
} // namespace

static constexpr Registration drivers[] = {
    {"cpu", [](DriverContext &context) { return Expected(createCpuDriver(context)); }},
#ifdef CLEAVE_CUDA
    {"cuda", createCudaDriver},
#endif
    {"null", [](DriverContext &context) { return Expected(createNullDriver(context)); }}};

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

Expected<std::unique_ptr<Driver>> createDriver(const std::string &name, DriverContext &context) {
  std::string known;
  for (const Registration &driver : drivers) {
    if (name == driver.name)
      return driver.create(context);
    known += (known.empty() ? "" : ", ") + std::string(driver.name);
  }
  return makeError(Status::Unsupported, "driver \"", name, "\" is not in this build, which has ", known);
}

} // namespace cleave::runtime
