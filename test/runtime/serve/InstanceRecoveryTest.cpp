// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where plans may run that are for fewer devices than those that an instance had, and in which order they are tried.

#include "TwicePlan.h"

#include "runtime/serve/InstanceRecovery.h"

#include <gtest/gtest.h>

namespace cleave::runtime::serve {
namespace {

using namespace test;

/// y = 2 x on the first of some devices.
std::shared_ptr<const ServedPlan> planFor(uint32_t devices) {
  return std::make_shared<ServedPlan>(
      ServedPlan{std::to_string(devices) + ".plan", *BatchedPlan::open(twicePlan({1}, devices)), nullptr});
}

std::vector<unsigned> devicesBefore(const std::vector<InstanceChoice> &choices) {
  std::vector<unsigned> before;
  for (const InstanceChoice &choice : choices)
    before.push_back(choice.place.devicesBefore);
  return before;
}

// A plan for one device is tried on each of the three that the second instance had; one for four from its first on.
TEST(InstanceRecovery, TriesAPlanWhereverItFits) {
  ServedPlans plans = {planFor(3), planFor(2), planFor(1), planFor(4)};
  EXPECT_EQ(devicesBefore(choicesOf(plans, 0, 1, 3)), (std::vector<unsigned>{3}));
  EXPECT_EQ(devicesBefore(choicesOf(plans, 1, 1, 3)), (std::vector<unsigned>{3, 4}));
  EXPECT_EQ(devicesBefore(choicesOf(plans, 2, 1, 3)), (std::vector<unsigned>{3, 4, 5}));
  EXPECT_EQ(devicesBefore(choicesOf(plans, 3, 1, 3)), (std::vector<unsigned>{3}));
}

// Cores are counted likewise: those of other instances before and behind.
TEST(InstanceRecovery, LeavesTheCoresOfOthers) {
  ServedPlans plans = {planFor(2), planFor(1)};
  unsigned each = plans[0]->plan.getPlan()->devices.front().cores;
  auto choices = choicesOf(plans, 1, 1, 3);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].place.threadsBefore, 2 * each);
  EXPECT_EQ(choices[1].place.threadsBefore, 3 * each);
  EXPECT_EQ(choices[1].place.threadsBehind, 2 * each);
}

// The first that loads is it; why others did not is said, and the last reason is the error where none does.
TEST(InstanceRecovery, LoadsTheFirstThatCanBe) {
  ServedPlans plans = {planFor(2), planFor(1)};
  std::vector<InstanceChoice> choices = choicesOf(plans, 0, 0, 1), others = choicesOf(plans, 1, 0, 1);
  choices.insert(choices.end(), others.begin(), others.end());
  std::vector<std::string> said;
  auto report = [&](const std::string &line) { said.push_back(line); };
  // The first device is lost.
  auto load = [&](const InstanceChoice &choice) -> Expected<std::unique_ptr<ModelInstance>> {
    if (choice.place.devicesBefore == 0)
      return makeError(Status::Lost, "GPU 0 is lost");
    auto served = std::make_shared<ServedPlan>(*plans[choice.plan]);
    served->parameters = std::make_shared<FolderSource>(".");
    return ModelInstance::load(served, {}, 1, false, [] {});
  };
  RecoveredInstance recovered = loadFirst(plans, choices, load, report);
  ASSERT_TRUE(recovered.instance);
  EXPECT_EQ(recovered.plan, 1u);
  EXPECT_EQ(said, (std::vector<std::string>{"cannot be loaded from 2.plan: GPU 0 is lost",
                                            "cannot be loaded from 1.plan: GPU 0 is lost"}));
  choices.pop_back();
  recovered = loadFirst(plans, choices, load, report);
  EXPECT_FALSE(recovered.instance);
  EXPECT_EQ(recovered.error.message(), "GPU 0 is lost");
}

} // namespace
} // namespace cleave::runtime::serve
