// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over devices and their hosts.

#include "passes/cost/Price.h"

#include <set>

using namespace llvm;

namespace cleave {

/// By host its price an hour.
static std::vector<double> hostPrices(const Machine &machine) {
  std::vector<double> prices;
  for (const HostSpec &host : machine.hosts)
    prices.insert(prices.end(), host.count, host.price);
  return prices;
}

static double kindPrice(const Machine &machine, const DeviceSpec &device) {
  auto kind = machine.kinds.find(device.kind);
  return kind == machine.kinds.end() ? 0 : kind->second.price;
}

bool hasPrices(const Machine &machine) {
  return any_of(machine.hosts, [](const HostSpec &host) { return host.price > 0; }) ||
         any_of(machine.kinds, [](const auto &kind) { return kind.second.price > 0; });
}

double pricePerHour(const Machine &machine, ArrayRef<unsigned> devices) {
  std::vector<double> prices = hostPrices(machine);
  std::set<unsigned> hosts;
  double sum = 0;
  for (unsigned index : devices) {
    const DeviceSpec &device = machine.devices[index];
    sum += kindPrice(machine, device);
    if (device.host < prices.size() && hosts.insert(device.host).second)
      sum += prices[device.host];
  }
  return sum;
}

double priceOf(double pricePerHour, double seconds) {
  constexpr double secondsPerHour = 3600;
  return pricePerHour * seconds / secondsPerHour;
}

const std::string *findUnpriced(const Machine &machine) {
  std::vector<double> prices = hostPrices(machine);
  auto found = find_if(machine.devices, [&](const DeviceSpec &device) {
    return kindPrice(machine, device) == 0 && (device.host >= prices.size() || prices[device.host] == 0);
  });
  return found == machine.devices.end() ? nullptr : &found->kind;
}

} // namespace cleave
