// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pins as constraints of the search: they are kept, and more of them never make a plan faster.

#include "ModelGraph.h"

#include "passes/planner/PlaceByPins.h"

#include <gtest/gtest.h>
#include <random>

using namespace cleave;
using namespace cleave::search;

namespace {

/// A model on four devices, of which ranges of nodes are pinned to one or two.
class PinnedModel {
public:
  PinnedModel(const std::string &name, const std::map<std::string, int64_t> &numbers, bool training)
      : model(name, numbers), on("v100-16g:4", {4}) {
    request.training = training;
    pins.assign(model.graph.nodes.size(), none);
  }

  /// Pins nodes [first, last) to a new mesh.
  void pin(unsigned first, unsigned last, const std::vector<unsigned> &devices) {
    MeshSpec mesh = MeshSpec::ofDevice(devices.front());
    if (devices.size() > 1)
      mesh = {"pair", devices, {{"x", static_cast<int64_t>(devices.size())}}};
    std::fill(pins.begin() + first, pins.begin() + last, request.pinned.size());
    request.pinned.push_back(mesh);
  }

  FoundPlan find() {
    model.pin(pins);
    auto found = findPlan(model.graph, on.machine, request);
    if (auto *failure = std::get_if<SearchFailure>(&found))
      throw std::runtime_error(failure->message);
    return std::get<FoundPlan>(found);
  }

  unsigned numNodes() const { return pins.size(); }

  /// What is pinned is in a stage of its mesh, and all of a mesh in one stage.
  void expectKept(const FoundPlan &plan) const {
    std::vector<unsigned> stageOf(request.pinned.size(), none);
    for (auto [number, stage] : llvm::enumerate(plan.stages))
      for (unsigned index = stage.first; index != stage.last; ++index) {
        unsigned pin = model.graph.operators[index].pin;
        if (pin == none)
          continue;
        EXPECT_EQ(stage.devices, request.pinned[pin].devices);
        EXPECT_EQ(stage.axes, request.pinned[pin].axes);
        EXPECT_TRUE(stageOf[pin] == none || stageOf[pin] == number);
        stageOf[pin] = number;
      }
    EXPECT_FALSE(llvm::is_contained(stageOf, none));
    EXPECT_GE(plan.seconds, plan.lowerBound * (1 - 1e-9));
  }

  ModelGraph model;
  MachineGrid on;
  SearchRequest request;
  std::vector<unsigned> pins;
};

/// Two ranges of nodes at random, on devices at random: each is pinned after the other.
void expectPinsAreKept(const std::string &name, const std::map<std::string, int64_t> &numbers, bool training,
                       unsigned seed) {
  SCOPED_TRACE(name + (training ? ", training, seed " : ", seed ") + std::to_string(seed));
  std::mt19937 random(seed);
  auto upTo = [&](unsigned low, unsigned high) { return std::uniform_int_distribution<unsigned>(low, high)(random); };
  PinnedModel pinned(name, numbers, training);
  double free = pinned.find().seconds;
  std::vector<unsigned> devices = {0, 1, 2, 3};
  std::shuffle(devices.begin(), devices.end(), random);
  unsigned middle = upTo(1, pinned.numNodes() - 2), begin = upTo(0, middle - 1),
           end = upTo(middle + 1, pinned.numNodes());
  std::vector<unsigned> first(devices.begin(), devices.begin() + upTo(1, 2));
  std::vector<unsigned> second(devices.begin() + 2, devices.begin() + 2 + upTo(1, 2));
  pinned.pin(begin, middle, first);
  FoundPlan one = pinned.find();
  pinned.expectKept(one);
  pinned.pin(middle + upTo(0, end - middle - 1), end, second);
  FoundPlan two = pinned.find();
  pinned.expectKept(two);
  EXPECT_LE(one.seconds, two.seconds * (1 + 1e-9));
  // Without pins a step of inference is not searched for stages that share devices.
  if (training) {
    EXPECT_LE(free, one.seconds * (1 + 1e-9));
  }
  ASSERT_EQ(one.considered.front().name, "without the pins");
  EXPECT_NEAR(one.considered.front().seconds, free, free * 1e-6);
}

TEST(Pins, AreKeptAndNeverMakeAPlanFaster) {
  for (unsigned seed = 0; seed != 6; ++seed)
    for (bool training : {false, true}) {
      expectPinsAreKept("lenet", {{"batch", 64}}, training, seed);
      expectPinsAreKept("mlp", {{"batch", 256}, {"layers", 6}, {"inputs", 512}, {"hidden", 2048}}, training, seed);
      expectPinsAreKept("gpt", {{"batch", 8}, {"layers", 2}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}}, training,
                        seed);
    }
}

