// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plan files into the reader, the verifier, the simulator, and the executor of what the verifier accepts.

#include "runtime/Executor.h"
#include "runtime/Verify.h"
#include "runtime/simulator/Simulator.h"

#include <cstring>
#include <span>

using namespace cleave::runtime;

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

/// Zeros for every file: the weights of a mutated plan lie nowhere.
class ZeroSource : public ParameterSource {
public:
  Expected<std::span<const std::byte>> bytes(const FileSource &source) override {
    static const std::vector<std::byte> zeros(mostBytes);
    if (source.bytes > zeros.size())
      return makeError(Status::Failure, "there are no more zeros");
    return std::span(zeros).first(source.bytes);
  }
};

std::vector<HostTensor> tensorsOf(const std::vector<Port> &ports) {
  std::vector<HostTensor> tensors;
  for (const Port &port : ports) {
    tensors.push_back(*HostTensor::allocate(port.type));
    std::memset(tensors.back().bytes().data(), 0, tensors.back().bytes().size());
  }
  return tensors;
}

void run(const Plan &plan, const Entry &entry) {
  ZeroSource zeros;
  auto executor = Executor::create(plan, entry.name, zeros);
  if (!executor)
    return;
  for (int step = 0; step != 2; ++step) {
    std::vector<HostTensor> inputs = tensorsOf(entry.inputs), outputs = tensorsOf(entry.outputs);
    auto ticket = (*executor)->submit(inputs, outputs);
    if (!ticket || !(*executor)->wait(*ticket))
      return;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto plan = Plan::fromBytes(std::as_bytes(std::span(data, size)));
  if (!plan || verifyPlan(**plan))
    return 0;
  for (const Entry &entry : (*plan)->entries) {
    if (entry.isDecision() || !isSmall(**plan, entry))
      continue;
    (void)simulate(**plan, entry, EqualSeconds());
    run(*plan, entry);
  }
  return 0;
}
