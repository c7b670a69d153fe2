// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HEFT against its paper; ranks, gaps, ports.

#include "PlacementBuilder.h"

#include "passes/planner/placement/ListScheduling.h"
#include "passes/planner/placement/Rank.h"

#include <gtest/gtest.h>

namespace cleave::placement {
namespace {

// Table 1 of the paper.
TEST(Rank, EqualsThePaper) {
  PlacementProblem problem = topcuogluExample();
  std::vector<double> ranks = meanRanks(problem, *TaskGraph::make(problem));
  std::vector<double> expected = {108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667};
  for (size_t task = 0; task != expected.size(); ++task)
    EXPECT_NEAR(ranks[task], expected[task], 1e-3);
}

// The paper's schedule is 80 long.
TEST(EarliestFinish, EqualsThePaper) {
  PlacementProblem problem = topcuogluExample();
  Placement placement = placeByEarliestFinish(problem, *TaskGraph::make(problem));
  EXPECT_EQ(placement.seconds, 80);
  EXPECT_TRUE(isValid(problem, placement));
}

// A gap counts from when it is needed, and must be long enough.
TEST(BusyTime, FindsGaps) {
  BusyTime busy;
  busy.add({4, 6});
  busy.add({1, 2});
  EXPECT_EQ(busy.findGap(0, 1), 0);
  EXPECT_EQ(busy.findGap(0, 1.5), 2);
  EXPECT_EQ(busy.findGap(3, 2), 6);
  EXPECT_EQ(busy.findGap(7, 9), 7);
  EXPECT_EQ(busy.findGap(5, 0), 6);
}

/// Two tasks whose results a third one reads, all on devices of their own.
PlacementProblem join() {
  PlacementProblem problem;
  problem.tasks = {{{1}}, {{1}}, {{1}}};
  problem.edges = {{0, 2, 10}, {1, 2, 10}};
  problem.devices.resize(3);
  problem.links.assign(9, {0, 10});
  return problem;
}

// One port receives one value after the other; without ports both come at once.
TEST(TaskSchedule, ReceivesOneAfterTheOther) {
  PlacementProblem problem = join();
  TaskGraph graph = *TaskGraph::make(problem);
  EXPECT_EQ(schedule(problem, graph, {0, 1, 2}).seconds, 4);
  problem.ports = Ports::Unlimited;
  EXPECT_EQ(schedule(problem, graph, {0, 1, 2}).seconds, 3);
}

// A result that two tasks read on another device travels once; two results, or two devices, are two transfers.
TEST(TaskSchedule, SendsAResultOnce) {
  PlacementProblem problem = join();
  problem.tasks[1].seconds = {0.5};
  problem.edges = {{0, 1, 10}, {0, 2, 10}};
  EXPECT_EQ(schedule(problem, *TaskGraph::make(problem), {0, 1, 1}).seconds, 3.5);
  EXPECT_EQ(schedule(problem, *TaskGraph::make(problem), {0, 1, 2}).seconds, 3.5);
  problem.edges[1].result = 1;
  EXPECT_EQ(schedule(problem, *TaskGraph::make(problem), {0, 1, 1}).seconds, 3.5);
}

// Each task has one favourite child and each child is one task's: those on the longest ways.
TEST(FavouriteChildren, AreAMatching) {
  PlacementProblem problem = join();
  problem.tasks.push_back({{5}});
  problem.edges = {{0, 1, 10}, {0, 3, 10}, {1, 2, 10}, {3, 2, 10}};
  EXPECT_EQ(favouriteChildren(problem, *TaskGraph::make(problem)), (std::vector<unsigned>{3, 2, 4, 4}));
}

// A device waits for a favourite child as long as what it needs would take to the next device, and not as long as
// something takes from there: the third task's input takes 10 s that way, and a tenth of a second back. The fourth,
// which takes long, comes after it.
TEST(EarliestStart, WaitsAsLongAsTheWayToOthersTakes) {
  PlacementProblem problem;
  problem.tasks = {{{1}}, {{3}}, {{1}}, {{5}}};
  for (auto [task, device] : {std::pair(0, 0), std::pair(1, 1), std::pair(3, 0)})
    problem.tasks[task].pinned = device;
  problem.edges = {{0, 2, 100}, {1, 2, 0}};
  problem.devices.resize(2);
  problem.links = {{}, {0, 10}, {0, 1000}, {}};
  Placement placement = placeByEarliestStart(problem, *TaskGraph::make(problem), true);
  ASSERT_TRUE(placement.isFeasible());
  EXPECT_EQ(placement.devices[2], 0u);
  EXPECT_EQ(placement.spans[2].start, 3);
  EXPECT_EQ(placement.spans[3].start, 4);
}

// Every method gives schedules that hold, and none is better than the best.
TEST(ListScheduling, IsValidAndNoBetterThanTheBest) {
  for (unsigned seed = 0; seed != 60; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = generatePlacement(seed, 6, 2 + seed % 2);
    TaskGraph graph = *TaskGraph::make(problem);
    double best = bestByTryingAll(problem);
    for (const Placement &placement :
         {placeByEarliestFinish(problem, graph), placeByEarliestStart(problem, graph, false),
          placeByEarliestStart(problem, graph, true)}) {
      ASSERT_TRUE(placement.isFeasible());
      EXPECT_TRUE(isValid(problem, placement));
      EXPECT_GE(placement.seconds, best);
    }
  }
}

} // namespace
} // namespace cleave::placement
