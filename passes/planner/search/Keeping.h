// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a training step keeps in memory: activations, and the state of parameters that replicas may share.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_KEEPING_H
#define CLEAVE_PASSES_PLANNER_SEARCH_KEEPING_H

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace cleave::search {

/// How the backward pass gets activations.
enum class Recompute {
  None,      ///< All are kept.
  Selective, ///< Results of contractions are kept, the rest is computed again.
  Full       ///< What crosses between layers is kept.
};
/// "none", "selective", "full".
llvm::StringRef recomputeName(Recompute recompute);
std::optional<Recompute> findRecompute(llvm::StringRef name);

/// What somebody fixed about what a stage computes again, and what its replicas share: nothing, the optimizer's state
/// (1), gradients as well (2), parameters as well (3). The rest is free.
struct FixedKeeping {
  std::optional<Recompute> recompute;
  std::optional<unsigned> zero;
  bool any() const { return recompute || zero; }
  bool operator==(const FixedKeeping &) const = default;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_KEEPING_H
