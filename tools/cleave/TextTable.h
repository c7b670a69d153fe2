// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables of text that fit a line.

#ifndef CLEAVE_TOOLS_CLEAVE_TEXTTABLE_H
#define CLEAVE_TOOLS_CLEAVE_TEXTTABLE_H

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace cleave::tool {

/// The columns that text reports keep to: those of the terminal, or of COLUMNS where it is set. What goes to a pipe or
/// a file is as wide as it is.
unsigned lineWidth();

/// Lets lines be as long as they are from now on, for who asks for all.
void widenLines();

/// A table whose columns are as wide as their cells, and then narrowed until the line fits: cells of the widest
/// columns that may shrink lose their middle to an ellipsis. Before columns become narrower than twice their minimum,
/// optional ones are left out, the last first.
class TextTable {
public:
  enum class Align { Left, Right };
  struct Column {
    std::string title;
    Align align = Align::Left;
    /// The column may become this narrow; 0: it keeps its width.
    unsigned minimum = 0;
    bool optional = false;
  };

  explicit TextTable(std::vector<Column> columns) : columns(std::move(columns)) {}
  /// One cell a column.
  void addRow(std::vector<std::string> cells);
  /// Prints title line and rows, each indented by two.
  void print(llvm::raw_ostream &out, unsigned width = lineWidth()) const;

private:
  std::vector<unsigned> naturalWidths() const;
  void leaveOut(std::vector<bool> &shown, const std::vector<unsigned> &natural, unsigned width) const;
  std::vector<unsigned> fittedWidths(std::vector<bool> &shown, unsigned width) const;

  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

/// `text` in at most `width` columns, its middle replaced by an ellipsis where it is too long.
std::string shortened(llvm::StringRef text, unsigned width);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_TEXTTABLE_H
