// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/training/TrainingSets.h"

#include "runtime/training/Dataset.h"
#include "runtime/training/SequenceData.h"

namespace cleave::runtime {

/// What turns text into tokens; of a plan that takes samples of one size, that of bytes, which nothing asks.
static Expected<Vocabulary> readVocabulary(const TrainOptions &options, bool isForSequences) {
  const std::string &file = options.vocabularyFile;
  for (auto [flag, isGiven] : {std::pair("--vocabulary", !file.empty()), {"--tokens", !options.tokens.empty()}})
    if (isGiven && !isForSequences)
      return makeError(Status::Usage, flag, " expects a plan for sequences of text; compile with --buckets");
  if (isForSequences && !options.scales.empty())
    return makeError(Status::Usage, "--scale expects inputs of floating-point numbers, got a plan for sequences");
  auto kind = findTokenKind(!options.tokens.empty() ? options.tokens : file.empty() ? "bytes" : "words");
  if (!kind)
    return makeError(Status::Usage, "--tokens expects bytes, characters or words, got \"", options.tokens, "\"");
  if ((*kind == TokenKind::Bytes) != file.empty())
    return makeError(Status::Usage, "--vocabulary ", file.empty() ? "is expected with" : "does not go with",
                     " --tokens ", options.tokens, "; cleave vocabulary writes one for characters or words");
  return file.empty() ? Vocabulary::ofBytes() : Vocabulary::read(file, *kind);
}

Expected<TrainingSets> TrainingSets::read(const TrainOptions &options, const std::vector<const Entry *> &trained,
                                          const std::vector<const Entry *> &evaluated, bool trains) {
  bool isForSequences = trained.front()->bucket != 0;
  auto vocabulary = readVocabulary(options, isForSequences);
  if (!vocabulary)
    return vocabulary.error();
  auto readSet = [&](const std::vector<const Entry *> &entries, const std::vector<std::string> &bindings,
                     const char *option, std::unique_ptr<TrainingData> &set) {
    if (isForSequences) {
      auto read = SequenceData::read(entries, bindings, *vocabulary, option);
      if (read)
        set = std::make_unique<SequenceData>(std::move(*read));
      return read.error();
    }
    auto read = Dataset::read(*entries.front(), bindings, options.scales, option);
    if (read)
      set = std::make_unique<Dataset>(std::move(*read));
    return read.error();
  };
  TrainingSets sets;
  if (trains)
    if (Error error = readSet(trained, options.data, "--data", sets.training))
      return error;
  if (!options.evaluation.empty())
    if (Error error = readSet(evaluated, options.evaluation, "--eval", sets.evaluation))
      return error;
  return sets;
}

} // namespace cleave::runtime
