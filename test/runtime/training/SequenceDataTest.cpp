// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences of text: how lines go to lengths, what batches hold, in which order they come, and what cannot be trained
// on.

#include "runtime/training/SequenceData.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

/// Entries for batches of two sequences of up to 2, 4 and 6 tokens of 128 bytes.
class SequenceDataTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("cleave-sequence-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    for (uint64_t length : {2, 4, 6}) {
      Entry entry;
      entry.name = "train/" + std::to_string(length);
      entry.samples = 2;
      entry.bucket = length;
      TensorType type{ElementType::I64, {2, static_cast<int64_t>(length)}, std::nullopt};
      entry.inputs = {{"tokens", type, 0}, {"labels", type, 128}};
      plan.push_back(entry);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  Expected<SequenceData> read(const std::vector<std::string> &bindings) const {
    std::vector<const Entry *> entries;
    for (const Entry &entry : plan)
      entries.push_back(&entry);
    return SequenceData::read(entries, bindings, vocabulary, "--data");
  }
  Expected<SequenceData> readText(const std::string &text) const { return read({"tokens=" + write("t.txt", text)}); }
  void expectError(const Expected<SequenceData> &data, Status status, const std::string &text) const {
    ASSERT_FALSE(data);
    EXPECT_EQ(data.error().status(), status);
    EXPECT_NE(data.error().text().find(text), std::string::npos) << data.error().text();
  }
  static std::vector<int64_t> numbers(const HostTensor &tensor) {
    auto values = tensor.as<int64_t>();
    return {values.begin(), values.end()};
  }

  std::filesystem::path folder;
  std::vector<Entry> plan;
  Vocabulary vocabulary = Vocabulary::ofBytes();
};

// A line of n bytes has n + 1 positions, as its end is predicted, too; the smallest length takes it, a longer one than
// the largest goes into parts, and each byte and each end is predicted once.
TEST_F(SequenceDataTest, DividesLines) {
  auto data = readText("a\n\nabc\nabcdefgh\nxyz\n\n");
  ASSERT_TRUE(data) << data.error().text();
  SequenceSummary summary = data->summary();
  // 2, 4, 9 = 6 + 3, 4 positions.
  ASSERT_EQ(summary.buckets.size(), 3u);
  EXPECT_EQ(summary.buckets[0].sequences, 1u);
  EXPECT_EQ(summary.buckets[1].sequences, 3u);
  EXPECT_EQ(summary.buckets[1].batches, 2u);
  EXPECT_EQ(summary.buckets[2].sequences, 1u);
  EXPECT_EQ(summary.tokens, 19u);
  EXPECT_EQ(summary.positions, 2 * (2 + 2 * 4 + 6));
  EXPECT_EQ(summary.emptyLines, 2u);
  EXPECT_NEAR(summary.padding(), 1 - 19.0 / 32, 1e-12);
  std::map<int64_t, unsigned> predicted;
  Batch batch = *data->allocate();
  uint64_t labels = 0;
  BatchOrder order = data->all();
  for (const BatchOrder::Item &item : order.batches) {
    data->fill(batch, item.bucket, order.samplesOf(item));
    labels += batch.labels;
    for (int64_t label : numbers(batch.inputs()[1]))
      ++predicted[label];
  }
  EXPECT_EQ(labels, 19u);
  EXPECT_EQ(predicted['\n'], 4u);
  EXPECT_EQ(predicted['a'], 3u);
  EXPECT_EQ(predicted['h'], 1u);
  EXPECT_EQ(predicted[-1], 32u - 19);
}

// What stands behind a sequence, and a sequence that only fills the batch, has labels of -1.
TEST_F(SequenceDataTest, FillsBatches) {
  auto data = readText("ab\n");
  ASSERT_TRUE(data) << data.error().text();
  Batch batch = *data->allocate();
  const std::vector<uint64_t> which = {0};
  data->fill(batch, 1, which);
  EXPECT_EQ(numbers(batch.inputs()[0]), (std::vector<int64_t>{10, 'a', 'b', 0, 10, 'a', 'b', 0}));
  EXPECT_EQ(numbers(batch.inputs()[1]), (std::vector<int64_t>{'a', 'b', 10, -1, -1, -1, -1, -1}));
  EXPECT_EQ(batch.samples, 1u);
  EXPECT_EQ(batch.labels, 3u);
}

