// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Speeds by kind, shares in proportion to them.

#include "passes/planner/search/Shares.h"

#include <numeric>

namespace cleave::search {

double divideSamples(llvm::MutableArrayRef<ShareGroup> groups, int64_t samples) {
  auto secondsWith = [](const ShareGroup &group, int64_t own) {
    return static_cast<double>((own + group.coordinates - 1) / group.coordinates) / group.speed;
  };
  for (ShareGroup &group : groups)
    group.samples = 0;
  for (int64_t sample = 0; sample != samples; ++sample) {
    ShareGroup *first = &groups.front();
    for (ShareGroup &group : groups.drop_front())
      if (secondsWith(group, group.samples + 1) < secondsWith(*first, first->samples + 1))
        first = &group;
    ++first->samples;
  }
  double last = 0;
  for (const ShareGroup &group : groups)
    last = std::max(last, secondsWith(group, group.samples));
  return last;
}

namespace {

/// Devices of one speed.
struct Kind {
  DeviceSpec spec;
  std::vector<unsigned> devices;
};

std::vector<Kind> kindsOf(const Machine &machine) {
  std::vector<Kind> kinds;
  for (auto [index, device] : llvm::enumerate(machine.devices)) {
    auto same = llvm::find_if(kinds, [&](const Kind &kind) {
      return kind.spec.kind == device.kind && kind.spec.cores == device.cores &&
             kind.spec.memoryLimit == device.memoryLimit && kind.spec.driver == device.driver;
    });
    if (same == kinds.end())
      same = kinds.insert(same, {device, {}});
    same->devices.push_back(static_cast<unsigned>(index));
  }
  return kinds;
}

/// The machine with devices of that kind in the place of all.
Machine machineOf(const Machine &machine, const DeviceSpec &spec, const DeviceKind &kind) {
  static constexpr llvm::StringLiteral name = "mean";
  Machine made = machine;
  made.kinds = {{name.str(), kind}};
  for (DeviceSpec &device : made.devices) {
    device.kind = name.str();
    device.cores = spec.cores;
    device.memoryLimit = spec.memoryLimit;
  }
  for (HostSpec &host : made.hosts)
    for (HostSpec::Devices &devices : host.devices)
      devices.kind = name.str();
  return made;
}

/// A kind that does everything so many times as fast.
DeviceKind timesAsFast(DeviceKind kind, double factor) {
  for (auto &[type, peak] : kind.peak)
    peak *= factor;
  kind.bandwidth *= factor;
  kind.launch /= factor;
  return kind;
}

class SharesFinder {
public:
  SharesFinder(const SearchGraph &graph, const Machine &machine, const SearchRequest &request)
      : graph(graph), machine(machine), request(request), kinds(kindsOf(machine)) {}

