// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a training step keeps in memory: activations, and the state of parameters that replicas may share.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_KEEPING_H
#define CLEAVE_PASSES_PLANNER_SEARCH_KEEPING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave::search {

/// How the backward pass gets activations.
enum class Recompute {
  None,      ///< All are kept.
  Selective, ///< Results of contractions are kept, the rest is computed again.
  Full,      ///< What crosses between layers is kept.
  Offload    ///< All are kept in the host's memory.
};
inline constexpr Recompute everyRecompute[] = {Recompute::None, Recompute::Selective, Recompute::Full,
                                               Recompute::Offload};
/// Those from which a stage may choose, with or without the host's memory: what keeps all first.
llvm::ArrayRef<Recompute> waysToKeep(bool offloads);
/// "none", "selective", "full", "offload".
llvm::StringRef recomputeName(Recompute recompute);
std::optional<Recompute> findRecompute(llvm::StringRef name);
/// Of the segments of a stage in their order: "full" where all do the same, else "11 full, 17 none", a part for each
/// run of equal ones.
std::string recomputeText(llvm::ArrayRef<Recompute> bySegment);
/// For people: how many segments do what, wherever they are; each way occurs once.
std::string recomputeCounts(llvm::ArrayRef<Recompute> bySegment);
/// What recomputeText wrote, by segment; a single one where all segments do the same. Nothing for any other text.
std::optional<std::vector<Recompute>> parseRecompute(llvm::StringRef text);

/// What somebody fixed about what a stage computes again, and what its replicas share: nothing, the optimizer's state
/// (1), gradients as well (2), parameters as well (3). The rest is free.
struct FixedKeeping {
  std::optional<Recompute> recompute;
  std::optional<unsigned> zero;
  bool operator==(const FixedKeeping &) const = default;
};

/// The same of one stage, whose segments may differ.
struct StageKeeping : FixedKeeping {
  /// In their order; empty where `recompute` holds for all of them or what they do is free.
  std::vector<Recompute> bySegment;
  bool any() const { return recompute || zero || !bySegment.empty(); }
  /// Takes over what parseRecompute returned.
  void fix(std::vector<Recompute> segments) {
    recompute.reset();
    bySegment.clear();
    if (segments.size() == 1)
      recompute = segments.front();
    else
      bySegment = std::move(segments);
  }
  bool operator==(const StageKeeping &) const = default;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_KEEPING_H
