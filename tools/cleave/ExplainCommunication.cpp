// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices give each other in a step, as tables of text.

#include "compiler/Figures.h"
#include "tools/cleave/EqualRows.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace cleave::tool {

using Align = TextTable::Align;

/// Transfers of one node from one mesh to another, a row for all the devices that receive it.
static std::vector<ArrayRef<Transfer>> groupedTransfers(ArrayRef<Transfer> transfers) {
  std::vector<ArrayRef<Transfer>> groups;
  while (!transfers.empty()) {
    const Transfer &first = transfers.front();
    size_t count = 1;
    while (count != transfers.size() && transfers[count].node == first.node && transfers[count].to != first.to &&
           transfers[count].fromMesh == first.fromMesh && transfers[count].toMesh == first.toMesh)
      ++count;
    groups.push_back(transfers.take_front(count));
    transfers = transfers.drop_front(count);
  }
  return groups;
}

static void printTransfers(raw_ostream &out, const PlanSummary &summary, Detail detail) {
  if (summary.plan.devices.size() < 2)
    return;
  double bytes = 0;
  for (const Transfer &transfer : summary.transfers)
    bytes += static_cast<double>(transfer.bytes);
  out << "\n" << countText(summary.transfers.size(), "transfer") << " a step";
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
  auto groups = groupedTransfers(summary.transfers);
  size_t shown = detail == Detail::All ? groups.size() : std::min(groups.size(), rowLimit);
  for (ArrayRef<Transfer> group : ArrayRef(groups).take_front(shown)) {
    const Transfer &transfer = group.front();
    std::vector<uint32_t> to;
    for (const Transfer &other : group)
      to.push_back(other.to);
    table.addRow({transfer.node, summary.plan.devices[transfer.from].name, summary.deviceNames(to),
                  numberText(static_cast<double>(transfer.bytes) / 1024, 1), join(transfer.consumers, ", ")});
  }
  table.print(out);
  out << moreText(groups.size() - shown);
}

/// The operator that stands for each in the folded table, by name.
static StringMap<StringRef> shownNames(const PlanSummary &summary, const LayerFolding &folding) {
  StringMap<StringRef> names;
  for (auto [i, op] : enumerate(summary.entry.operators))
    names.try_emplace(op.name, summary.entry.operators[folding.shownFor(static_cast<uint32_t>(i))].name);
  return names;
}

/// "6 collectives a step: 2 all_gather, 4 all_reduce", and each, those of repeated layers in one row.
static void printCollectives(raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding) {
  if (summary.collectives.empty())
    return;
  std::map<std::string, size_t> kinds;
  for (const CollectiveSummary &collective : summary.collectives)
    ++kinds[collective.kind];
  size_t tensors = 0;
  for (const CollectiveSummary &collective : summary.collectives)
    tensors += collective.nodes.size();
  out << "\n" << countText(summary.collectives.size(), "collective") << " a step";
  if (tensors != summary.collectives.size())
    out << " of " << countText(tensors, "tensor");
  for (auto [i, kind] : enumerate(kinds))
    out << (i == 0 ? ": " : ", ") << kind.second << " " << kind.first;
  out << "\n";
  struct Group {
    const CollectiveSummary *first;
    size_t count = 0;
    std::set<uint32_t> meshes;
  };
  StringMap<StringRef> names = shownNames(summary, folding);
  std::vector<Group> groups;
  std::map<std::tuple<StringRef, StringRef, uint64_t, size_t>, size_t> known;
  for (const CollectiveSummary &collective : summary.collectives) {
    StringRef node = names.contains(collective.node) ? names[collective.node] : StringRef(collective.node);
    auto [group, isNew] =
        known.try_emplace({node, collective.kind, collective.bytes, collective.nodes.size()}, groups.size());
    if (isNew || folding.repetitions().empty()) {
      group->second = groups.size();
      groups.push_back({&collective, 0, {}});
    }
    ++groups[group->second].count;
    groups[group->second].meshes.insert(collective.mesh);
  }
  bool repeated = any_of(groups, [](const Group &group) { return group.count > 1; });
  std::vector<TextTable::Column> columns = {{"collective", Align::Left}, {"of", Align::Left, 14}};
  if (repeated)
    columns.push_back({"times", Align::Right});
  columns.insert(columns.end(), {{"mesh", Align::Left, 6}, {"KiB a device", Align::Right}});
  TextTable table(columns);
  for (const Group &group : groups) {
    std::vector<std::string> cells = {group.first->kind, group.first->node};
    if (repeated)
      cells.push_back(std::to_string(group.count));
    cells.push_back(group.meshes.size() == 1 ? summary.plan.meshes[group.first->mesh].name
                                             : std::to_string(group.meshes.size()) + " meshes");
    cells.push_back(numberText(static_cast<double>(group.first->bytes) / 1024, 1));
    table.addRow(std::move(cells));
  }
  table.print(out);
}

void explainCommunication(raw_ostream &out, const PlanSummary &summary, const LayerFolding &folding, Detail detail) {
  if (summary.entry.isDecision())
    return;
  printTransfers(out, summary, detail);
  printCollectives(out, summary, folding);
}

} // namespace cleave::tool
