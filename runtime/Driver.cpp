// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of drivers.

#include "runtime/Driver.h"

#include "runtime/Processes.h"
#include "runtime/drivers/cpu/CpuDriver.h"
#include "runtime/drivers/null/NullDriver.h"

#include <algorithm>
#include <array>

namespace cleave::runtime {

namespace {
struct Registration {
  const char *name;
  std::unique_ptr<Driver> (*create)(DriverContext &);
};
} // namespace

static constexpr std::array<Registration, 2> drivers = {{{"cpu", createCpuDriver}, {"null", createNullDriver}}};

bool DriverContext::hasOthers() const { return options.processes && options.processes->count() > 1; }

bool DriverContext::isHere(const Site &site) const {
  return !hasOthers() || options.rankOfDevice[site.device] == options.processes->rank();
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
