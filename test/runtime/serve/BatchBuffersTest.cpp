// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples of several jobs in the tensors of one batch: in their places, with zeros behind them, copied once.

#include "TwicePlan.h"

#include "runtime/serve/BatchBuffers.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace cleave::runtime::serve {
namespace {

using namespace test;

/// In batches of one, two and four samples.
const BatchedPlan &batchedPlan() {
  static const BatchedPlan plan = *BatchedPlan::open(twicePlan({1, 2, 4}));
  return plan;
}

/// A job as a model knows it.
std::shared_ptr<InferenceJob> knownJob(RequestId id, const std::vector<float> &values) {
  std::shared_ptr<InferenceJob> job = jobWith(values);
  job->id = id;
  return job;
}

std::vector<float> valuesOf(const HostTensor &tensor) {
  auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

/// What the plan would do with the batch.
void runBatch(const BatchBuffers &buffers) {
  for (size_t i = 0; i != buffers.getInputs().front().as<float>().size(); ++i)
    buffers.getOutputs().front().as<float>()[i] = 2 * buffers.getInputs().front().as<float>()[i];
}

/// Of samples of which not all were there.
void gatherAhead(BatchBuffers &buffers, const std::vector<JobSlice> &slices) {
  EXPECT_FALSE(buffers.isGathered(slices));
  buffers.gatherAhead(slices);
  EXPECT_TRUE(buffers.isGathered(slices));
}

TEST(BatchBuffers, PutSamplesSideBySide) {
  BatchBuffers buffers(batchedPlan());
  auto a = knownJob(1, {1, 2, 3}), b = knownJob(2, {4});
  std::vector<JobSlice> slices = {{a, 1, 2}, {b, 0, 1}};
  ASSERT_FALSE(buffers.use(2));
  buffers.gather(slices);
  EXPECT_EQ(valuesOf(buffers.getInputs().front()), (std::vector<float>{2, 3, 4, 0}));
  runBatch(buffers);
  buffers.scatter(slices);
  EXPECT_EQ(valuesOf(a->outputs.front()), (std::vector<float>{0, 4, 6}));
  EXPECT_EQ(valuesOf(b->outputs.front()), (std::vector<float>{8}));
}

// Samples that were brought together before are not read again: a job's input may have changed since.
TEST(BatchBuffers, CopySamplesOnce) {
  BatchBuffers buffers(batchedPlan());
  ASSERT_FALSE(buffers.use(0));
  auto a = knownJob(1, {1}), b = knownJob(2, {2}), c = knownJob(3, {3});
  gatherAhead(buffers, {{a, 0, 1}});
  gatherAhead(buffers, {{a, 0, 1}, {b, 0, 1}});
  EXPECT_TRUE(buffers.isGathered({{a, 0, 1}, {b, 0, 1}}));
  a->inputs.front().as<float>()[0] = b->inputs.front().as<float>()[0] = -1;
  ASSERT_FALSE(buffers.use(2));
  buffers.gather({{a, 0, 1}, {b, 0, 1}, {c, 0, 1}});
  EXPECT_EQ(valuesOf(buffers.getInputs().front()), (std::vector<float>{1, 2, 3, 0}));
}

// The batch is another one than was expected: a client has gone, or somebody urgent has come; or it is smaller.
TEST(BatchBuffers, TakeBackWhatWasGatheredInVain) {
  BatchBuffers buffers(batchedPlan());
  ASSERT_FALSE(buffers.use(0));
  auto a = knownJob(1, {1}), b = knownJob(2, {2}), c = knownJob(3, {3, 4});
  gatherAhead(buffers, {{a, 0, 1}, {b, 0, 1}, {c, 0, 2}});
  ASSERT_FALSE(buffers.use(2));
  buffers.gather({{b, 0, 1}, {c, 0, 2}});
  EXPECT_EQ(valuesOf(buffers.getInputs().front()), (std::vector<float>{2, 3, 4, 0}));
  buffers.release();

  gatherAhead(buffers, {{a, 0, 1}, {b, 0, 1}, {c, 0, 2}});
  gatherAhead(buffers, {{a, 0, 1}, {c, 0, 2}});
  ASSERT_FALSE(buffers.use(1));
  buffers.gather({{a, 0, 1}, {c, 0, 1}});
  EXPECT_EQ(valuesOf(buffers.getInputs().front()), (std::vector<float>{1, 3}));
  buffers.release();

  // Of the same id, but of samples that had their turn.
  gatherAhead(buffers, {{c, 0, 1}});
  ASSERT_FALSE(buffers.use(1));
  buffers.gather({{c, 1, 1}, {a, 0, 1}});
  EXPECT_EQ(valuesOf(buffers.getInputs().front()), (std::vector<float>{4, 1}));
  buffers.release();

  // Nothing of it is left for the next batch, whose jobs may have the places of others in memory.
  ASSERT_FALSE(buffers.use(2));
  buffers.gather({});
  EXPECT_EQ(valuesOf(buffers.getInputs().front()), (std::vector<float>{0, 0, 0, 0}));
}

// A slice that is a whole batch is run where it lies, whatever its address.
TEST(BatchBuffers, BorrowWhatIsAWholeBatch) {
  BatchBuffers buffers(batchedPlan());
  auto owner = std::make_shared<std::vector<std::byte>>(1 + 4 * sizeof(float));
  auto a = knownJob(1, {0, 0, 0, 0});
  auto bytes = std::span(*owner).subspan(1);
  std::memcpy(bytes.data(), std::vector<float>{1, 2, 3, 4}.data(), bytes.size());
  a->inputs.front() = *HostTensor::view(a->inputs.front().type(), bytes, owner);
  std::weak_ptr<void> isKept = owner;
  owner.reset();
  ASSERT_FALSE(buffers.use(1));
  buffers.gather({{a, 2, 2}});
  EXPECT_EQ(buffers.getInputs().front().bytes().data(), bytes.data() + 2 * sizeof(float));
  EXPECT_EQ(buffers.getInputs().front().bytes().size(), 2 * sizeof(float));
  buffers.getOutputs().front().as<float>()[1] = 8;
  buffers.scatter({{a, 2, 2}});
  EXPECT_EQ(valuesOf(a->outputs.front()), (std::vector<float>{0, 0, 0, 8}));
  // The batch keeps what it reads until it is over.
  a->inputs.clear();
  EXPECT_FALSE(isKept.expired());
  buffers.release();
  EXPECT_TRUE(isKept.expired());
}

} // namespace
} // namespace cleave::runtime::serve
