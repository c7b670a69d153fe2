// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of a nest's loops: which run through memory as one, and which suit as the innermost.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVELEVELS_H
#define CLEAVE_PASSES_CODEGEN_NATIVELEVELS_H

#include "passes/codegen/NativeNests.h"

namespace cleave {

/// Whether two levels run through memory like one: a step of the outer one is a whole run of the inner one.
bool canJoin(const Nest &nest, const Level &outer, const Level &inner);

/// Makes `outer` the level of the loops of both.
void join(Level &outer, const Level &inner);

/// Joins pairs of levels for as long as `join(outer, inner)` finds one that it can join into its first.
template <typename Levels, typename Join> void joinPairs(Levels &levels, Join join) {
  auto joinOne = [&] {
    for (size_t i = 0; i < levels.size(); ++i)
      for (size_t j = 0; j < levels.size(); ++j)
        if (i != j && join(levels[i], levels[j])) {
          levels.erase(levels.begin() + j);
          return true;
        }
    return false;
  };
  while (joinOne())
    ;
}

/// Joins all levels that run through memory like one.
void joinLevels(const Nest &nest, llvm::SmallVectorImpl<Level> &levels);

/// The level that suits best as the innermost one: along it loads and stores lie one after the other. Expects at least
/// one.
unsigned bestInnermost(const Nest &nest, llvm::ArrayRef<Level> levels);

/// Around a tile: what moves the result outside what stays in registers, and outermost what moves the operand of which
/// each element serves all lanes: its few elements stay close while the result moves. `rows`: there are so many of them
/// that the other's stay close instead, and of sums along several levels one after the other is added to the result.
void orderAroundTile(Nest &nest, bool rows);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVELEVELS_H
