// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole schedules: random ones against the checker, and small ones whose queues, waits and places are plain to see.

#include "ProblemBuilder.h"
#include "ScheduleChecker.h"

#include <gtest/gtest.h>

using namespace cleave::schedule;

namespace {

const Instruction &instructionOf(const std::vector<Instruction> &list, unsigned task) {
  for (const Instruction &instruction : list)
    if (instruction.task == task)
      return instruction;
  ADD_FAILURE() << "task " << task << " is not in the list";
  return list.front();
}

class RandomSchedule : public testing::TestWithParam<uint64_t> {};

// Order, waits and memory are right whatever the graph, and the arena is close to what is live at once.
TEST_P(RandomSchedule, IsSound) {
  for (unsigned numLaunches : {1u, 4u, 12u, 40u}) {
    Problem problem = randomProblem(GetParam() * 16 + numLaunches, numLaunches);
    auto schedule = solve(problem);
    ASSERT_TRUE(schedule);
    EXPECT_EQ(findFault(problem, *schedule), "");
    for (const DeviceSchedule &device : schedule->devices) {
      EXPECT_GE(device.arenaBytes, device.liveBytes);
      EXPECT_LE(device.arenaBytes * 10, device.liveBytes * 11) << numLaunches << " launches";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, testing::Range<uint64_t>(0, 100));

// The same problem has the same schedule: plans are byte-identical.
TEST(Schedule, IsDeterministic) {
  Problem problem = randomProblem(7, 40);
  auto first = solve(problem), second = solve(problem);
  EXPECT_EQ(first->offsets, second->offsets);
  for (unsigned device = 0; device != problem.numDevices; ++device)
    for (size_t i = 0; i != first->devices[device].body.size(); ++i)
      EXPECT_EQ(first->devices[device].body[i].task, second->devices[device].body[i].task);
}

// Tasks that need each other have no schedule, and that is said instead of looping.
TEST(Schedule, RefusesACircle) {
  ProblemBuilder builder(2);
  unsigned input = builder.input(0, 64);
  unsigned first = builder.launch(0, {input}, 64);
  unsigned back = builder.transfer(builder.transfer(first, 1), 0);
  builder.problem.tasks[builder.writerOf(first)].reads.push_back(back);
  EXPECT_FALSE(solve(builder.problem));
}

// Weights are made ready once: only what depends on an input is in the body, and the weight keeps its bytes.
TEST(Schedule, PreparesWhatDependsOnParametersAlone) {
  ProblemBuilder builder(1);
  unsigned weight = builder.parameter(0, 256);
  unsigned reordered = builder.launch(0, {weight}, 256);
  unsigned input = builder.input(0, 256);
  unsigned result = builder.launch(0, {input, reordered}, 256);
  builder.output(result);
  auto schedule = solve(builder.problem);
  EXPECT_EQ(schedule->devices[0].prepare.size(), 2u);
  EXPECT_EQ(schedule->devices[0].body.size(), 3u);
  EXPECT_NE(*schedule->offsets[reordered], *schedule->offsets[input]);
  EXPECT_NE(*schedule->offsets[reordered], *schedule->offsets[result]);
  // The weight as it was loaded gives its bytes to the step: input, result and reordered weight are all there is.
  EXPECT_EQ(schedule->devices[0].arenaBytes, 3 * 256u);
}

// A parameter that nobody needs is not loaded.
TEST(Schedule, LeavesOutUnusedParameters) {
  ProblemBuilder builder(1);
  unsigned unused = builder.parameter(0, 256);
  builder.output(builder.input(0, 64));
  auto schedule = solve(builder.problem);
  EXPECT_TRUE(schedule->devices[0].prepare.empty());
  EXPECT_FALSE(schedule->offsets[unused]);
}

// The receiver's kernel waits for the receive, the send for the kernel that makes the value, and nobody for more.
TEST(Schedule, WaitsAcrossQueuesOnly) {
  ProblemBuilder builder(2);
  unsigned input = builder.input(0, 64);
  unsigned made = builder.launch(0, {input}, 64);
  unsigned there = builder.transfer(made, 1);
  unsigned result = builder.launch(1, {there}, 64);
  builder.output(result);
  auto schedule = solve(builder.problem);
  unsigned transfer = builder.writerOf(there);
  EXPECT_EQ(instructionOf(schedule->devices[0].body, transfer).waits, (std::vector<TimelinePoint>{{0, 2}}));
  EXPECT_TRUE(instructionOf(schedule->devices[1].body, transfer).waits.empty());
  EXPECT_EQ(instructionOf(schedule->devices[1].body, builder.writerOf(result)).waits,
            (std::vector<TimelinePoint>{{1, 1}}));
  EXPECT_TRUE(schedule->devices[1].body.back().waits.empty());
}

// A device has a queue for each device that it sends to, and for each that it receives from: what comes from one and is
// late holds up nothing that goes to or comes from another.
TEST(Schedule, HasAQueueForEachPeer) {
  ProblemBuilder builder(3);
  unsigned late = builder.transfer(builder.launch(0, {builder.input(0, 64)}, 64, 100), 1);
  unsigned soon = builder.transfer(builder.launch(2, {builder.input(2, 64)}, 64, 1), 1);
  unsigned back = builder.transfer(builder.launch(1, {soon}, 64), 2);
  builder.output(builder.launch(1, {late}, 64));
  builder.output(builder.launch(2, {back}, 64));
  auto schedule = solve(builder.problem);
  EXPECT_EQ(findFault(builder.problem, *schedule), "");
  EXPECT_EQ(schedule->devices[1].queues,
            (std::vector<Queue>{
                {QueueKind::Compute}, {QueueKind::Send, 2}, {QueueKind::Receive, 0}, {QueueKind::Receive, 2}}));
  // Whatever was expected when the order was made.
  Problem other = builder.problem;
  std::swap(other.tasks[builder.writerOf(late) - 1].seconds, other.tasks[builder.writerOf(soon) - 1].seconds);
  EXPECT_LE(makespan(other, *schedule), 100 + 6);
}

// What comes back from a mesh may come from a device that has its part already, while others still read: memory is free
// once the send itself is over.
TEST(Schedule, WaitsForSendsToMeshes) {
  ProblemBuilder builder(2);
  builder.problem.standsForSeveral = {false, true};
  unsigned value = builder.launch(0, {builder.input(0, 64)}, 64);
  unsigned there = builder.transfer(value, 1);
  unsigned back = builder.transfer(builder.launch(1, {there}, 64), 0);
  unsigned result = builder.launch(0, {back}, 192);
  builder.output(result);
  auto schedule = solve(builder.problem);
  ASSERT_LT(schedule->devices[0].arenaBytes, 64u + 64u + 192u);
  EXPECT_EQ(instructionOf(schedule->devices[0].body, builder.writerOf(result)).waits,
            (std::vector<TimelinePoint>{{1, 1}, {2, 1}}));
}

/// A chain on device 0 whose first value is also sent.
Problem sendBesideAChain(double seconds) {
  ProblemBuilder builder(2);
  unsigned value = builder.launch(0, {builder.input(0, 1 << 20)}, 1 << 20);
  unsigned there = builder.transfer(value, 1, seconds);
  for (unsigned i = 0; i != 4; ++i)
    value = builder.launch(0, {value}, 1 << 20);
  builder.output(value);
  builder.output(there);
  return builder.problem;
}

unsigned numComputeWaits(const DeviceSchedule &device) {
  unsigned waits = 0;
  for (const Instruction &instruction : device.body)
    if (instruction.queue == computeQueue)
      waits += static_cast<unsigned>(instruction.waits.size());
  return waits;
}

// A kernel that takes over the bytes of a value that was sent waits for the send.
TEST(Schedule, WaitsForASendBeforeItsBytesAreReused) {
  auto schedule = solve(sendBesideAChain(0.5));
  EXPECT_EQ(numComputeWaits(schedule->devices[0]), 1u);
  EXPECT_EQ(schedule->devices[0].arenaBytes, 2u << 20);
}

// While a send is expected to run, its value keeps its bytes, so that no kernel stands still for it.
TEST(Schedule, KeepsWhatIsBeingSent) {
  auto schedule = solve(sendBesideAChain(1.5));
  EXPECT_EQ(numComputeWaits(schedule->devices[0]), 1u);
  EXPECT_EQ(schedule->devices[0].arenaBytes, 3u << 20);
  EXPECT_DOUBLE_EQ(makespan(sendBesideAChain(1.5), *schedule), 6.5);
}

// A value that depends on parameters alone crosses devices once, not in every step.
TEST(Schedule, TransfersConstantsInPrepare) {
  ProblemBuilder builder(2);
  unsigned there = builder.transfer(builder.launch(0, {builder.parameter(0, 64)}, 64), 1);
  builder.output(builder.launch(1, {builder.input(1, 64), there}, 64));
  auto schedule = solve(builder.problem);
  EXPECT_EQ(schedule->devices[1].prepare.size(), 1u);
  EXPECT_TRUE(schedule->devices[0].body.empty());
  EXPECT_EQ(findFault(builder.problem, *schedule), "");
}

// The checker itself sees a wait that is missing, one too many, and values on the same bytes.
TEST(ScheduleChecker, FindsFaults) {
  Problem problem = sendBesideAChain(0.5);
  Schedule schedule = *solve(problem);
  for (Instruction &instruction : schedule.devices[0].body)
    if (instruction.queue == computeQueue)
      instruction.waits.clear();
  EXPECT_NE(findFault(problem, schedule), "");

  schedule = *solve(problem);
  schedule.devices[0].body.back().waits.push_back({1, 1});
  EXPECT_NE(findFault(problem, schedule), "");

  schedule = *solve(problem);
  schedule.offsets[1] = schedule.offsets[0];
  EXPECT_NE(findFault(problem, schedule), "");
}

} // namespace
