// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Into how many microbatches a step is divided: against plans in which the number is fixed, and against other batches.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/planner/search/Searcher.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

Machine machineOf(const std::string &text) {
  auto machine = parseMachine(text);
  if (!machine)
    throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

/// A decoder of which one device cannot hold the activations of a large batch.
std::map<std::string, int64_t> decoder(int64_t layers) {
  return {{"layers", layers}, {"hidden", 512}, {"heads", 8}, {"sequence", 256}, {"vocabulary", 2048}, {"batch", 2}};
}

SearchRequest trainingOf(int64_t batch, double memoryLimit) {
  SearchRequest request;
  request.training = true;
  request.considersOthers = false;
  request.batch = batch;
  request.memoryLimit = memoryLimit;
  return request;
}

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

// Every number that divides the batch is a choice, not only powers of two: no plan with a fixed one is better.
TEST(Microbatches, AreNoWorseThanAnyFixedNumber) {
  ModelGraph model("gpt", decoder(6));
  Machine machine = machineOf("a100-80g:4");
  for (int64_t batch : {30, 36, 45}) {
    SearchRequest request = trainingOf(batch, 0.6 * gib);
    auto found = findPlan(model.graph, machine, request);
    ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
    const auto &best = std::get<FoundPlan>(found);
    EXPECT_GE(best.seconds, best.lowerBound * (1 - 1e-9));
    unsigned plans = 0;
    for (int64_t number = 1; number <= batch; ++number) {
      if (batch % number != 0)
        continue;
      request.microbatches = number;
      auto fixed = findPlan(model.graph, machine, request);
      if (auto *plan = std::get_if<FoundPlan>(&fixed)) {
        ++plans;
        EXPECT_LE(best.seconds, plan->seconds * (1 + 1e-9)) << number << " microbatches of a batch of " << batch;
        EXPECT_GE(plan->seconds, best.lowerBound * (1 - 1e-9));
      }
    }
    EXPECT_GE(plans, 3u);
  }
}

// Numbers and schedules that a certified bound rules out would not have won: without certificates, whose bounds are
// others and looser, the search finds plans of the same seconds.
TEST(Microbatches, AreNotLostToBounds) {
  unsigned compared = 0;
  for (const char *name : {"a100-80g:4", "v100-16g:8", "v100-16g:2+a100-80g:2"})
    for (auto [layers, batch, memory] : {std::tuple(4, 24, 0.0), {6, 32, 0.6}, {8, 60, 0.3}}) {
      ModelGraph model("gpt", decoder(layers));
      Machine machine = machineOf(name);
      SearchRequest request = trainingOf(batch, memory * gib);
      request.unequalMicrobatches = batch == 60;
      auto bounded = findPlan(model.graph, machine, request);
      request.certifies = false;
      auto searched = findPlan(model.graph, machine, request);
      ASSERT_EQ(bounded.index(), searched.index()) << name << ", " << layers << " layers";
      if (!std::holds_alternative<FoundPlan>(bounded))
        continue;
      ++compared;
      double seconds = std::get<FoundPlan>(searched).seconds;
      EXPECT_NEAR(std::get<FoundPlan>(bounded).seconds, seconds, 1e-9 * seconds) << name << ", " << layers << " layers";
    }
  EXPECT_GE(compared, 7u);
}

// A batch that few numbers divide costs no more a sample than its neighbours, where the last microbatch may be smaller.
TEST(Microbatches, ServePrimeBatchesAsWell) {
  ModelGraph model("gpt", decoder(6));
  Machine machine = machineOf("a100-80g:4");
  auto secondsOf = [&](int64_t batch) {
    SearchRequest request = trainingOf(batch, 0.6 * gib);
    request.unequalMicrobatches = true;
    auto found = findPlan(model.graph, machine, request);
    return std::holds_alternative<FoundPlan>(found) ? std::get<FoundPlan>(found).seconds : 0;
  };
  double of64 = secondsOf(64) / 64;
  ASSERT_GT(of64, 0);
  for (int64_t batch : {61, 62, 67}) {
    double seconds = secondsOf(batch);
    EXPECT_GT(seconds, 0) << batch;
    EXPECT_LE(seconds / static_cast<double>(batch), 1.05 * of64) << batch;
  }
}

// Numbers of microbatches are tried with equal stages until there is a plan, even after the time is over: a full search
// of those that do not fit would take longer than no limit at all.
TEST(Microbatches, AreTriedQuicklyWhereThereIsNoTime) {
  ModelGraph model("gpt", decoder(6));
  Machine machine = machineOf("a100-80g:3");
  for (std::optional<int64_t> microbatches : {std::optional<int64_t>(), std::optional<int64_t>(12)}) {
    SearchRequest request = trainingOf(48, 0.4 * gib);
    request.degrees.pipeline = 3;
    request.microbatches = 1;
    ASSERT_TRUE(std::holds_alternative<SearchFailure>(findPlan(model.graph, machine, request)));
    request.microbatches = microbatches;
    auto found = findPlan(model.graph, machine, request);
    ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
    request.timeBudget = 1e-9;
    Searcher quick(model.graph, machine, request, /*sharesDevices=*/false, {allDevices(machine)});
    quick.exploreQuickly(llvm::to_vector(quick.microbatchNumbers()));
    EXPECT_TRUE(quick.best.has_value());
    auto hasty = findPlan(model.graph, machine, request);
    ASSERT_TRUE(std::holds_alternative<FoundPlan>(hasty)) << std::get<SearchFailure>(hasty).message;
    const auto &best = std::get<FoundPlan>(found), &first = std::get<FoundPlan>(hasty);
    EXPECT_LE(first.lowerBound, best.seconds * (1 + 1e-9));
    EXPECT_LE(best.seconds, first.seconds * (1 + 1e-9));
    EXPECT_LE(first.peakBytes(), request.memoryLimit);
  }
}

// Where microbatches are equal, a number that does not divide the batch is refused by the flag's name.
TEST(Microbatches, AreEqualUnlessAllowed) {
  ModelGraph model("gpt", decoder(2));
  Machine machine = machineOf("a100-80g:2");
  SearchRequest request = trainingOf(31, 0);
  request.microbatches = 4;
  auto refused = findPlan(model.graph, machine, request);
  ASSERT_TRUE(std::holds_alternative<SearchFailure>(refused));
  EXPECT_EQ(std::get<SearchFailure>(refused).message, "--microbatches expects a divisor of the batch of 31, got 4");
  request.unequalMicrobatches = true;
  auto found = findPlan(model.graph, machine, request);
  ASSERT_TRUE(std::holds_alternative<FoundPlan>(found));
  EXPECT_EQ(std::get<FoundPlan>(found).microbatches, 4);
  request.microbatches = 32;
  refused = findPlan(model.graph, machine, request);
  ASSERT_TRUE(std::holds_alternative<SearchFailure>(refused));
  EXPECT_EQ(std::get<SearchFailure>(refused).message, "--microbatches expects at most the batch of 31, got 32");
}

// 45 hosts among stages: each number of stages gives the whole hosts that every stage can have.
TEST(StageSizes, ShareHostsEvenly) {
  Machine machine = machineOf("a100-80g:8x45");
  std::vector<search::Run> runs = findRuns(machine, allDevices(machine));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(evenSizes(runs.front(), 9), (std::vector<unsigned>{5 * 8, 6 * 8, 7 * 8, 9 * 8, 11 * 8, 15 * 8, 22 * 8}));
  EXPECT_TRUE(evenSizes(runs.front(), 1).empty());
}

// Five hosts and five equal layers that one host cannot hold two of: five stages of a host each, which powers of two of
// hosts alone would give, too; and ten hosts make five stages of two, fifteen five of three.
TEST(StageSizes, LetStagesHaveAnyNumberOfHosts) {
  ModelGraph model(
      "gpt", {{"layers", 5}, {"hidden", 4096}, {"heads", 32}, {"sequence", 512}, {"vocabulary", 512}, {"batch", 2}});
  SearchRequest request = trainingOf(120, 4 * gib);
  request.elementType = "f16";
  Machine machine = machineOf("a100-80g:8x15");
  auto found = findPlan(model.graph, machine, request);
  ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
  const auto &best = std::get<FoundPlan>(found);
  // What people would take: a stage for each layer on three hosts, the batch over all of a stage's devices or weights
  // over some of them.
  for (int64_t sharded : {1, 2, 4, 8})
    for (int64_t microbatches : {1, 2, 4, 5, 10}) {
      request.degrees.pipeline = 5;
      request.degrees.model = sharded;
      request.degrees.data = 24 / sharded;
      request.microbatches = microbatches;
      auto fixed = findPlan(model.graph, machine, request);
      if (auto *plan = std::get_if<FoundPlan>(&fixed)) {
        EXPECT_LE(best.seconds, plan->seconds * 1.001)
            << "model " << sharded << ", " << microbatches << " microbatches";
      }
    }
}

} // namespace
