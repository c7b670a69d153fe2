// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans for devices that share the cores of their host: against devices that are slower by themselves, and against
// fewer devices.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/planner/PlaceByList.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

/// A host of so many cores (0: unsaid), and devices of a core each whose rates are divided by `slower`.
Machine hostWithCores(unsigned cores, unsigned devices, double slower = 1) {
  std::string own = cores ? "cores: " + std::to_string(cores) + ", " : "";
  std::string text = "device_kinds: { part: { memory: 16 GiB, bandwidth: " + std::to_string(12 / slower) +
                     " GB/s, peak: { f32: " + std::to_string(80 / slower) +
                     " GFLOP/s }, launch: " + std::to_string(2 * slower) + " us } }\nhosts: [ { " + own +
                     "devices: [ { kind: part, count: " + std::to_string(devices) +
                     " } ], links: [ { between: devices, bandwidth: 6 GB/s, latency: 5 us } ] } ]";
  auto machine = parseMachineFile(text, "test.yaml");
  if (!machine)
    throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

FoundPlan findOn(const ModelGraph &model, const Machine &machine, const SearchRequest &request) {
  auto found = findPlan(model.graph, machine, request);
  if (auto *failure = std::get_if<SearchFailure>(&found))
    throw std::runtime_error(failure->message);
  FoundPlan plan = std::get<FoundPlan>(std::move(found));
  EXPECT_GE(plan.seconds, plan.lowerBound * (1 - 1e-9));
  return plan;
}

/// A model, to train it or not.
struct ModelOnCores {
  std::string name;
  std::map<std::string, int64_t> numbers;
  bool training;

  SearchRequest request() const {
    SearchRequest request;
    request.training = training;
    return request;
  }
};

const std::vector<ModelOnCores> modelsOnCores = {
    {"mlp", {{"batch", 64}, {"layers", 4}, {"inputs", 512}, {"hidden", 512}}, false},
    {"mlp", {{"batch", 64}, {"layers", 4}, {"inputs", 512}, {"hidden", 512}}, true},
    {"gpt", {{"batch", 8}, {"layers", 2}, {"hidden", 128}, {"heads", 4}, {"sequence", 64}}, true},
    {"lenet", {{"batch", 64}}, true},
    {"inception", {{"batch", 2}}, false}};

// Four devices that all work at once on two cores are four that are half as fast.
TEST(SharedCores, MakeBusyDevicesSlower) {
  for (const ModelOnCores &known : modelsOnCores) {
    SCOPED_TRACE(known.name + (known.training ? ", training" : ""));
    ModelGraph model(known.name, known.numbers);
    SearchRequest request = known.request();
    request.degrees.data = 2;
    request.degrees.model = 2;
    if (known.training)
      request.microbatches = 1;
    double shared = findOn(model, hostWithCores(2, 4), request).seconds,
           slower = findOn(model, hostWithCores(0, 4, 2), request).seconds;
    EXPECT_NEAR(shared, slower, 1e-9 * slower);
    EXPECT_GT(shared, 1.1 * findOn(model, hostWithCores(0, 4), request).seconds);
  }
}

// More devices than cores are no loss, and no gain in work: as good as a device for each core, and not as good as cores
// for all.
TEST(SharedCores, AreNoLossToTheSearch) {
  for (const ModelOnCores &known : modelsOnCores) {
    SCOPED_TRACE(known.name + (known.training ? ", training" : ""));
    ModelGraph model(known.name, known.numbers);
    double two = findOn(model, hostWithCores(2, 2), known.request()).seconds,
           four = findOn(model, hostWithCores(4, 4), known.request()).seconds;
    for (unsigned devices : {3, 4}) {
      FoundPlan plan = findOn(model, hostWithCores(2, devices), known.request());
      EXPECT_LE(plan.seconds, two * (1 + 1e-9));
      EXPECT_GT(plan.seconds, four);
    }
  }
}

// Where there is a core for each device, saying so changes nothing.
TEST(SharedCores, ChangeNothingWhereThereAreEnough) {
  for (const ModelOnCores &known : modelsOnCores) {
    SCOPED_TRACE(known.name + (known.training ? ", training" : ""));
    ModelGraph model(known.name, known.numbers);
    FoundPlan said = findOn(model, hostWithCores(3, 3), known.request()),
              unsaid = findOn(model, hostWithCores(0, 3), known.request());
    EXPECT_EQ(said.seconds, unsaid.seconds);
    EXPECT_EQ(said.lowerBound, unsaid.lowerBound);
    ASSERT_EQ(said.stages.size(), unsaid.stages.size());
    for (auto [left, right] : llvm::zip_equal(said.stages, unsaid.stages))
      EXPECT_TRUE(left.devices == right.devices && left.factors == right.factors);
  }
}

// A pipeline fills and drains at the speed of single devices, and between that all of them share the cores.
TEST(SharedCores, SlowThePipelineWhileItIsFull) {
  ModelGraph model("mlp", {{"batch", 64}, {"layers", 8}, {"inputs", 512}, {"hidden", 512}});
  SearchRequest request;
  request.training = true;
  request.microbatches = 8;
  request.schedule = *pipeline::findSchedule("1f1b");
  request.degrees.pipeline = 4;
  request.degrees.data = 1;
  auto secondsOf = [&](const Machine &machine, double slowdown) {
    FoundPlan plan = findOn(model, machine, request);
    EXPECT_EQ(plan.stages.size(), 4u);
    double filling = 0, longest = 0, perStep = 0;
    for (const FoundStage &stage : plan.stages) {
      filling += stage.forward + stage.backward + 2 * stage.send;
      longest = std::max(longest, stage.forward + stage.backward);
      perStep = std::max(perStep, stage.perStep);
    }
    double expected = filling + slowdown * 7 * longest + perStep;
    EXPECT_NEAR(plan.seconds, expected, 1e-6 * expected);
    return plan.seconds;
  };
  double own = secondsOf(hostWithCores(4, 4), 1), shared = secondsOf(hostWithCores(2, 4), 2);
  EXPECT_GT(shared, 1.3 * own);
}

// Branches are put side by side on as many devices as there are cores.
TEST(SharedCores, BoundBranchesSideBySide) {
  ModelGraph model("inception", {{"batch", 1}});
  ListPlacement two = placeByList(model.graph, hostWithCores(2, 2), search::SearchRequest(), 1e9),
                shared = placeByList(model.graph, hostWithCores(2, 4), search::SearchRequest(), 1e9);
  ASSERT_TRUE(two.isFeasible());
  EXPECT_EQ(shared.devices, two.devices);
  EXPECT_EQ(shared.seconds, two.seconds);
}

} // namespace
