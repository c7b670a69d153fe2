// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operators of a plan as a table of text, and those that cost most.

#include "compiler/Figures.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using Align = TextTable::Align;

static bool sameDecision(const PlanSummary &summary) {
  const std::vector<Operator> &operators = summary.entry.operators;
  return all_of(operators, [&](const Operator &op) { return op.decidedBy == operators.front().decidedBy; });
}

static bool hasTimes(const PlanSummary &summary) {
  return any_of(summary.entry.operators, [](const Operator &op) { return op.predictedSeconds >= 0; });
}

void explainDecision(raw_ostream &out, const PlanSummary &summary) {
  const std::vector<Operator> &operators = summary.entry.operators;
  if (!operators.empty() && sameDecision(summary))
    out << "every operator: decided by " << shortened(operators.front().decidedBy, lineWidth() - 32) << "\n";
}

namespace {
/// A column of the operators' table, and how its cells come about.
struct OperatorColumn {
  TextTable::Column column;
  std::function<std::string(const Operator &)> cell;
  /// What a row of folded layers shows the sum of; none for columns that say nothing about several operators.
  std::function<double(const Operator &)> quantity;
  std::function<std::string(double)> text;
};
} // namespace

/// A column of numbers, which folded layers add up.
static OperatorColumn quantityColumn(StringRef title, std::function<double(const Operator &)> quantity,
                                     std::function<std::string(double)> text) {
  return {{title.str(), Align::Right}, [=](const Operator &op) { return text(quantity(op)); }, quantity, text};
}

static std::string kibibytes(double bytes) { return numberText(bytes / 1024, 1); }

/// Seconds, in the unit that suits the largest.
static OperatorColumn secondsColumn(StringRef title, double Operator::*seconds, const PlanSummary &summary) {
  double largest = 0;
  for (const Operator &op : summary.entry.operators)
    largest = std::max(largest, op.*seconds);
  // Most operators take microseconds, and would be nothing in seconds.
  auto [scale, unit] = largest >= 100   ? std::pair(1.0, "s")
                       : largest >= 0.1 ? std::pair(1e3, "ms")
                                        : std::pair(1e6, "us");
  return quantityColumn((title + unit).str(), [=](const Operator &op) { return std::max(0.0, op.*seconds); },
                        [=](double value) { return numberText(value * scale, 1); });
}

/// Parameters and results, in the unit that suits the largest.
static OperatorColumn memoryColumn(const PlanSummary &summary) {
  auto bytesOf = [](const Operator &op) { return op.parameterBytes + op.resultBytes; };
  double largest = 0;
  for (const Operator &op : summary.entry.operators)
    largest = std::max(largest, bytesOf(op));
  auto [unit, name] = largest >= 0x1p34   ? std::pair(0x1p30, "GiB")
                      : largest >= 0x1p20 ? std::pair(0x1p20, "MiB")
                                          : std::pair(0x1p10, "KiB");
  return quantityColumn(name, bytesOf, [unit = unit](double bytes) { return numberText(bytes / unit, 1); });
}

/// "batch/data, out_channel/model" for "batch/data 8, out_channel/model 4": the meshes above say how many parts there
/// are.
static std::string withoutSizes(StringRef split) {
  std::string result;
  for (size_t i = 0; i != split.size(); ++i) {
    if (split[i] == ' ' && i + 1 != split.size() && isDigit(split[i + 1]))
      while (i + 1 != split.size() && isDigit(split[i + 1]))
        ++i;
    else
      result += split[i];
  }
  return result.empty() ? "-" : result;
}

static void addKernelColumn(std::vector<OperatorColumn> &columns, const PlanSummary &summary) {
  columns.push_back({{"computed by", Align::Left, 8, /*optional=*/true},
                     [&](const Operator &op) { return summary.computedBy(op); },
                     nullptr,
                     nullptr});
}