// Each epoch has all sequences in an order of its own, which goes on where it was left.
TEST_F(SequenceDataTest, ShufflesBatchesOfAllLengths) {
  std::string text;
  for (int i = 0; i != 60; ++i)
    text += std::string(static_cast<size_t>(1 + i % 5), 'x') + "\n";
  auto data = readText(text);
  ASSERT_TRUE(data) << data.error().text();
  auto flat = [](const BatchOrder &order) {
    std::vector<uint64_t> all;
    for (const BatchOrder::Item &item : order.batches)
      for (uint64_t sample : order.samplesOf(item))
        all.push_back(sample);
    return all;
  };
  BatchOrder first = *data->rest(5, 0, 0);
  std::vector<uint64_t> all = flat(first), second = flat(*data->rest(5, 1, 0));
  EXPECT_EQ(all, flat(*data->rest(5, 0, 0)));
  EXPECT_NE(all, second);
  EXPECT_NE(all, flat(*data->rest(6, 0, 0)));
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 60u);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 60u);
  // Not one length after the other.
  EXPECT_FALSE(std::ranges::is_sorted(first.batches, {}, &BatchOrder::Item::bucket));
  uint64_t taken = 0;
  for (size_t batch = 0; batch != first.batches.size(); ++batch) {
    std::vector<uint64_t> rest = flat(*data->rest(5, 0, taken));
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + static_cast<ptrdiff_t>(taken), all.end()));
    taken += first.batches[batch].count;
  }
  EXPECT_EQ(data->rest(5, 0, taken)->batches.size(), 0u);
  auto inside = data->rest(5, 0, 1);
  ASSERT_FALSE(inside);
  EXPECT_NE(inside.error().text().find("stopped inside of an epoch, behind 1 sequences"), std::string::npos);
}

// A file of tokens is one sequence without ends.
TEST_F(SequenceDataTest, TakesTokens) {
  std::string bytes;
  for (char token = 0; token != 9; ++token)
    bytes += std::string{token, 0};
  auto data = read({"tokens=" + write("t.u16", bytes)});
  ASSERT_TRUE(data) << data.error().text();
  EXPECT_EQ(data->samples(), 2u);
  EXPECT_EQ(data->summary().tokens, 8u);
  Batch batch = *data->allocate();
  const std::vector<uint64_t> which = {1};
  data->fill(batch, 0, which);
  EXPECT_EQ(numbers(batch.inputs()[1]), (std::vector<int64_t>{7, 8, -1, -1}));
}

TEST_F(SequenceDataTest, RefusesWrongTexts) {
  expectError(readText(""), Status::Failure, "expects a sequence of at least one token");
  expectError(readText("\n\r\n\n"), Status::Failure, "expects a sequence of at least one token");
  expectError(readText("ab\nc\xc3\n"), Status::Failure,
              "line 2 expects tokens below 128, the model's classes, got 195");
  expectError(read({"tokens=" + write("t.u16", std::string{1, 0, 0, 1})}), Status::Failure,
              "expects tokens below 128, the model's classes, got 256 as element 1");
  expectError(read({"tokens=" + (folder / "none.txt").string()}), Status::Failure, "cannot open");
  expectError(read({}), Status::Usage, "expects a text; say --data tokens=FILE.txt");
  std::string file = write("t.txt", "abc\n");
  EXPECT_TRUE(read({"tokens=" + file, "labels=" + file + ":next"}));
  expectError(read({"tokens=" + file, "labels=" + file}), Status::Usage, "the labels of sequences are the tokens that");
}

TEST_F(SequenceDataTest, RefusesPlansForOtherData) {
  plan[1].inputs.push_back(plan[1].inputs[0]);
  expectError(readText("a\n"), Status::Failure, "entry \"train/4\" expects tokens and labels of 2 sequences by 4");
  plan[1].inputs.pop_back();
  plan[1].inputs[0].type.element = ElementType::F32;
  expectError(readText("a\n"), Status::Failure, "got f32[2,4] for \"tokens\"");
  plan[1].inputs[0].type.element = ElementType::I64;
  plan[2].inputs[1].classes = 0;
  expectError(readText("a\n"), Status::Failure, "got inputs of which not one has labels");
}

} // namespace
} // namespace cleave::runtime::test
