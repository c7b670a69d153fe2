// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts devices together for entries, binds their instructions to the devices' memory, and hands steps to their queues.

#include "runtime/Executor.h"

#include "runtime/Clock.h"
#include "runtime/Communicator.h"
#include "runtime/Driver.h"
#include "runtime/HostTopology.h"
#include "runtime/Processes.h"
#include "runtime/Step.h"
#include "runtime/TileLoad.h"
#include "runtime/Trace.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace cleave::runtime {

/// A site's device and its queues; queues without instructions are there, but never get a step. Nothing for a site of
/// another process.
struct Member {
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Queue>> queues;
};

class Executor::State {
public:
  Error build(const Plan &plan, std::vector<const Entry *> entries, ParameterSource &parameters,
              ExecutorOptions options);
  Error checkTensors(const Entry &entry, const std::vector<Port> &ports, const std::vector<HostTensor> &tensors,
                     const char *what) const;
  /// `here`: on the calling thread, where the only queue does that.
  std::shared_ptr<Step> start(EntryPhase phase, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs,
                              bool here = false);
  Expected<Ticket> submit(uint32_t entry, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs, bool here);
  uint64_t arenaBytes(uint32_t site, uint64_t Program::*bytes = &Program::arenaBytes) const;
  Error readPart(const EntryContext &running, const Site &site, const runtime::State &part,
                 const HostTensor &target) const;
  /// An error of a step: with several processes, that of a rank that has failed and is lost to the others.
  Error agreeOnStep(const Error &error) const;
  ~State() {
    for (auto &[ticket, step] : inFlight)
      (void)step->wait();
  }

  // In this order, so that members go before their drivers, and those before what they share.
  DriverContext context;
  std::map<std::string, std::unique_ptr<Driver>> drivers;
  std::vector<Member> members;
  std::mutex mutex; ///< of what follows
  Ticket next = 0;
  std::map<Ticket, std::shared_ptr<Step>> inFlight;

private:
  /// The error of the first of all processes that has one.
  Error agree(const Error &error) const;
  void findQueues();
  Error createDrivers();
  Error createMembers();
  Error createCommunicator();
  Error prepare();
  Error createMember(uint32_t site);
  Error createQueues(uint32_t site);
  std::vector<std::vector<Command>> bind(const Member &member, const Program &program,
                                         const std::vector<uint32_t> &queues, Phase phase) const;

  /// The queues that have instructions in a phase, and its steps so far, by EntryPhase::index.
  std::vector<std::vector<Queue *>> active;
  std::vector<uint64_t> started;

public:
  /// When the caller last learned that a step was over, for simulated time.
  int64_t lastEnd = 0;
};

/// The phase's commands by the program's queues, for which the device has `queues`. Waits that an earlier wait of the
/// same queue implies are left out, so that an instruction that depends on its own queue alone costs no
/// synchronization.
std::vector<std::vector<Command>> Executor::State::bind(const Member &member, const Program &program,
                                                        const std::vector<uint32_t> &queues, Phase phase) const {
  size_t numQueues = program.queues.size();
  std::vector<std::vector<Command>> commands(numQueues);
  std::vector<std::vector<uint32_t>> reached(numQueues, std::vector<uint32_t>(numQueues));
  for (const Instruction &instruction : program.instructions(phase)) {
    Command command;
    command.instruction = &instruction;
    for (const Wait &wait : instruction.waits) {
      uint32_t &known = reached[instruction.queue][wait.queue];
      if (wait.queue == instruction.queue || wait.value <= known)
        continue;
      known = wait.value;
      command.waits.push_back({member.queues[queues[wait.queue]].get(), wait.value});
    }
    for (uint32_t buffer : buffersOf(instruction.action))
      command.buffers.push_back(member.device->place(program.buffers[buffer]));
    commands[instruction.queue].push_back(std::move(command));
  }
  std::map<Queue *, size_t> indexOf;
  for (size_t i = 0; i != numQueues; ++i)
    indexOf[member.queues[queues[i]].get()] = i;
  for (size_t queue = 0; queue != numQueues; ++queue)
    for (const Command &command : commands[queue])
      for (const TimelinePoint &point : command.waits)
        commands[indexOf[point.queue]][point.value - 1].signals = true;
  return commands;
}

