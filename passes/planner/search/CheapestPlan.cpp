// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets of devices, cheapest first, and the fastest plan on each; then sets like the best one.

#include "passes/planner/search/CheapestPlan.h"

#include "passes/cost/CurveFit.h"
#include "passes/cost/OperatorCost.h"
#include "passes/cost/Price.h"
#include "passes/cost/Quantity.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <numeric>
#include <set>

namespace cleave::search {

/// A search takes tenths of a second to seconds.
static constexpr size_t mostSearched = 64;

/// 0, 1, 2, 3, … or 0, 1, 2, 4, … and all.
static std::vector<unsigned> countsUpTo(unsigned most, bool inPowers) {
  std::set<unsigned> counts = {0, most};
  for (unsigned count = 1; count < most; count += inPowers ? count : 1)
    counts.insert(count);
  return {counts.begin(), counts.end()};
}

/// How many devices a host by itself has of which parts are tried, as its devices are of one kind; 0: they are not.
static unsigned dividedDevices(const Machine &machine, llvm::ArrayRef<unsigned> hosts) {
  if (std::accumulate(hosts.begin(), hosts.end(), 0u) != 1)
    return 0;
  const HostSpec &alone = machine.hosts[llvm::find(hosts, 1u) - hosts.begin()];
  return alone.devices.size() == 1 ? alone.numDevices() : 0;
}

/// The first hosts of each entry, as many as `counts` says; of a single one perhaps only some `devices`.
static PartOfMachine takeHosts(const Machine &machine, llvm::ArrayRef<unsigned> counts, unsigned devices) {
  PartOfMachine part{counts.vec(), devices, machine, {}, {}};
  part.machine.hosts.clear();
  part.machine.devices.clear();
  unsigned first = 0;
  std::set<std::string> zones;
  for (auto [host, count] : llvm::zip_equal(machine.hosts, counts)) {
    if (count != 0) {
      part.machine.hosts.push_back(host);
      part.machine.hosts.back().count = count;
      zones.insert(host.zone);
      std::string kinds;
      for (const HostSpec::Devices &some : host.devices)
        kinds += (kinds.empty() ? "" : ", ") + std::to_string(devices ? devices : some.count) + " " + some.kind;
      part.name += (part.name.empty() ? "" : " + ") + (count > 1 ? std::to_string(count) + " x " : "") + kinds;
      for (unsigned index = 0; index != (devices ? devices : count * host.numDevices()); ++index)
        part.devices.push_back(first + index);
    }
    first += host.count * host.numDevices();
  }
  llvm::erase_if(part.machine.links,
                 [&](const ZoneLinkSpec &link) { return !zones.count(link.from) || !zones.count(link.to); });
  addDevices(part.machine);
  if (devices)
    part.machine = firstDevices(part.machine, devices);
  // What is peculiar to the devices of this machine stays with them.
  for (auto [device, number] : llvm::zip_equal(part.machine.devices, part.devices)) {
    DeviceSpec own = machine.devices[number];
    own.host = device.host;
    own.zone = device.zone;
    device = std::move(own);
  }
  return part;
}

std::vector<PartOfMachine> partsOf(const Machine &machine) {
  std::vector<PartOfMachine> parts;
  double sets = 1;
  for (const HostSpec &host : machine.hosts)
    sets *= host.count + 1;
  std::vector<std::vector<unsigned>> counts;
  for (const HostSpec &host : machine.hosts)
    counts.push_back(countsUpTo(host.count, /*inPowers=*/sets > mostSearched));
  std::vector<size_t> at(counts.size(), 0);
  auto next = [&] {
    size_t entry = 0;
    while (entry != at.size() && ++at[entry] == counts[entry].size())
      at[entry++] = 0;
    return entry != at.size();
  };
  while (next()) {
    std::vector<unsigned> taken;
    for (auto [entry, own] : llvm::zip_equal(at, counts))
      taken.push_back(own[entry]);
    parts.push_back(takeHosts(machine, taken, 0));
    constexpr unsigned few = 8;
    unsigned all = dividedDevices(machine, taken);
    for (unsigned devices : countsUpTo(all, /*inPowers=*/all > few))
      if (devices != 0 && devices != all)
        parts.push_back(takeHosts(machine, taken, devices));
  }
  auto rankOf = [&](const PartOfMachine &part) {
    return std::pair(pricePerHour(machine, part.devices), part.devices.size());
  };
  llvm::stable_sort(
      parts, [&](const PartOfMachine &left, const PartOfMachine &right) { return rankOf(left) < rankOf(right); });
  return parts;
}

/// "0.01234"
static std::string numberText(double value) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::format("%.4g", value);
  return text;
}

namespace {

class CheapestFinder {
public:
  CheapestFinder(const SearchGraph &graph, const Machine &machine, const SearchRequest &request)
      : graph(graph), machine(machine), request(request) {}

