// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans for hosts in zones with links of their own: which of them are used, and what communication costs there.

#include "ModelGraph.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/PlanCost.h"
#include "passes/planner/search/Search.h"

#include "runtime/simulator/GroupTraffic.h"

#include <gtest/gtest.h>
#include <set>

using namespace cleave;
using namespace cleave::search;

namespace {

Machine machineOfHosts(const std::string &hosts, const std::string &links) {
  std::string text = "device_kinds: { gpu: { memory: 16 GiB, bandwidth: 800 GB/s, peak: { f32: 10 TFLOP/s }, "
                     "launch: 4 us } }\nhosts: [ " +
                     hosts + " ]\nnetwork: { bandwidth: 25 GB/s, latency: 5 us }\n" + links;
  auto machine = parseMachineFile(text, "test.yaml");
  if (!machine)
    throw std::runtime_error(llvm::toString(machine.takeError()));
  return std::move(*machine);
}

constexpr const char *twoAndTwo = "{ count: 2, zone: here, devices: [ { kind: gpu } ] }, "
                                  "{ count: 2, zone: there, devices: [ { kind: gpu } ] }";
constexpr const char *wideArea =
    "links: [ { between: [here, there], bandwidth: 0.115 GB/s, latency: 5 ms, shared: true } ]\n";

FoundPlan planOn(const ModelGraph &model, const Machine &machine, const SearchRequest &request) {
  auto found = findPlan(model.graph, machine, request);
  if (auto *failure = std::get_if<SearchFailure>(&found))
    throw std::runtime_error(failure->message);
  FoundPlan plan = std::get<FoundPlan>(std::move(found));
  EXPECT_GE(plan.seconds, plan.lowerBound * (1 - 1e-9));
  return plan;
}

std::set<unsigned> devicesIn(const FoundPlan &plan) {
  std::set<unsigned> devices;
  for (const FoundStage &stage : plan.stages)
    devices.insert(stage.devices.begin(), stage.devices.end());
  return devices;
}

ModelGraph gpt() {
  return ModelGraph(
      "gpt", {{"layers", 2}, {"hidden", 256}, {"heads", 4}, {"sequence", 64}, {"vocabulary", 500}, {"batch", 8}});
}

SearchRequest trainingOfBatch(int64_t batch) {
  SearchRequest request;
  request.training = true;
  request.batch = batch;
  request.considersOthers = false;
  return request;
}

// Behind a slow link the other two hosts are left idle, unless there is work enough for them; over the network all are
// used.
TEST(Zones, LeaveHostsIdleBehindASlowLink) {
  ModelGraph model = gpt();
  Machine plain = machineOfHosts(twoAndTwo, ""), far = machineOfHosts(twoAndTwo, wideArea);
  EXPECT_EQ(devicesIn(planOn(model, plain, trainingOfBatch(512))).size(), 4u);
  EXPECT_EQ(devicesIn(planOn(model, far, trainingOfBatch(512))), (std::set<unsigned>{0, 1}));
  EXPECT_EQ(devicesIn(planOn(model, far, trainingOfBatch(8192))).size(), 4u);
}

// Whichever zone is the better one inside.
TEST(Zones, TakeTheZoneOfTheBetterLink) {
  ModelGraph model = gpt();
  std::string inside = "{ between: [here, here], bandwidth: 0.02 GB/s, latency: 5 ms }";
  std::string links = wideArea;
  links.insert(links.find("[ {") + 2, inside + ", ");
  EXPECT_EQ(devicesIn(planOn(model, machineOfHosts(twoAndTwo, links), trainingOfBatch(512))),
            (std::set<unsigned>{2, 3}));
}

// Of three zones, those that are near each other.
TEST(Zones, JoinTheNearest) {
  ModelGraph model = gpt();
  Machine machine = machineOfHosts("{ zone: a, devices: [ { kind: gpu } ] }, { zone: b, devices: [ { kind: gpu } ] }, "
                                   "{ zone: c, devices: [ { kind: gpu } ] }",
                                   "links: [ { between: [a, b], bandwidth: 0.01 GB/s, latency: 50 ms },\n"
                                   "         { between: [b, c], bandwidth: 0.01 GB/s, latency: 50 ms } ]\n");
  EXPECT_EQ(devicesIn(planOn(model, machine, trainingOfBatch(512))), (std::set<unsigned>{0, 2}));
}

// What sticks out behind the backward pass of gradients that are joined over the slow link is what the simulator says
// of an all-reduce of their bytes, which begins when the last product's are there. Over the network only the table of
// tokens sticks out, whose gradient is there last: the rest of a step's end is the optimizer's.
TEST(Zones, SearchAgreesWithTheSimulator) {
  ModelGraph model = gpt();
  SearchRequest request = trainingOfBatch(512);
  request.degrees.data = 4;
  request.microbatches = 1;
  for (bool isShared : {true, false}) {
    // Latencies count for each bucket of gradients; of what is tested here they are little.
    std::string links = "links: [ { between: [here, there], bandwidth: 0.115 GB/s, latency: 100 us" +
                        std::string(isShared ? ", shared: true" : "") + " } ]\n";
    Machine far = machineOfHosts(twoAndTwo, links);
    const FoundStage stage = planOn(model, far, request).stages.front();
    const FoundStage near = planOn(model, machineOfHosts(twoAndTwo, ""), request).stages.front();
    ASSERT_EQ(stage.devices.size(), 4u);
    ASSERT_EQ(stage.factors, near.factors);
    PlanCost cost(far);
    auto phases = runtime::groupPhases(cost, runtime::GroupWork::Kind::AllReduce, stage.gradients, {{0, 1, 2, 3}});
    double seconds = 0;
    for (const runtime::TrafficPhase &phase : phases.front()) {
      double moving = phase.seconds;
      for (const runtime::LinkLoad &load : phase.loads)
        moving = std::max(moving, load.bytes / cost.bandwidths()[load.link]);
      seconds += phase.latency + moving;
    }
    ASSERT_GT(seconds, 2 * stage.backward);
    // Joining begins when the first gradients are there, but for those of biases, which are little.
    double first = 0;
    for (auto [index, op] : llvm::enumerate(model.graph.operators)) {
      if (op.cost.costClass == CostClass::Contraction && llvm::any_of(op.operands, [&](const Operand &operand) {
            return operand.parameter != none && model.graph.parameters[operand.parameter].firstUse == index &&
                   model.graph.learns(operand) && !model.graph.isSummedEarlier(operand, index, 0);
          }))
        first = 0;
      first += stage.operators[index].seconds;
    }
    double seen = stage.perStep - near.perStep;
    EXPECT_GE(seen, (seconds - stage.backward) * (1 - 1e-3)) << isShared;
    EXPECT_LE(seen, (seconds - stage.backward + first) * (1 + 1e-3)) << isShared;
    EXPECT_LT(first, (stage.forward + stage.backward) / 4);
  }
}

// Zones that no link names change nothing.
TEST(Zones, WithoutLinksChangeNothing) {
  ModelGraph model = gpt();
  FoundPlan with = planOn(model, machineOfHosts(twoAndTwo, ""), trainingOfBatch(512));
  FoundPlan without =
      planOn(model, machineOfHosts("{ count: 4, devices: [ { kind: gpu } ] }", ""), trainingOfBatch(512));
  EXPECT_EQ(with.seconds, without.seconds);
  EXPECT_EQ(with.lowerBound, without.lowerBound);
  EXPECT_EQ(with.stages.size(), without.stages.size());
}

} // namespace