/// What the table says about costs where times are predicted: them, and the best alternative, or where no search has
/// looked for one, the kernel.
static void addPredictedColumns(std::vector<OperatorColumn> &columns, const PlanSummary &summary) {
  const std::vector<Operator> &operators = summary.entry.operators;
  if (!summary.isSearched())
    addKernelColumn(columns, summary);
  columns.push_back(secondsColumn("", &Operator::predictedSeconds, summary));
  if (any_of(operators, [](const Operator &op) { return op.communicationSeconds > 0; }))
    columns.push_back(secondsColumn("comm. ", &Operator::communicationSeconds, summary));
  columns.push_back(memoryColumn(summary));
  if (none_of(operators, [](const Operator &op) { return !op.alternative.empty(); }))
    return;
  columns.push_back({{"best other", Align::Left, 10},
                     [](const Operator &op) { return withoutSizes(op.alternative); },
                     nullptr,
                     nullptr});
  const runtime::Prediction *prediction = summary.prediction();
  double step = prediction ? prediction->stepSeconds : -1;
  columns.push_back({{"step", Align::Right},
                     [step](const Operator &op) {
                       if (op.alternative.empty() || op.alternativeSeconds < 0)
                         return std::string("-");
                       return step > 0 ? changeText(op.alternativeSeconds, step) : secondsText(op.alternativeSeconds);
                     },
                     nullptr,
                     nullptr});
}

static void addWorkColumns(std::vector<OperatorColumn> &columns, const PlanSummary &summary) {
  addKernelColumn(columns, summary);
  double largest = 0;
  for (const Operator &op : summary.entry.operators)
    largest = std::max(largest, op.flops);
  auto [unit, name] = workUnit(largest);
  columns.push_back(quantityColumn(
      name, [](const Operator &op) { return op.flops; },
      [unit = unit](double flops) { return numberText(flops / unit, 2); }));
  columns.push_back(quantityColumn("KiB moved", [](const Operator &op) { return op.bytes; }, kibibytes));
  if (summary.plan.devices.size() > 1)
    columns.push_back(quantityColumn("received", [](const Operator &op) { return op.receivedBytes; }, kibibytes));
}

/// The columns that tell operators apart: names get the room of those that would say the same in every row.
static std::vector<OperatorColumn> operatorColumns(const PlanSummary &summary) {
  const std::vector<Operator> &operators = summary.entry.operators;
  std::vector<OperatorColumn> columns;
  auto addText = [&](StringRef title, unsigned minimum, std::function<std::string(const Operator &)> cell) {
    columns.push_back({{title.str(), Align::Left, minimum}, std::move(cell), nullptr, nullptr});
  };
  addText("node", 14, [](const Operator &op) { return op.name; });
  addText("kind", 5, [](const Operator &op) { return op.kind; });
  columns.back().column.optional = true;
  bool severalMeshes = any_of(operators, [&](const Operator &op) { return op.mesh != operators.front().mesh; });
  const runtime::Prediction *prediction = summary.prediction();
  if (prediction && prediction->stages.size() > 1)
    addText("stage", 0, [](const Operator &op) { return std::to_string(op.stage); });
  else if (severalMeshes)
    addText("device", 5, [&](const Operator &op) { return summary.deviceNames(op); });
  if (any_of(operators, [](const Operator &op) { return !op.split.empty(); }))
    addText("split", 12, [brief = summary.isSearched()](const Operator &op) {
      return brief ? withoutSizes(op.split) : op.split.empty() ? "-" : op.split;
    });
  if (!sameDecision(summary))
    addText("decided by", 8, [brief = hasTimes(summary)](const Operator &op) {
      StringRef decision = op.decidedBy;
      return (brief && decision.consume_front("propagation ") ? decision : StringRef(op.decidedBy)).str();
    });
  if (hasTimes(summary))
    addPredictedColumns(columns, summary);
  else
    addWorkColumns(columns, summary);
  return columns;
}

/// The row of layers that are like those above: their sums.
static std::vector<std::string> foldedCells(ArrayRef<OperatorColumn> columns, const PlanSummary &summary,
                                            const RepeatedLayers &layers) {
  auto folded = ArrayRef(summary.entry.operators).slice(layers.first, layers.end() - layers.first);
  std::vector<std::string> cells;
  for (const OperatorColumn &column : columns) {
    double sum = 0;
    if (column.quantity)
      for (const Operator &op : folded.drop_front(layers.period))
        sum += column.quantity(op);
    cells.push_back(column.quantity ? column.text(sum) : "");
  }
  cells[0] = layers.others() + ":";
  // Where there is room, and the column is never left out.
  size_t beside = 1;
  for (auto [i, column] : enumerate(columns))
    if (column.column.title == "split" || (column.column.title == "decided by" && beside == 1))
      beside = i;
  cells[beside] = "as " + layers.labels.front();
  if (columns[2].column.title == "stage") {
    uint32_t first = folded[layers.period].stage, last = folded.back().stage;
    cells[2] = std::to_string(first) + (first == last ? "" : ".." + std::to_string(last));
  }
  return cells;
}

