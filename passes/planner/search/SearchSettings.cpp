// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of devices, grids on them, and what intervals are solved for.

#include "passes/planner/search/Searcher.h"

#include <cmath>
#include <numeric>
#include <set>

namespace cleave::search {

double SearchRequest::memoryOf(const DeviceSpec &device) const {
  double least = std::numeric_limits<double>::infinity();
  for (double limit : {static_cast<double>(device.memoryLimit), memoryLimit})
    if (limit > 0)
      least = std::min(least, limit);
  return memoryShare * least;
}

static bool alike(const DeviceSpec &left, const DeviceSpec &right) {
  return left.kind == right.kind && left.cores == right.cores && left.memoryLimit == right.memoryLimit &&
         left.driver == right.driver && left.zone == right.zone;
}

std::vector<unsigned> allDevices(const Machine &machine) {
  std::vector<unsigned> devices(machine.devices.size());
  std::iota(devices.begin(), devices.end(), 0u);
  return devices;
}

std::vector<unsigned> devicesOf(llvm::ArrayRef<MeshSpec> meshes) {
  std::vector<unsigned> devices;
  for (const MeshSpec &mesh : meshes)
    devices.insert(devices.end(), mesh.devices.begin(), mesh.devices.end());
  return devices;
}

std::vector<unsigned> joined(std::vector<unsigned> devices, llvm::ArrayRef<unsigned> others) {
  devices.insert(devices.end(), others.begin(), others.end());
  llvm::sort(devices);
  devices.erase(llvm::unique(devices), devices.end());
  return devices;
}

/// Of devices that are as fast as the next ones, those that the others reach best come next.
static void moveNearestToFront(const Topology &topology, llvm::ArrayRef<unsigned> devices,
                               llvm::MutableArrayRef<std::pair<double, std::vector<unsigned>>> next) {
  auto asFast = next.take_while([&](auto &kind) { return kind.first == next.front().first; });
  auto rankOf = [&](auto &kind) {
    LinkSpec link = topology.between(devices.front(), kind.second.front());
    return std::pair(-link.bandwidth, link.latency);
  };
  auto nearest = std::ranges::min_element(asFast, {}, rankOf);
  std::rotate(asFast.begin(), nearest, nearest + 1);
}

/// The devices of the kinds that compute fastest, of the two fastest kinds, and so on up to all; devices of several
/// zones are of several kinds.
static std::vector<DevicesToTry> devicesAsOneKind(const Machine &machine, const SearchRequest &request) {
  std::vector<unsigned> all = allDevices(machine);
  std::vector<std::pair<double, std::vector<unsigned>>> kinds;
  for (unsigned device : all) {
    auto same = llvm::find_if(
        kinds, [&](auto &kind) { return alike(machine.devices[kind.second.front()], machine.devices[device]); });
    if (same == kinds.end()) {
      OperatorCost cost(machine, device, request.elementType);
      same = kinds.insert(same, {cost.mostFlops(), {}});
    }
    same->second.push_back(device);
  }
  llvm::stable_sort(kinds, [](auto &left, auto &right) { return left.first > right.first; });
  std::vector<DevicesToTry> sets;
  std::vector<unsigned> devices;
  std::optional<Topology> topology;
  if (!machine.links.empty())
    topology.emplace(machine);
  for (size_t index = 0; index != kinds.size(); ++index) {
    if (topology && index != 0)
      moveNearestToFront(*topology, devices, llvm::MutableArrayRef(kinds).drop_front(index));
    const std::vector<unsigned> &more = kinds[index].second;
    devices = joined(std::move(devices), more);
    if (devices.size() != more.size())
      sets.push_back({devices, /*asOneKind=*/true});
  }
  return sets;
}

/// The devices of each zone, where there are several: what crosses zones is costed for the slowest of their links, and
/// a plan in one of them crosses none. Of zones that are alike the first one.
static std::vector<DevicesToTry> devicesOfZones(const Machine &machine) {
  std::map<unsigned, std::vector<unsigned>> zones;
  for (unsigned device : allDevices(machine))
    zones[machine.devices[device].zone].push_back(device);
  std::vector<DevicesToTry> sets;
  if (zones.size() == 1)
    return sets;
  using Zone = std::pair<std::vector<HostSpec>, const ZoneLinkSpec *>;
  std::vector<Zone> seen;
  std::vector<unsigned> numbers = zoneNumbers(machine);
  for (auto &[zone, devices] : zones) {
    Zone own;
    std::string name;
    for (auto [host, number] : llvm::zip_equal(machine.hosts, numbers))
      if (number == zone) {
        name = host.zone;
        own.first.push_back(host);
        own.first.back().zone.clear();
      }
    for (const ZoneLinkSpec &link : machine.links)
      if (zone != 0 && link.from == name && link.to == name)
        own.second = &link;
    bool isNew = llvm::none_of(seen, [&](const Zone &other) {
      bool sameLink = own.second && other.second
                          ? own.second->link == other.second->link && own.second->isShared == other.second->isShared
                          : own.second == other.second;
      return sameLink && own.first == other.first;
    });
    if (isNew && devices.size() > 1)
      sets.push_back({devices});
    seen.push_back(std::move(own));
  }
  return sets;
}

std::vector<DevicesToTry> devicesToTry(const Machine &machine, const SearchRequest &request, bool sharesDevices) {
  std::vector<unsigned> all = allDevices(machine);
  std::vector<unsigned> pinned = devicesOf(request.pinned);
  std::vector<unsigned> some = HostSharing(machine).devicesWithCores(pinned);
  std::vector<DevicesToTry> sets;
  // Where a step is one microbatch, stages take turns, and are as slow as their own devices make them.
  if (!request.training || sharesDevices || some == all)
    sets = {{all}};
  else
    sets = {{some}, {all}};
  if (request.pinned.empty()) {
    llvm::append_range(sets, devicesOfZones(machine));
    llvm::append_range(sets, devicesAsOneKind(machine, request));
  }
  return sets;
}

/// Devices of any kinds as a run. Grids lie across hosts as if each had what all have in common.
static Run runOfAll(const Machine &machine, llvm::ArrayRef<unsigned> devices) {
  std::map<unsigned, unsigned> onHost;
  for (unsigned device : devices)
    ++onHost[machine.devices[device].host];
  Run run;
  run.devices.assign(devices.begin(), devices.end());
  unsigned common = 0;
  for (auto [host, count] : onHost)
    common = std::gcd(common, count);
  run.hostSize = onHost.size() == 1 ? run.count() : common;
  run.spansZones = llvm::any_of(
      devices, [&](unsigned device) { return machine.devices[device].zone != machine.devices[devices.front()].zone; });
  return run;
}

std::vector<Run> findRuns(const Machine &machine, llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<MeshSpec> pinned,
                          bool sharesDevices, bool asOneKind) {
  if (asOneKind)
    return {runOfAll(machine, devices)};
  std::vector<Run> runs;
  unsigned onHost = 0;
  const DeviceSpec *before = nullptr;
  auto isPinned = [&](unsigned device) {
    return llvm::any_of(pinned, [&](const MeshSpec &mesh) { return llvm::is_contained(mesh.devices, device); });
  };
  for (unsigned device : devices) {
    if (!sharesDevices && isPinned(device))
      continue;
    const DeviceSpec &spec = machine.devices[device];
    if (!before || !alike(*before, spec)) {
      runs.emplace_back();
      onHost = 0;
    } else if (before->host != spec.host) {
      onHost = 0;
    }
    before = &spec;
    runs.back().devices.push_back(device);
    runs.back().hostSize = std::max(runs.back().hostSize, ++onHost);
  }
  for (auto [index, mesh] : llvm::enumerate(pinned))
    runs.push_back({mesh.devices, static_cast<unsigned>(mesh.devices.size()), static_cast<unsigned>(index)});
  return runs;
}

std::vector<unsigned> stageSizes(const Run &run) {
  std::set<unsigned> sizes = {run.count()};
  if (run.pin != none || run.spansZones)
    return {run.count()};
  for (unsigned size = 1; size <= run.count(); ++size)
    if (run.count() <= 16)
      sizes.insert(size);
  for (unsigned size = 1; size <= std::min(run.count(), run.hostSize); ++size)
    if (run.hostSize % size == 0)
      sizes.insert(size);
  for (unsigned hosts = 1; hosts * run.hostSize <= run.count(); hosts *= 2)
    sizes.insert(hosts * run.hostSize);
  return {sizes.begin(), sizes.end()};
}

std::vector<unsigned> evenSizes(const Run &run, unsigned mostStages) {
  std::set<unsigned> sizes;
  unsigned hosts = run.count() / run.hostSize;
  for (unsigned stages = 2; stages <= std::min(hosts, mostStages) && run.pin == none && !run.spansZones; ++stages)
    sizes.insert(hosts / stages * run.hostSize);
  return {sizes.begin(), sizes.end()};
}

//===-- pins ----------------------------------------------------------------------------------------------------===//

void Searcher::findPinnedLayers() {
  unsigned layers = intervals.numLayers();
  pinnedLayers.assign(request.pinned.size(), {layers, 0});
  if (request.pinned.empty())
    return;
  for (unsigned layer = 0; layer != layers; ++layer)
    for (unsigned index = graph.boundaries[layer].at; index != graph.boundaries[layer + 1].at; ++index)
      if (unsigned pin = graph.operators[index].pin; pin != none) {
        pinnedLayers[pin].first = std::min(pinnedLayers[pin].first, layer);
        pinnedLayers[pin].second = layer + 1;
      }
}

PinsOfLayers Searcher::pinsOf(unsigned first, unsigned last) const {
  PinsOfLayers pins;
  for (auto [pin, layers] : llvm::enumerate(pinnedLayers)) {
    auto [begin, end] = layers;
    if (begin >= last || end <= first)
      continue;
    if (pins.pin != none)
      return {none, false, true};
    pins.pin = pin;
    pins.isWhole = first <= begin && end <= last;
  }
  return pins;
}

bool Searcher::mayBeOn(unsigned kind, unsigned first, unsigned last, bool asPart) const {
  PinsOfLayers pins = pinsOf(first, last);
  if (pins.areSeveral)
    return false;
  if (asPart)
    return pins.pin == none || pins.pin == runs[kind].pin;
  return pins.pin == runs[kind].pin && pins.isWhole;
}

/// Equal layers are not equal where only some are pinned.
uint64_t Searcher::classOf(unsigned first, unsigned last) {
  unsigned structure = intervals.classOf(first, last);
  double shared = sharedBytes(first, last);
  if (request.pinned.empty() && shared == 0)
    return structure;
  constexpr uint64_t others = uint64_t(1) << 31; // Numbers that no structure has.
  return others + classes.try_emplace({structure, pinsOf(first, last), shared}, classes.size()).first->second;
}

double Searcher::leastMemory(const Run &run) const {
  double least = std::numeric_limits<double>::infinity();
  for (unsigned device : run.devices)
    least = std::min(least, request.memoryOf(machine.devices[device]));
  return least;
}

double Searcher::hiddenCost(const Run &run) const {
  double most = 1;
  std::set<std::string> seen;
  for (unsigned device : run.devices)
    if (seen.insert(machine.devices[device].kind).second)
      most = std::max(most, deviceKindOf(machine, device).overlapSlowdown);
  return most - 1;
}

//===-- grids and settings ------------------------------------------------------------------------------------===//

Precision Searcher::precision() const {
  Precision precision;
  if (request.elementType != "f32" && request.roundsParameters)
    precision = {0.5, 1, 1, 0, request.keepsRounded ? 0.5 : 0}; // gradients of parameters are f32, too
  else if (request.elementType != "f32")
    precision = {0.5, 0.5, 0.5, request.training ? 1.0 : 0.0, 0};
  if (request.training)
    precision.optimizer += request.optimizerStates;
  // Versions of the weights are state like the optimizer's.
  if (request.training && request.schedule)
    precision.optimizer += (*request.schedule)->weightDelay;
  return precision;
}

void Searcher::sumState() {
  Precision stored = precision();
  double optimizer = request.optimizerInHost.value_or(false) ? 0 : stored.optimizer;
  std::vector<double> bytes(graph.operators.size() + 1, 0.0);
  for (const Parameter &parameter : graph.parameters)
    if (parameter.firstUse != none)
      bytes[parameter.firstUse] +=
          parameter.bytes *
          (stored.parameter + (request.training && parameter.trained ? stored.gradient + optimizer : 0));
  double sum = 0;
  unsigned next = 0;
  for (const Boundary &boundary : graph.boundaries) {
    for (; next != boundary.at; ++next)
      sum += bytes[next];
    stateBefore.push_back(sum);
  }
}

double between(llvm::ArrayRef<double> sumBefore, unsigned first, unsigned last) {
  auto layers = static_cast<unsigned>(sumBefore.size() - 1);
  auto before = [&](unsigned layer) {
    return layer <= layers ? sumBefore[layer] : sumBefore.back() + sumBefore[layer - layers];
  };
  return before(last) - before(first);
}

double Searcher::mostInFlight(unsigned first, int64_t microbatches) const {
  pipeline::Schedule schedule = request.schedule.value_or(pipeline::Schedule());
  return schedule.microbatchesInFlight({intervals.numLayers() - first % intervals.numLayers(),
                                        static_cast<unsigned>(microbatches), schedule->fewestChunks},
                                       0);
}

bool Searcher::asksToOffload() const {
  auto isOffload = [](const StageKeeping &keeping) {
    return keeping.recompute == Recompute::Offload || llvm::is_contained(keeping.bySegment, Recompute::Offload);
  };
  return request.training &&
         (request.recompute == Recompute::Offload ||
          llvm::any_of(request.pinned, [&](const MeshSpec &mesh) { return isOffload(mesh.keeping); }));
}

double Searcher::leastHostRoom(const Run &run) const {
  std::vector<uint64_t> byHost = hostMemory(machine);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned device : run.devices)
    least = std::min(least, machine.devices[device].host < byHost.size()
                                ? static_cast<double>(byHost[machine.devices[device].host])
                                : 0.0);
  return least;
}

