// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every device does in a step, equal ones in one row.

#include "compiler/Figures.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace cleave::tool {

using Align = TextTable::Align;

/// The unit of the devices' column of work.
static std::pair<double, StringRef> workUnit(const PlanSummary &summary) {
  double scale = summary.flops > 0 ? stepWork(summary) / summary.flops : 1, largest = 0;
  for (const DeviceSummary &device : summary.devices)
    largest = std::max(largest, device.flops * scale);
  return cleave::workUnit(largest);
}

/// Before its programs are made, a plan knows what a device will need at most, not how its arena is used.
std::vector<std::string> deviceTitles(const PlanSummary &summary) {
  std::vector<std::string> titles = {"device", "driver",  "cores", "operators", workUnit(summary).second.str(),
                                     "moved",  "received"};
  if (summary.entry.isDecision())
    titles.push_back("peak memory");
  else
    titles.insert(titles.end(), {"parameters", "arena", "live at once"});
  return titles;
}

std::vector<EqualRows> deviceRows(const PlanSummary &summary, bool fold) {
  // Of a decision about training, operators are those of the model's own batch, forward.
  double unit = workUnit(summary).first * (summary.flops > 0 ? summary.flops / stepWork(summary) : 1);
  auto rows = groupEqualRows(summary.devices.size(), fold, [&](uint32_t i) {
    const runtime::PlanDevice &device = summary.plan.devices[i];
    const DeviceSummary &sums = summary.devices[i];
    std::vector<std::string> cells = {device.driver,
                                      std::to_string(device.cores),
                                      std::to_string(sums.operators),
                                      numberText(sums.flops / unit, 2),
                                      summary.entry.isDecision() ? "-" : bytesText(sums.bytes),
                                      summary.entry.isDecision() ? "-" : bytesText(sums.receivedBytes)};
    if (summary.entry.isDecision())
      cells.push_back(bytesText(summary.peakBytes(i)));
    else
      cells.insert(cells.end(), {bytesText(sums.parameterBytes), bytesText(static_cast<double>(sums.arenaBytes)),
                                 bytesText(static_cast<double>(sums.liveBytes))});
    return cells;
  });
  for (EqualRows &row : rows)
    row.cells.insert(row.cells.begin(), summary.deviceNames(row.indices));
  return rows;
}

void explainDevices(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  std::vector<TextTable::Column> columns;
  for (const std::string &title : deviceTitles(summary))
    columns.push_back({title, columns.size() < 2 ? Align::Left : Align::Right});
  columns.front().minimum = 8;
  for (TextTable::Column &column : columns)
    column.optional = column.title == "cores" || column.title == "live at once";
  TextTable table(std::move(columns));
  // A few devices each have their row, so that each can be pointed at.
  bool fold = detail == Detail::Folded && summary.devices.size() > 8;
  auto rows = deviceRows(summary, fold);
  size_t shown = fold ? std::min(rows.size(), rowLimit) : rows.size();
  for (EqualRows &row : MutableArrayRef(rows).take_front(shown))
    table.addRow(std::move(row.cells));
  out << "\n";
  table.print(out);
  out << moreText(rows.size() - shown);
}

} // namespace cleave::tool
