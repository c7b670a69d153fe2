// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placements against the best ones of small graphs, and what must hold on large ones.

#include "PlacementBuilder.h"

#include "passes/planner/placement/ListScheduling.h"
#include "passes/planner/placement/Place.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace cleave::placement {
namespace {

// Up to seven tasks on three devices: never better than the best, mostly the best, bounded from below.
TEST(Place, IsCloseToTheBest) {
  unsigned numProblems = 0, numBest = 0;
  for (unsigned seed = 0; seed != 150; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = generatePlacement(seed, 3 + seed % 5, 2 + seed % 2);
    if (seed % 5 == 0)
      for (Device &device : problem.devices)
        device.memory = 4 * static_cast<double>(problem.tasks.size());
    double best = bestByTryingAll(problem);
    PlaceResult result = place(problem);
    EXPECT_LE(result.lowerBound, best + 1e-9);
    if (std::isinf(best)) {
      EXPECT_FALSE(result.placement.isFeasible());
      EXPECT_NE(result.failure, PlaceFailure::None);
      continue;
    }
    if (!result.placement.isFeasible())
      continue;
    ++numProblems;
    EXPECT_TRUE(isValid(problem, result.placement));
    EXPECT_GE(result.placement.seconds, best - 1e-9);
    EXPECT_LE(result.placement.seconds, best * 1.25);
    numBest += result.placement.seconds < best + 1e-9;
  }
  EXPECT_GT(numProblems, 130u);
  EXPECT_GT(numBest * 10, numProblems * 8);
}

// On larger graphs: no worse than any one device, than each list scheduler, and valid.
TEST(Place, IsNoWorseThanOneDevice) {
  for (unsigned seed = 0; seed != 12; ++seed) {
    SCOPED_TRACE(seed);
    PlacementProblem problem = generatePlacement(seed, 60, 4);
    TaskGraph graph = *TaskGraph::make(problem);
    PlaceResult result = place(problem);
    ASSERT_TRUE(result.placement.isFeasible());
    EXPECT_TRUE(isValid(problem, result.placement));
    for (unsigned device = 0; device != 4; ++device) {
      double alone = 0;
      for (unsigned task = 0; task != 60; ++task)
        alone += problem.secondsOn(task, device);
      EXPECT_LE(result.placement.seconds, alone);
    }
    EXPECT_LE(result.placement.seconds, placeByEarliestFinish(problem, graph).seconds);
    EXPECT_LE(result.placement.seconds, placeByEarliestStart(problem, graph, true).seconds);
    EXPECT_GE(result.placement.seconds, result.lowerBound);
    EXPECT_EQ(place(problem).placement.devices, result.placement.devices);
  }
}

// Where transfers cost more than they save, all stays on one device, and with ports as well.
TEST(Place, StaysWhereTransfersAreDear) {
  PlacementProblem problem = generatePlacement(2, 30, 3);
  for (Link &link : problem.links)
    link = {1000, 1};
  problem.ports = Ports::OneEachWay;
  for (unsigned task = 1; task != 30; ++task)
    problem.edges.push_back({task - 1, task, 1, 1});
  PlaceResult result = place(problem);
  for (unsigned device : result.placement.devices)
    EXPECT_EQ(device, result.placement.devices[0]);
}

// Four equal branches that fork and join go to four devices.
TEST(Place, PutsBranchesInParallel) {
  PlacementProblem problem;
  problem.tasks.assign(10, {{10}});
  problem.tasks[0].seconds = problem.tasks[9].seconds = {0.5};
  for (unsigned branch = 0; branch != 4; ++branch) {
    problem.edges.push_back({0, 1 + 2 * branch, 1});
    problem.edges.push_back({1 + 2 * branch, 2 + 2 * branch, 1});
    problem.edges.push_back({2 + 2 * branch, 9, 1});
  }
  problem.devices.resize(4);
  problem.links.assign(16, {0.1, 10});
  PlaceResult result = place(problem);
  // The last branch waits for two transfers before it, and its result for none.
  EXPECT_LT(result.placement.seconds, 22);
  for (unsigned branch = 0; branch != 4; ++branch)
    EXPECT_EQ(result.placement.devices[1 + 2 * branch], result.placement.devices[2 + 2 * branch]);
}

// Pins hold, and memory is kept where one device is too small.
TEST(Place, KeepsPinsAndMemory) {
  PlacementProblem problem = generatePlacement(4, 40, 3);
  double bytes = 0;
  for (const Task &task : problem.tasks)
    bytes += task.bytes;
  for (Device &device : problem.devices)
    device.memory = bytes * 0.45;
  problem.tasks[7].pinned = 2;
  problem.tasks[20].pinned = 0;
  PlaceResult result = place(problem);
  ASSERT_TRUE(result.placement.isFeasible());
  EXPECT_TRUE(isValid(problem, result.placement));
  EXPECT_EQ(result.placement.devices[7], 2u);
  EXPECT_EQ(result.placement.devices[20], 0u);
}

// Why there is none.
TEST(Place, SaysWhyThereIsNone) {
  PlacementProblem problem = generatePlacement(4, 4, 2);
  problem.tasks[1].bytes = 100;
  for (Device &device : problem.devices)
    device.memory = 50;
  EXPECT_EQ(place(problem).failure, PlaceFailure::NoDevice);
  for (Task &task : problem.tasks)
    task.bytes = 30;
  EXPECT_EQ(place(problem).failure, PlaceFailure::MemoryLimits);
  problem.edges = {{0, 1, 1}, {1, 0, 1}};
  EXPECT_EQ(place(problem).failure, PlaceFailure::Circle);
}

} // namespace
} // namespace cleave::placement