  std::optional<FoundPlan> run() {
    // Optimizer state that replicas share is shared by equal ones.
    bool isFixed =
        request.degrees.any() || !request.pinned.empty() || !request.fixed.empty() || request.zero.value_or(0) != 0;
    bool isMixed = kinds.size() > 1 && llvm::all_of(kinds, [&](const Kind &kind) {
                     return !kind.spec.kind.empty() && kind.spec.driver == kinds.front().spec.driver;
                   });
    std::optional<FoundPlan> best;
    if (isFixed || !isMixed)
      return best;
    int64_t common = 0;
    for (const Kind &kind : kinds)
      common = std::gcd(common, static_cast<int64_t>(kind.devices.size()));
    for (int64_t model = 1; model <= common; model *= 2)
      if (common % model == 0)
        if (auto found = find(model); found && (!best || found->seconds < best->seconds))
          best = std::move(found);
    return best;
  }

private:
  std::optional<FoundPlan> find(int64_t model) {
    SearchRequest equal = request;
    equal.degrees.data = static_cast<int64_t>(machine.devices.size()) / model;
    equal.degrees.model = model;
    equal.degrees.pipeline = 1;
    equal.zero = 0;
    equal.considersOthers = equal.certifies = false;
    equal.progress = nullptr;
    std::vector<ShareGroup> groups;
    double speed = 0;
    for (const Kind &kind : kinds) {
      auto found = findPlan(graph, machineOf(machine, kind.spec, machine.kinds.at(kind.spec.kind)), equal);
      auto *plan = std::get_if<FoundPlan>(&found);
      if (!plan)
        return std::nullopt;
      groups.push_back({static_cast<int64_t>(kind.devices.size()) / model, 1 / plan->seconds});
      speed += static_cast<double>(groups.back().coordinates) / plan->seconds;
    }
    const Kind &first = kinds.front();
    double mean = speed / static_cast<double>(*equal.degrees.data);
    DeviceKind kind = timesAsFast(machine.kinds.at(first.spec.kind), mean / groups.front().speed);
    auto found = findPlan(graph, machineOf(machine, first.spec, kind), equal);
    auto *plan = std::get_if<FoundPlan>(&found);
    if (!plan || plan->stages.size() != 1)
      return std::nullopt;
    int64_t samples = graph.batch;
    if (request.training)
      samples = (request.batch ? request.batch : graph.batch) / plan->microbatches;
    double last = divideSamples(groups, samples);
    if (llvm::any_of(groups, [](const ShareGroup &group) { return group.samples < group.coordinates; }))
      return std::nullopt;
    scale(*plan, last * speed / static_cast<double>(samples));
    return writeShares(*plan, groups, samples) ? std::optional(std::move(*plan)) : std::nullopt;
  }

  static void scale(FoundPlan &plan, double factor) {
    plan.seconds *= factor;
    FoundStage &stage = plan.stages.front();
    for (double *seconds : {&stage.forward, &stage.backward, &stage.backwardWeights})
      *seconds *= factor;
  }

  /// Whether the parts fit where they go.
  bool writeShares(FoundPlan &plan, llvm::ArrayRef<ShareGroup> groups, int64_t samples) const {
    FoundStage &stage = plan.stages.front();
    auto data = llvm::find_if(stage.axes, [](const MeshAxis &axis) { return axis.name == dataAxis; });
    if (data == stage.axes.end() ||
        data->size != std::accumulate(groups.begin(), groups.end(), int64_t(0),
                                      [](int64_t sum, const ShareGroup &group) { return sum + group.coordinates; }))
      return false;
    // So that the shares of a group's coordinates are whole and add up to its samples.
    int64_t parts = 1;
    for (const ShareGroup &group : groups)
      parts = std::lcm(parts, group.coordinates);
    double even = static_cast<double>(samples) / static_cast<double>(data->size), most = 1;
    stage.devices.clear();
    for (auto [kind, group] : llvm::zip_equal(kinds, groups)) {
      data->shares.insert(data->shares.end(), group.coordinates, group.samples * parts / group.coordinates);
      stage.devices.insert(stage.devices.end(), kind.devices.begin(), kind.devices.end());
      double more = static_cast<double>((group.samples + group.coordinates - 1) / group.coordinates) / even;
      most = std::max(most, more);
      double limit = request.memoryLimit;
      for (uint64_t bytes : {kind.spec.memoryLimit, machine.kinds.at(kind.spec.kind).memory})
        if (bytes && (!limit || static_cast<double>(bytes) < limit))
          limit = static_cast<double>(bytes);
      double kept = stage.parameters + stage.gradients + stage.optimizer;
      if (limit && kept + (stage.activations + stage.transient) * more > limit)
        return false;
    }
    stage.activations *= most;
    stage.transient *= most;
    // Equal shares are none.
    if (llvm::all_equal(data->shares))
      data->shares.clear();
    int64_t divisor = 0;
    for (int64_t share : data->shares)
      divisor = std::gcd(divisor, share);
    for (int64_t &share : data->shares)
      share /= divisor;
    return true;
  }

  const SearchGraph &graph;
  const Machine &machine;
  const SearchRequest &request;
  std::vector<Kind> kinds;
};

} // namespace

std::optional<FoundPlan> findShares(const SearchGraph &graph, const Machine &machine, const SearchRequest &request) {
  return SharesFinder(graph, machine, request).run();
}

} // namespace cleave::search
