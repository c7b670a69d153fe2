// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver makes the devices of one kind for one executor. A new kind of device is a new Driver, added to the table in
// Driver.cpp.

#ifndef CLEAVE_RUNTIME_DRIVER_H
#define CLEAVE_RUNTIME_DRIVER_H

#include "runtime/Communicator.h"
#include "runtime/Device.h"
#include "runtime/Executor.h"

namespace cleave::runtime {

/// What the drivers of an executor share. Outlives them.
struct DriverContext {
  Plan plan;
  const Entry *entry = nullptr;
  std::vector<Site> sites;
  /// What the communicator of devices that compute knows; devices that simulate need neither.
  std::unique_ptr<Channels> channels;
  ExecutorOptions options;
  ParameterSource *parameters = nullptr;
  std::unique_ptr<Communicator> communicator;

  /// Whether other processes run devices of the plan.
  bool hasOthers() const;
  /// Whether this process runs the device of a site.
  bool isHere(const Site &site) const;
  const Mesh &meshOf(const Site &site) const { return plan->meshes[site.program->mesh]; }
};

/// Makes devices of one kind.
class Driver {
public:
  virtual ~Driver() = default;
  /// The device of the context's site of that index. Called by several threads at the same time.
  virtual Expected<std::unique_ptr<Device>> createDevice(uint32_t site) = 0;
};

/// The driver of that name ("cpu", "null"); Status::Unsupported when this build has none of that name.
Expected<std::unique_ptr<Driver>> createDriver(const std::string &name, DriverContext &context);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVER_H
