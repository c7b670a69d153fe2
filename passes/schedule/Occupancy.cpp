// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A map of disjoint ranges of bytes.

#include "passes/schedule/Occupancy.h"

#include <algorithm>

namespace cleave::schedule {

std::vector<unsigned> Occupancy::take(unsigned value, uint64_t offset, uint64_t bytes) {
  std::vector<unsigned> previous;
  if (bytes == 0)
    return previous;
  uint64_t end = offset + bytes;
  auto next = holders.upper_bound(offset);
  if (next != holders.begin() && std::prev(next)->second.end > offset)
    --next;
  while (next != holders.end() && next->first < end) {
    auto [begin, holder] = *next;
    if (std::find(previous.begin(), previous.end(), holder.value) == previous.end())
      previous.push_back(holder.value);
    next = holders.erase(next);
    if (begin < offset)
      holders.emplace(begin, Holder{offset, holder.value});
    if (holder.end > end)
      next = holders.emplace(end, holder).first;
  }
  holders.emplace(offset, Holder{end, value});
  return previous;
}

} // namespace cleave::schedule
