// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of ways to get activations, as flags, files and plans have them.

#include "passes/planner/search/Keeping.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace cleave::search {

static constexpr std::pair<Recompute, llvm::StringLiteral> recomputeNames[] = {{Recompute::None, "none"},
                                                                               {Recompute::Selective, "selective"},
                                                                               {Recompute::Full, "full"},
                                                                               {Recompute::Offload, "offload"}};

llvm::StringRef recomputeName(Recompute recompute) {
  return llvm::find_if(recomputeNames, [&](auto &entry) { return entry.first == recompute; })->second;
}

llvm::ArrayRef<Recompute> waysToKeep(bool offloads) {
  static constexpr Recompute ways[] = {Recompute::None, Recompute::Offload, Recompute::Selective, Recompute::Full},
                             onDevice[] = {Recompute::None, Recompute::Selective, Recompute::Full};
  return offloads ? llvm::ArrayRef(ways) : llvm::ArrayRef(onDevice);
}

std::optional<Recompute> findRecompute(llvm::StringRef name) {
  auto found = llvm::find_if(recomputeNames, [&](auto &entry) { return entry.second == name; });
  return found == std::end(recomputeNames) ? std::nullopt : std::optional(found->first);
}

std::string recomputeText(llvm::ArrayRef<Recompute> bySegment) {
  if (bySegment.empty() || llvm::all_equal(bySegment))
    return recomputeName(bySegment.empty() ? Recompute::None : bySegment.front()).str();
  std::string text;
  while (!bySegment.empty()) {
    size_t count = bySegment.take_while([&](Recompute own) { return own == bySegment.front(); }).size();
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + recomputeName(bySegment.front()).str();
    bySegment = bySegment.drop_front(count);
  }
  return text;
}

std::string recomputeCounts(llvm::ArrayRef<Recompute> bySegment) {
  std::vector<Recompute> sorted(bySegment);
  llvm::sort(sorted, [](Recompute left, Recompute right) { return left > right; });
  return recomputeText(sorted);
}

std::optional<std::vector<Recompute>> parseRecompute(llvm::StringRef text) {
  if (std::optional<Recompute> all = findRecompute(text))
    return std::vector<Recompute>{*all};
  // No model has more operators.
  constexpr size_t mostSegments = 1u << 24;
  std::vector<Recompute> bySegment;
  llvm::SmallVector<llvm::StringRef> runs;
  text.split(runs, ',');
  for (llvm::StringRef run : runs) {
    auto [number, name] = run.trim().split(' ');
    std::optional<Recompute> own = findRecompute(name.trim());
    size_t count = 0;
    if (!own || number.getAsInteger(10, count) || count == 0 || count > mostSegments - bySegment.size())
      return std::nullopt;
    bySegment.insert(bySegment.end(), count, *own);
  }
  return bySegment;
}

} // namespace cleave::search
