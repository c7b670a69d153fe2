// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The events: a queue wakes, an instruction ends, a communication's phase ends. All are ends of activities.

#include "runtime/simulator/Simulator.h"

#include "runtime/BufferUse.h"
#include "runtime/simulator/Activities.h"
#include "runtime/simulator/Likeness.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

namespace cleave::runtime {
namespace {

/// A communication that waits for its ends, or goes on.
struct Rendezvous {
  uint32_t meeting = 0;                            ///< a class
  std::vector<std::pair<uint32_t, uint32_t>> ends; ///< sites and queues
  uint32_t cause = noEvent;
  size_t phase = 0;
  bool latent = true; ///< the phase's latency is not over
};

struct QueueState {
  std::vector<uint32_t> list; ///< of instructions
  size_t next = 0;            ///< the first that has not ended
  bool busy = false;          ///< that one waits for its begin or runs
  bool slept = true;          ///< nothing ran when it became possible
  uint32_t event = noEvent, cause = noEvent;
};

struct SiteState {
  const Program *program = nullptr;
  std::vector<QueueState> queues;
  std::vector<double> seconds; ///< by instruction, where it needs no other device
  bool active = false;
  uint32_t step = 0, openQueues = 0;
  BufferUse::Progress memory;
};

/// How many of a device's instructions run, and what that adds up to.
struct DeviceState {
  uint32_t resource = 0;
  unsigned computing = 0, communicating = 0;
  double since = 0, bytes = 0;
};

/// What an activity is for.
struct Running {
  enum class What { Wake, Instruction, Rendezvous, Return } what = What::Wake;
  uint32_t site = 0, queue = 0;
  Rendezvous *rendezvous = nullptr;
  uint32_t cause = noEvent;
};

/// The channel of a communication, if it is one.
std::optional<uint32_t> channelOf(const Action &action) {
  return std::visit(
      [](const auto &communication) -> std::optional<uint32_t> {
        if constexpr (requires { communication.channel; })
          return communication.channel;
        else
          return std::nullopt;
      },
      action);
}

class Simulator {
public:
  Simulator(const PlanContents &plan, const Entry &entry, const MachineModel &model, const SimulationOptions &options)
      : plan(plan), entry(entry), model(model), options(options), all(sitesOf(plan, entry)),
        traffic(plan, entry, all, model), like(findLikeness(plan, all, traffic, model, options.each)) {}

  Expected<SimulationResult> run() {
    makeResources();
    if (Error error = makeSites())
      return error;
    release(std::min(options.inFlight, options.steps), noEvent);
    while (auto time = activities.nextEnd()) {
      now = *time;
      Running ended = running[activities.end()];
      handle(ended);
    }
    if (!std::isfinite(now))
      return makeError(Status::Failure, "the machine gives no finite time for entry \"", entry.name, "\"");
    if (finished != options.steps)
      return makeError(Status::Rejected, "entry \"", entry.name, "\" stands still in step ", finished,
                       "; its devices wait for each other");
    finishDevices();
    return std::move(result);
  }

private:
  void makeResources();
  Error makeSites();
  Expected<std::vector<double>> localSeconds(const Site &site) const;
  LocalWork workOf(const Program &program, const Instruction &instruction) const;
  void finishDevices();

  const Site &siteOf(uint32_t site) const { return all[like.sites[site].site]; }
  const Instruction &instructionOf(uint32_t site, uint32_t queue) const {
    const QueueState &state = sites[site].queues[queue];
    return sites[site].program->body[state.list[state.next]];
  }
  bool computes(uint32_t site, uint32_t queue) const {
    return sites[site].program->queues[queue] == QueueKind::Compute;
  }

