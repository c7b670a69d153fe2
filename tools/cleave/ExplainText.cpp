// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as tables of text.

#include "tools/cleave/Explain.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using Align = TextTable::Align;

/// `value` with `decimals` decimals; "-" for nothing at all, which is easier to overlook than 0.0.
static std::string number(double value, unsigned decimals) {
  if (value == 0)
    return "-";
  std::string text;
  raw_string_ostream(text) << format("%.*f", decimals, value);
  return text;
}

static std::string percent(double part, double whole) { return number(whole > 0 ? 100 * part / whole : 0, 1) + " %"; }

static std::string counted(size_t count, StringRef noun) {
  return (Twine(count) + " " + noun + (count == 1 ? "" : "s")).str();
}

/// Whether one decision placed every operator.
static bool sameDecision(const PlanSummary &summary) {
  const std::vector<Operator> &operators = summary.entry.operators;
  return all_of(operators, [&](const Operator &op) { return op.decidedBy == operators.front().decidedBy; });
}

static void printHeader(raw_ostream &out, const PlanSummary &summary) {
  const runtime::PlanContents &plan = summary.plan;
  out << shortened(plan.model, lineWidth - 8) << "\n"
      << "strategy " << plan.strategy << ", " << counted(plan.devices.size(), "device") << ", "
      << counted(summary.entry.operators.size(), "operator") << ", " << number(summary.flops / 1e6, 2)
      << " Mflop a step\n";
  for (const runtime::Mesh &mesh : plan.meshes)
    if (!mesh.axes.empty())
      out << "mesh " << shortened(meshText(mesh), lineWidth - 30) << ", " << counted(mesh.devices.size(), "device")
          << "\n";
  if (!summary.entry.operators.empty() && sameDecision(summary))
    out << "every operator: decided by " << summary.entry.operators.front().decidedBy << "\n";
  auto printPorts = [&](StringRef what, const std::vector<runtime::Port> &ports) {
    for (const runtime::Port &port : ports) {
      std::string type = port.type.text();
      out << what << " " << shortened(port.name, lineWidth - type.size() - what.size() - 2) << " " << type << "\n";
    }
  };
  printPorts("input", summary.entry.inputs);
  printPorts("output", summary.entry.outputs);
}

static void printDevices(raw_ostream &out, const PlanSummary &summary) {
  TextTable table({{"device", Align::Left, 8},
                   {"driver", Align::Left},
                   {"cores", Align::Right},
                   {"operators", Align::Right},
                   {"Mflop", Align::Right},
                   {"moved", Align::Right},
                   {"received", Align::Right},
                   {"parameters", Align::Right},
                   {"arena", Align::Right},
                   {"live at once", Align::Right}});
  for (auto [device, sums] : zip(summary.plan.devices, summary.devices))
    table.addRow({device.name, device.driver, std::to_string(device.cores), std::to_string(sums.operators),
                  number(sums.flops / 1e6, 2), bytesText(sums.bytes), bytesText(sums.receivedBytes),
                  bytesText(sums.parameterBytes), bytesText(sums.arenaBytes), bytesText(sums.liveBytes)});
  out << "\n";
  table.print(out);
}

namespace {
/// A column of the operators' table and how its cells come about.
struct OperatorColumn {
  TextTable::Column column;
  std::function<std::string(const Operator &)> cell;
};
} // namespace

/// The columns that tell operators apart: names get the room of those that would say the same in every row.
static std::vector<OperatorColumn> operatorColumns(const PlanSummary &summary) {
  const std::vector<Operator> &operators = summary.entry.operators;
  std::vector<OperatorColumn> columns = {{{"node", Align::Left, 18}, [](const Operator &op) { return op.name; }},
                                         {{"kind", Align::Left, 5}, [](const Operator &op) { return op.kind; }}};
  bool several = summary.plan.devices.size() > 1;
  bool severalMeshes = any_of(operators, [&](const Operator &op) { return op.mesh != operators.front().mesh; });
  if (severalMeshes)
    columns.push_back({{"device", Align::Left, 5}, [&](const Operator &op) { return summary.deviceNames(op); }});
  if (any_of(operators, [](const Operator &op) { return !op.split.empty(); }))
    columns.push_back({{"split", Align::Left, severalMeshes ? 14u : 22u},
                       [](const Operator &op) { return op.split.empty() ? "-" : op.split; }});
  if (!sameDecision(summary))
    columns.push_back({{"decided by", Align::Left, 8}, [](const Operator &op) { return op.decidedBy; }});
  columns.push_back({{"computed by", Align::Left, 8}, [&](const Operator &op) { return summary.computedBy(op); }});
  columns.push_back({{"Mflop", Align::Right}, [](const Operator &op) { return number(op.flops / 1e6, 2); }});
  columns.push_back({{"KiB moved", Align::Right}, [](const Operator &op) { return number(op.bytes / 1024, 1); }});
  if (several)
    columns.push_back(
        {{"received", Align::Right}, [](const Operator &op) { return number(op.receivedBytes / 1024, 1); }});
  if (any_of(operators, [](const Operator &op) { return op.predictedSeconds >= 0; }))
    columns.push_back({{"predicted us", Align::Right}, [](const Operator &op) {
                         return op.predictedSeconds >= 0 ? number(op.predictedSeconds * 1e6, 1) : "";
                       }});
  return columns;
}