Error Executor::State::agree(const Error &error) const {
  return context.options.processes ? context.options.processes->agree(error) : error;
}

Error Executor::State::agreeOnStep(const Error &error) const {
  Error agreed = agree(error);
  if (!agreed || !context.hasOthers())
    return agreed;
  return Error(Status::Lost, agreed.message(), agreed.node());
}

Error Executor::State::createDrivers() {
  std::set<std::string> kinds;
  for (const Site &site : context.sites)
    kinds.insert(context.plan->devices[site.device].driver);
  if (kinds.size() > 1 && !kinds.count("null"))
    return makeError(Status::Unsupported, "entry \"", context.entries.front().entry->name,
                     "\" expects devices of one driver, got \"", *kinds.begin(), "\" and \"", *kinds.rbegin(),
                     "\"; compile the model for devices of one kind");
  for (const Site &site : context.sites) {
    const std::string &name = context.plan->devices[site.device].driver;
    if (!context.isHere(site) || drivers.count(name))
      continue;
    auto driver = createDriver(name, context);
    if (!driver)
      return driver.error();
    drivers[name] = std::move(*driver);
  }
  if (kinds.size() > 1 && kinds.count("null"))
    return makeError(Status::Unsupported, "entry \"", context.entries.front().entry->name,
                     "\" mixes the null driver with others; simulate all devices or none");
  if (kinds.count("null") && context.hasOthers())
    return makeError(Status::Unsupported, "the null driver simulates all devices in one process, got ",
                     context.options.processes->count(), "; run it without mpirun");
  return Error::success();
}

/// The most that a program of the site needs.
uint64_t Executor::State::arenaBytes(uint32_t site, uint64_t Program::*bytes) const {
  uint64_t most = 0;
  for (const EntryContext &running : context.entries)
    if (const Program *program = running.sites[site].program)
      most = std::max(most, program->*bytes);
  return most;
}

Error Executor::State::createMember(uint32_t index) {
  const Site &site = context.sites[index];
  const PlanDevice &description = context.plan->devices[site.device];
  Member &member = members[index];
  auto device = drivers[description.driver]->createDevice(index);
  if (!device)
    return device.error();
  member.device = std::move(*device);
  if (Error error = member.device->allocate(arenaBytes(index), arenaBytes(index, &Program::hostBytes)))
    return error;
  if (Error error = member.device->load())
    return error;
  return Error::success();
}

Error Executor::State::createQueues(uint32_t index) {
  Member &member = members[index];
  for (uint32_t queue = 0; queue != context.queues[index].size(); ++queue) {
    auto created = member.device->createQueue(queue);
    if (!created)
      return created.error();
    member.queues.push_back(std::move(*created));
  }
  for (uint32_t entry = 0; entry != context.entries.size(); ++entry) {
    const EntryContext &running = context.entries[entry];
    const Program *program = running.sites[index].program;
    for (Phase phase : {Phase::Prepare, Phase::Body}) {
      if (!program)
        continue;
      const std::vector<uint32_t> &queues = running.queues[index];
      auto lists = bind(member, *program, queues, phase);
      for (size_t queue = 0; queue != lists.size(); ++queue) {
        if (lists[queue].empty())
          continue;
        Queue &own = *member.queues[queues[queue]];
        active[EntryPhase{entry, phase}.index()].push_back(&own);
        if (Error error = own.record({entry, phase}, std::move(lists[queue])))
          return error;
      }
    }
  }
  return Error::success();
}

/// Runs work(0), ..., work(count - 1) on as many threads as the machine has cores; the error of the lowest index.
template <typename Work> static Error inParallel(uint32_t count, Work work) {
  std::vector<Error> errors(count);
  std::atomic<uint32_t> next{0};
  auto serve = [&] {
    for (uint32_t i = next++; i < count; i = next++)
      errors[i] = work(i);
  };
  std::vector<std::thread> helpers(std::min<size_t>(count, hostTopology().usableCores()));
  for (std::thread &helper : helpers)
    helper = std::thread(serve);
  for (std::thread &helper : helpers)
    helper.join();
  auto failed = std::find_if(errors.begin(), errors.end(), [](const Error &error) { return bool(error); });
  return failed == errors.end() ? Error::success() : *failed;
}

