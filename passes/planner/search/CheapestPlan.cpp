// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets of devices, cheapest first, and the fastest plan on each.

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

/// 0, 1, 2, 4, … and all.
static std::vector<unsigned> countsUpTo(unsigned most) {
  std::set<unsigned> counts = {0, most};
  for (unsigned count = 1; count < most; count *= 2)
    counts.insert(count);
  return {counts.begin(), counts.end()};
}

/// The first hosts of each entry, as many as `counts` says; of a single one perhaps only some `devices`.
static PartOfMachine takeHosts(const Machine &machine, llvm::ArrayRef<unsigned> counts, unsigned devices) {
  PartOfMachine part;
  part.machine = machine;
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
  std::vector<std::vector<unsigned>> counts;
  for (const HostSpec &host : machine.hosts)
    counts.push_back(countsUpTo(host.count));
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
    unsigned hosts = std::accumulate(taken.begin(), taken.end(), 0u);
    if (hosts != 1)
      continue;
    const HostSpec &alone = machine.hosts[llvm::find(taken, 1u) - taken.begin()];
    if (alone.devices.size() == 1)
      for (unsigned devices = 1; devices < alone.numDevices(); devices *= 2)
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
    for (const PartOfMachine &part : parts)
      if (considered.size() < most)
        tryPart(part, request.timeBudget / static_cast<double>(most));
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
  static constexpr size_t mostSearched = 64;

  /// Seconds that no plan on these devices is faster than: all operations at the devices' peaks.
  double leastSecondsOn(const PartOfMachine &part) const {
    double peak = 0;
    for (unsigned device = 0; device != part.machine.devices.size(); ++device)
      peak += OperatorCost(deviceKindOf(part.machine, device), request.elementType).peakFlops();
    double samples =
        request.training && request.batch ? static_cast<double>(request.batch) / static_cast<double>(graph.batch) : 1;
    return graph.flops() * samples * (request.training ? 3 : 1) / peak;
  }

  void tryPart(const PartOfMachine &part, double timeBudget) {
    double hourly = pricePerHour(machine, part.devices), least = leastSecondsOn(part);
    if (least > request.mostSeconds || (best && priceOf(hourly, least) >= bestPrice))
      return;
    SearchRequest own = request;
    own.leastCost = own.considersOthers = own.certifies = false;
    own.timeBudget = timeBudget;
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
  }

  const SearchGraph &graph;
  const Machine &machine;
  const SearchRequest &request;
  std::optional<FoundPlan> best;
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
