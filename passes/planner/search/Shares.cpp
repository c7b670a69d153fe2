// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Speeds by kind, shares in proportion to them.

#include "passes/planner/search/Shares.h"

#include "dialects/dist/Dist.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

/// By group, from none to all: whether they can take so many samples together, each a multiple of its coordinates of at
/// least one for each, without taking longer than `last`.
static std::vector<std::vector<bool>> reachableWithin(llvm::ArrayRef<ShareGroup> groups, int64_t samples, double last) {
  std::vector<std::vector<bool>> reachable(groups.size() + 1, std::vector<bool>(samples + 1, false));
  reachable[0][0] = true;
  for (auto [index, group] : llvm::enumerate(groups))
    for (int64_t before = 0; before <= samples; ++before)
      for (int64_t each = 1; reachable[index][before]; ++each) {
        int64_t after = before + each * group.coordinates;
        if (after > samples || static_cast<double>(each) / group.speed > last)
          break;
        reachable[index + 1][after] = true;
      }
  return reachable;
}

std::optional<double> divideEvenly(llvm::MutableArrayRef<ShareGroup> groups, int64_t samples) {
  std::vector<double> times;
  for (const ShareGroup &group : groups)
    for (int64_t each = 1; each * group.coordinates <= samples; ++each)
      times.push_back(static_cast<double>(each) / group.speed);
  llvm::sort(times);
  // What is reachable in less time is reachable in more.
  auto least = std::partition_point(
      times.begin(), times.end(), [&](double time) { return !reachableWithin(groups, samples, time).back()[samples]; });
  if (least == times.end())
    return std::nullopt;
  auto reachable = reachableWithin(groups, samples, *least);
  // Of what is as good, as much as can be in proportion to the speeds.
  double speed = 0;
  for (const ShareGroup &group : groups)
    speed += static_cast<double>(group.coordinates) * group.speed;
  int64_t left = samples;
  for (size_t index = groups.size(); index-- > 0;) {
    ShareGroup &group = groups[index];
    double wanted = static_cast<double>(samples) * static_cast<double>(group.coordinates) * group.speed / speed;
    group.samples = 0;
    for (int64_t each = 1; each * group.coordinates <= left; ++each) {
      int64_t own = each * group.coordinates;
      if (static_cast<double>(each) / group.speed <= *least && reachable[index][left - own])
        if (group.samples == 0 ||
            std::abs(static_cast<double>(own) - wanted) < std::abs(static_cast<double>(group.samples) - wanted))
          group.samples = own;
    }
    left -= group.samples;
  }
  return *least;
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

/// The kind with all its rates times a factor.
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
    double bound = std::numeric_limits<double>::infinity();
    for (int64_t model = 1; model <= common; model *= 2) {
      if (common % model != 0)
        continue;
      auto found = find(model);
      bound = std::min(bound, boundOf(model));
      if (found && (!best || found->seconds < best->seconds))
        best = std::move(found);
    }
    if (best)
      best->lowerBound = bound;
    return best;
  }

