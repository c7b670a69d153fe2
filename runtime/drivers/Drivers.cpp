// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The drivers that a program has: those of this build, and what it adds.

#include "runtime/Driver.h"
#include "runtime/DriverNames.h"
#include "runtime/drivers/cpu/CpuDriver.h"
#ifdef CLEAVE_CUDA
#include "runtime/drivers/cuda/CudaDriver.h"
#endif
#include "runtime/drivers/null/NullDriver.h"

#include <map>
#include <mutex>

namespace cleave::runtime {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, DriverFactory> drivers = {
      {"cpu", [](DriverContext &context) { return Expected(createCpuDriver(context)); }},
#ifdef CLEAVE_CUDA
      {"cuda", createCudaDriver},
#endif
      {"null", [](DriverContext &context) { return Expected(createNullDriver(context)); }}};
};

Table &table() {
  static Table table;
  return table;
}

} // namespace

void registerDriver(const std::string &name, DriverFactory create) {
  std::lock_guard lock(table().mutex);
  table().drivers[name] = std::move(create);
}

std::vector<std::string> driverNames() {
  std::vector<std::string> names;
  std::lock_guard lock(table().mutex);
  for (const auto &[name, factory] : table().drivers)
    names.push_back(name);
  return names;
}

Expected<std::unique_ptr<Driver>> createDriver(const std::string &name, DriverContext &context) {
  DriverFactory create;
  std::string known;
  {
    std::lock_guard lock(table().mutex);
    for (const auto &[driver, factory] : table().drivers) {
      if (name == driver)
        create = factory;
      known += (known.empty() ? "" : ", ") + driver;
    }
  }
  if (create)
    return create(context);
  return makeError(Status::Unsupported, "driver \"", name, "\" is not in this build, which has ", known);
}

} // namespace cleave::runtime