double Searcher::offloadOf(const Run &run, double room) const {
  return request.training && (asksToOffload() || room > 0) ? secondsToHost(run) : 0;
}

double Searcher::secondsToHost(const Run &run) const {
  constexpr double bytes = 1 << 30;
  double most = 0;
  std::set<std::string> seen;
  for (unsigned device : run.devices)
    if (seen.insert(machine.devices[device].kind).second) {
      DeviceKind own = deviceKindOf(machine, device);
      most = std::max(most, (hostCopySeconds(own, 2 * bytes) - hostCopySeconds(own, bytes)) / bytes);
    }
  return most;
}

bool Searcher::mayOffload() const {
  return llvm::any_of(offloadsOfRuns, [](double seconds) { return seconds > 0; });
}

/// Whether choices fit as they are, with nothing computed again or shared, with as many microbatches in flight as there
/// can be.
bool Searcher::fits(const IntervalSums &sums, unsigned kind, unsigned first, int64_t microbatches) const {
  double inFlight = mostInFlight(first, microbatches);
  return sums.stateBytes(0) + sums.transient + (request.training ? inFlight * sums.saved : 0) <= memoryOf(kind);
}

bool Searcher::mayHaveRings() const {
  return request.keys == Keys::Auto && llvm::any_of(graph.attentions, [&](const AttentionRow &row) {
           return row.mayBeRing && mayPayInRing(*graph.operators[row.scores()].scores, precision().activation < 1);
         });
}

