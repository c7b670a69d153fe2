// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Null devices: arenas that are only numbers, kernels that are not loaded, queues that the simulation runs.

#include "runtime/drivers/null/NullDriver.h"

#include "runtime/drivers/null/Simulation.h"

#include <algorithm>

namespace cleave::runtime {
namespace {

class NullQueue : public Queue {
public:
  NullQueue(Simulation &simulation, NullDeviceState &device, uint32_t index, Trace::Track *track)
      : simulation(simulation), index(index) {
    state.owner = this;
    state.device = &device;
    state.track = track;
    device.queues.push_back(&state);
  }
  ~NullQueue() override { simulation.settle(); }
  Error record(EntryPhase phase, std::vector<Command> commands) override {
    state.lists.resize(std::max(state.lists.size(), phase.index() + 1));
    state.lists[phase.index()] = simulation.share(state, index, phase, commands);
    return Error::success();
  }
  void submit(std::shared_ptr<Step> step) override { simulation.submit(state, std::move(step)); }

private:
  Simulation &simulation;
  const uint32_t index;
  SimulatedQueue state;
};

class NullDevice : public Device {
public:
  NullDevice(DriverContext &context, uint32_t index, Simulation &simulation)
      : context(context), site(context.sites[index]), simulation(simulation) {
    state.device = site.device;
    state.index = index;
    state.activeQueues = context.activeQueues(index);
    for (uint32_t count : state.activeQueues)
      state.takesPart.push_back(count != 0);
  }
  Error allocate(uint64_t bytes, uint64_t) override {
    arenaBytes = bytes;
    return Error::success();
  }
  uint64_t allocatedBytes() const override { return arenaBytes; }
  Buffer place(const PlanBuffer &buffer) const override { return {nullptr, buffer.bytes}; }
  Error load() override { return Error::success(); }
  Expected<std::unique_ptr<Queue>> createQueue(uint32_t index) override {
    Trace::Track *track = nullptr;
    if (context.options.trace)
      track = &context.options.trace->add(context.plan, site, index, context.queues[state.index][index]);
    return std::unique_ptr<Queue>(std::make_unique<NullQueue>(simulation, state, index, track));
  }

  Error copyOut(const PlanBuffer &buffer, std::span<std::byte>) const override {
    return makeError(Status::Unsupported, "buffer \"", buffer.name,
                     "\" is on a device that simulates and holds nothing");
  }

private:
  DriverContext &context;
  const Site &site;
  Simulation &simulation;
  NullDeviceState state;
  uint64_t arenaBytes = 0;
};

class NullDriver : public Driver {
public:
  explicit NullDriver(DriverContext &context) : context(context), simulation(context) {}
  Expected<std::unique_ptr<Device>> createDevice(uint32_t site) override {
    return std::unique_ptr<Device>(std::make_unique<NullDevice>(context, site, simulation));
  }

private:
  DriverContext &context;
  Simulation simulation;
};

} // namespace

std::unique_ptr<Driver> createNullDriver(DriverContext &context) { return std::make_unique<NullDriver>(context); }

} // namespace cleave::runtime