  void start(Running what, double seconds, std::vector<ResourceUse> uses) {
    uint32_t number = activities.begin(now, seconds, std::move(uses));
    if (running.size() <= number)
      running.resize(number + 1);
    running[number] = what;
  }
  void handle(const Running &ended);
  void release(uint32_t steps, uint32_t cause);
  void beginStep(uint32_t site, uint32_t cause);
  void tryStart(uint32_t site, uint32_t queue, uint32_t cause);
  void launch(uint32_t site, uint32_t queue);
  void compute(uint32_t site, uint32_t queue);
  void meet(uint32_t site, uint32_t queue, uint32_t channel);
  void advance(Rendezvous &rendezvous);
  std::vector<ResourceUse> usesOf(const Rendezvous &rendezvous, const ClassPhase &phase) const;
  void beginEvent(uint32_t site, uint32_t queue, uint32_t cause);
  void endEvent(uint32_t site, uint32_t queue);
  void endStep(uint32_t site, uint32_t cause);
  void endStep(uint32_t cause);
  void addCores(std::vector<ResourceUse> &uses, uint32_t site, double seconds, bool isCall) const;
  void account(uint32_t device);
  void remember(uint32_t device);

  const PlanContents &plan;
  const Entry &entry;
  const MachineModel &model;
  const SimulationOptions &options;
  const std::vector<Site> all;
  const Traffic traffic;
  const Likeness like;

