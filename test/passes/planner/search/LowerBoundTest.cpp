// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The search's lower bound, as it was computed, against every plan that is found when degrees, microbatches and
// schedules are fixed: none of them may be below it.

#include "ModelGraph.h"

#include "passes/planner/search/Search.h"

#include <gtest/gtest.h>

#include <set>

using namespace cleave;
using namespace cleave::search;

namespace {

struct BoundedModel {
  std::string name;
  std::map<std::string, int64_t> numbers;
  std::string machine;
  bool training;
  double memory = 0; ///< Bytes of a device; 0: the machine's.
};

void PrintTo(const BoundedModel &test, std::ostream *out) {
  *out << test.name << " on " << test.machine << (test.training ? ", training" : "");
  if (test.memory > 0)
    *out << " in " << test.memory << " bytes";
}

class LowerBound : public testing::TestWithParam<BoundedModel> {};

TEST_P(LowerBound, IsBelowEveryPlanOfFixedDegrees) {
  const BoundedModel &test = GetParam();
  ModelGraph model(test.name, test.numbers);
  auto machine = parseMachine(test.machine);
  ASSERT_TRUE(static_cast<bool>(machine)) << llvm::toString(machine.takeError());
  SearchRequest request;
  request.training = test.training;
  request.memoryLimit = test.memory;
  auto found = findPlan(model.graph, *machine, request);
  ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
  const auto &best = std::get<FoundPlan>(found);
  double least = best.lowerBound * (1 - 1e-9);
  EXPECT_GT(best.lowerBound, 0);
  EXPECT_GE(best.seconds, least);
  unsigned plans = 0;
  for (int64_t data : {1, 2, 4})
    for (int64_t sharded : {1, 2, 4})
      for (int64_t pipeline : {1, 2, 4})
        for (int64_t microbatches : test.training ? std::vector<int64_t>{1, 2, 4, 8} : std::vector<int64_t>{1}) {
          request.degrees.data = data;
          request.degrees.model = sharded;
          request.degrees.pipeline = pipeline;
          request.microbatches = test.training ? std::optional(microbatches) : std::nullopt;
          auto fixed = findPlan(model.graph, *machine, request);
          auto *plan = std::get_if<FoundPlan>(&fixed);
          if (!plan)
            continue;
          ++plans;
          EXPECT_GE(plan->seconds, least) << "data " << data << ", model " << sharded << ", pipeline " << pipeline
                                          << ", " << microbatches << " microbatches";
          // Its own bound is of fewer plans, and holds for it.
          EXPECT_GE(plan->seconds, plan->lowerBound * (1 - 1e-9));
        }
  EXPECT_GE(plans, test.training ? 12u : 3u);
}

// Schedules, and every number of chunks that the layers allow: the bound of all plans holds for each, and each plan's
// own for it.
TEST(LowerBoundOfSchedules, IsBelowEveryPlanOfAFixedSchedule) {
  // The last has so little memory that schedules which keep more microbatches cannot do without recomputation.
  for (auto [name, memory] : {std::pair("a100-80g:8", 0.0), {"v100-16g:4", 0.0}, {"v100-16g:4", 36.0 * (1 << 20)}}) {
    ModelGraph model(
        "gpt", {{"layers", 8}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}, {"vocabulary", 512}, {"batch", 2}});
    auto machine = parseMachine(name);
    ASSERT_TRUE(static_cast<bool>(machine)) << llvm::toString(machine.takeError());
    SearchRequest request;
    request.training = true;
    request.batch = 64;
    request.memoryLimit = memory;
    request.considersOthers = false;
    auto found = findPlan(model.graph, *machine, request);
    ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
    double least = std::get<FoundPlan>(found).lowerBound * (1 - 1e-9);
    std::set<std::pair<std::string, unsigned>> seen;
    for (const pipeline::ScheduleRow &row : pipeline::scheduleTable())
      for (unsigned chunks : {1, 2, 3, 4})
        for (int64_t stages : {2, 4})
          for (int64_t microbatches : {2, 4, 8, 16}) {
            if (chunks < row.fewestChunks || chunks > row.mostChunks)
              continue;
            request.schedule = pipeline::Schedule(row);
            request.chunks = row.mostChunks > 1 ? std::optional(chunks) : std::nullopt;
            request.microbatches = microbatches;
            request.degrees.pipeline = stages;
            auto fixed = findPlan(model.graph, *machine, request);
            auto *plan = std::get_if<FoundPlan>(&fixed);
            // With fewer microbatches than the schedule takes, or layers that the chunks do not divide, there is none.
            bool isPossible =
                stages <= row.mostStages(static_cast<unsigned>(microbatches)) && 8 % (chunks * stages) == 0;
            // Nor where it needs more memory than there is.
            if (memory > 0 && !plan)
              continue;
            EXPECT_EQ(plan != nullptr, isPossible) << row.name << ", " << chunks << " chunks, " << stages << " stages, "
                                                   << microbatches << " microbatches";
            if (!plan)
              continue;
            seen.insert({std::string(row.name), plan->chunks});
            EXPECT_EQ(plan->stages.size(), static_cast<size_t>(stages));
            // What does not drain is no plan that a search tries unasked, and may be faster than all that are.
            if (request.schedule->drains()) {
              EXPECT_GE(plan->seconds, least) << row.name << ", " << chunks << " chunks, " << stages << " stages, "
                                              << microbatches << " microbatches";
            }
            EXPECT_GE(plan->seconds, plan->lowerBound * (1 - 1e-9));
          }
    EXPECT_TRUE(seen.count({"interleaved", 4}));
    EXPECT_TRUE(seen.count({"zb-h2", 1}));
    EXPECT_TRUE(seen.count({"zb-v", 2}));
    EXPECT_TRUE(seen.count({"dualpipe-v", 2}));
  }
}