double Searcher::trainedBytes() const {
  double bytes = 0;
  for (const Parameter &parameter : graph.parameters)
    if (parameter.trained)
      bytes += parameter.bytes;
  return bytes;
}

/// The devices for which grids of a run are costed: any are like the first ones, but over several zones, where they are
/// those whose ring is slowest.
llvm::ArrayRef<unsigned> Searcher::membersOf(const Run &run, unsigned count) const {
  auto all = llvm::ArrayRef(run.devices), slowest = all.take_front(count);
  if (!run.spansZones)
    return slowest;
  auto rankOf = [&](llvm::ArrayRef<unsigned> devices) {
    LinkSpec link = topology.along(devices, {static_cast<int64_t>(count)}, {0});
    return std::pair(link.bandwidth, -link.latency);
  };
  for (size_t first = count; first + count <= all.size(); first += count)
    if (auto next = all.slice(first, count); rankOf(next) < rankOf(slowest))
      slowest = next;
  return slowest;
}

unsigned Searcher::settingOf(unsigned kind, unsigned devices, unsigned shape, int64_t microbatches) {
  auto [entry, isNew] = settingNumbers.try_emplace({kind, devices, shape, microbatches}, 0);
  if (!isNew)
    return entry->second;
  std::unique_ptr<Grid> &grid = grids[{kind, devices, shape}];
  const Shape &known = shapesOf(kind, devices)[shape];
  if (!grid) {
    std::vector<unsigned> members = membersOf(runs[kind], devices);
    llvm::SmallVector<double> shown;
    if (machine.executor.overlapsExchanges)
      shown = shownWithinHosts(machine, members, known.sizes, hidden);
    grid = std::make_unique<Grid>(topology, members, known.sizes, shown);
  }
  Setting setting;
  setting.grid = grid.get();
  setting.cost = &busyCosts
                      .try_emplace({kind, devices}, machine, runs[kind].devices, request.elementType,
                                   slowdownsOf(kind, devices).own)
                      .first->second;
  setting.options.training = request.training;
  setting.options.batchScale = batchScale(microbatches);
  setting.options.microbatches = fullMicrobatches(microbatches);
  setting.options.precision = precision();
  setting.options.bucketBytes = trainedBytes() * setting.options.precision.gradient;
  if (double bucket = machine.executor.bucket; bucket > 0)
    setting.options.bucketBytes = std::min(bucket, setting.options.bucketBytes);
  setting.options.executor = machine.executor;
  setting.options.hidden = hidden;
  setting.options.keys = request.keys;
  setting.options.roles = known.roles;
  setting.options.offload = offloadsOfRuns[kind];
  if (request.training && request.optimizerInHost.value_or(false))
    setting.options.offloadOptimizer = secondsToHost(runs[kind]);
  batchScales.push_back(setting.options.batchScale);
  offloads.push_back(setting.options.offload);
  return entry->second = intervals.addSetting(std::move(setting));
}

