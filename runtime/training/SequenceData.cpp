// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a file once, sorts its sequences into buckets, and fills batches with them.

#include "runtime/training/SequenceData.h"

#include "runtime/Generator.h"
#include "runtime/MappedFile.h"
#include "runtime/PortBinding.h"
#include "runtime/training/RandomOrder.h"
#include "runtime/training/SampleData.h"

#include <algorithm>

namespace cleave::runtime {

/// Inputs of each length are alike: tokens and labels by sequence and position.
Error SequenceData::checkEntries() {
  for (const Entry *entry : entries) {
    auto refuse = [&](const auto &...got) {
      return makeError(Status::Failure, "entry \"", entry->name, "\" expects tokens and labels of ", entry->samples,
                       " sequences by ", entry->bucket, " positions to be trained on text, got ", got...);
    };
    if (entry->inputs.size() != 2)
      return refuse(entry->inputs.size(), " inputs");
    for (const Port &port : entry->inputs)
      if (isFloatingPoint(port.type.element) ||
          port.type.shape != std::vector{static_cast<int64_t>(entry->samples), static_cast<int64_t>(entry->bucket)})
        return refuse(port.type.text(), " for \"", port.name, "\"");
    labelsInput = entry->inputs[0].classes != 0 ? 0 : 1;
    tokensInput = 1 - labelsInput;
    if (entry->inputs[labelsInput].classes == 0 || entry->inputs[tokensInput].classes != 0)
      return refuse("inputs of which not one has labels");
    if (entry->samples != batchSize())
      return refuse("batches of another size than the ", batchSize(), " of entry \"", entries.front()->name, "\"");
  }
  members.resize(entries.size());
  return Error::success();
}

/// The file of the tokens; that of the labels may only say the same.
Expected<std::string> SequenceData::findFile(const std::vector<std::string> &bindings, const char *option) const {
  const std::vector<Port> &ports = entries.front()->inputs;
  auto files = bindPorts(bindings, ports, option);
  if (!files)
    return files.error();
  const std::optional<std::string> &file = (*files)[tokensInput], &labels = (*files)[labelsInput];
  if (!file)
    return makeError(Status::Usage, "input \"", ports[tokensInput].name, "\" ", ports[tokensInput].type.text(),
                     " expects a text; say ", option, " ", ports[tokensInput].name, "=FILE.txt");
  if (labels && *labels != *file + ":next")
    return makeError(Status::Usage, "the labels of sequences are the tokens that follow: ", option, " ",
                     ports[labelsInput].name, "=", *file, ":next, which need not be said; got \"", *labels, "\"");
  return *file;
}

Expected<SequenceData> SequenceData::read(std::vector<const Entry *> entries, const std::vector<std::string> &bindings,
                                          const Vocabulary &vocabulary, const char *option) {
  SequenceData data;
  data.entries = std::move(entries);
  if (Error error = data.checkEntries())
    return error;
  auto file = data.findFile(bindings, option);
  if (!file)
    return file.error();
  Error error = file->ends_with(".txt") ? data.readText(*file, vocabulary) : data.readTokens(*file);
  if (!error && data.sequences.empty())
    error = makeError(Status::Failure, "expects a sequence of at least one token and the one that follows, got none");
  if (error)
    return Error(error.status(), "data for \"" + data.entries.front()->inputs[data.tokensInput].name + "\" from \"" +
                                     *file + "\": " + error.message());
  for (uint64_t sequence = 0; sequence != data.sequences.size(); ++sequence)
    data.members[data.bucketOf(data.sequences[sequence].length)].push_back(sequence);
  return data;
}

Error SequenceData::addToken(int64_t token, const std::string &name) {
  auto classes = static_cast<int64_t>(entries.front()->inputs[labelsInput].classes);
  if (token < 0 || token >= classes)
    return makeError(Status::Failure, "expects tokens below ", classes, ", the model's classes, got ", name,
                     "; take another vocabulary, or a model with more classes");
  tokens.push_back(token);
  return Error::success();
}

Error SequenceData::readText(const std::string &file, const Vocabulary &vocabulary) {
  auto mapping = MappedFile::open(file);
  if (!mapping)
    return mapping.error();
  auto bytes = mapping->bytes();
  Error failed;
  auto readLine = [&](std::string_view line) -> Error {
    auto encoded = vocabulary.encode(line);
    if (!encoded)
      return encoded.error();
    if (encoded->empty()) {
      ++emptyLines;
      return Error::success();
    }
    if (auto end = vocabulary.end()) {
      encoded->insert(encoded->begin(), *end);
      encoded->push_back(*end);
    }
    uint64_t begin = tokens.size();
    for (int64_t token : *encoded)
      if (Error error = addToken(token, vocabulary.nameOf(token)))
        return error;
    addSequences(begin);
    return Error::success();
  };
  forEachLine({reinterpret_cast<const char *>(bytes.data()), bytes.size()},
              [&](uint64_t number, std::string_view line) {
                if (failed)
                  return;
                if (Error error = readLine(line))
                  failed = makeError(error.status(), "line ", number, " ", error.message());
              });
  return failed;
}

Error SequenceData::readTokens(const std::string &file) {
  auto tensor = readNumbers(file);
  if (!tensor)
    return tensor.error();
  const TensorType &type = tensor->type();
  if (type.shape.size() != 1 || isFloatingPoint(type.element))
    return makeError(Status::Failure, "expects tokens, integers in one dimension, got ", type.text());
  unsigned width = elementBytes(type.element);
  for (uint64_t i = 0; i != *type.elementCount(); ++i) {
    auto token = static_cast<int64_t>(loadElement(type.element, tensor->bytes().data() + i * width));
    if (Error error = addToken(token, std::to_string(token) + " as element " + std::to_string(i)))
      return error;
  }
  addSequences(0);
  return Error::success();
}

void SequenceData::addSequences(uint64_t begin) {
  uint64_t largest = entries.back()->bucket;
  // The last token only is a label.
  for (; begin + 1 < tokens.size(); begin += largest)
    sequences.push_back({begin, std::min(largest, tokens.size() - 1 - begin)});
}

uint32_t SequenceData::bucketOf(uint64_t length) const {
  auto found = std::ranges::lower_bound(entries, length, std::less(), &Entry::bucket);
  return static_cast<uint32_t>(found - entries.begin());
}

//===-- batches -----------------------------------------------------------------------------------------------===//

void SequenceData::addBatches(BatchOrder &order, uint32_t bucket, const std::vector<uint64_t> &which) const {
  for (uint64_t begin = 0; begin < which.size(); begin += batchSize())
    order.batches.push_back({bucket, order.samples.size() + begin, std::min(batchSize(), which.size() - begin)});
  order.samples.insert(order.samples.end(), which.begin(), which.end());
}

BatchOrder SequenceData::all() const {
  BatchOrder order;
  for (uint32_t bucket = 0; bucket != members.size(); ++bucket)
    addBatches(order, bucket, members[bucket]);
  return order;
}

Expected<BatchOrder> SequenceData::rest(uint64_t seed, uint64_t epoch, uint64_t taken) const {
  BatchOrder inOrder;
  for (uint32_t bucket = 0; bucket != members.size(); ++bucket) {
    std::vector<uint64_t> which;
    for (uint64_t member : randomOrder(members[bucket].size(), randomWord(seed, bucket), epoch))
      which.push_back(members[bucket][member]);
    addBatches(inOrder, bucket, which);
  }
  BatchOrder order{std::move(inOrder.samples), {}};
  uint64_t passed = 0;
  for (uint64_t batch : randomOrder(inOrder.batches.size(), seed, epoch)) {
    if (passed >= taken)
      order.batches.push_back(inOrder.batches[batch]);
    else
      passed += inOrder.batches[batch].count;
  }
  if (passed != taken)
    return makeError(Status::Failure, "the run stopped inside of an epoch, behind ", taken,
                     " sequences, where no batch of this plan begins; go on with a plan of the same --batch and "
                     "--buckets");
  return order;
}

Expected<Batch> SequenceData::allocate() const {
  Batch batch;
  for (const Entry *entry : entries) {
    auto inputs = allocateTensors(entry->inputs);
    if (!inputs)
      return inputs.error();
    batch.tensors.push_back(std::move(*inputs));
  }
  return batch;
}

void SequenceData::fill(Batch &batch, uint32_t bucket, std::span<const uint64_t> which) const {
  batch.bucket = bucket;
  batch.samples = which.size();
  batch.labels = 0;
  uint64_t length = lengthOf(bucket);
  for (uint32_t input : {tokensInput, labelsInput}) {
    bool isLabel = input == labelsInput;
    ElementType element = entries[bucket]->inputs[input].type.element;
    std::byte *target = batch.inputs()[input].bytes().data();
    for (uint64_t place = 0; place != batchSize(); ++place) {
      bool isMeant = place < which.size();
      const Sequence &sequence = sequences[which[isMeant ? place : 0]];
      batch.labels += isLabel && isMeant ? sequence.length : 0;
      for (uint64_t position = 0; position != length; ++position, target += elementBytes(element)) {
        // Behind its end a sequence has any token, whose label counts for nothing.
        bool isInside = position < sequence.length;
        const int64_t *token = &tokens[sequence.begin];
        if (isLabel)
          storeElement(element, target, isInside && isMeant ? static_cast<double>(token[position + 1]) : -1);
        else
          storeElement(element, target, isInside ? static_cast<double>(token[position]) : 0);
      }
    }
  }
}

SequenceSummary SequenceData::summary() const {
  SequenceSummary summary;
  summary.emptyLines = emptyLines;
  for (uint32_t bucket = 0; bucket != members.size(); ++bucket) {
    uint64_t count = members[bucket].size(), batches = (count + batchSize() - 1) / batchSize();
    summary.buckets.push_back({lengthOf(bucket), count, batches});
    summary.positions += batches * batchSize() * lengthOf(bucket);
  }
  for (const Sequence &sequence : sequences)
    summary.tokens += sequence.length;
  return summary;
}

} // namespace cleave::runtime