// One device has nothing to choose but the number of microbatches: the bound is the plan.
TEST(LowerBoundOfOneDevice, IsThePlan) {
  std::map<std::string, int64_t> decoder = {{"layers", 4},    {"hidden", 256},     {"heads", 4},
                                            {"sequence", 64}, {"vocabulary", 512}, {"batch", 2}};
  for (const BoundedModel &test :
       {BoundedModel{"gpt", decoder, "a100-80g:1", true}, BoundedModel{"gpt", decoder, "a100-80g:1", false},
        BoundedModel{"unet", {{"batch", 2}, {"image-size", 32}, {"features", 8}}, "k20x8:1", true},
        BoundedModel{"lenet", {{"batch", 6}}, "host:1x1", true}}) {
    ModelGraph model(test.name, test.numbers);
    auto machine = parseMachine(test.machine);
    ASSERT_TRUE(static_cast<bool>(machine)) << llvm::toString(machine.takeError());
    SearchRequest request;
    request.training = test.training;
    request.considersOthers = false;
    auto found = findPlan(model.graph, *machine, request);
    ASSERT_TRUE(std::holds_alternative<FoundPlan>(found)) << std::get<SearchFailure>(found).message;
    const auto &best = std::get<FoundPlan>(found);
    EXPECT_NEAR(best.lowerBound, best.seconds, 1e-6 * best.seconds) << test.name << ", " << test.training;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LowerBound,
    testing::Values(
        BoundedModel{"mlp",
                     {{"layers", 4}, {"inputs", 512}, {"hidden", 2048}, {"classes", 64}, {"batch", 64}},
                     "v100-16g:4",
                     true},
        BoundedModel{
            "mlp", {{"layers", 3}, {"inputs", 64}, {"hidden", 64}, {"classes", 8}, {"batch", 8}}, "host:4x1", false},
        BoundedModel{"lenet", {{"batch", 64}}, "host:4x1", true},
        BoundedModel{"lenet", {{"batch", 64}}, "v100-16g:4", false},
        BoundedModel{
            "gpt",
            {{"layers", 4}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}, {"vocabulary", 512}, {"batch", 16}},
            "a100-80g:4",
            true},
        BoundedModel{
            "gpt",
            {{"layers", 4}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}, {"vocabulary", 512}, {"batch", 16}},
            "v100-16g:2+a100-80g:2",
            true},
        BoundedModel{
            "gpt",
            {{"layers", 4}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}, {"vocabulary", 512}, {"batch", 16}},
            "v100-16g:4",
            true,
            30.0 * (1 << 20)},
        BoundedModel{"moe",
                     {{"layers", 2},
                      {"hidden", 128},
                      {"heads", 4},
                      {"sequence", 32},
                      {"vocabulary", 256},
                      {"experts", 4},
                      {"batch", 16}},
                     "a100-80g:4",
                     true,
                     12.0 * (1 << 20)},
        BoundedModel{"unet", {{"batch", 8}, {"image-size", 32}, {"features", 8}}, "k20x8", true}));

} // namespace
