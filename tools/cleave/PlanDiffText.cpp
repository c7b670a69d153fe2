// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The difference of two plans as text.

#include "compiler/Figures.h"
#include "tools/cleave/EqualRows.h"
#include "tools/cleave/PlanDiff.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace cleave::tool {

using Align = TextTable::Align;
using NumberText = std::string (*)(double);

static std::string bytesOrNone(double bytes) { return bytes < 0 ? "-" : bytesText(bytes); }
static std::string countOrNone(double count) { return count < 0 ? "-" : std::to_string(static_cast<uint64_t>(count)); }
static std::string orNone(const std::string &text) { return text.empty() ? "-" : text; }

static std::string change(const NumberChange &number) {
  return number.before < 0 || number.after < 0 ? "" : changeText(number.after, number.before);
}

static void printPlan(raw_ostream &out, const PlanDiff &diff) {
  TextTable table({{"plan", Align::Left}, {"first", Align::Left, 20}, {"second", Align::Left, 20}, {"", Align::Right}});
  for (const TextChange &fact : diff.plan)
    table.addRow({fact.name, orNone(fact.before), orNone(fact.after), ""});
  for (const NumberChange &total : diff.totals) {
    auto text = total.name == "seconds" ? secondsText : bytesOrNone;
    StringRef name = total.name == "seconds" ? StringRef("step") : StringRef(total.name).drop_back(strlen(" bytes"));
    table.addRow({name.str(), text(total.before), text(total.after), change(total)});
  }
  if (!diff.plan.empty() || !diff.totals.empty()) {
    out << "\n";
    table.print(out);
  }
}

/// Operators that changed from the same to the same in one row.
static void printTexts(raw_ostream &out, StringRef title, ArrayRef<TextChange> changes, size_t limit = rowLimit) {
  if (changes.empty())
    return;
  auto rows = groupEqualRows(changes.size(), /*fold=*/true, [&](uint32_t i) -> std::vector<std::string> {
    return {orNone(changes[i].before), orNone(changes[i].after)};
  });
  TextTable table({{title.str(), Align::Left, 18},
                   {"to", Align::Left, 18},
                   {"operators", Align::Right},
                   {"which", Align::Left, 24}});
  size_t shown = std::min(rows.size(), limit);
  for (const EqualRows &row : ArrayRef(rows).take_front(shown)) {
    std::string names = changes[row.indices.front()].name;
    if (row.indices.size() > 1)
      names += (row.indices.size() > 2 ? " .. " : ", ") + changes[row.indices.back()].name;
    table.addRow({row.cells[0], row.cells[1], std::to_string(row.indices.size()), names});
  }
  out << "\n";
  table.print(out);
  if (shown != rows.size())
    out << "  … " << rows.size() - shown << " more; --format json has them\n";
}

/// The numbers that changed most, most first; equal changes in one row.
static void printNumbers(raw_ostream &out, StringRef title, std::vector<NumberChange> changes, NumberText text,
                         bool inOrder) {
  if (changes.empty())
    return;
  if (!inOrder)
    llvm::stable_sort(changes, [](const NumberChange &a, const NumberChange &b) {
      return std::abs(a.difference()) > std::abs(b.difference());
    });
  auto rows = groupEqualRows(changes.size(), /*fold=*/true, [&](uint32_t i) -> std::vector<std::string> {
    return {text(changes[i].before), text(changes[i].after), change(changes[i])};
  });
  TextTable table(
      {{title.str(), Align::Left, 24}, {"first", Align::Right}, {"second", Align::Right}, {"change", Align::Right}});
  size_t shown = std::min<size_t>(rows.size(), 12);
  for (const EqualRows &row : ArrayRef(rows).take_front(shown)) {
    std::string names = changes[row.indices.front()].name;
    if (row.indices.size() > 1)
      names += ", and " + std::to_string(row.indices.size() - 1) + " like it";
    table.addRow({names, row.cells[0], row.cells[1], row.cells[2]});
  }
  out << "\n";
  table.print(out);
  if (shown != rows.size())
    out << "  … " << rows.size() - shown << " more; --format json has them\n";
}

static void printNames(raw_ostream &out, StringRef title, ArrayRef<std::string> names) {
  if (!names.empty())
    out << "\n"
        << title << ": " << countText(names.size(), "operator") << ": "
        << shortened(join(names, ", "), lineWidth() - 50) << "\n";
}

void printDiff(raw_ostream &out, const PlanDiff &diff) {
  size_t operators = diff.first.entry.operators.size();
  if (diff.isEqual()) {
    out << "the plans are equal: " << countText(operators, "operator")
        << ", placed and split alike; memory, communication, predictions\n";
    return;
  }
  out << "of " << countText(operators, "operator") << " " << diff.moved.size() << " moved, " << diff.split.size()
      << " are split otherwise, " << diff.removed.size() << " are gone, " << diff.added.size() << " are new\n";
  const runtime::Prediction *expected = diff.first.prediction();
  bool isChanged = any_of(diff.totals, [](const NumberChange &total) { return total.name == "seconds"; });
  if (expected && expected->bestSeconds() >= 0 && !isChanged)
    out << "a step is expected to take as long, " << secondsText(expected->bestSeconds()) << "\n";
  printPlan(out, diff);
  printNames(out, "only in the first", diff.removed);
  printNames(out, "only in the second", diff.added);
  printTexts(out, "moved from", diff.moved);
  printTexts(out, "split", diff.split);
  printTexts(out, "decided by", diff.decided, /*limit=*/8);
  printNumbers(out, "operators of stage", diff.stageOperators, countOrNone, /*inOrder=*/true);
  printNumbers(out, "time of stage", diff.stageSeconds, secondsText, /*inOrder=*/true);
  printNumbers(out, "memory of stage", diff.stageBytes, bytesOrNone, /*inOrder=*/true);
  printNumbers(out, "memory of device", diff.deviceBytes, bytesOrNone, /*inOrder=*/true);
  printNumbers(out, "time of operator", diff.seconds, secondsText, /*inOrder=*/false);
  printNumbers(out, "received by operator", diff.received, bytesOrNone, /*inOrder=*/false);
}

} // namespace cleave::tool
