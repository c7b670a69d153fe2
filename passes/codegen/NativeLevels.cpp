// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Levels are compared by how far apart what they read and write lies.

#include "passes/codegen/NativeLevels.h"

#include "passes/codegen/NestBody.h"

using namespace mlir;

namespace cleave {

bool canJoin(const Nest &nest, const Level &outer, const Level &inner) {
  auto isIndexed = [&](unsigned loop) { return nest.indexed[loop]; };
  if (nest.isEmpty() || llvm::any_of(outer.loops, isIndexed) || llvm::any_of(inner.loops, isIndexed) ||
      nest.reduction[outer.loops[0]] != nest.reduction[inner.loops[0]] || outer.range != plan::LoopRange::Whole ||
      inner.range != plan::LoopRange::Whole)
    return false;
  return llvm::all_of(nest.accesses, [&](const std::optional<Access> &access) {
    return !access || outer.step(*access) == inner.step(*access) * inner.size;
  });
}

void join(Level &outer, const Level &inner) {
  outer.size *= inner.size;
  outer.loops.append(inner.loops.begin(), inner.loops.end());
}

/// How badly a level suits as the innermost one: loads and stores one after the other are best.
static double innermostCost(const Nest &nest, const Level &level) {
  double cost = level.size < 8 ? 20 : 0;
  linalg::LinalgOp op = nest.op;
  for (auto [operand, access] : llvm::zip(op->getOpOperands(), nest.accesses)) {
    if (!access)
      continue;
    int64_t step = level.step(*access);
    cost += (step == 0 ? 0 : step == 1 ? 1 : step == -1 ? 2 : 8) * (op.isDpsInit(&operand) ? 2 : 1);
  }
  // Several results at once are not vectorized along a reduction.
  if (nest.reduction[level.loops[0]] && op->getNumResults() > 1)
    cost += 10;
  return cost;
}

/// Whether a level may run inside of all others: of a reduction in order, as that to the first largest element, only
/// the last.
static bool mayBeInnermost(const Nest &nest, ArrayRef<Level> levels, unsigned level) {
  auto isReduction = [&](const Level &each) { return nest.reduction[each.loops[0]]; };
  linalg::LinalgOp op = nest.op;
  auto joins = [&](unsigned result) { return joinIn(op, result) != nullptr; };
  return !isReduction(levels[level]) || llvm::all_of(llvm::seq(op->getNumResults()), joins) ||
         llvm::none_of(levels.drop_front(level + 1), isReduction);
}

unsigned bestInnermost(const Nest &nest, ArrayRef<Level> levels) {
  unsigned best = levels.size() - 1;
  for (unsigned i = levels.size(); i-- > 0;)
    if (mayBeInnermost(nest, levels, i) && innermostCost(nest, levels[i]) < innermostCost(nest, levels[best]))
      best = i;
  return best;
}

void joinLevels(const Nest &nest, SmallVectorImpl<Level> &levels) {
  joinPairs(levels, [&](Level &outer, const Level &inner) {
    bool possible = canJoin(nest, outer, inner);
    if (possible)
      join(outer, inner);
    return possible;
  });
}

void orderAroundTile(Nest &nest, bool rows) {
  const Access &result = *nest.accesses[2];
  auto isSum = [&](const Level &level) { return level.step(result) == 0; };
  auto last = llvm::find_if(llvm::reverse(nest.inner), isSum);
  unsigned innermost = last == nest.inner.rend() ? 0 : last->loops.back();
  auto rank = [&](const Level &level) {
    unsigned other = rows ? nest.tile->vectors : 1 - nest.tile->vectors;
    if (isSum(level))
      return rows && level.loops.back() != innermost ? -1 : 2;
    return level.step(*nest.accesses[other]) == 0 ? 1 : 0;
  };
  llvm::stable_sort(nest.inner, [&](const Level &a, const Level &b) { return rank(a) < rank(b); });
}

} // namespace cleave