/// A device has as many queues of a kind at a site as the program that has most of them.
void Executor::State::findQueues() {
  context.queues.resize(context.sites.size());
  for (EntryContext &running : context.entries) {
    running.queues.resize(context.sites.size());
    for (size_t site = 0; site != context.sites.size(); ++site) {
      std::vector<QueueKind> &kinds = context.queues[site];
      std::vector<uint32_t> &own = running.queues[site];
      if (!running.sites[site].program)
        continue;
      for (QueueKind kind : running.sites[site].program->queues) {
        uint32_t queue = 0;
        while (queue != kinds.size() && (kinds[queue] != kind || std::ranges::find(own, queue) != own.end()))
          ++queue;
        if (queue == kinds.size())
          kinds.push_back(kind);
        own.push_back(queue);
      }
    }
  }
}

Error Executor::State::build(const Plan &plan, std::vector<const Entry *> entries, ParameterSource &parameters,
                             ExecutorOptions options) {
  context.plan = plan;
  auto sites = sitesOf(*plan, entries);
  context.sites = sites.front();
  for (size_t entry = 0; entry != entries.size(); ++entry) {
    for (size_t site = 0; site != context.sites.size(); ++site)
      if (!context.sites[site].program)
        context.sites[site] = sites[entry][site];
    context.entries.push_back({entries[entry], std::move(sites[entry]), {}, nullptr, nullptr});
  }
  active.resize(2 * entries.size());
  started.resize(2 * entries.size());
  findQueues();
  context.options = std::move(options);
  if (context.options.trace)
    context.options.trace->setEntries(entries);
  context.parameters = &parameters;
  Error error = createDrivers();
  if (Error failed = agree(error ? error : createMembers()))
    return failed;
  if (Error failed = agree(createCommunicator()))
    return failed;
  return agreeOnStep(prepare());
}

Error Executor::State::createMembers() {
  members.resize(context.sites.size());
  return inParallel(static_cast<uint32_t>(members.size()), [&](uint32_t index) {
    const Site &site = context.sites[index];
    if (!context.isHere(site))
      return Error::success();
    Error failed = createMember(index);
    if (!failed)
      return failed;
    const std::string &device = context.plan->devices[site.device].name;
    return Error(failed.status(), "device \"" + device + "\": " + failed.message(), failed.node());
  });
}

/// Devices that simulate have none, and the driver "cuda" links its devices itself.
Error Executor::State::createCommunicator() {
  if (drivers.count("null"))
    return Error::success();
  std::vector<uint32_t> rankOfSite;
  for (const Site &site : context.sites)
    rankOfSite.push_back(context.hasOthers() ? context.options.rankOfDevice[site.device] : 0);
  for (EntryContext &running : context.entries) {
    running.channels = std::make_unique<Channels>(*context.plan, *running.entry, running.sites,
                                                  [&](uint32_t site) { return context.isHere(context.sites[site]); });
    if (drivers.count("cuda"))
      continue;
    auto communicator = context.hasOthers()
                            ? context.options.processes->createCommunicator(*running.channels, rankOfSite)
                            : Expected(createLocalCommunicator(*running.channels));
    // The processes make the next one only if each has this one.
    if (Error failed = agree(communicator.error()))
      return failed;
    running.communicator = std::move(*communicator);
  }
  for (auto &[name, driver] : drivers)
    if (Error failed = agree(driver->connect()))
      return failed;
  return Error::success();
}

/// Makes the queues and runs what comes before the first step. Where queues cannot be made there is nobody to
/// communicate with the other processes, which must not begin then.
Error Executor::State::prepare() {
  Error error;
  for (uint32_t index = 0; index != members.size() && !error; ++index)
    if (context.isHere(context.sites[index]))
      error = createQueues(index);
  if (Error failed = agree(error))
    return failed;
  // All entries, also after a failure: their steps meet those of other processes.
  for (uint32_t entry = 0; entry != context.entries.size(); ++entry) {
    auto prepared = start({entry, Phase::Prepare}, {}, {})->wait();
    if (prepared)
      lastEnd = prepared->end;
    else if (!error)
      error = prepared.error();
  }
  return error;
}

