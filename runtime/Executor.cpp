// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts devices together for an entry, binds its instructions to their memory, and hands steps to their queues.

#include "runtime/Executor.h"

#include "runtime/Driver.h"
#include "runtime/Processes.h"
#include "runtime/Step.h"
#include "runtime/communicators/local/LocalCommunicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

namespace cleave::runtime {

static int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A site's device and its queues; queues without instructions are there, but never get a step. Nothing for a site of
/// another process.
struct Member {
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Queue>> queues;
};

class Executor::State {
public:
  Error build(const Plan &plan, const std::string &entry, ParameterSource &parameters, ExecutorOptions options);
  Error checkTensors(const std::vector<Port> &ports, const std::vector<HostTensor> &tensors, const char *what) const;
  std::shared_ptr<Step> start(Phase phase, Ticket number, std::vector<HostTensor> inputs,
                              std::vector<HostTensor> outputs);
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
  Ticket next = 0;
  std::map<Ticket, std::shared_ptr<Step>> inFlight;

private:
  /// The error of the first of all processes that has one.
  Error agree(const Error &error) const;
  Error createDrivers();
  Error createMembers();
  Error createCommunicator();
  Error prepare();
  Error createMember(uint32_t site);
  Error createQueues(uint32_t site);
  std::vector<std::vector<Command>> bind(const Member &member, const Program &program, Phase phase) const;

  /// The queues that have instructions in a phase.
  std::array<std::vector<Queue *>, 2> active;

public:
  /// When the caller last learned that a step was over, for simulated time.
  int64_t lastEnd = 0;
};

/// The phase's commands by queue. Waits that an earlier wait of the same queue implies are left out, so that an
/// instruction that depends on its own queue alone costs no synchronization.
std::vector<std::vector<Command>> Executor::State::bind(const Member &member, const Program &program,
                                                        Phase phase) const {
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
      command.waits.push_back({member.queues[wait.queue].get(), wait.value});
    }
    for (uint32_t buffer : buffersOf(instruction.action))
      command.buffers.push_back(member.device->place(program.buffers[buffer]));
    commands[instruction.queue].push_back(std::move(command));
  }
  std::map<Queue *, size_t> indexOf;
  for (size_t i = 0; i != numQueues; ++i)
    indexOf[member.queues[i].get()] = i;
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
  for (const Site &site : context.sites) {
    const std::string &name = context.plan->devices[site.device].driver;
    kinds.insert(name);
    if (!context.isHere(site) || drivers.count(name))
      continue;
    auto driver = createDriver(name, context);
    if (!driver)
      return driver.error();
    drivers[name] = std::move(*driver);
  }
  if (kinds.size() > 1 && kinds.count("null"))
    return makeError(Status::Unsupported, "entry \"", context.entry->name,
                     "\" mixes the null driver with others; simulate all devices or none");
  if (kinds.count("null") && context.hasOthers())
    return makeError(Status::Unsupported, "the null driver simulates all devices in one process, got ",
                     context.options.processes->count(), "; run it without mpirun");
  return Error::success();
}

Error Executor::State::createMember(uint32_t index) {
  const Site &site = context.sites[index];
  const PlanDevice &description = context.plan->devices[site.device];
  Member &member = members[index];
  auto device = drivers[description.driver]->createDevice(index);
  if (!device)
    return device.error();
  member.device = std::move(*device);
  if (Error error = member.device->allocate(site.program->arenaBytes))
    return error;
  if (Error error = member.device->load())
    return error;
  return Error::success();
}

Error Executor::State::createQueues(uint32_t index) {
  Member &member = members[index];
  const Program &program = *context.sites[index].program;
  for (uint32_t queue = 0; queue != program.queues.size(); ++queue) {
    auto created = member.device->createQueue(queue);
    if (!created)
      return created.error();
    member.queues.push_back(std::move(*created));
  }
  for (Phase phase : {Phase::Prepare, Phase::Body}) {
    auto lists = bind(member, program, phase);
    for (size_t queue = 0; queue != lists.size(); ++queue) {
      if (lists[queue].empty())
        continue;
      active[static_cast<unsigned>(phase)].push_back(member.queues[queue].get());
      if (Error error = member.queues[queue]->record(phase, std::move(lists[queue])))
        return error;
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
  std::vector<std::thread> helpers(std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency())));
  for (std::thread &helper : helpers)
    helper = std::thread(serve);
  for (std::thread &helper : helpers)
    helper.join();
  auto failed = std::find_if(errors.begin(), errors.end(), [](const Error &error) { return bool(error); });
  return failed == errors.end() ? Error::success() : *failed;
}

