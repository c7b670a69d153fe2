// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime's verifier as a second oracle: random schedules, written as plans of byte tensors, are plans that it
// accepts.

#include "ProblemBuilder.h"

#include "passes/schedule/Schedule.h"
#include "runtime/Verify.h"

#include <gtest/gtest.h>

namespace cleave::schedule {
namespace {

namespace rt = cleave::runtime;

/// Writes a schedule as a plan with one kernel a task.
class PlanOfSchedule {
public:
  PlanOfSchedule(const Problem &problem, const Schedule &schedule) : problem(problem), schedule(schedule) {
    plan.entries.emplace_back().name = "main";
    for (uint32_t device = 0; device != problem.numDevices; ++device) {
      plan.devices.push_back({"d" + std::to_string(device), "null", 1, 0});
      plan.meshes.push_back({"m" + std::to_string(device), {}, {device}});
    }
    for (unsigned task = 0; task != problem.tasks.size(); ++task)
      plan.kernels.push_back({std::to_string(task), typesOf(problem.tasks[task].reads),
                              typesOf(problem.tasks[task].writes), 0, rt::LibraryKernel{"test", "task", {}, {}, ""}});
    for (unsigned device = 0; device != problem.numDevices; ++device)
      addProgram(device);
  }

  rt::PlanContents plan;

private:
  rt::TensorType typeOf(unsigned value) const {
    return {rt::ElementType::I8, {static_cast<int64_t>(problem.values[value].bytes)}, {}};
  }
  std::vector<rt::TensorType> typesOf(const std::vector<unsigned> &values) const {
    std::vector<rt::TensorType> types;
    types.reserve(values.size());
    for (unsigned value : values)
      types.push_back(typeOf(value));
    return types;
  }

  void addProgram(unsigned device) {
    rt::Program program;
    program.mesh = device;
    static constexpr rt::QueueKind kinds[] = {rt::QueueKind::Compute, rt::QueueKind::Send, rt::QueueKind::Receive,
                                              rt::QueueKind::Collective};
    for (const Queue &queue : schedule.devices[device].queues)
      program.queues.push_back(kinds[static_cast<unsigned>(queue.kind)]);
    program.arenaBytes = schedule.devices[device].arenaBytes;
    program.liveBytes = schedule.devices[device].liveBytes;
    program.hostBytes = schedule.devices[device].hostBytes;
    buffers.assign(problem.values.size(), 0);
    for (unsigned value = 0; value != problem.values.size(); ++value)
      if (auto before = problem.values[value].inPlaceOf) {
        buffers[value] = buffers[*before];
      } else if (problem.values[value].device == device && schedule.offsets[value]) {
        buffers[value] = static_cast<uint32_t>(program.buffers.size());
        program.buffers.push_back({std::to_string(value), typeOf(value),
                                   *schedule.offsets[value] + (problem.values[value].inHost ? rt::hostOffset : 0),
                                   problem.values[value].bytes, -1});
      }
    addList(schedule.devices[device], schedule.devices[device].prepare, program.prepare);
    addList(schedule.devices[device], schedule.devices[device].body, program.body);
    plan.entries.front().programs.push_back(std::move(program));
  }

  void addList(const DeviceSchedule &device, const std::vector<Instruction> &from, std::vector<rt::Instruction> &to) {
    for (const Instruction &instruction : from) {
      rt::Instruction result;
      result.node = std::to_string(instruction.task);
      result.queue = instruction.queue;
      for (TimelinePoint wait : instruction.waits)
        result.waits.push_back({wait.queue, wait.value});
      result.action = actionOf(instruction, device.queues[instruction.queue].kind);
      result.order = instruction.order;
      to.push_back(std::move(result));
    }
  }

  rt::Action actionOf(const Instruction &instruction, QueueKind kind) {
    const Task &task = problem.tasks[instruction.task];
    if (task.hostCopy == HostCopy::Offload)
      return rt::Offload{buffers[task.reads.front()], buffers[task.writes.front()]};
    if (task.hostCopy == HostCopy::Fetch)
      return rt::Fetch{buffers[task.reads.front()], buffers[task.writes.front()]};
    if (kind == QueueKind::Send)
      return rt::Send{buffers[task.reads.front()], *task.target, instruction.task};
    if (kind == QueueKind::Receive)
      return rt::Receive{buffers[task.writes.front()], task.device, instruction.task};
    if (kind == QueueKind::Collective)
      return rt::AllReduce{
          {{buffers[task.reads.front()], buffers[task.writes.front()]}}, instruction.task, {}, rt::Combiner::Sum};
    if (task.writes.empty()) {
      auto &outputs = plan.entries.front().outputs;
      outputs.push_back({std::to_string(outputs.size()), typeOf(task.reads.front())});
      return rt::StoreOutput{static_cast<uint32_t>(outputs.size() - 1), buffers[task.reads.front()]};
    }
    rt::Call call{instruction.task, {}};
    for (const auto *values : {&task.reads, &task.writes})
      for (unsigned value : *values)
        call.arguments.push_back(buffers[value]);
    return call;
  }

  const Problem &problem;
  const Schedule &schedule;
  std::vector<uint32_t> buffers;
};

class VerifiedSchedule : public testing::TestWithParam<uint64_t> {};

// What the scheduler makes, the runtime takes.
TEST_P(VerifiedSchedule, IsAccepted) {
  Problem problem = randomProblem(1000 + GetParam(), 10 + 5 * (GetParam() % 10));
  Schedule schedule = *solve(problem);
  EXPECT_EQ(rt::verifyPlan(PlanOfSchedule(problem, schedule).plan).message(), "");
}
INSTANTIATE_TEST_SUITE_P(Seeds, VerifiedSchedule, testing::Range<uint64_t>(0, 60));

// The oracle would see a missing wait: the plan without waits is refused.
TEST(VerifiedSchedule, IsRefusedWithoutWaits) {
  ProblemBuilder builder(2);
  builder.output(builder.launch(1, {builder.transfer(builder.input(0, 64), 1)}, 64));
  Schedule schedule = *solve(builder.problem);
  for (DeviceSchedule &device : schedule.devices)
    for (Instruction &instruction : device.body)
      instruction.waits.clear();
  EXPECT_NE(rt::verifyPlan(PlanOfSchedule(builder.problem, schedule).plan).message(), "");
}

} // namespace
} // namespace cleave::schedule
