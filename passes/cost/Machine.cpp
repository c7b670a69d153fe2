// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machines by name: this host's cores, and devices that compute nothing.

#include "passes/cost/Machine.h"

#include "passes/cost/MachineFile.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <thread>

using namespace llvm;

namespace cleave {

double EfficiencyCurve::at(double size) const {
  if (points.empty())
    return 1;
  auto above = std::upper_bound(points.begin(), points.end(), size,
                                [](double value, const Point &point) { return value < point.size; });
  if (above == points.begin())
    return points.front().share;
  if (above == points.end())
    return points.back().share;
  const Point &below = *std::prev(above);
  double part = std::log(size / below.size) / std::log(above->size / below.size);
  return below.share + part * (above->share - below.share);
}

static constexpr unsigned mostCores = 4096;

static Error machineError(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

/// A number from 1 to `most`.
static Expected<unsigned> parseCount(StringRef text, StringRef what, unsigned most, StringRef machine) {
  unsigned count = 0;
  if (!to_integer(text, count, 10) || count < 1 || count > most)
    return machineError("machine \"" + machine + "\" expects a number of " + what + " from 1 to " + Twine(most) +
                        ", got \"" + text + "\"");
  return count;
}

static Machine makeMachine(StringRef name, StringRef driver, unsigned count, unsigned cores) {
  Machine machine;
  machine.name = name.str();
  for (unsigned index = 0; index < count; ++index) {
    DeviceSpec &device = machine.devices.emplace_back();
    device.name = driver.str() + std::to_string(index);
    device.driver = driver.str();
    device.cores = cores;
  }
  return machine;
}

Expected<Machine> parseMachine(StringRef text) {
  if (text.ends_with(".yaml") || text.ends_with(".yml"))
    return readMachineFile(text);
  auto [kind, size] = text.split(':');
  bool sized = text.contains(':');
  if (kind == "host") {
    unsigned available = std::clamp(std::thread::hardware_concurrency(), 1u, mostCores);
    if (!sized)
      return makeMachine(text, "cpu", 1, available);
    auto [countText, coresText] = size.split('x');
    auto count = parseCount(countText, "devices", mostDevices, text);
    if (!count)
      return count.takeError();
    if (!size.contains('x'))
      return makeMachine(text, "cpu", *count, std::max(1u, available / *count));
    auto cores = parseCount(coresText, "cores", mostCores, text);
    if (!cores)
      return cores.takeError();
    return makeMachine(text, "cpu", *count, *cores);
  }
  if (kind == "null" && sized) {
    auto count = parseCount(size, "devices", mostDevices, text);
    if (!count)
      return count.takeError();
    return makeMachine(text, "null", *count, 1);
  }
  return machineError("machine expects host, host:N, host:NxC, null:N or a .yaml file, got \"" + text + "\"");
}

} // namespace cleave
