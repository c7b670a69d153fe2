// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the report of a run.

#include "runtime/run/RunReport.h"

#include "runtime/Json.h"
#include "runtime/Printable.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

namespace cleave::runtime {

Latency latencyOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  auto quantile = [&](double q) {
    return samples[static_cast<size_t>(std::lround(q * static_cast<double>(samples.size() - 1)))];
  };
  return {quantile(0.5), quantile(0.1), quantile(0.9), quantile(0.99)};
}

static double elementAsDouble(const HostTensor &tensor, size_t index) {
  ElementType type = tensor.type().element;
  return static_cast<double>(loadElement(type, tensor.bytes().data() + index * elementBytes(type)));
}

std::string describeValues(const HostTensor &tensor) {
  constexpr size_t mostValues = 6, mostRows = 8;
  const TensorType &type = tensor.type();
  size_t count = tensor.bytes().size() / std::max<size_t>(1, elementBytes(type.element));
  std::ostringstream text;
  text << (count == 0 ? "no elements" : "first ");
  for (size_t i = 0; i != std::min(count, mostValues); ++i)
    text << (i ? ", " : "") << std::setprecision(5) << elementAsDouble(tensor, i);
  text << (count > mostValues ? ", …" : "");
  size_t classes = type.shape.empty() ? 0 : static_cast<size_t>(type.shape.back());
  if (!isFloatingPoint(type.element) || type.shape.size() > 2 || classes < 2)
    return text.str();
  text << "; largest at ";
  size_t rows = count / classes;
  for (size_t row = 0; row != std::min(rows, mostRows); ++row) {
    size_t best = 0;
    for (size_t i = 1; i != classes; ++i)
      if (elementAsDouble(tensor, row * classes + i) > elementAsDouble(tensor, row * classes + best))
        best = i;
    text << (row ? ", " : "") << best;
  }
  text << (rows > mostRows ? ", …" : "");
  return text.str();
}

std::vector<NodeTime> nodeTimes(const Trace &trace, uint64_t leftOut) {
  std::map<std::string, NodeTime> byNode;
  for (const Trace::Track &track : trace.tracks())
    for (const Trace::Event &event : track.events) {
      if (event.phase == Phase::Prepare || event.step < leftOut)
        continue;
      NodeTime &node = byNode[event.instruction->node];
      node.node = event.instruction->node;
      ++node.instructions;
      node.seconds += static_cast<double>(event.end - event.begin) / 1e9;
    }
  std::vector<NodeTime> nodes;
  for (auto &[name, node] : byNode)
    nodes.push_back(std::move(node));
  std::ranges::stable_sort(nodes, std::greater(), &NodeTime::seconds);
  return nodes;
}

void RunReport::printNodes(std::ostream &out) const {
  double all = 0;
  size_t width = 4;
  for (const NodeTime &node : nodes) {
    all += node.seconds;
    width = std::max(width, node.node.size());
  }
  if (nodes.empty())
    return;
  out << "  " << std::left << std::setw(static_cast<int>(width)) << "node" << std::right
      << "  per step, ms  share  instructions\n";
  for (const NodeTime &node : nodes)
    out << "  " << std::left << std::setw(static_cast<int>(width)) << node.node << std::right << std::fixed
        << std::setprecision(3) << std::setw(14) << node.seconds * 1e3 / std::max(1u, steps) << std::setprecision(1)
        << std::setw(6) << (all > 0 ? 100 * node.seconds / all : 0) << "%" << std::setw(14) << node.instructions
        << "\n";
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
       << " ms, p90 " << latency.p90 << " ms, p99 " << latency.p99 << " ms; " << std::setprecision(1) << stepsPerSecond
       << " steps/s\npeak memory: " << peakBytes() << " bytes on a device\n";
  for (const DeviceMemory &device : devices)
    text << "  " << device.device << ": " << device.allocatedBytes << " bytes, planned " << device.plannedBytes
         << ", live at once " << device.liveBytes << (device.hardware.empty() ? "" : ", on ") << device.hardware
         << "\n";
  printNodes(text);
  for (const OutputReport &output : outputs) {
    text << "output \"" << output.name << "\" " << output.type.text()
         << (output.comparison ? ": " + output.comparison->text() : std::string()) << "\n";
    if (!output.comparison)
      text << "  " << output.values << "\n";
  }
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
      << ", \"p90\": " << JsonNumber{latency.p90} << ", \"p99\": " << JsonNumber{latency.p99}
      << "},\n  \"steps_per_second\": " << JsonNumber{stepsPerSecond} << ",\n  \"peak_bytes\": " << peakBytes()
      << ",\n  \"devices\": [";
  for (size_t i = 0; i != devices.size(); ++i)
    out << (i ? "," : "") << "\n    {\"name\": " << JsonString{devices[i].device}
        << ", \"planned_bytes\": " << devices[i].plannedBytes << ", \"allocated_bytes\": " << devices[i].allocatedBytes
        << ", \"live_bytes\": " << devices[i].liveBytes << ", \"hardware\": " << JsonString{devices[i].hardware} << "}";
  out << "\n  ]";
  if (!nodes.empty()) {
    out << ",\n  \"nodes\": [";
    for (size_t i = 0; i != nodes.size(); ++i)
      out << (i ? "," : "") << "\n    {\"name\": " << JsonString{nodes[i].node}
          << ", \"instructions\": " << nodes[i].instructions << ", \"seconds\": " << JsonNumber{nodes[i].seconds}
          << "}";
    out << "\n  ]";
  }
  out << ",\n  \"outputs\": [";
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
