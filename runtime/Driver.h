// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver makes the devices of one kind for one executor. A new kind of device is a new Driver, added to the table in
// Driver.cpp.

#ifndef CLEAVE_RUNTIME_DRIVER_H
#define CLEAVE_RUNTIME_DRIVER_H

#include "runtime/Communicator.h"
#include "runtime/Device.h"
#include "runtime/Executor.h"

#include <functional>

namespace cleave::runtime {

/// One of the entries that an executor runs.
struct EntryContext {
  const Entry *entry = nullptr;
  /// Those of DriverContext, with the entry's programs.
  std::vector<Site> sites;
  /// By site the queues of its device (DriverContext::queues) that stand for those of the entry's program.
  std::vector<std::vector<uint32_t>> queues;
  /// The entry's own, so that its communications meet no other's. Devices that simulate need neither.
  std::unique_ptr<Channels> channels;
  std::unique_ptr<Communicator> communicator;
};

/// What the drivers of an executor share. Outlives them.
struct DriverContext {
  Plan plan;
  /// Several run on the same arenas and queues.
  std::vector<EntryContext> entries;
  /// Of all entries; the program of each is that of the first entry that has one there.
  std::vector<Site> sites;
  /// By site: the queues of its device.
  std::vector<std::vector<QueueKind>> queues;
  ExecutorOptions options;
  ParameterSource *parameters = nullptr;

  /// Whether other processes run devices of the plan.
  bool hasOthers() const;
  /// Whether this process runs the device of a site.
  bool isHere(const Site &site) const;
  const Mesh &meshOf(const Site &site) const { return plan->meshes[site.mesh]; }
  /// By EntryPhase::index, how many queues of the site have instructions.
  std::vector<uint32_t> activeQueues(uint32_t site) const;
};

/// Makes devices of one kind.
class Driver {
public:
  virtual ~Driver() = default;
  /// The device of the context's site of that index, for the programs that its entries have there. Called by several
  /// threads at the same time.
  virtual Expected<std::unique_ptr<Device>> createDevice(uint32_t site) = 0;
  /// Links the devices, which have been made, where it is not a Communicator that does. Called once, by all processes
  /// together.
  virtual Error connect() { return Error::success(); }
};

/// Makes a driver; what it says when this machine has no such devices.
using DriverFactory = std::function<Expected<std::unique_ptr<Driver>>(DriverContext &)>;

/// Makes a driver known by the name that plans have for its devices, in the place of one of that name. From any thread,
/// before a plan is loaded that needs it.
void registerDriver(const std::string &name, DriverFactory create);

/// The driver of that name: one that was registered, or the build's own ("cpu", "cuda", "null"; drivers/Drivers.cpp).
/// Status::Unsupported when there is none.
Expected<std::unique_ptr<Driver>> createDriver(const std::string &name, DriverContext &context);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVER_H
