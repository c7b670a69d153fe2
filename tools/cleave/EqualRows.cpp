// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups equal rows.

#include "tools/cleave/EqualRows.h"

#include <map>

namespace cleave::tool {

std::vector<EqualRows> groupEqualRows(size_t count, bool fold,
                                      llvm::function_ref<std::vector<std::string>(uint32_t)> cellsOf) {
  std::vector<EqualRows> rows;
  std::map<std::vector<std::string>, size_t> known;
  for (uint32_t i = 0; i != count; ++i) {
    std::vector<std::string> cells = cellsOf(i);
    auto [found, isNew] = known.try_emplace(cells, rows.size());
    if (isNew || !fold)
      rows.push_back({{i}, std::move(cells)});
    else
      rows[found->second].indices.push_back(i);
  }
  return rows;
}

std::string rangesText(const std::vector<uint32_t> &indices) {
  std::string text;
  for (size_t i = 0; i < indices.size(); ++i) {
    size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1)
      ++last;
    text += (i == 0 ? "" : ",") + std::to_string(indices[i]);
    if (last > i)
      text += (last > i + 1 ? ".." : ",") + std::to_string(indices[last]);
    i = last;
  }
  return text;
}

std::string moreText(size_t hidden) {
  return hidden == 0 ? "" : "  … " + std::to_string(hidden) + " more; --all shows them\n";
}

} // namespace cleave::tool
