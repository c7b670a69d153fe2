// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Deals the machine's cores to the devices, and puts a device together from its arena, executable and queues.

#include "runtime/drivers/cpu/CpuDriver.h"

#include "runtime/HostTopology.h"
#include "runtime/drivers/cpu/CpuArena.h"
#include "runtime/drivers/cpu/CpuExecutable.h"
#include "runtime/drivers/cpu/CpuQueue.h"

#include <algorithm>
#include <map>
#include <set>

namespace cleave::runtime {
namespace {

/// How long a compute thread with cores of its own waits awake: longer than a transfer takes, or a neighbour's turn in
/// a pipeline. To wake a core that sleeps takes a virtual machine about 0.1 ms, as long as many kernels.
constexpr std::chrono::milliseconds patience(5);

class CpuDevice : public Device {
public:
  CpuDevice(DriverContext &shared, uint32_t index, NativeLibraries &libraries, unsigned threads, CoreSet cores,
            CoreSet places, std::chrono::nanoseconds spin)
      : libraries(libraries) {
    context.shared = &shared;
    context.index = index;
    context.threads = threads;
    context.cores = std::move(cores);
    context.places = std::move(places);
    context.spin = spin;
    context.activeQueues = shared.activeQueues(index);
    context.hasSeveralQueues = countUsedQueues() > 1;
  }

  /// The host's memory is the device's own: what is kept there is kept apart.
  Error allocate(uint64_t bytes, uint64_t hostBytes) override {
    auto made = CpuArena::allocate(bytes), madeOfHost = CpuArena::allocate(hostBytes);
    if (!made || !madeOfHost)
      return made ? madeOfHost.error() : made.error();
    arena = std::move(*made);
    hostMemory = std::move(*madeOfHost);
    return Error::success();
  }
  uint64_t allocatedBytes() const override { return arena.bytes().size(); }
  Buffer place(const PlanBuffer &buffer) const override {
    if (buffer.isInHost())
      return {hostMemory.bytes().data() + (buffer.offset - hostOffset), buffer.bytes};
    return {arena.bytes().data() + buffer.offset, buffer.bytes};
  }
  Error load() override {
    std::vector<const Program *> programs;
    for (const EntryContext &running : context.shared->entries)
      if (const Program *program = running.sites[context.index].program)
        programs.push_back(program);
    auto loaded = CpuExecutable::load(context.shared->plan, programs, libraries, context.threads);
    if (!loaded)
      return loaded.error();
    executable = std::move(*loaded);
    context.executable = executable.get();
    return Error::success();
  }
  Expected<std::unique_ptr<Queue>> createQueue(uint32_t index) override {
    return std::unique_ptr<Queue>(std::make_unique<CpuQueue>(context, index));
  }

  Error copyOut(const PlanBuffer &buffer, std::span<std::byte> target) const override {
    std::ranges::copy(place(buffer).bytes(), target.begin());
    return Error::success();
  }

private:
  size_t countUsedQueues() const {
    std::set<uint32_t> used;
    for (const EntryContext &running : context.shared->entries)
      if (const Program *program = running.sites[context.index].program)
        for (Phase phase : {Phase::Prepare, Phase::Body})
          for (const Instruction &instruction : program->instructions(phase))
            used.insert(running.queues[context.index][instruction.queue]);
    return used.size();
  }

  NativeLibraries &libraries;
  CpuArena arena, hostMemory;
  std::unique_ptr<CpuExecutable> executable;
  CpuQueueContext context;
};

class CpuDriver : public Driver {
public:
  explicit CpuDriver(DriverContext &context)
      : context(context), libraries(context.plan), cores(availableCores()), wanted(context.options.threadsBefore) {
    for (const Site &site : context.sites)
      if (context.isHere(site) && firstCore.try_emplace(site.device, wanted).second)
        wanted += threadsOf(site);
    hasNeighbours = firstCore.size() > 1 || context.options.threadsBefore + context.options.threadsBehind != 0;
    wanted += context.options.threadsBehind;
  }

  Expected<std::unique_ptr<Device>> createDevice(uint32_t index) override {
    const Site &site = context.sites[index];
    unsigned threads = threadsOf(site);
    // The sites of a device take turns on its cores. A single device has no neighbour to be kept away from; the system
    // places it better than a fixed choice would, which a second process would make as well, unless its threads take
    // all cores. Of several processes that run a plan together each makes its choice without the others, so what starts
    // them places them.
    CoreSet own, places;
    if (context.options.pin && !context.hasOthers() && wanted <= cores.size()) {
      auto first = cores.begin() + static_cast<ptrdiff_t>(firstCore.at(site.device));
      if (hasNeighbours)
        own.assign(first, first + threads);
      if (hasNeighbours || threads == hostTopology().cores.size() || threads == cores.size())
        places.assign(first, first + threads);
    }
    // With more threads than cores a thread that waits awake keeps another device's from its core.
    auto spin = !context.hasOthers() && wanted <= cores.size() ? std::chrono::nanoseconds(patience)
                                                               : std::chrono::nanoseconds(0);
    return std::unique_ptr<Device>(
        std::make_unique<CpuDevice>(context, index, libraries, threads, std::move(own), std::move(places), spin));
  }

private:
  /// A team larger than the machine would only wait for itself.
  unsigned threadsOf(const Site &site) const {
    size_t asked = context.plan->devices[site.device].cores;
    return static_cast<unsigned>(std::clamp<size_t>(asked, 1, cores.size()));
  }

  DriverContext &context;
  NativeLibraries libraries;
  const CoreSet cores;
  std::map<uint32_t, size_t> firstCore; ///< by device
  size_t wanted;                        ///< threads of all devices that work at the same time
  bool hasNeighbours = false;
};

} // namespace

std::unique_ptr<Driver> createCpuDriver(DriverContext &context) { return std::make_unique<CpuDriver>(context); }

} // namespace cleave::runtime