Error Executor::State::build(const Plan &plan, const std::string &name, ParameterSource &parameters,
                             ExecutorOptions options) {
  auto entry = plan.entry(name);
  if (!entry)
    return entry.error(); // the same in all processes
  context.plan = plan;
  context.entry = *entry;
  context.sites = sitesOf(*plan, **entry);
  context.options = std::move(options);
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

/// Devices that simulate have none.
Error Executor::State::createCommunicator() {
  if (drivers.count("null"))
    return Error::success();
  context.channels = std::make_unique<Channels>(*context.plan, *context.entry, context.sites,
                                                [&](uint32_t site) { return context.isHere(context.sites[site]); });
  if (!context.hasOthers()) {
    context.communicator = createLocalCommunicator(*context.channels);
    return Error::success();
  }
  std::vector<uint32_t> rankOfSite;
  for (const Site &site : context.sites)
    rankOfSite.push_back(context.options.rankOfDevice[site.device]);
  auto communicator = context.options.processes->createCommunicator(*context.channels, rankOfSite);
  if (!communicator)
    return communicator.error();
  context.communicator = std::move(*communicator);
  return Error::success();
}

/// Makes the queues and runs the phase that comes before the first step. Where queues cannot be made there is nobody to
/// communicate with the other processes, which must not begin then.
Error Executor::State::prepare() {
  Error error;
  for (uint32_t index = 0; index != members.size() && !error; ++index)
    if (context.isHere(context.sites[index]))
      error = createQueues(index);
  if (Error failed = agree(error))
    return failed;
  auto prepared = start(Phase::Prepare, 0, {}, {})->wait();
  if (prepared)
    lastEnd = prepared->end;
  return prepared.error();
}

std::shared_ptr<Step> Executor::State::start(Phase phase, Ticket number, std::vector<HostTensor> inputs,
                                             std::vector<HostTensor> outputs) {
  const std::vector<Queue *> &queues = active[static_cast<unsigned>(phase)];
  auto step = std::make_shared<Step>(phase, number, static_cast<unsigned>(queues.size()), lastEnd);
  step->inputs = std::move(inputs);
  step->outputs = std::move(outputs);
  for (Queue *queue : queues)
    queue->submit(step);
  return step;
}

Error Executor::State::checkTensors(const std::vector<Port> &ports, const std::vector<HostTensor> &tensors,
                                    const char *what) const {
  if (tensors.size() != ports.size())
    return makeError(Status::Failure, "entry \"", context.entry->name, "\" expects ", ports.size(), " ", what,
                     "s, got ", tensors.size());
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
  auto chosen = plan.entry(entry);
  if (!chosen)
    return chosen.error();
  if ((*chosen)->isDecision())
    return makeError(Status::Unsupported, "entry \"", (*chosen)->name,
                     "\" holds what was decided about a training "
                     "step, and no programs: it can be explained and simulated, not run; compile without --train to "
                     "run the model");
  auto state = std::make_unique<State>();
  if (Error error = state->build(plan, entry, parameters, std::move(options)))
    return error;
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Expected<Ticket> Executor::submit(std::vector<HostTensor> inputs, std::vector<HostTensor> outputs) {
  const Entry &entry = *state->context.entry;
  if (Error error = state->checkTensors(entry.inputs, inputs, "input"))
    return error;
  if (Error error = state->checkTensors(entry.outputs, outputs, "output"))
    return error;
  Ticket ticket = state->next++;
  state->inFlight[ticket] = state->start(Phase::Body, ticket, std::move(inputs), std::move(outputs));
  return ticket;
}

Expected<StepTimes> Executor::wait(Ticket ticket) {
  auto found = state->inFlight.find(ticket);
  if (found == state->inFlight.end())
    return makeError(Status::Failure, "ticket ", ticket, " is not in flight; wait once for each submitted step");
  auto times = found->second->wait();
  state->inFlight.erase(found);
  if (Error error = state->agreeOnStep(times.error()))
    return error;
  if (state->context.hasOthers())
    times->end = now();
  state->lastEnd = std::max(state->lastEnd, times->end);
  return times;
}

const Entry &Executor::entry() const { return *state->context.entry; }

std::vector<DeviceMemory> Executor::memory() const {
  std::map<uint32_t, DeviceMemory> ofDevice;
  for (size_t i = 0; i != state->members.size(); ++i) {
    const Site &site = state->context.sites[i];
    if (!state->context.isHere(site))
      continue;
    DeviceMemory &memory = ofDevice[site.device];
    memory.device = state->context.plan->devices[site.device].name;
    memory.plannedBytes += site.program->arenaBytes;
    memory.allocatedBytes += state->members[i].device->allocatedBytes();
    memory.liveBytes += site.program->liveBytes;
  }
  std::vector<DeviceMemory> list;
  for (auto &[device, memory] : ofDevice)
    list.push_back(std::move(memory));
  return list;
}

} // namespace cleave::runtime