  Activities activities;
  std::vector<Running> running;                                         ///< by activity
  std::vector<uint32_t> linkResources, hostResources;                   ///< by class
  std::map<uint32_t, BufferUse> uses;                                   ///< by program
  std::vector<SiteState> sites;                                         ///< by class
  std::vector<DeviceState> devices;                                     ///< by class
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Rendezvous>> open; ///< by channel and class of meetings
  double now = 0;
  uint32_t released = 0, finished = 0;
  std::vector<uint32_t> sitesThrough; ///< by step
  SimulationResult result;
};

void Simulator::makeResources() {
  for (double bandwidth : like.bandwidth)
    linkResources.push_back(activities.addResource(bandwidth));
  std::vector<double> cores(like.hosts);
  for (const SiteClass &site : like.sites)
    cores[site.host] = model.coresOf(model.hostOf(all[site.site].device));
  for (double count : cores)
    hostResources.push_back(activities.addResource(count));
  devices.resize(like.devices);
  result.devices.resize(like.devices);
  for (DeviceState &device : devices)
    device.resource = activities.addResource();
}

LocalWork Simulator::workOf(const Program &program, const Instruction &instruction) const {
  LocalWork work{&instruction, nullptr, 0};
  if (const auto *call = std::get_if<Call>(&instruction.action)) {
    work.kernel = &plan.kernels[call->kernel];
    work.bytes = work.kernel->bytesRead + work.kernel->bytesWritten;
    return work;
  }
  std::vector<uint32_t> buffers = buffersOf(instruction.action);
  work.bytes = buffers.empty() ? 0 : static_cast<double>(program.buffers[buffers.back()].bytes);
  return work;
}

Expected<std::vector<double>> Simulator::localSeconds(const Site &site) const {
  std::vector<double> list;
  // A step begins with what it does first.
  double before = model.stepSeconds(site.device);
  for (const Instruction &instruction : site.program->body) {
    bool meets = channelOf(instruction.action).has_value();
    double seconds =
        meets ? 0 : std::exchange(before, 0) + model.seconds(site.device, workOf(*site.program, instruction));
    if (!std::isfinite(seconds) || seconds < 0)
      return Error(Status::Failure,
                   "the machine gives no time for what device \"" + plan.devices[site.device].name + "\" does",
                   instruction.node);
    list.push_back(seconds);
  }
  return list;
}

Error Simulator::makeSites() {
  sitesThrough.resize(options.steps);
  result.steps.resize(options.steps);
  for (const SiteClass &like : this->like.sites) {
    const Site &site = all[like.site];
    const Program &program = *site.program;
    auto seconds = localSeconds(site);
    if (!seconds)
      return seconds.error();
    const BufferUse &use = uses.try_emplace(site.programIndex, program).first->second;
    SiteState &state = sites.emplace_back(SiteState{&program, std::vector<QueueState>(program.queues.size()),
                                                    std::move(*seconds), false, 0, 0, BufferUse::Progress(use)});
    for (uint32_t i = 0; i != program.body.size(); ++i)
      state.queues[program.body[i].queue].list.push_back(i);
    result.sites.push_back(
        {site.programIndex, site.member, like.count, like.device, std::vector<double>(program.queues.size())});
    SimulatedDevice &device = result.devices[like.device];
    device.device = site.device;
    device.count = like.count;
    device.arenaBytes += static_cast<double>(program.arenaBytes);
    devices[like.device].bytes += use.lastingBytes();
  }
  for (uint32_t device = 0; device != devices.size(); ++device)
    remember(device);
  return Error::success();
}

void Simulator::handle(const Running &ended) {
  switch (ended.what) {
  case Running::What::Wake:
    return launch(ended.site, ended.queue);
  case Running::What::Instruction:
    return endEvent(ended.site, ended.queue);
  case Running::What::Rendezvous:
    return advance(*ended.rendezvous);
  case Running::What::Return:
    return endStep(ended.cause);
  }
}

//===-- steps -------------------------------------------------------------------------------------------------===//

/// Submits steps until `steps` have been.
void Simulator::release(uint32_t steps, uint32_t cause) {
  for (; released < steps; ++released)
    result.steps[released].first = now;
  for (uint32_t site = 0; site != sites.size(); ++site)
    beginStep(site, cause);
}

void Simulator::beginStep(uint32_t site, uint32_t cause) {
  SiteState &state = sites[site];
  if (state.active || state.step >= released)
    return;
  state.active = true;
  state.openQueues = 0;
  state.memory.beginStep();
  for (QueueState &queue : state.queues) {
    queue.next = 0;
    queue.slept = true;
    state.openQueues += !queue.list.empty();
  }
  if (state.openQueues == 0)
    return endStep(site, cause);
  for (uint32_t queue = 0; queue != state.queues.size(); ++queue)
    tryStart(site, queue, cause);
}

void Simulator::endStep(uint32_t site, uint32_t cause) {
  SiteState &state = sites[site];
  state.active = false;
  if (++sitesThrough[state.step++] == sites.size())
    start({Running::What::Return, 0, 0, nullptr, cause}, model.returnSeconds(), {});
  beginStep(site, cause);
}

/// Who waits for the first step under way knows that it is over.
void Simulator::endStep(uint32_t cause) {
  result.steps[finished++].second = now;
  release(std::min(options.steps, finished + options.inFlight), cause);
}

//===-- instructions ------------------------------------------------------------------------------------------===//

void Simulator::tryStart(uint32_t site, uint32_t number, uint32_t cause) {
  SiteState &state = sites[site];
  QueueState &queue = state.queues[number];
  if (!state.active || queue.busy || queue.next == queue.list.size())
    return;
  for (const Wait &wait : instructionOf(site, number).waits)
    if (state.queues[wait.queue].next < wait.value) {
      queue.slept = true;
      return;
    }
  queue.busy = true;
  queue.cause = cause;
  double wake = queue.slept ? model.wakeSeconds(siteOf(site).device) : 0;
  if (wake > 0)
    start({Running::What::Wake, site, number, nullptr}, wake, {});
  else
    launch(site, number);
}

void Simulator::launch(uint32_t site, uint32_t queue) {
  sites[site].queues[queue].slept = false;
  if (auto channel = channelOf(instructionOf(site, queue).action))
    meet(site, queue, *channel);
  else
    compute(site, queue);
}

void Simulator::compute(uint32_t site, uint32_t queue) {
  SiteState &state = sites[site];
  const SiteClass &place = like.sites[site];
  const Instruction &instruction = instructionOf(site, queue);
  beginEvent(site, queue, state.queues[queue].cause);
  double seconds = state.seconds[state.queues[queue].list[state.queues[queue].next]];
  uint32_t device = devices[place.device].resource, number = siteOf(site).device;
  double overlap = model.overlapSlowdown(number);
  std::vector<ResourceUse> list;
  bool onCores = computes(site, queue);
  if (onCores)
    list.push_back({device, ResourceUse::Kind::Share, seconds, 1});
  // What copies to the host's memory and back takes nothing from kernels.
  bool movesToHost =
      std::holds_alternative<Offload>(instruction.action) || std::holds_alternative<Fetch>(instruction.action);
  if (overlap > 1 && !movesToHost)
    list.push_back({device, onCores ? ResourceUse::Kind::Computation : ResourceUse::Kind::Communication, overlap, 1});
  double contention = onCores ? model.contention(number, workOf(*state.program, instruction)) : 1;
  if (contention > 1)
    list.push_back(
        {hostResources[place.host], ResourceUse::Kind::Neighbour, contention, static_cast<double>(place.onHost)});
  addCores(list, site, seconds, onCores);
  start({Running::What::Instruction, site, queue, nullptr}, seconds, std::move(list));
}

/// A host with fewer cores than threads that want to run shares them out.
void Simulator::addCores(std::vector<ResourceUse> &list, uint32_t site, double seconds, bool isCall) const {
  const SiteClass &place = like.sites[site];
  uint32_t device = siteOf(site).device;
  if (!std::isfinite(model.coresOf(model.hostOf(device))))
    return;
  double threads = model.threadsOf(device, plan.devices[device].cores);
  if (threads > 0)
    list.push_back({hostResources[place.host], ResourceUse::Kind::Share, seconds,
                    (isCall ? threads : 1) * static_cast<double>(place.onHost)});
}

/// The last end that comes begins the communication.
void Simulator::meet(uint32_t site, uint32_t queue, uint32_t channel) {
  uint32_t meeting = like.sites[site].meetings[traffic.of(channel)];
  std::deque<Rendezvous> &list = open[{channel, meeting}];
  // A site is in a later step than another only where the earlier step's meeting is complete.
  if (list.empty() || list.back().ends.size() == like.meetings[meeting].sites.size())
    list.push_back({meeting, {}, noEvent, 0, true});
  Rendezvous &rendezvous = list.back();
  rendezvous.ends.emplace_back(site, queue);
  if (rendezvous.ends.size() != like.meetings[meeting].sites.size())
    return;
  rendezvous.cause = sites[site].queues[queue].cause;
  for (auto [other, otherQueue] : rendezvous.ends)
    beginEvent(other, otherQueue, rendezvous.cause);
  advance(rendezvous);
}

/// Goes on with the latency or the work of the next phase, or ends the communication.
void Simulator::advance(Rendezvous &rendezvous) {
  const std::vector<ClassPhase> &phases = like.meetings[rendezvous.meeting].phases;
  if (rendezvous.phase == phases.size()) {
    auto ends = std::move(rendezvous.ends);
    uint32_t channel = *channelOf(instructionOf(ends.front().first, ends.front().second).action);
    auto list = open.find({channel, rendezvous.meeting});
    list->second.pop_front();
    for (auto [site, queue] : ends)
      endEvent(site, queue);
    return;
  }
  const ClassPhase &phase = phases[rendezvous.phase];
  Running next{Running::What::Rendezvous, 0, 0, &rendezvous};
  bool latent = std::exchange(rendezvous.latent, !rendezvous.latent);
  if (latent)
    return start(next, phase.latency, {});
  ++rendezvous.phase;
  start(next, phase.seconds, usesOf(rendezvous, phase));
}

std::vector<ResourceUse> Simulator::usesOf(const Rendezvous &rendezvous, const ClassPhase &phase) const {
  std::vector<ResourceUse> list;
  for (const ClassLoad &load : phase.loads)
    list.push_back({linkResources[load.link], ResourceUse::Kind::Share, load.bytes, load.meetings});
  if (phase.loads.empty() && phase.seconds == 0)
    return list;
  for (auto [site, queue] : rendezvous.ends)
    addCores(list, site, phase.seconds, /*isCall=*/false);
  for (auto [site, queue] : rendezvous.ends)
    if (double overlap = model.overlapSlowdown(siteOf(site).device); overlap > 1)
      list.push_back({devices[like.sites[site].device].resource, ResourceUse::Kind::Communication, overlap, 1});
  return list;
}

//===-- records -----------------------------------------------------------------------------------------------===//

/// Adds the time since the last change to what the device did.
void Simulator::account(uint32_t device) {
  DeviceState &state = devices[device];
  SimulatedDevice &sums = result.devices[device];
  (state.computing ? sums.computing : state.communicating ? sums.communicating : sums.idle) += now - state.since;
  state.since = now;
}

void Simulator::remember(uint32_t device) {
  SimulatedDevice &to = result.devices[device];
  double bytes = devices[device].bytes;
  to.peakBytes = std::max(to.peakBytes, bytes);
  if (!to.memory.empty() && to.memory.back().first == now)
    to.memory.back().second = bytes;
  else
    to.memory.emplace_back(now, bytes);
}

void Simulator::beginEvent(uint32_t site, uint32_t number, uint32_t cause) {
  SiteState &state = sites[site];
  QueueState &queue = state.queues[number];
  uint32_t device = like.sites[site].device, instruction = queue.list[queue.next];
  account(device);
  ++(computes(site, number) ? devices[device].computing : devices[device].communicating);
  if (double bytes = state.memory.begin(instruction)) {
    devices[device].bytes += bytes;
    remember(device);
  }
  queue.event = static_cast<uint32_t>(result.events.size());
  result.events.push_back({site, instruction, state.step, now, now, cause});
}

void Simulator::endEvent(uint32_t site, uint32_t number) {
  SiteState &state = sites[site];
  QueueState &queue = state.queues[number];
  uint32_t device = like.sites[site].device;
  account(device);
  --(computes(site, number) ? devices[device].computing : devices[device].communicating);
  if (double bytes = state.memory.end(queue.list[queue.next])) {
    devices[device].bytes -= bytes;
    remember(device);
  }
  SimulatedEvent &event = result.events[queue.event];
  event.end = now;
  result.sites[site].busy[number] += now - event.begin;
  uint32_t cause = queue.event;
  queue.busy = false;
  if (++queue.next == queue.list.size() && --state.openQueues == 0)
    return endStep(site, cause);
  tryStart(site, number, cause);
  for (uint32_t other = 0; other != state.queues.size(); ++other)
    if (other != number)
      tryStart(site, other, cause);
}

void Simulator::finishDevices() {
  result.classOfDevice.assign(plan.devices.size(), noDevice);
  for (size_t site = 0; site != all.size(); ++site)
    result.classOfDevice[all[site].device] = like.sites[like.classOfSite[site]].device;
  for (uint32_t device = 0; device != devices.size(); ++device)
    account(device);
}

} // namespace

double SimulationResult::stepSeconds() const {
  std::vector<double> times;
  for (auto [begin, end] : steps)
    times.push_back(end - begin);
  std::ranges::sort(times);
  return times.empty() ? 0 : times[times.size() / 2];
}

double SimulationResult::stepsPerSecond() const {
  if (steps.empty())
    return 0;
  double seconds = steps.size() == 1 ? steps.back().second : steps.back().second - steps.front().second;
  double count = steps.size() == 1 ? 1 : static_cast<double>(steps.size() - 1);
  return seconds > 0 ? count / seconds : 0;
}

Expected<SimulationResult> simulate(const PlanContents &plan, const Entry &entry, const MachineModel &model,
                                    const SimulationOptions &options) {
  return Simulator(plan, entry, model, options).run();
}

std::vector<CriticalItem> criticalPath(const Entry &entry, const SimulationResult &result) {
  uint32_t last = noEvent;
  auto lastStep = static_cast<uint32_t>(result.steps.size() - 1);
  for (uint32_t i = 0; i != result.events.size(); ++i)
    if (result.events[i].step == lastStep && (last == noEvent || result.events[i].end > result.events[last].end))
      last = i;
  std::map<std::tuple<std::string, std::string, uint32_t>, double> sums;
  double until = result.steps.empty() ? 0 : result.steps.back().second,
         from = result.steps.empty() ? 0 : result.steps.back().first;
  for (; last != noEvent && until > from; last = result.events[last].cause) {
    const SimulatedEvent &event = result.events[last];
    const SimulatedSite &site = result.sites[event.site];
    const Instruction &instruction = entry.programs[site.programIndex].body[event.instruction];
    uint32_t device = result.devices[site.device].device;
    if (until > event.end)
      sums[{"", "wait", device}] += until - std::max(from, event.end);
    double begin = std::max(from, event.begin);
    if (event.end > begin)
      sums[{instruction.node, kindName(instruction.action), device}] += event.end - begin;
    until = begin;
  }
  if (until > from)
    sums[{"", "wait", 0}] += until - from;
  std::vector<CriticalItem> items;
  for (const auto &[key, seconds] : sums)
    items.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), seconds});
  std::ranges::stable_sort(items, std::greater<>(), &CriticalItem::seconds);
  return items;
}

} // namespace cleave::runtime
