// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training data: token files, vocabularies with texts, texts that vocabularies are made of, and samples of numbers. The
// first line says which: "u16", "u32", "txt" and "npy" are files of that ending, "words", "characters" and "bytes" a
// vocabulary and a text with a line "----" between, and "make-words" and "make-characters" a text.

#include "Outcome.h"
#include "ScratchFolder.h"

#include "runtime/training/Dataset.h"
#include "runtime/training/SequenceData.h"

#include <string>

using namespace cleave::runtime;
using cleave::fuzz::countOutcome;
using cleave::fuzz::fail;
using cleave::fuzz::ScratchFolder;

namespace {

constexpr uint64_t classes = 300;
constexpr int64_t samplesOfBatch = 2;

TensorType typeOf(ElementType element, std::vector<int64_t> shape) { return {element, std::move(shape), std::nullopt}; }

/// A step of tokens and their labels; of numbers and labels, where `numbers`.
Entry entryFor(int64_t length, bool numbers) {
  Entry entry;
  entry.name = "train";
  Port first{"x", typeOf(numbers ? ElementType::F32 : ElementType::I64, {samplesOfBatch, length}), 0};
  Port second{"labels", typeOf(ElementType::I64, {samplesOfBatch, length}), classes};
  entry.inputs = {first, second};
  entry.samples = samplesOfBatch;
  return entry;
}

void expectNamed(const Error &error, const std::string &file) {
  if (error.message().find(file) == std::string::npos)
    fail("the message does not name the file: " + error.message());
  countOutcome("refused");
}

/// Every batch of an epoch and all samples in order; labels are classes or -1.
void takeBatches(const TrainingData &data) {
  auto batch = data.allocate();
  if (!batch)
    fail("batches cannot be allocated: " + batch.error().message());
  auto rest = data.rest(/*seed=*/7, /*epoch=*/1, /*taken=*/0);
  BatchOrder all = data.all();
  if (!rest)
    fail("a first epoch cannot begin: " + rest.error().message());
  for (const BatchOrder *order : {&*rest, &all})
    for (const BatchOrder::Item &item : order->batches) {
      data.fill(*batch, item.bucket, order->samplesOf(item));
      const HostTensor &labels = batch->inputs()[1];
      for (uint64_t at = 0; at != labels.bytes().size(); at += sizeof(int64_t))
        if (double label = loadElement(ElementType::I64, labels.bytes().data() + at); label < -1 || label >= classes)
          fail("a label is no class");
      if (batch->labels > labels.bytes().size() / sizeof(int64_t))
        fail("more labels are counted than there are");
    }
  countOutcome("read, and put into batches");
}

void takeSamples(const std::string &file, bool numbers) {
  Entry entry = entryFor(4, numbers);
  std::string labels = numbers ? "" : ":next";
  auto data = Dataset::read(entry, {"x=" + file, "labels=" + file + labels}, {}, "--data");
  if (data)
    takeBatches(*data);
  else
    expectNamed(data.error(), file);
  // As a file of tokens that is one sequence.
  if (numbers)
    return;
  Entry longer = entryFor(6, false);
  entry.bucket = 4;
  longer.bucket = 6;
  auto sequences = SequenceData::read({&entry, &longer}, {"x=" + file}, Vocabulary::ofBytes(), "--data");
  if (!sequences)
    return expectNamed(sequences.error(), file);
  takeBatches(*sequences);
}

void takeText(const ScratchFolder &scratch, TokenKind kind, std::string_view text) {
  static constexpr std::string_view separator = "----\n";
  size_t at = text.find(separator);
  std::string_view tokens = text.substr(0, at);
  std::string_view lines = at == std::string_view::npos ? "" : text.substr(at + separator.size());
  scratch.write("tokens.vocabulary", tokens);
  scratch.write("text.txt", lines);
  std::string file = scratch.file("text.txt");
  auto vocabulary = kind == TokenKind::Bytes ? Expected<Vocabulary>(Vocabulary::ofBytes())
                                             : Vocabulary::read(scratch.file("tokens.vocabulary"), kind);
  if (!vocabulary)
    return expectNamed(vocabulary.error(), scratch.file("tokens.vocabulary"));
  Entry shorter = entryFor(3, false), longer = entryFor(8, false);
  shorter.bucket = 3;
  longer.bucket = 8;
  auto data = SequenceData::read({&shorter, &longer}, {"x=" + file}, *vocabulary, "--data");
  if (!data)
    return expectNamed(data.error(), vocabulary->size() > classes || !vocabulary->end() ? "" : file);
  SequenceSummary summary = data->summary();
  if (summary.tokens > summary.positions || !(summary.padding() >= 0 && summary.padding() <= 1))
    fail("more positions have a label than there are");
  takeBatches(*data);
}

/// What is made of a text reads back, and knows each of its lines.
void makeVocabulary(const ScratchFolder &scratch, TokenKind kind, std::string_view text) {
  for (uint64_t size : {0, 5}) {
    auto made = Vocabulary::make(text, kind, size);
    if (!made) {
      if (made.error().message().find("line ") == std::string::npos)
        fail("the message names no line: " + made.error().message());
      return countOutcome("refused");
    }
    scratch.write("made.vocabulary", *made);
    auto vocabulary = Vocabulary::read(scratch.file("made.vocabulary"), kind);
    if (!vocabulary)
      fail("what was made cannot be read: " + vocabulary.error().message());
    if (size != 0 && vocabulary->size() > size)
      fail("more tokens are made than asked for");
    forEachLine(text, [&](uint64_t, std::string_view line) {
      auto numbers = vocabulary->encode(line);
      if (!numbers)
        fail("a line of the text is not known: " + numbers.error().message());
      for (int64_t number : *numbers)
        if (number < 0 || static_cast<uint64_t>(number) >= vocabulary->size())
          fail("a token's number is none of the vocabulary's");
    });
  }
  countOutcome("made, and read back");
}

void take(const ScratchFolder &scratch, std::string_view text) {
  std::string kind(text.substr(0, text.find('\n')));
  std::string_view rest = text.substr(std::min(kind.size() + 1, text.size()));
  for (const char *ending : {"u16", "u32", "txt", "npy"})
    if (kind == ending) {
      std::string name = "data." + kind;
      scratch.write(name, rest);
      return takeSamples(scratch.file(name), kind == "npy");
    }
  bool makes = kind.starts_with("make-");
  if (auto tokens = findTokenKind(makes ? kind.substr(5) : kind))
    return makes ? makeVocabulary(scratch, *tokens, rest) : takeText(scratch, *tokens, rest);
  countOutcome("of no kind");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ScratchFolder scratch("fuzzed-data");
  take(scratch, {reinterpret_cast<const char *>(data), size});
  return 0;
}