static void printOperators(raw_ostream &out, const PlanSummary &summary) {
  std::vector<OperatorColumn> columns = operatorColumns(summary);
  std::vector<TextTable::Column> titles(columns.size());
  transform(columns, titles.begin(), [](const OperatorColumn &column) { return column.column; });
  TextTable table(std::move(titles));
  for (const Operator &op : summary.entry.operators) {
    std::vector<std::string> cells(columns.size());
    transform(columns, cells.begin(), [&](const OperatorColumn &column) { return column.cell(op); });
    table.addRow(std::move(cells));
  }
  out << "\n";
  table.print(out);
}

/// How many of the kernels come from where.
static void printKernels(raw_ostream &out, const PlanSummary &summary) {
  std::map<std::string, size_t> sources;
  for (const runtime::Kernel &kernel : summary.plan.kernels) {
    const auto *library = std::get_if<runtime::LibraryKernel>(&kernel.body);
    ++sources[library ? library->library : "native code"];
  }
  out << "\n" << counted(summary.plan.kernels.size(), "kernel");
  for (auto [i, source] : enumerate(sources))
    out << (i == 0 ? ": " : ", ") << source.second << " of " << source.first;
  out << "\n";
}

static void printTransfers(raw_ostream &out, const PlanSummary &summary) {
  if (summary.plan.devices.size() < 2)
    return;
  double bytes = 0;
  for (const Transfer &transfer : summary.transfers)
    bytes += static_cast<double>(transfer.bytes);
  out << "\n" << counted(summary.transfers.size(), "transfer") << " a step";
  if (summary.transfers.empty()) {
    out << "\n";
    return;
  }
  out << ", " << bytesText(bytes) << "\n";
  TextTable table({{"producer", Align::Left, 14},
                   {"from", Align::Left, 6},
                   {"to", Align::Left, 6},
                   {"KiB", Align::Right},
                   {"for", Align::Left, 14}});
  for (const Transfer &transfer : summary.transfers)
    table.addRow({transfer.node, summary.plan.devices[transfer.from].name, summary.plan.devices[transfer.to].name,
                  number(static_cast<double>(transfer.bytes) / 1024, 1), join(transfer.consumers, ", ")});
  table.print(out);
}

/// "6 collectives a step: 2 all_gather, 4 all_reduce", and each.
static void printCollectives(raw_ostream &out, const PlanSummary &summary) {
  if (summary.collectives.empty())
    return;
  std::map<std::string, size_t> kinds;
  for (const CollectiveSummary &collective : summary.collectives)
    ++kinds[collective.kind];
  out << "\n" << counted(summary.collectives.size(), "collective") << " a step";
  for (auto [i, kind] : enumerate(kinds))
    out << (i == 0 ? ": " : ", ") << kind.second << " " << kind.first;
  out << "\n";
  TextTable table(
      {{"collective", Align::Left}, {"of", Align::Left, 14}, {"mesh", Align::Left, 6}, {"KiB a device", Align::Right}});
  for (const CollectiveSummary &collective : summary.collectives)
    table.addRow({collective.kind, collective.node, summary.plan.meshes[collective.mesh].name,
                  number(static_cast<double>(collective.bytes) / 1024, 1)});
  table.print(out);
}

/// The three operators with most of something.
static void printLargest(raw_ostream &out, const PlanSummary &summary, StringRef title, double Operator::*cost,
                         double total, double unit, StringRef unitName) {
  std::vector<uint32_t> order(summary.entry.operators.size());
  std::iota(order.begin(), order.end(), 0);
  auto costOf = [&](uint32_t i) { return summary.entry.operators[i].*cost; };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return costOf(a) > costOf(b); });
  order.resize(std::min<size_t>(3, order.size()));
  TextTable table({{title.str(), Align::Left, 20},
                   {"device", Align::Left, 6},
                   {unitName.str(), Align::Right},
                   {"of all", Align::Right}});
  for (uint32_t i : order)
    if (costOf(i) > 0)
      table.addRow({summary.entry.operators[i].name, summary.deviceNames(summary.entry.operators[i]),
                    number(costOf(i) / unit, 2), percent(costOf(i), total)});
  out << "\n";
  table.print(out);
}

void explainAsText(raw_ostream &out, const PlanSummary &summary) {
  printHeader(out, summary);
  printDevices(out, summary);
  printOperators(out, summary);
  printKernels(out, summary);
  printTransfers(out, summary);
  printCollectives(out, summary);
  printLargest(out, summary, "largest by work", &Operator::flops, summary.flops, 1e6, "Mflop");
  printLargest(out, summary, "largest by bytes moved", &Operator::bytes, summary.bytes, 1024, "KiB");
}

} // namespace cleave::tool
