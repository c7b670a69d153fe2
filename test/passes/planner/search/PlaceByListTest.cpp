// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators on single devices: what a model's nodes cost as tasks, and when the last of them is done.

#include "ModelGraph.h"

#include "passes/planner/PlaceByList.h"

#include <gtest/gtest.h>

using namespace cleave;

namespace {

constexpr double deviceBandwidth = 1e11, pairBandwidth = 1e10, pairAlpha = 1e-7;

Machine twoDevices() {
  Machine machine;
  machine.name = "two";
  DeviceKind &kind = machine.kinds["plain"];
  kind.memory = 1ull << 30;
  kind.bandwidth = deviceBandwidth;
  kind.peak["f32"] = 1e12;
  HostSpec &host = machine.hosts.emplace_back();
  host.devices = {{"plain", 2}};
  host.link = LinkSpec{pairBandwidth, pairAlpha};
  addDevices(machine);
  return machine;
}

/// Branches of one product each, from x to a sum.
std::string branches() {
  std::string product = "{lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contracting = array<i64: 1>, "
                        "rhs_contracting = array<i64: 0>} : (tensor<1x128xf32>, tensor<128x128xf32>) -> "
                        "tensor<1x128xf32> loc(";
  std::string text;
  for (const char *name : {"a", "b"})
    text += std::string("dfg.parameter @") + name +
            " : tensor<128x128xf32> = #dfg.normal<mean = 0.0, stddev = 0.1, seed = 1>\n";
  text += "dfg.graph @main(%x: tensor<1x128xf32> {dfg.name = \"x\"}) -> (tensor<1x128xf32> {dfg.name = \"y\"}) {\n"
          "%wa = dfg.read @a : tensor<128x128xf32>\n%wb = dfg.read @b : tensor<128x128xf32>\n"
          "%a = dfg.dot_general %x, %wa " +
          product + "\"a\")\n%b = dfg.dot_general %x, %wb " + product +
          "\"b\")\n%y = dfg.add %a, %b : (tensor<1x128xf32>, tensor<1x128xf32>) -> tensor<1x128xf32> loc(\"y\")\n"
          "dfg.return %y : tensor<1x128xf32>\n}\n";
  return text;
}

search::SearchRequest withMemory(double bytes) {
  search::SearchRequest request;
  request.memoryLimit = bytes;
  return request;
}

constexpr double vector = 4 * 128, matrix = 4 * 128 * 128;
constexpr double ofProduct = (matrix + 2 * vector) / deviceBandwidth, ofSum = 3 * vector / deviceBandwidth;

TEST(PlaceByList, RunsBranchesSideBySide) {
  ModelGraph model(branches());
  ListPlacement placement = placeByList(model.graph, twoDevices(), search::SearchRequest(), 1);
  ASSERT_TRUE(placement.isFeasible());
  ASSERT_EQ(placement.devices.size(), 3u);
  EXPECT_NE(placement.devices[0], placement.devices[1]);
  // One of the sum's operands comes from the other device.
  EXPECT_NEAR(placement.seconds, ofProduct + pairAlpha + vector / pairBandwidth + ofSum, 1e-15);
  EXPECT_NEAR(placement.nodeSeconds[0], ofProduct, 1e-15);
  EXPECT_EQ(placement.parameters[0], matrix);
  EXPECT_EQ(placement.parameters[1], matrix);
  EXPECT_EQ(placement.peakBytes(), matrix + matrix + 2 * vector);
  EXPECT_LE(placement.lowerBound, placement.seconds);
}

TEST(PlaceByList, KeepsParametersWithinMemory) {
  ModelGraph model(branches());
  // Both matrices fit on one device with the largest operator's operands, or not.
  double transient = matrix + 2 * vector;
  placement::PlacementProblem problem =
      placementProblemOf(model.graph, twoDevices(), {0, 1}, withMemory(2 * matrix + transient));
  EXPECT_EQ(problem.devices[0].memory, 2 * matrix);
  EXPECT_FALSE(placeByList(model.graph, twoDevices(), withMemory(matrix / 2 + transient), 1).isFeasible());
}

TEST(PlaceByList, SchedulesNothingThatCannotBeFaster) {
  ModelGraph model("mlp", {{"layers", 3}});
  ListPlacement placement = placeByList(model.graph, twoDevices(), search::SearchRequest(), 1e-9);
  EXPECT_FALSE(placement.isFeasible());
  EXPECT_GT(placement.lowerBound, 1e-9);
  EXPECT_NE(considered(placement).whyNot.find("ms or more"), std::string::npos);
}

} // namespace