private:
  static constexpr unsigned mostRounds = 4;

  std::optional<FoundPlan> find(int64_t model) {
    SearchRequest equal = request;
    equal.degrees.data = static_cast<int64_t>(machine.devices.size()) / model;
    equal.degrees.model = model;
    equal.degrees.pipeline = 1;
    equal.zero = 0;
    equal.considersOthers = equal.certifies = false;
    equal.progress = nullptr;
    // All of them together take no longer than the search before.
    equal.timeBudget = request.timeBudget / static_cast<double>((mostRounds + 1) * kinds.size() + 1);
    std::vector<ShareGroup> groups;
    double speed = 0;
    for (const Kind &kind : kinds) {
      auto plan = planOn(machineOf(machine, kind.spec, machine.kinds.at(kind.spec.kind)), equal);
      if (!plan)
        return std::nullopt;
      groups.push_back({static_cast<int64_t>(kind.devices.size()) / model, 1 / plan->seconds});
      speed += static_cast<double>(groups.back().coordinates) / plan->seconds;
    }
    const Kind &first = kinds.front();
    double mean = speed / static_cast<double>(*equal.degrees.data);
    DeviceKind kind = timesAsFast(machine.kinds.at(first.spec.kind), mean / groups.front().speed);
    auto plan = planOn(machineOf(machine, first.spec, kind), equal);
    if (!plan)
      return std::nullopt;
    // Parts are computed as this plan splits the layers, which with other links might be in other ways.
    if (model > 1)
      equal.fixed = splitsOf(*plan);
    int64_t samples = graph.batch;
    if (request.training)
      samples = (request.batch ? request.batch : graph.batch) / plan->microbatches;
    equal.microbatches = plan->microbatches;
    if (!request.training)
      equal.microbatches.reset();
    // What a device takes is not in proportion to its samples: all read the weights. So shares are balanced again by
    // what they take.
    std::vector<ShareGroup> best;
    double bestCompute = -1;
    for (unsigned round = 0; round != mostRounds; ++round) {
      if (!divideEvenly(groups, samples))
        divideSamples(groups, samples);
      if (llvm::any_of(groups, [](const ShareGroup &group) { return group.samples < group.coordinates; }))
        break;
      double compute = 0;
      std::vector<ShareGroup> next = groups;
      for (auto [kind, group] : llvm::zip_equal(kinds, next)) {
        int64_t own = (group.samples + group.coordinates - 1) / group.coordinates;
        auto seconds = computeOf(kind, own, samples, model, equal);
        if (!seconds)
          return std::nullopt;
        compute = std::max(compute, *seconds);
        group.speed = static_cast<double>(own) / *seconds;
      }
      if (best.empty() || compute < bestCompute) {
        best = groups;
        bestCompute = compute;
      }
      groups = std::move(next);
    }
    if (best.empty())
      return std::nullopt;
    setCompute(*plan, bestCompute);
    return writeShares(*plan, best, samples) ? std::move(plan) : std::nullopt;
  }

  /// Seconds that no shares are faster than: no part takes less for each of its samples than all samples in one part,
  /// nothing exchanged and memory without end.
  double boundOf(int64_t model) const {
    SearchRequest all = request;
    all.degrees.data = all.degrees.pipeline = 1;
    all.degrees.model = model;
    all.zero = 0;
    all.memoryLimit = std::numeric_limits<double>::max();
    all.considersOthers = all.certifies = false;
    all.progress = nullptr;
    double speed = 0;
    for (const Kind &kind : kinds) {
      auto plan = planOn(aloneOn(kind, model), all);
      if (!plan)
        return 0;
      speed += static_cast<double>(kind.devices.size()) / static_cast<double>(model) / plan->lowerBound;
    }
    return 1 / speed;
  }

  /// The plan of one stage, if there is one.
  std::optional<FoundPlan> planOn(const Machine &machine, const SearchRequest &request) const {
    auto found = findPlan(graph, machine, request);
    auto *plan = std::get_if<FoundPlan>(&found);
    return plan && plan->stages.size() == 1 ? std::optional(std::move(*plan)) : std::nullopt;
  }

  /// Seconds that devices compute in a step.
  static double computeOf(const FoundPlan &plan) {
    const FoundStage &stage = plan.stages.front();
    return static_cast<double>(plan.microbatches) * (stage.forward + stage.backward - stage.exchange);
  }

  /// Of a device of a kind with `own` samples: between what it takes with the next smaller and larger part into which
  /// equal devices divide all samples.
  std::optional<double> computeOf(const Kind &kind, int64_t own, int64_t samples, int64_t model,
                                  const SearchRequest &equal) const {
    int64_t ways = std::max<int64_t>(1, samples / own);
    auto partOf = [&](int64_t ways) { return (samples + ways - 1) / ways; };
    std::optional<double> more = computeInParts(kind, ways, model, equal);
    if (!more || partOf(ways) == own)
      return more;
    std::optional<double> fewer = computeInParts(kind, ways + 1, model, equal);
    if (!fewer)
      return std::nullopt;
    auto below = static_cast<double>(own - partOf(ways + 1)), above = static_cast<double>(partOf(ways) - own);
    return (*fewer * above + *more * below) / (below + above);
  }

  /// What a plan of one stage along the axes of data and model cuts.
  static FixedFactors splitsOf(const FoundPlan &plan) {
    const FoundStage &stage = plan.stages.front();
    FixedFactors splits;
    for (unsigned position = stage.first; position != stage.last; ++position) {
      FixedSplit &split = splits[plan.operatorAt(position)];
      split.closed = true;
      for (auto [axis, factor] : llvm::enumerate(llvm::ArrayRef(stage.factors[position - stage.first]).take_front(2)))
        if (factor != none)
          split.axes.emplace_back(axis, factor);
    }
    return splits;
  }

  /// The same where there is but the axis of the model.
  static FixedFactors withoutData(const FixedFactors &splits) {
    FixedFactors others;
    for (const auto &[op, split] : splits) {
      FixedSplit &made = others[op];
      made.closed = true;
      for (auto [axis, factor] : split.axes)
        if (axis == 1)
          made.axes.emplace_back(0, factor);
    }
    return others;
  }

  /// Of each of as many devices of a kind, alone on a machine, as parts are made.
  std::optional<double> computeInParts(const Kind &kind, int64_t ways, int64_t model, SearchRequest equal) const {
    equal.degrees.data = ways;
    if (ways == 1)
      equal.fixed = withoutData(equal.fixed);
    auto plan = planOn(aloneOn(kind, static_cast<size_t>(ways * model)), equal);
    return plan ? std::optional(computeOf(*plan)) : std::nullopt;
  }

  /// A host of `count` devices of a kind, which exchange without taking time.
  Machine aloneOn(const Kind &kind, size_t count) const {
    Machine alike = machineOf(machine, kind.spec, machine.kinds.at(kind.spec.kind));
    DeviceSpec device = alike.devices[kind.devices.front()];
    device.host = device.zone = 0;
    alike.devices.assign(count, device);
    alike.links.clear();
    alike.hosts = {HostSpec()};
    alike.hosts.front().devices = {{device.kind, static_cast<unsigned>(count)}};
    LinkSpec free;
    free.bandwidth = std::numeric_limits<double>::infinity();
    alike.hosts.front().link = free;
    return alike;
  }

  static void setCompute(FoundPlan &plan, double compute) {
    double before = computeOf(plan);
    plan.seconds += compute - before;
    FoundStage &stage = plan.stages.front();
    for (double *seconds : {&stage.forward, &stage.backward, &stage.backwardWeights})
      *seconds *= compute / before;
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
    if (parts > dist::mostShares / std::max<int64_t>(samples, 1))
      return false;
    double even = static_cast<double>(samples) / static_cast<double>(data->size), most = 1;
    stage.devices.clear();
    for (auto [kind, group] : llvm::zip_equal(kinds, groups)) {
      data->shares.insert(data->shares.end(), group.coordinates, group.samples * parts / group.coordinates);
      stage.devices.insert(stage.devices.end(), kind.devices.begin(), kind.devices.end());
      double more = static_cast<double>((group.samples + group.coordinates - 1) / group.coordinates) / even;
      most = std::max(most, more);
      double kept = stage.parameters + stage.gradients + stage.optimizer;
      if (kept + (stage.activations + stage.transient) * more > request.memoryOf(kind.spec))
        return false;
    }
    stage.activations *= most;
    stage.transient *= most;
    int64_t divisor = 0, sum = 0;
    for (int64_t share : data->shares)
      divisor = std::gcd(divisor, share);
    for (int64_t &share : data->shares)
      sum += share /= divisor;
    // Equal shares are none.
    if (llvm::all_equal(data->shares))
      data->shares.clear();
    return sum <= dist::mostShares;
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
