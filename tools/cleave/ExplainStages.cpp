// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the planner expects of a plan and what else it considered, as text.

#include "compiler/Figures.h"
#include "compiler/PlanMachine.h"
#include "passes/planner/search/Keeping.h"
#include "tools/cleave/EqualRows.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/ScheduleNames.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave::tool {

using runtime::MemoryUse;
using runtime::PlanStage;
using runtime::Prediction;
using Align = TextTable::Align;

void explainPrediction(raw_ostream &out, const PlanSummary &summary) {
  const Prediction *prediction = summary.prediction();
  if (!prediction)
    return;
  std::string line = "predicted for " + shortened(prediction->machine, lineWidth() / 3) +
                     (prediction->training ? ", training" : "") + ": step " + secondsText(prediction->bestSeconds());
  if (prediction->simulatedSeconds >= 0)
    line += " simulated";
  if (prediction->simulatedSeconds >= 0 && summary.isSearched())
    line += " (" + secondsText(prediction->stepSeconds) + " by the search)";
  // The two together are often too long for a line.
  if (std::string rate = summary.modelFlopsText(); !rate.empty())
    line += (line.size() + 2 + rate.size() > lineWidth() ? "\n" : ", ") + rate;
  out << line << "\n";
  if (StepCalibration calibration = calibrationOf(*prediction); calibration.step != 1 && prediction->bestSeconds() > 0)
    out << "of it a factor of " << fixedText(calibration.step, 3) << " by "
        << (calibration.steps ? countText(calibration.steps, "measured step") : "calibration") << "; "
        << secondsText(prediction->bestSeconds() / calibration.step) << " without\n";
  out << "peak memory " << bytesText(summary.peakBytes()) << " a device";
  if (prediction->memoryLimit > 0)
    out << " of " << bytesText(prediction->memoryLimit) << " ("
        << percentText(summary.peakBytes(), prediction->memoryLimit) << ")";
  out << "\n";
  std::vector<std::string> facts;
  if (!prediction->degrees.empty())
    facts.push_back(shortened(degreesText(prediction->degrees), lineWidth() / 2));
  if (!prediction->stages.empty())
    facts.push_back(countText(prediction->stages.size(), "stage"));
  if (summary.isSearched() || prediction->microbatches != 1)
    facts.push_back(std::to_string(prediction->microbatches) +
                    (prediction->microbatches == 1 ? " microbatch" : " microbatches"));
  if (!prediction->schedule.empty())
    facts.push_back("schedule " + scheduleText(*prediction));
  if (!facts.empty())
    out << join(facts, ", ") << "\n";
  if (std::string bound = summary.boundText(); !bound.empty())
    out << "lower bound " << bound << "\n";
}

/// Microbatches: a chunk of a stage keeps a part of one.
static std::string inFlightText(const Prediction &prediction, const PlanStage &stage) {
  return fixedText(static_cast<double>(stage.inFlight) / prediction.chunks, stage.inFlight % prediction.chunks ? 2 : 0);
}

static std::string shortMilliseconds(double seconds) { return numberText(seconds * 1e3, 2); }

/// The operators of every stage.
static std::vector<uint32_t> operatorCounts(const PlanSummary &summary, const Prediction &prediction) {
  std::vector<uint32_t> counts(prediction.stages.size());
  for (const runtime::Operator &op : summary.entry.operators)
    if (op.stage < counts.size())
      ++counts[op.stage];
  return counts;
}

/// A table of stages: the columns after the stage's number, and a stage's cells. Equal ones share a row.
static void printStageTable(raw_ostream &out, const PlanSummary &summary, Detail detail,
                            std::vector<TextTable::Column> columns, bool withDevices,
                            function_ref<std::vector<std::string>(uint32_t)> cellsOf) {
  const std::vector<PlanStage> &stages = summary.prediction()->stages;
  std::vector<TextTable::Column> all = {{"stage", Align::Left, 6}};
  if (withDevices)
    all.push_back({"devices", Align::Left, 12});
  all.insert(all.end(), columns.begin(), columns.end());
  TextTable table(std::move(all));
  auto rows = groupEqualRows(stages.size(), detail == Detail::Folded, cellsOf);
  size_t shown = detail == Detail::Folded ? std::min(rows.size(), rowLimit) : rows.size();
  for (EqualRows &row : MutableArrayRef(rows).take_front(shown)) {
    std::vector<std::string> cells = {rangesText(row.indices)};
    if (withDevices) {
      std::vector<uint32_t> devices;
      for (uint32_t stage : row.indices)
        append_range(devices, summary.plan.meshes[stages[stage].mesh].devices);
      cells.push_back(summary.deviceNames(devices));
    }
    append_range(cells, row.cells);
    table.addRow(std::move(cells));
  }
  out << "\n";
  table.print(out);
  out << moreText(rows.size() - shown);
}

std::string recomputeCell(const PlanStage &stage) {
  auto bySegment = search::parseRecompute(stage.recompute);
  return bySegment ? search::recomputeCounts(*bySegment) : stage.recompute;
}

