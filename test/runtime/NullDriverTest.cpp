// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The null driver's simulated time, against schedules worked out by hand.

#include "PlanBuilder.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"

#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

constexpr int64_t second = 1000000000;

/// Runs `steps` steps of the plan with `inFlight` at a time; kernels take 1 s on device 0 and 2 s on device 1, sends
/// 0.5 s. When the last step ended.
int64_t simulate(const PlanBuilder &builder, unsigned steps, unsigned inFlight) {
  ExecutorOptions options;
  options.seconds = [](uint32_t device, const Instruction &instruction) {
    if (std::holds_alternative<Call>(instruction.action))
      return device == 0 ? 1.0 : 2.0;
    return std::holds_alternative<Send>(instruction.action) ? 0.5 : 0.0;
  };
  MemorySource none;
  auto created = Executor::create(builder.read(), "", none, options);
  Executor *executor = created->get();
  std::vector<HostTensor> tensors = {*HostTensor::allocate({ElementType::F32, {4}, {}})};
  std::vector<Ticket> tickets;
  int64_t end = 0;
  for (unsigned step = 0; step != steps + inFlight; ++step) {
    if (step >= inFlight)
      end = executor->wait(tickets[step - inFlight])->end;
    if (step < steps)
      tickets.push_back(*executor->submit(tensors, tensors));
  }
  return end;
}

// One at a time, a step takes 1 + 0.5 + 2 s.
TEST(NullDriver, AddsUpOneStep) {
  EXPECT_EQ(simulate(pipelinePlan("null"), 1, 1), 3500 * second / 1000);
  EXPECT_EQ(simulate(pipelinePlan("null"), 4, 1), 4 * 3500 * second / 1000);
}

// In a pipeline device 1 sets the pace: it must receive (0.5 s) and compute (2 s) for each step, and device 0 computes
// the next step meanwhile. So 4 steps end at 1 + 4 * (0.5 + 2) s.
TEST(NullDriver, OverlapsPipeline) { EXPECT_EQ(simulate(pipelinePlan("null"), 4, 4), 11 * second); }

// A thousand devices in a chain run on one thread.
TEST(NullDriver, RunsAThousandDevices) {
  PlanBuilder builder("null");
  constexpr uint32_t count = 1000;
  uint32_t x = builder.input("x", 4), y = builder.output("y", 4), twice = builder.kernel("twice", 1, 4);
  for (uint32_t i = 0; i != count; ++i) {
    builder.device("d" + std::to_string(i));
    uint32_t in = builder.buffer(i, "in", 4), out = builder.buffer(i, "out", 4);
    Point ready = i == 0 ? builder.loadInput(i, x, in) : builder.receive(i, "t", in, i - 1, i - 1);
    Point done = builder.call(i, "c", twice, {in, out}, {ready});
    if (i + 1 == count)
      builder.storeOutput(i, y, out, {done});
    else
      builder.send(i, "t", out, i + 1, i, {done});
  }
  ASSERT_FALSE(verifyPlan(builder.read()));
  EXPECT_EQ(simulate(builder, 1, 1), 1 * second + 999 * (2 * second + second / 2));
}

// A plan cannot simulate one device and run the next.
TEST(NullDriver, RefusesToMix) {
  PlanBuilder builder = pipelinePlan("null");
  builder.plan.devices[1]->driver = "cpu";
  MemorySource none;
  auto executor = Executor::create(builder.read(), "", none);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().status(), Status::Unsupported);
  EXPECT_NE(executor.error().message().find("mixes the null driver with others"), std::string::npos);
}

// A driver that this build lacks is named, with those that it has.
TEST(Driver, RefusesUnknown) {
  MemorySource none;
  auto executor = Executor::create(pipelinePlan("quantum").read(), "", none);
  ASSERT_FALSE(executor);
#ifdef CLEAVE_CUDA
  EXPECT_EQ(executor.error().message(), "driver \"quantum\" is not in this build, which has cpu, cuda, null");
#else
  EXPECT_EQ(executor.error().message(), "driver \"quantum\" is not in this build, which has cpu, null");
#endif
}

} // namespace
} // namespace cleave::runtime::test