const Searcher::Slowdowns &Searcher::slowdownsOf(unsigned kind, unsigned devices) {
  auto [entry, isNew] = slowdowns.try_emplace({kind, devices});
  if (isNew) {
    auto own = llvm::ArrayRef(runs[kind].devices).take_front(devices);
    entry->second.own = sharing.slowdown(own, own);
    entry->second.steady = std::max(1.0, sharing.slowdown(own, busy) / entry->second.own);
  }
  return entry->second;
}

bool Searcher::memoryMayBind() const {
  double limit = std::numeric_limits<double>::infinity();
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    limit = std::min(limit, memoryOf(kind));
  Precision stored = precision();
  double bytes =
      graph.parameterBytes() * (stored.parameter + (request.training ? stored.gradient + stored.optimizer : 0));
  double activations = 0;
  for (const Tensor &tensor : graph.tensors)
    activations += tensor.bytes * (tensor.batched ? batchScale() : 1) * stored.activation;
  if (request.training)
    bytes += activations;
  return bytes > limit / 2;
}

/// What a byte is worth where all memory is worth the time of all devices. Where there is less memory than twice what
/// the state takes, bytes are worth what they would be if there were as much: what a plan needs at least does not
/// depend on what there is.
double Searcher::secondsPerByte(int64_t microbatches) const {
  double peak = 0, limit = 0, state = stateBytes(0, intervals.numLayers()) / static_cast<double>(busy.size());
  constexpr double tight = 2;
  for (unsigned kind = 0; kind != runs.size(); ++kind) {
    peak += operatorCosts[kind]->mostFlops() * runs[kind].count();
    limit += std::isfinite(memoryOf(kind)) ? std::max(memoryOf(kind), tight * state) * runs[kind].count() : 0;
  }
  double seconds = graph.flops() * batchScale(microbatches) * (request.training ? 3 : 1) / peak;
  return limit > 0 ? seconds * static_cast<double>(machine.devices.size()) / limit : 0;
}

/// The weights under which intervals are solved: joining gradients hidden, or not; memory free, or worth more and more.
std::vector<Weights> Searcher::weightsOf(int64_t microbatches) const {
  double shown = 1.0 / fullMicrobatches(microbatches);
  std::vector<Weights> list = {{request.training ? hidden * shown : 0, 0, request.training ? shown : 0}};
  if (request.training)
    list.push_back({shown, 0});
  if (!memoryBinds)
    return list;
  double perByte = secondsPerByte(microbatches);
  std::vector<double> factors = {0.3, 3.0, 30.0};
  // Where these find nothing that fits, also what takes the least memory, whatever time it takes.
  if (explains)
    factors.insert(factors.end(), {300.0, 1e6});
  for (double factor : factors)
    if (perByte > 0)
      list.push_back({request.training ? shown : 0, factor * perByte});
  // What rings save is there for a moment only, and has no price.
  if (mayHaveRings())
    for (double factor : explains ? std::vector<double>{0, 3.0, 1e6} : std::vector<double>{0, 3.0}) {
      Weights weights = {request.training ? shown : 0, factor * perByte};
      weights.ringsOnly = true;
      list.push_back(weights);
    }
  return list;
}

} // namespace cleave::search
