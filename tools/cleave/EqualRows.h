// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a table that say the same of different things, as one: the devices of a data-parallel mesh, the stages
// between the first and the last.

#ifndef CLEAVE_TOOLS_CLEAVE_EQUALROWS_H
#define CLEAVE_TOOLS_CLEAVE_EQUALROWS_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::tool {

struct EqualRows {
  std::vector<uint32_t> indices; ///< of the things, ascending
  std::vector<std::string> cells;
};

/// Things 0 to `count` - 1 grouped by their cells, in the order of each group's first; each a group of its own unless
/// `fold`.
std::vector<EqualRows> groupEqualRows(size_t count, bool fold,
                                      llvm::function_ref<std::vector<std::string>(uint32_t)> cellsOf);

/// "0", "1..6", "0,2,4..9".
std::string rangesText(const std::vector<uint32_t> &indices);

/// How many rows a list shows that is not to fill pages.
inline constexpr size_t rowLimit = 24;

/// "… 12 more; --all shows them", or nothing for none.
std::string moreText(size_t hidden);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_EQUALROWS_H
