// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the report of a run.

#include "runtime/RunReport.h"

#include "runtime/Json.h"
#include "runtime/Printable.h"

#include <algorithm>
#include <cmath>
#include <iomanip>

namespace cleave::runtime {

Latency latencyOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  auto quantile = [&](double q) {
    return samples[static_cast<size_t>(std::lround(q * static_cast<double>(samples.size() - 1)))];
  };
  return {quantile(0.5), quantile(0.1), quantile(0.9)};
}

uint64_t RunReport::peakBytes() const {
  uint64_t peak = 0;
  for (const DeviceMemory &device : devices)
    peak = std::max(peak, device.allocatedBytes);
  return peak;
}

void RunReport::print(std::ostream &out) const {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3);
  text << "entry \"" << entry << "\": " << steps << (steps == 1 ? " step" : " steps")
       << (simulated ? ", simulated" : "") << "\nlatency: median " << latency.median << " ms, p10 " << latency.p10
       << " ms, p90 " << latency.p90 << " ms; " << std::setprecision(1) << stepsPerSecond
       << " steps/s\npeak memory: " << peakBytes() << " bytes on a device\n";
  for (const DeviceMemory &device : devices)
    text << "  " << device.device << ": " << device.allocatedBytes << " bytes, planned " << device.plannedBytes
         << ", live at once " << device.liveBytes << (device.hardware.empty() ? "" : ", on ") << device.hardware
         << "\n";
  for (const OutputReport &output : outputs)
    text << "output \"" << output.name << "\" " << output.type.text()
         << (output.comparison ? ": " + output.comparison->text() : std::string()) << "\n";
  out << printable(text.str());
}

static void writeComparison(std::ostream &out, const Comparison &comparison) {
  out << ", \"equal\": " << (comparison.equal() ? "true" : "false") << ", \"elements\": " << comparison.elements
      << ", \"differing\": " << comparison.differing << ", \"max_error\": " << JsonNumber{comparison.maxError};
  if (comparison.equal())
    return;
  out << ", \"worst\": {\"index\": [";
  for (size_t d = 0; d != comparison.worstIndex.size(); ++d)
    out << (d ? ", " : "") << comparison.worstIndex[d];
  out << "], \"expected\": " << JsonNumber{comparison.worstExpected}
      << ", \"actual\": " << JsonNumber{comparison.worstActual} << "}";
}

void RunReport::writeJson(std::ostream &out) const {
  out << "{\n  \"entry\": " << JsonString{entry} << ",\n  \"steps\": " << steps
      << ",\n  \"simulated\": " << (simulated ? "true" : "false")
      << ",\n  \"latency_ms\": {\"median\": " << JsonNumber{latency.median} << ", \"p10\": " << JsonNumber{latency.p10}
      << ", \"p90\": " << JsonNumber{latency.p90} << "},\n  \"steps_per_second\": " << JsonNumber{stepsPerSecond}
      << ",\n  \"peak_bytes\": " << peakBytes() << ",\n  \"devices\": [";
  for (size_t i = 0; i != devices.size(); ++i)
    out << (i ? "," : "") << "\n    {\"name\": " << JsonString{devices[i].device}
        << ", \"planned_bytes\": " << devices[i].plannedBytes << ", \"allocated_bytes\": " << devices[i].allocatedBytes
        << ", \"live_bytes\": " << devices[i].liveBytes << ", \"hardware\": " << JsonString{devices[i].hardware} << "}";
  out << "\n  ],\n  \"outputs\": [";
  for (size_t i = 0; i != outputs.size(); ++i) {
    out << (i ? "," : "") << "\n    {\"name\": " << JsonString{outputs[i].name}
        << ", \"type\": " << JsonString{outputs[i].type.text()};
    if (outputs[i].comparison)
      writeComparison(out, *outputs[i].comparison);
    out << "}";
  }
  out << "\n  ]\n}\n";
}

} // namespace cleave::runtime
