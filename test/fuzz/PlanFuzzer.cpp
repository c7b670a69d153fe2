// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plan files into the reader, the verifier, the simulator, and the executor of what the verifier accepts. What has run
// runs again from the start: other results are a defect, since the verifier has proved that nothing races and that all
// that is read was written.

#include "Outcome.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"
#include "runtime/simulator/Simulator.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <span>

using namespace cleave::runtime;
using cleave::fuzz::countOutcome;

namespace {

/// Every instruction takes a second, and nothing lies between devices.
class EqualSeconds : public MachineModel {
public:
  uint32_t kindOf(uint32_t) const override { return 0; }
  uint32_t hostOf(uint32_t) const override { return 0; }
  double seconds(uint32_t, const LocalWork &) const override { return 1; }
  std::span<const double> bandwidths() const override { return {}; }
  void findWay(uint32_t, uint32_t, double, Way &) const override {}
};

constexpr uint64_t mostBytes = 64 << 20;

/// A plan may want all memory and thousands of devices; that is no defect, and no use here.
bool isSmall(const PlanContents &plan, const Entry &entry) {
  uint64_t bytes = 0;
  auto add = [&](uint64_t more) { bytes += std::min(more, mostBytes); };
  for (const Program &program : entry.programs)
    for (size_t i = 0; i != plan.meshes[program.mesh].devices.size(); ++i)
      add(program.arenaBytes);
  for (const auto *ports : {&entry.inputs, &entry.outputs})
    for (const Port &port : *ports)
      add(*port.type.byteSize());
  for (const Parameter &parameter : plan.parameters)
    add(*parameter.type.byteSize());
  return bytes < mostBytes && plan.devices.size() <= 8;
}

/// Real numbers between -1 and 1, by place; of all else, which may be indices, zeros.
HostTensor tensorOf(const TensorType &type) {
  HostTensor tensor = *HostTensor::allocate(type);
  uint64_t each = elementBytes(type.element);
  for (uint64_t at = 0; isFloatingPoint(type.element) && at < tensor.bytes().size(); at += each)
    storeElement(type.element, tensor.bytes().data() + at, static_cast<double>(at / each * 37 % 129) / 64 - 1);
  return tensor;
}

/// The weights of a mutated plan lie nowhere: these are made.
class MadeSource : public ParameterSource {
public:
  explicit MadeSource(const PlanContents &plan) {
    for (const Parameter &parameter : plan.parameters)
      if (std::holds_alternative<FileSource>(parameter.source))
        values.try_emplace(parameter.name, tensorOf(parameter.type));
  }

  Expected<std::span<const std::byte>> bytes(const FileSource &) override {
    return makeError(Status::Failure, "there are no files");
  }
  std::optional<std::span<const std::byte>> value(const Parameter &parameter) override {
    auto made = values.find(parameter.name);
    if (made == values.end() || !(made->second.type() == parameter.type))
      return std::nullopt;
    return made->second.bytes();
  }

private:
  std::map<std::string, HostTensor> values;
};

std::vector<HostTensor> tensorsOf(const std::vector<Port> &ports) {
  std::vector<HostTensor> tensors;
  for (const Port &port : ports)
    tensors.push_back(tensorOf(port.type));
  return tensors;
}

/// The outputs of two steps from the start, one behind the other; nothing where one fails.
std::optional<std::vector<HostTensor>> run(const Plan &plan, const Entry &entry) {
  MadeSource weights(*plan);
  auto executor = Executor::create(plan, entry.name, weights);
  if (!executor)
    return std::nullopt;
  std::vector<HostTensor> results;
  for (int step = 0; step != 2; ++step) {
    std::vector<HostTensor> outputs = tensorsOf(entry.outputs);
    auto ticket = (*executor)->submit(tensorsOf(entry.inputs), outputs);
    if (!ticket || !(*executor)->wait(*ticket))
      return std::nullopt;
    std::ranges::move(outputs, std::back_inserter(results));
  }
  return results;
}

void compareRuns(const Plan &plan, const Entry &entry) {
  auto first = run(plan, entry), second = run(plan, entry);
  if (first.has_value() != second.has_value() ||
      (first && !std::ranges::equal(*first, *second, [](const HostTensor &one, const HostTensor &other) {
         return std::ranges::equal(one.bytes(), other.bytes());
       }))) {
    std::cerr << "entry \"" << entry.name << "\" has other results when it runs again\n";
    std::abort();
  }
  countOutcome(!first                      ? "accepted, and fails as it runs"
               : plan->devices.size() == 1 ? "executed twice on one device"
                                           : "executed twice on several devices");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto plan = Plan::fromBytes(std::as_bytes(std::span(data, size)));
  if (!plan) {
    countOutcome("refused by the reader");
    return 0;
  }
  if (verifyPlan(**plan)) {
    countOutcome("refused by the verifier");
    return 0;
  }
  for (const Entry &entry : (*plan)->entries) {
    if (entry.isDecision() || !isSmall(**plan, entry)) {
      countOutcome("accepted; a decision, or too large to run");
      continue;
    }
    (void)simulate(**plan, entry, EqualSeconds());
    compareRuns(*plan, entry);
  }
  return 0;
}