/// What the splits in the table cut, in the words of the factors' names (Indexing.cpp, Contraction.cpp, Movement.cpp).
static void printLegend(raw_ostream &out, ArrayRef<Operator> operators) {
  std::set<std::string> names;
  for (const Operator &op : operators)
    for (StringRef part : split(StringRef(op.split), ", "))
      names.insert(part.take_until([](char c) { return c == '/'; }).rtrim("0123456789").str());
  static constexpr std::pair<StringLiteral, StringLiteral> meanings[] = {
      {"d", "dN: dimension N of the result, from 0"},
      {"batch", "batch: samples, or a product's first rows; batchN: what there is a product of for each"},
      {"m", "mN: another dimension of a product's rows, as the positions of a sequence"},
      {"out_channel", "out_channel: columns of a weight"},
      {"in_channel", "in_channel: what a product sums over"},
      {"index", "indexN: dimension N of what is looked up"}};
  SmallVector<StringRef> present;
  for (auto [name, meaning] : meanings)
    if (names.count(name.str()))
      present.push_back(meaning);
  if (!present.empty())
    out << "  a split is what is cut / the axis of the mesh along which it is\n";
  for (StringRef meaning : present)
    out << "    " << meaning << "\n";
}

void explainOperators(raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding) {
  std::vector<OperatorColumn> columns = operatorColumns(summary);
  std::vector<TextTable::Column> titles(columns.size());
  transform(columns, titles.begin(), [](const OperatorColumn &column) { return column.column; });
  TextTable table(std::move(titles));
  for (const LayerFolding::Row &row : folding.rows()) {
    if (row.layers) {
      table.addRow(foldedCells(columns, summary, *row.layers));
      continue;
    }
    std::vector<std::string> cells(columns.size());
    transform(columns, cells.begin(),
              [&](const OperatorColumn &column) { return column.cell(summary.entry.operators[row.index]); });
    table.addRow(std::move(cells));
  }
  out << "\n";
  table.print(out);
  if (!folding.repetitions().empty())
    out << "  rows of equal layers are sums; --all shows every operator\n";
  printLegend(out, summary.entry.operators);
}

/// The three operators, those of equal layers together, with most of something.
static void printLargest(raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding, StringRef title,
                         function_ref<double(const Operator &)> costOf, StringRef unitName,
                         function_ref<std::string(double)> text) {
  const std::vector<Operator> &operators = summary.entry.operators;
  std::vector<double> costs(operators.size());
  std::vector<uint32_t> counts(operators.size());
  double total = 0;
  for (auto [i, op] : enumerate(operators)) {
    uint32_t shown = folding.shownFor(static_cast<uint32_t>(i));
    costs[shown] += costOf(op);
    ++counts[shown];
    total += costOf(op);
  }
  if (total == 0)
    return;
  std::vector<uint32_t> order(operators.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
  order.resize(std::min<size_t>(3, order.size()));
  bool repeated = any_of(order, [&](uint32_t i) { return counts[i] > 1; });
  std::vector<TextTable::Column> columns = {{title.str(), Align::Left, 20}};
  columns.push_back(repeated ? TextTable::Column{"times", Align::Right} : TextTable::Column{"device", Align::Left, 6});
  columns.push_back({unitName.str(), Align::Right});
  columns.push_back({"of all", Align::Right});
  TextTable table(std::move(columns));
  for (uint32_t i : order)
    if (costs[i] > 0)
      table.addRow({operators[i].name, repeated ? std::to_string(counts[i]) : summary.deviceNames(operators[i]),
                    text(costs[i]), percentText(costs[i], total)});
  out << "\n";
  table.print(out);
}

void explainLargest(raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding) {
  if (hasTimes(summary)) {
    printLargest(
        out, summary, folding, "largest by time", [](const Operator &op) { return std::max(0.0, op.predictedSeconds); },
        "time", secondsText);
    printLargest(
        out, summary, folding, "largest by communication",
        [](const Operator &op) { return std::max(0.0, op.communicationSeconds); }, "time", secondsText);
    return;
  }
  printLargest(out, summary, folding, "largest by work", [](const Operator &op) { return op.flops; }, "work", workText);
  printLargest(
      out, summary, folding, "largest by bytes moved", [](const Operator &op) { return op.bytes; }, "bytes", bytesText);
}

} // namespace cleave::tool