std::shared_ptr<Step> Executor::State::start(EntryPhase phase, std::vector<HostTensor> inputs,
                                             std::vector<HostTensor> outputs, bool here) {
  const std::vector<Queue *> &queues = active[phase.index()];
  auto step = std::make_shared<Step>(phase, started, static_cast<unsigned>(queues.size()), lastEnd);
  ++started[phase.index()];
  step->inputs = std::move(inputs);
  step->outputs = std::move(outputs);
  bool isSubmitted = phase.phase == Phase::Body;
  if (isSubmitted)
    step->over = context.options.stepOver;
  if (here && queues.size() == 1 && queues.front()->runHere(*step))
    return step;
  for (Queue *queue : queues)
    queue->submit(step);
  if (isSubmitted && queues.empty() && step->over)
    step->over();
  return step;
}

Error Executor::State::checkTensors(const Entry &entry, const std::vector<Port> &ports,
                                    const std::vector<HostTensor> &tensors, const char *what) const {
  if (tensors.size() != ports.size())
    return makeError(Status::Failure, "entry \"", entry.name, "\" expects ", ports.size(), " ", what, "s, got ",
                     tensors.size());
  for (size_t i = 0; i != ports.size(); ++i)
    if (tensors[i].type() != ports[i].type || tensors[i].bytes().size() != *ports[i].type.byteSize())
      return makeError(Status::Failure, what, " \"", ports[i].name, "\" expects ", ports[i].type.text(), ", got ",
                       tensors[i].type().text());
  return Error::success();
}

Executor::Executor(std::unique_ptr<State> state) : state(std::move(state)) {}
Executor::~Executor() = default;

Expected<std::unique_ptr<Executor>> Executor::create(const Plan &plan, const std::string &entry,
                                                     ParameterSource &parameters, ExecutorOptions options) {
  return create(plan, std::vector{entry}, parameters, std::move(options));
}

