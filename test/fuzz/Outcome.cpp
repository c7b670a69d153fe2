// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts outcomes.

#include "Outcome.h"

#include <algorithm>
#include <string_view>

namespace cleave::fuzz {

OutcomeCounts *outcomeCounts = nullptr;

void OutcomeCounts::add(const char *outcome) {
  std::string_view name = std::string_view(outcome).substr(0, rows.front().name.size() - 1);
  for (Row &row : rows) {
    if (row.count == 0)
      *std::copy(name.begin(), name.end(), row.name.begin()) = '\0';
    if (row.name.data() != name)
      continue;
    ++row.count;
    return;
  }
}

void countOutcome(const char *outcome) {
  if (outcomeCounts)
    outcomeCounts->add(outcome);
}

} // namespace cleave::fuzz
