// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences of tokens for a plan that has entries for several lengths (Entry::bucket).

#ifndef CLEAVE_RUNTIME_TRAINING_SEQUENCEDATA_H
#define CLEAVE_RUNTIME_TRAINING_SEQUENCEDATA_H

#include "runtime/Plan.h"
#include "runtime/training/TrainingData.h"
#include "runtime/training/Vocabulary.h"

namespace cleave::runtime {

/// How a file is divided over the lengths.
struct BucketUse {
  uint64_t length = 0, sequences = 0, batches = 0;
};
struct SequenceSummary {
  std::vector<BucketUse> buckets; ///< increasing
  /// Positions with a label, and all positions of the batches of an epoch.
  uint64_t tokens = 0, positions = 0;
  uint64_t emptyLines = 0;

  /// The share of positions that only fill sequences and batches up.
  double padding() const {
    return positions == 0 ? 0 : 1 - static_cast<double>(tokens) / static_cast<double>(positions);
  }
};

/// The sequences of a text, a line each, or of a file of tokens, which is one. Each position of a sequence has a token,
/// and as label the one that follows. Of a text, the end of a line is a token (Vocabulary::end), which also stands
/// before the first of each line, so that all tokens of the text are predicted; empty lines are left out. A sequence
/// goes to the smallest length that holds it, and what is longer than the largest is cut into parts of that.
///
/// Each bucket's sequences are shuffled and put into batches, the last of which is filled up; the batches of all
/// buckets are shuffled then (RandomOrder.h, from the seed, the bucket and the epoch).
class SequenceData : public TrainingData {
public:
  /// `entries`: by increasing bucket, with inputs of [samples, bucket]: tokens, and labels (Port::classes). `bindings`
  /// are as for Dataset; the labels follow from the tokens, for which "TOKENS:next" may stand. Errors name the file and
  /// the line.
  static Expected<SequenceData> read(std::vector<const Entry *> entries, const std::vector<std::string> &bindings,
                                     const Vocabulary &vocabulary, const char *option);

  uint64_t samples() const override { return sequences.size(); }
  Expected<BatchOrder> rest(uint64_t seed, uint64_t epoch, uint64_t taken) const override;
  BatchOrder all() const override;
  Expected<Batch> allocate() const override;
  void fill(Batch &batch, uint32_t bucket, std::span<const uint64_t> which) const override;
  bool masks() const override { return true; }
  bool isText() const override { return true; }

  SequenceSummary summary() const;

private:
  /// Positions [begin, begin + length) of `tokens`; the label of each is the token behind it.
  struct Sequence {
    uint64_t begin = 0, length = 0;
  };

  Error checkEntries();
  Expected<std::string> findFile(const std::vector<std::string> &bindings, const char *option) const;
  Error readText(const std::string &file, const Vocabulary &vocabulary);
  Error readTokens(const std::string &file);
  Error addToken(int64_t token, const std::string &name);
  /// Cuts what has been read since `begin` into sequences.
  void addSequences(uint64_t begin);
  uint32_t bucketOf(uint64_t length) const;
  uint64_t lengthOf(uint32_t bucket) const { return entries[bucket]->bucket; }
  uint64_t batchSize() const { return entries.front()->samples; }
  /// Batches of the sequences of a bucket, in this order.
  void addBatches(BatchOrder &order, uint32_t bucket, const std::vector<uint64_t> &which) const;

  std::vector<const Entry *> entries;
  uint32_t tokensInput = 0, labelsInput = 0;
  std::vector<int64_t> tokens;
  std::vector<Sequence> sequences;
  std::vector<std::vector<uint64_t>> members; ///< by bucket, its sequences
  uint64_t emptyLines = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_SEQUENCEDATA_H