Expected<std::unique_ptr<Executor>> Executor::create(const Plan &plan, const std::vector<std::string> &names,
                                                     ParameterSource &parameters, ExecutorOptions options) {
  std::vector<const Entry *> entries;
  for (const std::string &name : names) {
    auto entry = plan.entry(name);
    if (!entry)
      return entry.error(); // the same in all processes
    if ((*entry)->isDecision())
      return makeError(Status::Unsupported, "entry \"", (*entry)->name,
                       "\" holds what was decided about a training "
                       "step, and no programs: it can be explained and simulated, not run; compile without --train to "
                       "run the model");
    if (names.size() > 1 && ((*entry)->samples == 0 || std::ranges::find(entries, *entry) != entries.end()))
      return makeError(
          Status::Usage,
          "entries that run together expect to share arenas, as those that train or take a batch, and to be "
          "named once, got \"",
          name, "\"");
    entries.push_back(*entry);
  }
  auto state = std::make_unique<State>();
  if (Error error = state->build(plan, std::move(entries), parameters, std::move(options)))
    return error;
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Expected<Ticket> Executor::submit(std::vector<HostTensor> inputs, std::vector<HostTensor> outputs) {
  return submit(0, std::move(inputs), std::move(outputs));
}

Expected<Ticket> Executor::submit(uint32_t index, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs) {
  return state->submit(index, std::move(inputs), std::move(outputs), /*here=*/false);
}

Expected<StepTimes> Executor::run(uint32_t index, std::vector<HostTensor> inputs, std::vector<HostTensor> outputs) {
  if (!state->inFlight.empty())
    return makeError(Status::Failure, "running a step expects none in flight, got ", state->inFlight.size(),
                     "; wait for them");
  auto ticket = state->submit(index, std::move(inputs), std::move(outputs), /*here=*/true);
  if (!ticket)
    return ticket.error();
  return wait(*ticket);
}

Expected<Ticket> Executor::State::submit(uint32_t index, std::vector<HostTensor> inputs,
                                         std::vector<HostTensor> outputs, bool here) {
  const Entry &entry = *context.entries[index].entry;
  if (Error error = checkTensors(entry, entry.inputs, inputs, "input"))
    return error;
  if (Error error = checkTensors(entry, entry.outputs, outputs, "output"))
    return error;
  std::lock_guard lock(mutex);
  Ticket ticket = next++;
  inFlight[ticket] = start({index, Phase::Body}, std::move(inputs), std::move(outputs), here);
  return ticket;
}

Expected<StepTimes> Executor::wait(Ticket ticket) {
  std::unique_lock lock(state->mutex);
  auto found = state->inFlight.find(ticket);
  if (found == state->inFlight.end())
    return makeError(Status::Failure, "ticket ", ticket, " is not in flight; wait once for each submitted step");
  auto step = found->second;
  lock.unlock();
  auto times = step->wait();
  lock.lock();
  state->inFlight.erase(ticket);
  lock.unlock();
  if (Error error = state->context.options.agreesOnSteps ? state->agreeOnStep(times.error()) : times.error())
    return error;
  if (state->context.hasOthers())
    times->end = now();
  lock.lock();
  state->lastEnd = std::max(state->lastEnd, times->end);
  return times;
}

const Entry &Executor::entry(uint32_t index) const { return *state->context.entries[index].entry; }

std::vector<DeviceMemory> Executor::memory() const {
  std::map<uint32_t, DeviceMemory> ofDevice;
  for (size_t i = 0; i != state->members.size(); ++i) {
    const Site &site = state->context.sites[i];
    if (!state->context.isHere(site))
      continue;
    DeviceMemory &memory = ofDevice[site.device];
    memory.device = state->context.plan->devices[site.device].name;
    memory.hardware = state->members[i].device->hardware();
    auto index = static_cast<uint32_t>(i);
    memory.plannedBytes += state->arenaBytes(index);
    memory.allocatedBytes += state->members[i].device->allocatedBytes();
    memory.liveBytes += state->arenaBytes(index, &Program::liveBytes);
  }
  std::vector<DeviceMemory> list;
  for (auto &[device, memory] : ofDevice)
    list.push_back(std::move(memory));
  return list;
}

Error Executor::readState(uint32_t parameter, const HostTensor &target) const {
  const PlanContents &plan = *state->context.plan;
  if (!state->inFlight.empty())
    return makeError(Status::Failure, "reading parameters expects no step in flight, got ", state->inFlight.size(),
                     "; wait for them");
  for (const EntryContext &running : state->context.entries) {
    bool kept = false;
    Error failed;
    forEachStateOf(plan, *running.entry, parameter, [&](const Site &site, const runtime::State &part) {
      kept = true;
      if (!failed)
        failed = state->readPart(running, site, part, target);
    });
    if (kept)
      return failed;
  }
  return makeError(Status::Failure, "parameter ", parameter, " is not one that a step writes");
}

/// Copies what the site's device has of a parameter, unless another process runs it or a replica gives the same.
Error Executor::State::readPart(const EntryContext &running, const Site &site, const runtime::State &part,
                                const HostTensor &target) const {
  const Parameter &parameter = context.plan->parameters[part.parameter];
  if (target.type() != parameter.type)
    return makeError(Status::Failure, "parameter \"", parameter.name, "\" expects ", parameter.type.text(), ", got ",
                     target.type().text());
  TileLoad store = stateStoreOf(*context.plan, *running.entry, site, part);
  if (!context.isHere(site) || store.boxes.empty())
    return Error::success();
  auto member = std::ranges::find_if(
      running.sites, [&](const Site &other) { return other.mesh == site.mesh && other.member == site.member; });
  const PlanBuffer &buffer = site.program->buffers[part.buffer];
  std::vector<std::byte> bytes(buffer.bytes);
  if (Error error = members[static_cast<size_t>(member - running.sites.begin())].device->copyOut(buffer, bytes))
    return error;
  storeTile(store, bytes, target.bytes());
  return Error::success();
}

} // namespace cleave::runtime