static void printTimes(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  const Prediction &prediction = *summary.prediction();
  std::vector<uint32_t> counts = operatorCounts(summary, prediction);
  std::vector<TextTable::Column> columns = {{"ops", Align::Right}, {"F ms", Align::Right}};
  if (prediction.training)
    columns.insert(columns.end(), {{"B ms", Align::Right}, {"W ms", Align::Right}});
  columns.insert(columns.end(), {{"send ms", Align::Right}, {"a step", Align::Right}});
  if (prediction.training)
    columns.insert(columns.end(), {{"in flight", Align::Right}, {"recompute", Align::Left, 7}, {"zero", Align::Right}});
  printStageTable(out, summary, detail, columns, /*withDevices=*/true, [&](uint32_t index) {
    const PlanStage &stage = prediction.stages[index];
    std::vector<std::string> cells = {std::to_string(counts[index]), shortMilliseconds(stage.forward)};
    if (prediction.training)
      cells.insert(cells.end(), {shortMilliseconds(stage.backwardInput), shortMilliseconds(stage.backwardWeight)});
    cells.insert(cells.end(), {shortMilliseconds(stage.send), shortMilliseconds(stage.perStep)});
    if (prediction.training)
      cells.insert(cells.end(), {inFlightText(prediction, stage), recomputeCell(stage), std::to_string(stage.zero)});
    return cells;
  });
}

static void printMemory(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  const Prediction &prediction = *summary.prediction();
  std::vector<TextTable::Column> columns;
  for (StringRef title : {"parameters", "gradients", "optimizer", "activations", "transient", "a device"})
    columns.push_back({title.str(), Align::Right});
  if (prediction.memoryLimit > 0)
    columns.push_back({"of limit", Align::Right});
  bool usesHost = llvm::any_of(prediction.stages, [](const PlanStage &stage) { return stage.memory.host > 0; });
  if (usesHost)
    columns.push_back({"in the host", Align::Right});
  printStageTable(out, summary, detail, columns, /*withDevices=*/false, [&](uint32_t index) {
    const MemoryUse &memory = prediction.stages[index].memory;
    std::vector<std::string> cells;
    for (double bytes :
         {memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.transient, memory.total()})
      cells.push_back(bytes == 0 ? "-" : bytesText(bytes));
    if (prediction.memoryLimit > 0)
      cells.push_back(percentText(memory.total(), prediction.memoryLimit));
    if (usesHost)
      cells.push_back(memory.host == 0 ? "-" : bytesText(memory.host));
    return cells;
  });
}

/// What crosses from stage to stage in the graph.
static void printCuts(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  TextTable table(
      {{"cut", Align::Left, 8}, {"tensors", Align::Right}, {"bytes", Align::Right}, {"of", Align::Left, 20}});
  size_t shown = detail == Detail::All ? summary.cuts.size() : std::min(summary.cuts.size(), rowLimit);
  for (const MeshCut &cut : ArrayRef(summary.cuts).take_front(shown)) {
    std::string producers;
    for (uint32_t producer : cut.producers)
      producers += (producers.empty() ? "" : ", ") + summary.entry.operators[producer].name;
    table.addRow({std::to_string(cut.fromStage) + " to " + std::to_string(cut.toStage),
                  std::to_string(cut.producers.size()), bytesText(cut.bytes), producers});
  }
  out << "\n";
  table.print(out);
  out << moreText(summary.cuts.size() - shown);
}

void explainStages(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  const Prediction *prediction = summary.prediction();
  if (!prediction || prediction->stages.empty())
    return;
  printTimes(out, summary, detail);
  printMemory(out, summary, detail);
  if (!summary.cuts.empty())
    printCuts(out, summary, detail);
}

void explainAlternatives(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  const Prediction *prediction = summary.prediction();
  if (!prediction || prediction->alternatives.empty())
    return;
  TextTable table({{"also considered", Align::Left, 24},
                   {"step", Align::Right},
                   {"against this", Align::Right},
                   {"memory", Align::Right},
                   {"why not", Align::Left, 24}});
  const auto &alternatives = prediction->alternatives;
  size_t shown = detail == Detail::All ? alternatives.size() : std::min(alternatives.size(), rowLimit);
  for (const runtime::Alternative &other : ArrayRef(alternatives).take_front(shown)) {
    bool runs = other.seconds >= 0;
    std::string whyNot = !other.whyNot.empty()                             ? other.whyNot
                         : runs && other.seconds > prediction->stepSeconds ? "slower"
                                                                           : "-";
    table.addRow({other.name, secondsText(other.seconds),
                  runs && prediction->stepSeconds > 0 ? changeText(other.seconds, prediction->stepSeconds) : "-",
                  other.peakBytes > 0 ? bytesText(other.peakBytes) : "-", whyNot});
  }
  out << "\n";
  table.print(out);
  out << moreText(alternatives.size() - shown);
}

} // namespace cleave::tool
