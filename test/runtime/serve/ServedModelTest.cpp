// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A served model on a plan of one device: what its thread and those of clients do between each other's steps.

#include "TwicePlan.h"

#include "runtime/Clock.h"
#include "runtime/serve/ServedModel.h"

#include <atomic>
#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace cleave::runtime::serve {
namespace {

using namespace test;

/// A job of samples of one value that has come just now.
std::shared_ptr<InferenceJob> arrivedJob(uint64_t samples, float value = 3) {
  std::shared_ptr<InferenceJob> job = jobWith(std::vector<float>(samples, value));
  job->times.arrival = now();
  return job;
}

// A client goes while another one is told that it is late, which the model does without its lock. One sample of the
// first one's two is in a batch by then: that one ends, the other one does not run.
TEST(ServedModel, CancelsWhatIsInABatchWhileOthersAreTold) {
  auto model = ServedModel::load("twice", "1", {{"twice.plan", twicePlan({1})}}, {});
  ASSERT_TRUE(model) << model.error().text();
  std::shared_ptr<InferenceJob> first = arrivedJob(1), late = arrivedJob(1), leaving = arrivedJob(2);
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

// Clients that ask as fast as they are answered, so that steps end at any moment of the model's thread: each gets its
// own answer, and none waits for ever.
TEST(ServedModel, AnswersClientsThatAskWithoutPause) {
  ServedModelOptions options;
  options.maxDelay = 100'000;
  auto model = ServedModel::load("twice", "1", {{"twice.plan", twicePlan({1, 2, 4})}}, options);
  ASSERT_TRUE(model) << model.error().text();
  std::atomic<unsigned> wrong = 0;
  auto ask = [&](unsigned client) {
    for (unsigned i = 0; i != 3000; ++i) {
      auto value = static_cast<float>(client * 10000 + i);
      std::shared_ptr<InferenceJob> job = arrivedJob(1 + (client + i) % 3, value);
      std::promise<Outcome> ended;
      job->done = [&](Outcome outcome) { ended.set_value(outcome); };
      (*model)->submit(job);
      bool isRight = ended.get_future().get() == Outcome::Answered;
      for (float element : job->outputs.front().as<float>())
        isRight &= element == 2 * value;
      wrong += !isRight;
    }
  };
  std::vector<std::thread> clients;
  for (unsigned client = 0; client != 6; ++client)
    clients.emplace_back(ask, client);
  for (std::thread &client : clients)
    client.join();
  EXPECT_EQ(wrong, 0u);
}

} // namespace
} // namespace cleave::runtime::serve
