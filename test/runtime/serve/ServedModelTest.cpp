// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A served model on a plan of one device: what its thread and those of clients do between each other's steps.

#include "../PlanBuilder.h"

#include "runtime/Clock.h"
#include "runtime/serve/ServedModel.h"

#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace cleave::runtime::serve {
namespace {

using namespace runtime::test;

/// y = 2 x, of one sample at a time.
Plan twicePlan() {
  PlanBuilder builder;
  uint32_t device = builder.device("d0");
  builder.entry().name = "batch/1";
  builder.entry().samples = 1;
  uint32_t x = builder.input("x", 1), y = builder.output("y", 1);
  uint32_t given = builder.buffer(device, "given", 1), doubled = builder.buffer(device, "doubled", 1);
  Point loaded = builder.loadInput(device, x, given);
  Point called = builder.call(device, "twice", builder.kernel("twice", 1, 1), {given, doubled}, {loaded});
  builder.storeOutput(device, y, doubled, {called});
  return builder.read();
}

std::shared_ptr<InferenceJob> jobOf(uint64_t samples) {
  auto job = std::make_shared<InferenceJob>();
  job->samples = samples;
  TensorType type{ElementType::F32, {static_cast<int64_t>(samples)}};
  job->inputs.push_back(*HostTensor::allocate(type));
  job->outputs.push_back(*HostTensor::allocate(type));
  for (float &element : job->inputs.front().as<float>())
    element = 3;
  job->times.arrival = now();
  return job;
}

// A client goes while another one is told that it is late, which the model does without its lock. One sample of the
// first one's two is in a batch by then: that one ends, the other one does not run.
TEST(ServedModel, CancelsWhatIsInABatchWhileOthersAreTold) {
  auto model = ServedModel::load("twice", "1", {{"twice.plan", twicePlan()}}, {});
  ASSERT_TRUE(model) << model.error().text();
  std::shared_ptr<InferenceJob> first = jobOf(1), late = jobOf(1), leaving = jobOf(2);
  std::promise<Outcome> lateEnded, leavingEnded;
  std::optional<RequestId> leavingId;
  late->done = [&](Outcome outcome) {
    if (leavingId)
      (*model)->cancel(*leavingId);
    lateEnded.set_value(outcome);
  };
  leaving->done = [&](Outcome outcome) { leavingEnded.set_value(outcome); };
  // Keeps the model's thread until both wait, and one of them too long.
  first->done = [&](Outcome) {
    late->deadline = now() + 300'000'000;
    (*model)->submit(late);
    leavingId = (*model)->submit(leaving);
    std::this_thread::sleep_for(std::chrono::milliseconds(350));
  };
  (*model)->submit(first);
  EXPECT_EQ(lateEnded.get_future().get(), Outcome::Late);
  EXPECT_EQ(leavingEnded.get_future().get(), Outcome::Cancelled);
  EXPECT_EQ(leaving->samplesOver, 1u);
  EXPECT_EQ(leaving->outputs.front().as<float>()[0], 6);
  EXPECT_EQ(leaving->outputs.front().as<float>()[1], 0);
}

} // namespace
} // namespace cleave::runtime::serve
