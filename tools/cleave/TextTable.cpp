// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures, narrows and prints tables.

#include "tools/cleave/TextTable.h"

#include "runtime/Printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"

#include <algorithm>

#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace llvm;

namespace cleave::tool {

static unsigned widthOf(StringRef text) {
  int width = sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : width;
}

std::string shortened(StringRef text, unsigned width) {
  if (widthOf(text) <= width)
    return text.str();
  // Names outside ASCII are cut at character borders: a byte 10xxxxxx continues a character.
  auto isContinuation = [&](size_t i) { return i < text.size() && (static_cast<uint8_t>(text[i]) & 0xc0) == 0x80; };
  size_t head = width / 2, tail = text.size() - (width - 1 - head);
  while (head > 0 && isContinuation(head))
    --head;
  while (isContinuation(tail))
    ++tail;
  return text.take_front(head).str() + "…" + text.drop_front(tail).str();
}

/// More than any line has, and little enough to be added to.
static constexpr unsigned unlimited = 1u << 30;
static bool isWidened = false;

void widenLines() { isWidened = true; }

unsigned lineWidth() {
  constexpr unsigned narrowest = 60;
  if (isWidened)
    return unlimited;
  unsigned columns = 0;
  if (const char *said = std::getenv("COLUMNS"); said && to_integer(said, columns, 10) && columns > 0)
    return std::max(columns, narrowest);
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<unsigned>(size.ws_col, narrowest);
  return unlimited;
}

void TextTable::addRow(std::vector<std::string> cells) {
  cells.resize(columns.size());
  for (std::string &cell : cells)
    cell = runtime::printable(cell);
  rows.push_back(std::move(cells));
}

std::vector<unsigned> TextTable::naturalWidths() const {
  std::vector<unsigned> widths;
  for (auto [i, column] : enumerate(columns)) {
    unsigned widest = widthOf(column.title);
    for (const auto &row : rows)
      widest = std::max(widest, widthOf(row[i]));
    widths.push_back(widest);
  }
  return widths;
}

/// Hides optional columns as long as the others would have to become uncomfortably narrow.
void TextTable::leaveOut(std::vector<bool> &shown, const std::vector<unsigned> &natural, unsigned width) const {
  auto comfortable = [&](size_t i) {
    return columns[i].minimum ? std::min(natural[i], 2 * columns[i].minimum) : natural[i];
  };
  unsigned total = 0;
  for (size_t i = 0; i != columns.size(); ++i)
    total += comfortable(i) + 2;
  for (size_t i = columns.size(); i-- > 0 && total > width;)
    if (columns[i].optional) {
      shown[i] = false;
      total -= comfortable(i) + 2;
    }
}

std::vector<unsigned> TextTable::fittedWidths(std::vector<bool> &shown, unsigned width) const {
  std::vector<unsigned> widths = naturalWidths();
  leaveOut(shown, widths, width);
  unsigned total = 0;
  for (size_t i = 0; i != columns.size(); ++i)
    total += shown[i] ? widths[i] + 2 : 0;
  while (total > width) {
    size_t chosen = columns.size();
    for (size_t i = 0; i != columns.size(); ++i)
      if (shown[i] && columns[i].minimum && widths[i] > columns[i].minimum &&
          (chosen == columns.size() || widths[i] > widths[chosen]))
        chosen = i;
    if (chosen == columns.size())
      break;
    --widths[chosen];
    --total;
  }
  return widths;
}

void TextTable::print(raw_ostream &out, unsigned width) const {
  std::vector<bool> shown(columns.size(), true);
  std::vector<unsigned> widths = fittedWidths(shown, width);
  auto printRow = [&](auto &&cellOf) {
    std::string line;
    for (auto [i, column] : enumerate(columns)) {
      if (!shown[i])
        continue;
      std::string cell = shortened(cellOf(i), widths[i]);
      std::string padding(widths[i] - std::min(widths[i], widthOf(cell)), ' ');
      line += "  " + (column.align == Align::Left ? cell + padding : padding + cell);
    }
    out << StringRef(line).rtrim() << "\n";
  };
  printRow([&](size_t i) { return StringRef(columns[i].title); });
  for (const auto &row : rows)
    printRow([&](size_t i) { return StringRef(row[i]); });
}

} // namespace cleave::tool
