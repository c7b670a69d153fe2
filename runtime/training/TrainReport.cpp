// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers of a training run as text and JSON.

#include "runtime/training/TrainReport.h"

#include "runtime/Json.h"
#include "runtime/Printable.h"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

namespace cleave::runtime {

/// "loss 0.4512" and perhaps ", perplexity 1.5702", ", accuracy 83.21 %".
static std::string lossText(double loss, bool isText, const std::optional<double> &accuracy) {
  std::ostringstream text;
  text << "loss " << std::setprecision(5) << loss;
  if (isText)
    text << ", perplexity " << std::exp(loss);
  if (accuracy)
    text << ", accuracy " << std::fixed << std::setprecision(2) << 100 * *accuracy << " %";
  return text.str();
}

void printEpoch(std::ostream &out, const EpochResult &result) {
  std::ostringstream text;
  text << "epoch " << result.epoch << ": " << lossText(result.loss, result.isText, result.accuracy);
  if (result.evaluation)
    text << "; evaluation "
         << lossText(result.evaluation->loss, result.evaluation->isText, result.evaluation->accuracy);
  text << "; " << result.steps << (result.steps == 1 ? " step" : " steps") << std::fixed << std::setprecision(3) << ", "
       << result.seconds << " s, " << std::setprecision(0) << result.samplesPerSecond << " samples/s\n";
  out << text.str() << std::flush;
}

void printEvaluation(std::ostream &out, const EvaluationResult &result) {
  out << "evaluation: " << lossText(result.loss, result.isText, result.accuracy) << "; " << result.samples
      << " samples\n";
}

/// "0 (25), 1 (75)": how often each number was there.
static void printCounts(std::ostream &out, const char *what, const std::vector<uint64_t> &counts) {
  const char *between = what;
  for (size_t number = 0; number != counts.size(); ++number)
    if (counts[number] != 0)
      out << std::exchange(between, ", ") << number << " (" << counts[number] << ")";
}

static void writeCounts(std::ostream &out, const std::vector<uint64_t> &counts) {
  out << "[";
  for (size_t number = 0; number != counts.size(); ++number)
    out << (number ? ", " : "") << counts[number];
  out << "]";
}

void TrainReport::print(std::ostream &out) const {
  std::ostringstream text;
  text << steps << (steps == 1 ? " step" : " steps") << " of " << batch << " samples";
  if (resumedFrom)
    text << " after the first " << *resumedFrom;
  text << std::fixed << std::setprecision(3) << ", " << seconds << " s in all\n";
  if (sequences) {
    text << "  sequences of up to";
    for (size_t i = 0; i != sequences->buckets.size(); ++i)
      text << (i ? ", " : " ") << sequences->buckets[i].length << " (" << sequences->buckets[i].sequences << ")";
    text << " tokens; " << std::setprecision(1) << 100 * sequences->padding() << " % of " << sequences->positions
         << " positions an epoch are padding\n";
    if (sequences->emptyLines != 0)
      text << "  " << sequences->emptyLines << " empty lines were left out\n";
  }
  if (replicas != 0) {
    text << "  " << replicas << " replicas made " << versions << " versions and exchanged " << exchanged << " bytes";
    printCounts(text, "; steps that the slowest was behind: ", staleness.ahead);
    printCounts(text, "; versions between a step's beginning and its end: ", staleness.versions);
    text << "\n";
  }
  for (const DeviceMemory &device : devices)
    text << "  " << device.device << ": " << device.allocatedBytes << " bytes, planned " << device.plannedBytes << "\n";
  out << printable(text.str());
}

static void writeSequences(std::ostream &out, const SequenceSummary &sequences) {
  out << "  \"buckets\": [";
  for (size_t i = 0; i != sequences.buckets.size(); ++i) {
    const BucketUse &bucket = sequences.buckets[i];
    out << (i ? ", " : "") << "{\"length\": " << bucket.length << ", \"sequences\": " << bucket.sequences
        << ", \"batches\": " << bucket.batches << "}";
  }
  out << "],\n  \"tokens\": " << sequences.tokens << ",\n  \"padding\": " << JsonNumber{sequences.padding()}
      << ",\n  \"empty_lines\": " << sequences.emptyLines << ",\n";
}

static void writeEvaluation(std::ostream &out, const EvaluationResult &result) {
  out << "\"eval_loss\": " << JsonNumber{result.loss};
  if (result.isText)
    out << ", \"eval_perplexity\": " << JsonNumber{std::exp(result.loss)};
  if (result.accuracy)
    out << ", \"eval_accuracy\": " << JsonNumber{*result.accuracy};
  out << ", \"eval_samples\": " << result.samples << ", \"eval_seconds\": " << JsonNumber{result.seconds};
}

void TrainReport::writeJson(std::ostream &out) const {
  out << "{\n  \"steps_done\": " << steps << ",\n";
  if (resumedFrom)
    out << "  \"resumed_from\": " << *resumedFrom << ",\n";
  out << "  \"batch\": " << batch << ",\n  \"samples\": " << samples << ",\n  \"seconds\": " << JsonNumber{seconds}
      << ",\n";
  if (sequences)
    writeSequences(out, *sequences);
  out << "  \"epochs\": [";
  for (size_t i = 0; i != epochs.size(); ++i) {
    const EpochResult &epoch = epochs[i];
    out << (i ? "," : "") << "\n    {\"epoch\": " << epoch.epoch << ", \"steps\": " << epoch.steps
        << ", \"loss\": " << JsonNumber{epoch.loss};
    if (epoch.isText)
      out << ", \"perplexity\": " << JsonNumber{std::exp(epoch.loss)};
    if (epoch.accuracy)
      out << ", \"accuracy\": " << JsonNumber{*epoch.accuracy};
    if (epoch.evaluation) {
      out << ", ";
      writeEvaluation(out, *epoch.evaluation);
    }
    out << ", \"seconds\": " << JsonNumber{epoch.seconds}
        << ", \"samples_per_second\": " << JsonNumber{epoch.samplesPerSecond} << "}";
  }
  out << "\n  ]";
  if (evaluation) {
    out << ",\n  \"evaluation\": {";
    writeEvaluation(out, *evaluation);
    out << "}";
  }
  if (hasLosses) {
    out << ",\n  \"steps\": [";
    for (size_t i = 0; i != losses.size(); ++i)
      out << (i ? "," : "") << "\n    {\"step\": " << resumedFrom.value_or(0) + i + 1
          << ", \"loss\": " << JsonNumber{losses[i]} << "}";
    out << "\n  ]";
  }
  if (replicas != 0) {
    out << ",\n  \"replicas\": " << replicas << ",\n  \"versions\": " << versions
        << ",\n  \"exchanged_bytes\": " << exchanged << ",\n  \"steps_ahead\": ";
    writeCounts(out, staleness.ahead);
    out << ",\n  \"versions_between\": ";
    writeCounts(out, staleness.versions);
  }
  out << ",\n  \"devices\": [";
  uint64_t peak = 0;
  for (size_t i = 0; i != devices.size(); ++i) {
    peak = std::max(peak, devices[i].allocatedBytes);
    out << (i ? "," : "") << "\n    {\"name\": " << JsonString{devices[i].device}
        << ", \"planned_bytes\": " << devices[i].plannedBytes << ", \"allocated_bytes\": " << devices[i].allocatedBytes
        << "}";
  }
  out << "\n  ],\n  \"peak_bytes\": " << peak << "\n}\n";
}

void TrainProgress::onStep(const TrainPosition &position, const StepOutcome &outcome, uint64_t stepsOfEpoch,
                           uint64_t batch) {
  constexpr auto pause = std::chrono::milliseconds(200);
  auto now = Clock::now();
  if (!isTerminal || (shown && now - lastShown < pause))
    return;
  std::ostringstream text;
  text << "\r\x1b[Kepoch " << position.epoch + 1 << ": step " << position.epochSteps << " of " << stepsOfEpoch
       << ", loss " << std::setprecision(5) << outcome.loss;
  if (isText)
    text << ", perplexity " << std::exp(outcome.loss);
  if (outcome.correct && position.labels != 0)
    text << ", accuracy " << std::fixed << std::setprecision(1)
         << 100 * static_cast<double>(position.correct) / static_cast<double>(position.labels) << " %";
  double since = std::chrono::duration<double>(now - lastShown).count();
  if (shown && since > 0)
    text << ", " << std::fixed << std::setprecision(0)
         << static_cast<double>((position.steps - lastSteps) * batch) / since << " samples/s";
  out << text.str() << std::flush;
  shown = true;
  lastShown = now;
  lastSteps = position.steps;
}

void TrainProgress::clear() {
  if (shown)
    out << "\r\x1b[K" << std::flush;
  shown = false;
}

} // namespace cleave::runtime
