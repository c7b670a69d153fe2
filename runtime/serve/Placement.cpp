// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An operator runs on all devices of its mesh.

#include "runtime/serve/Placement.h"

#include "runtime/Json.h"

#include <algorithm>
#include <filesystem>

namespace cleave::runtime::serve {
namespace {

/// Writes the elements of a list between brackets.
template <typename List, typename Write> void writeList(std::ostream &out, const List &list, Write write) {
  out << "[";
  bool isFirst = true;
  for (const auto &element : list) {
    out << (isFirst ? "" : ", ");
    write(element);
    isFirst = false;
  }
  out << "]";
}

std::string fileName(const ServedPlan &plan) { return std::filesystem::path(plan.from).filename().string(); }

/// How many of the entry's operators run on the device.
size_t operatorsOn(const PlanContents &plan, const Entry &entry, const std::string &device) {
  return static_cast<size_t>(std::ranges::count_if(entry.operators, [&](const Operator &op) {
    return std::ranges::any_of(plan.meshes[op.mesh].devices,
                               [&](uint32_t index) { return plan.devices[index].name == device; });
  }));
}

const PlanDevice &deviceOf(const PlanContents &plan, const std::string &name) {
  return *std::ranges::find(plan.devices, name, &PlanDevice::name);
}

void writeDevice(std::ostream &out, const PlanContents &plan, const Entry &entry, const DeviceMemory &memory) {
  const PlanDevice &device = deviceOf(plan, memory.device);
  out << "{\"name\": " << JsonString{memory.device} << ", \"driver\": " << JsonString{device.driver}
      << ", \"cores\": " << device.cores << ", \"hardware\": " << JsonString{memory.hardware}
      << ", \"operators\": " << operatorsOn(plan, entry, memory.device)
      << ", \"allocated_bytes\": " << memory.allocatedBytes << ", \"live_bytes\": " << memory.liveBytes << "}";
}

void writeInstance(std::ostream &out, const InstanceState &state) {
  const BatchedPlan &served = state.plan->plan;
  const PlanContents &plan = *served.getPlan();
  size_t fastest = state.table.fastest();
  const Entry &entry = *std::ranges::find(plan.entries, served.getEntries()[fastest], &Entry::name);
  out << "{\"plan\": " << JsonString{fileName(*state.plan)} << ", \"ready\": " << (state.isReady ? "true" : "false")
      << ", \"strategy\": " << JsonString{plan.strategy}
      << ", \"machine\": " << JsonString{entry.prediction ? entry.prediction->machine : std::string()}
      << ", \"devices\": ";
  writeList(out, state.devices, [&](const DeviceMemory &memory) { writeDevice(out, plan, entry, memory); });
  out << ", \"batches\": [";
  for (size_t size = 0; size != state.table.size(); ++size)
    out << (size == 0 ? "" : ", ") << "{\"entry\": " << JsonString{served.getEntries()[size]}
        << ", \"samples\": " << state.table.samples(size)
        << ", \"predicted_seconds\": " << JsonNumber{state.table.predictedSeconds(size)}
        << ", \"measured_seconds\": " << JsonNumber{state.table.seconds(size)} << "}";
  out << "]}";
}

} // namespace

std::string writePlacement(const ServedModel &model) {
  std::ostringstream out;
  out << "{\"name\": " << JsonString{model.getName()} << ", \"version\": " << JsonString{model.getVersion()}
      << ", \"plans\": ";
  writeList(out, model.getPlans(), [&](const auto &plan) { out << JsonString{fileName(*plan)}; });
  out << ", \"explained\": " << (model.getPlans().front()->explanation.empty() ? "false" : "true")
      << ", \"instances\": ";
  writeList(out, model.instances(), [&](const InstanceState &state) { writeInstance(out, state); });
  out << "}";
  return out.str();
}

} // namespace cleave::runtime::serve
