// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of tasks: devices work at the same time, and a single device keeps the model's order.

#include "passes/schedule/Order.h"

#include "ProblemBuilder.h"
#include "ScheduleChecker.h"

#include <gtest/gtest.h>

using namespace cleave::schedule;

namespace {

Timetable bodyOf(const Problem &problem) {
  auto topological = *topologicalOrder(problem);
  return scheduleBody(problem, topological, tasksOfPrepare(problem, topological));
}

// The model's order keeps memory low: without other devices nothing may change it, however long the branches.
TEST(Order, KeepsTheModelsOrderOnOneDevice) {
  ProblemBuilder builder(1);
  unsigned input = builder.input(0, 64);
  unsigned left = builder.launch(0, {builder.launch(0, {input}, 64, 1)}, 64, 1);
  unsigned right = builder.launch(0, {builder.launch(0, {input}, 64, 9)}, 64, 9);
  builder.output(builder.launch(0, {left, right}, 64));
  EXPECT_EQ(bodyOf(builder.problem).order, (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6}));
}

// What another device waits for goes first, although the model has it last.
TEST(Order, MakesFirstWhatOtherDevicesWaitFor) {
  ProblemBuilder builder(2);
  unsigned input = builder.input(0, 64);
  unsigned here = builder.launch(0, {input}, 64, 5);
  unsigned forOther = builder.launch(0, {input}, 64, 5);
  unsigned there = builder.launch(1, {builder.transfer(forOther, 1)}, 64, 5);
  builder.output(builder.launch(0, {here, builder.transfer(there, 0)}, 64));
  std::vector<unsigned> order = bodyOf(builder.problem).order;
  EXPECT_EQ(order[1], builder.writerOf(forOther));
  // Input 1, 5, transfer 1, 5 beside the other branch, transfer 1, 1, output 0.5.
  EXPECT_DOUBLE_EQ(makespan(builder.problem, *solve(builder.problem)), 14.5);
}

// Of two values for other devices, the one with more work behind it goes first.
TEST(Order, PrefersTheLongerWay) {
  ProblemBuilder builder(3);
  unsigned input = builder.input(0, 64);
  unsigned shortWay = builder.launch(0, {input}, 64, 2);
  unsigned longWay = builder.launch(0, {input}, 64, 2);
  builder.output(builder.launch(1, {builder.transfer(shortWay, 1)}, 64, 1));
  builder.output(builder.launch(2, {builder.transfer(longWay, 2)}, 64, 8));
  EXPECT_EQ(bodyOf(builder.problem).order[1], builder.writerOf(longWay));
}

// What an ordered device sends to another is sent in the order in which it is made, also where something later is more
// urgent: then it is there as soon as it is made, whatever tasks take.
TEST(Order, SendsInOrderToEachDevice) {
  for (bool isOrdered : {false, true}) {
    ProblemBuilder builder(2);
    builder.problem.ordered = {isOrdered, isOrdered};
    unsigned input = builder.input(0, 64);
    unsigned before = builder.transfer(builder.launch(0, {input}, 64), 1, 10);
    unsigned first = builder.transfer(builder.launch(0, {input}, 64), 1, 10);
    unsigned second = builder.transfer(builder.launch(0, {input}, 64), 1, 10);
    builder.output(builder.launch(1, {before, first}, 64));
    builder.output(builder.launch(1, {second}, 64, 100));
    std::vector<unsigned> order = bodyOf(builder.problem).order;
    auto at = [&](unsigned value) { return std::find(order.begin(), order.end(), builder.writerOf(value)); };
    EXPECT_EQ(at(first) < at(second), isOrdered);
  }
}

// Two branches of equal length on two devices take half the time of one device, plus what the transfers take.
TEST(Order, RunsBranchesAtTheSameTime) {
  for (unsigned other : {0u, 1u}) {
    ProblemBuilder builder(2);
    unsigned left = builder.input(0, 64), right = other == 0 ? left : builder.transfer(left, 1, 0.25);
    for (unsigned i = 0; i != 10; ++i) {
      left = builder.launch(0, {left}, 64);
      right = builder.launch(other, {right}, 64);
    }
    builder.output(builder.launch(0, {left, other == 0 ? right : builder.transfer(right, 0, 0.25)}, 64));
    EXPECT_DOUBLE_EQ(makespan(builder.problem, *solve(builder.problem)), other == 0 ? 22.5 : 13.0);
  }
}

// Parts of parameters that change could be gathered when the step begins, and would be there until they are used: one
// is on its way while the device works with the one before it, whether it keeps the model's order or not.
TEST(Order, GathersOneAheadOfItsReader) {
  for (bool isOrdered : {false, true}) {
    ProblemBuilder builder(1);
    builder.problem.ordered = {isOrdered};
    std::vector<unsigned> gathers, readers;
    unsigned value = builder.input(0, 64);
    for (unsigned layer = 0; layer != 4; ++layer) {
      unsigned part = builder.parameter(0, 512);
      builder.problem.values[part].changes = true;
      unsigned whole = builder.collective(part, 0.25);
      value = builder.launch(0, {value, whole}, 64);
      gathers.push_back(builder.writerOf(whole));
      readers.push_back(builder.writerOf(value));
    }
    builder.output(value);
    Timetable body = bodyOf(builder.problem);
    for (unsigned layer = 2; layer != 4; ++layer) {
      EXPECT_GE(body.start[gathers[layer]], body.finish[readers[layer - 2]]);
      EXPECT_LE(body.finish[gathers[layer]], body.start[readers[layer]]);
    }
  }
}

// Each weight is made ready before the next one is loaded, in the order in which the body needs them.
TEST(Order, PreparesOneWeightAfterTheOther) {
  ProblemBuilder builder(1);
  unsigned later = builder.parameter(0, 64), sooner = builder.parameter(0, 64);
  unsigned laterReady = builder.launch(0, {later}, 64), soonerReady = builder.launch(0, {sooner}, 64);
  unsigned value = builder.launch(0, {builder.input(0, 64), soonerReady}, 64);
  builder.output(builder.launch(0, {value, laterReady}, 64));
  auto topological = *topologicalOrder(builder.problem);
  auto prepare = tasksOfPrepare(builder.problem, topological);
  Timetable body = scheduleBody(builder.problem, topological, prepare);
  EXPECT_EQ(orderPrepare(builder.problem, body.order, prepare),
            (std::vector<unsigned>{builder.writerOf(sooner), builder.writerOf(soonerReady), builder.writerOf(later),
                                   builder.writerOf(laterReady)}));
}

// The weight that needs the most temporary memory is made ready while no other is there: 2 * 1024 at most, not 64 more.
TEST(Order, PreparesTheLargestTemporariesFirst) {
  ProblemBuilder builder(1);
  unsigned small = builder.launch(0, {builder.parameter(0, 64)}, 64);
  unsigned large = builder.launch(0, {builder.parameter(0, 1024)}, 1024);
  unsigned value = builder.launch(0, {builder.input(0, 64), small}, 64);
  builder.output(builder.launch(0, {value, large}, 64));
  EXPECT_EQ(solve(builder.problem)->devices[0].liveBytes, 2048u);
}

} // namespace