  std::variant<FoundPlan, SearchFailure> run() {
    if (!request.pinned.empty())
      return SearchFailure{false, "--objective cost expects no --place: which devices to pay for is its choice"};
    if (const std::string *kind = findUnpriced(machine))
      return SearchFailure{false, llvm::formatv("--objective cost expects a price of device kind \"{0}\", or of its "
                                                "host, in the machine file of \"{1}\"; found none",
                                                *kind, machine.name)};
    std::vector<PartOfMachine> parts = partsOf(machine);
    size_t most = std::min(parts.size(), mostSearched);
    timeOfSet = request.timeBudget / static_cast<double>(most + mostImproved);
    for (const PartOfMachine &part : parts)
      if (considered.size() < most)
        tryPart(part);
    if (!best)
      tryPart(*llvm::max_element(parts, [](const PartOfMachine &left, const PartOfMachine &right) {
        return left.devices.size() < right.devices.size();
      }));
    if (best)
      improve();
    if (best) {
      best->considered = std::move(considered);
      return std::move(*best);
    }
    if (failure && !std::isfinite(leastSeconds))
      return *failure;
    return SearchFailure{
        true, "no plan has a step of at most --max-step " + printQuantity(request.mostSeconds, timeUnits) + ": " +
                  (std::isfinite(leastSeconds)
                       ? "the fastest one found takes " + printQuantity(roundDigits(leastSeconds), timeUnits)
                       : std::string("the devices' peaks do not allow it")) +
                  "; give it more time, or more devices"};
  }

private:
  static constexpr size_t mostImproved = 32;

  /// Seconds that no plan on these devices is faster than: all operations at the devices' peaks.
  double leastSecondsOn(const PartOfMachine &part) const {
    double peak = 0;
    for (unsigned device = 0; device != part.machine.devices.size(); ++device)
      peak += OperatorCost(part.machine, device, request.elementType).mostFlops();
    double samples =
        request.training && request.batch ? static_cast<double>(request.batch) / static_cast<double>(graph.batch) : 1;
    return graph.leastFlops(samples, request.training) / peak;
  }

  /// Sets like the best one, with one number changed by an n-th of itself, at least by one, up and down.
  std::vector<PartOfMachine> neighbours(unsigned n) const {
    std::vector<PartOfMachine> parts;
    auto changed = [n](unsigned count, unsigned most) {
      unsigned step = std::max(count / n, 1u);
      return std::array<unsigned, 2>{count - std::min(step, count), std::min(count + step, most)};
    };
    if (unsigned all = dividedDevices(machine, bestHosts))
      for (unsigned count : changed(bestDevicesOfHost ? bestDevicesOfHost : all, all))
        if (count != 0)
          parts.push_back(takeHosts(machine, bestHosts, count == all ? 0 : count));
    for (auto [entry, host] : llvm::enumerate(machine.hosts))
      for (unsigned count : changed(bestHosts[entry], host.count)) {
        std::vector<unsigned> hosts = bestHosts;
        hosts[entry] = count;
        if (llvm::any_of(hosts, [](unsigned some) { return some != 0; }))
          parts.push_back(takeHosts(machine, hosts, 0));
      }
    return parts;
  }

  /// Goes to better neighbours; in smaller steps where there are none, until these are of one.
  void improve() {
    size_t end = considered.size() + mostImproved;
    for (unsigned n = 4; considered.size() < end;) {
      double before = bestPrice;
      unsigned largest = std::max(*llvm::max_element(bestHosts), dividedDevices(machine, bestHosts));
      for (const PartOfMachine &part : neighbours(n))
        if (considered.size() < end)
          tryPart(part);
      if (bestPrice < before)
        continue;
      if (largest < 2 * n)
        return;
      n *= 2;
    }
  }

  void tryPart(const PartOfMachine &part) {
    if (!tried.insert({part.hosts, part.devicesOfHost}).second)
      return;
    double hourly = pricePerHour(machine, part.devices), least = leastSecondsOn(part);
    if (least > request.mostSeconds || (best && priceOf(hourly, least) >= bestPrice))
      return;
    SearchRequest own = request;
    own.leastCost = own.considersOthers = own.certifies = false;
    own.timeBudget = timeOfSet;
    own.mayFindNothing = best.has_value();
    auto found = findPlan(graph, part.machine, own);
    auto *plan = std::get_if<FoundPlan>(&found);
    Considered &made = considered.emplace_back();
    made.name = part.name;
    if (!plan) {
      failure = std::get<SearchFailure>(found);
      made.whyNot = failure->message;
      return;
    }
    std::vector<unsigned> used;
    for (FoundStage &stage : plan->stages)
      for (unsigned &device : stage.devices)
        used.push_back(device = part.devices[device]);
    leastSeconds = std::min(leastSeconds, plan->seconds);
    double price = priceOf(pricePerHour(machine, used), plan->seconds);
    made.seconds = plan->seconds;
    made.bytes = plan->peakBytes();
    if (plan->seconds > request.mostSeconds) {
      made.whyNot = "takes more than " + printQuantity(request.mostSeconds, timeUnits);
      return;
    }
    made.whyNot = "costs " + numberText(price) + " USD a step";
    if (best && price >= bestPrice)
      return;
    best = std::move(*plan);
    bestPrice = price;
    bestHosts = part.hosts;
    bestDevicesOfHost = part.devicesOfHost;
  }

  const SearchGraph &graph;
  const Machine &machine;
  const SearchRequest &request;
  double timeOfSet = 0;                                       ///< Seconds; 0: no limit.
  std::set<std::pair<std::vector<unsigned>, unsigned>> tried; ///< As `hosts` and `devicesOfHost` of PartOfMachine.
  std::optional<FoundPlan> best;
  std::vector<unsigned> bestHosts;
  unsigned bestDevicesOfHost = 0;
  double bestPrice = 0, leastSeconds = std::numeric_limits<double>::infinity();
  std::optional<SearchFailure> failure;
  std::vector<Considered> considered;
};

} // namespace

std::variant<FoundPlan, SearchFailure> findCheapestPlan(const SearchGraph &graph, const Machine &machine,
                                                        const SearchRequest &request) {
  return CheapestFinder(graph, machine, request).run();
}

} // namespace cleave::search
