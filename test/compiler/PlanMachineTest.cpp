// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which machine a plan is for, where nobody says it.

#include "PredictedPlan.h"

#include "compiler/PlanMachine.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

using runtime::test::pipelinePrediction;
using runtime::test::PipelineShape;

// A plan says it with its prediction; what has none is for devices like its own, of which the null driver's are alike.
TEST(PlanMachineTest, IsThePredictionsOrLikeTheDevices) {
  auto builder = pipelinePrediction(PipelineShape{2, 1, 1, 1, "", ""});
  runtime::Plan predicted = builder.read();
  EXPECT_EQ(machineNameOf(predicted, predicted->entries.front(), ""), predicted->entries.front().prediction->machine);
  EXPECT_EQ(machineNameOf(predicted, predicted->entries.front(), "host:9"), "host:9");
  builder.entry().prediction.reset();
  runtime::Plan plain = builder.read();
  EXPECT_EQ(machineNameOf(plain, plain->entries.front(), ""), "null:2");
}

// GPUs are not alike: which they are must be said.
TEST(PlanMachineTest, AsksForTheNameOfGpus) {
  auto builder = pipelinePrediction(PipelineShape{2, 1, 1, 1, "", ""});
  builder.entry().prediction.reset();
  for (auto &device : builder.plan.devices)
    device->driver = "cuda";
  runtime::Plan plan = builder.read();
  auto machine = machineOf(plan, machineNameOf(plan, plan->entries.front(), ""));
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().status(), Status::Usage);
  EXPECT_EQ(machine.error().text(), "a plan for GPUs that was made without a prediction expects --machine, as in "
                                    "cuda:h100:2; got none");
}

} // namespace
} // namespace cleave