// Degrees say what stages are that nothing is pinned to, and how many there are of both kinds.
TEST(Pins, GoTogetherWithDegrees) {
  for (bool training : {false, true}) {
    PinnedModel pinned("mlp", {{"batch", 256}, {"layers", 6}, {"inputs", 512}, {"hidden", 2048}}, training);
    pinned.pin(0, 2, {3});
    double free = pinned.find().seconds;
    pinned.request.degrees.data = 2;
    for (std::optional<int64_t> stages : {std::optional<int64_t>(), std::optional<int64_t>(2)}) {
      pinned.request.degrees.pipeline = stages;
      FoundPlan plan = pinned.find();
      pinned.expectKept(plan);
      EXPECT_GE(plan.seconds, free * (1 - 1e-9));
      for (const FoundStage &stage : plan.stages)
        EXPECT_TRUE(stage.pin != none || stage.axes == (std::vector<MeshAxis>{{"data", 2}}));
      if (stages) {
        EXPECT_EQ(plan.stages.size(), 2u);
      }
    }
  }
}

// Two layers pinned to the only devices, nothing left to choose: the sum of both, and what crosses between them.
TEST(Pins, OfEverythingCostTheirSum) {
  PinnedModel pinned("mlp", {{"batch", 64}, {"layers", 2}, {"inputs", 1024}, {"hidden", 1024}, {"classes", 1024}},
                     false);
  double whole = [&] {
    PinnedModel alone("mlp", {{"batch", 64}, {"layers", 2}, {"inputs", 1024}, {"hidden", 1024}, {"classes", 1024}},
                      false);
    alone.pin(0, alone.numNodes(), {0});
    return alone.find().seconds;
  }();
  pinned.pin(0, 2, {3});
  pinned.pin(2, 3, {1});
  FoundPlan plan = pinned.find();
  pinned.expectKept(plan);
  ASSERT_EQ(plan.stages.size(), 2u);
  double crossing = sendSeconds(64 * 1024 * 4, pinned.on.topology.between(3, 1));
  EXPECT_NEAR(plan.seconds, whole + crossing, 1e-3 * crossing);
}

// A mesh whose layers others stand between, and one that shares a device with another, cannot be a stage.
TEST(Pins, SayWhyTheyAreNoStages) {
  ModelGraph model("mlp", {{"batch", 64}, {"layers", 3}});
  auto whyOf = [&](const std::vector<MeshSpec> &meshes, const std::vector<unsigned> &nodes) {
    model.pin(nodes);
    return whyNoStages(model.graph, {meshes, nodes});
  };
  std::vector<MeshSpec> devices = {MeshSpec::ofDevice(0), MeshSpec::ofDevice(1)};
  EXPECT_EQ(whyOf(devices, {0, 0, none, none, 1}), "");
  EXPECT_EQ(whyOf(devices, {0, none, 1, none, 0}),
            "\"fc2\" on device 1 stands between \"fc1\" and \"fc3\" on device 0");
  std::vector<MeshSpec> shared = {MeshSpec::ofDevice(1), {"pair", {0, 1}, {{"x", 2}}}};
  EXPECT_EQ(whyOf(shared, {0, none, 1, none, none}), "device 1 and devices 0, 1 share device 1");
}

} // namespace
