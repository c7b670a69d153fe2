// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks operators whether they may share a kernel.

#include "passes/codegen/KernelFusion.h"

#include "dialects/interfaces/Interfaces.h"

using namespace mlir;

namespace cleave {

bool readsOnce(OpOperand &use) {
  auto op = dyn_cast<SplitInterface>(use.getOwner());
  if (!op)
    return false;
  SplitRule rule = op.getSplitRule();
  size_t seen = 0;
  for (const DimFactors &dim : rule.operands[use.getOperandNumber()]) {
    if (dim.size() != 1)
      return false;
    FactorKind kind = rule.factors[dim.front()].kind;
    if (kind != FactorKind::Parallel && kind != FactorKind::Reduction)
      return false;
    ++seen;
  }
  return seen == rule.factors.size();
}

bool isSum(Operation *op) {
  auto cost = dyn_cast<CostInterface>(op);
  if (!isa<LowerInterface>(op) || op->getNumResults() != 1 || !cost)
    return false;
  CostClass kind = cost.getCost().costClass;
  return kind == CostClass::Contraction || kind == CostClass::Reduction;
}

bool mayJoin(Operation *producer, OpOperand &use) {
  if (!isa<ElementwiseInterface>(producer) && !(isSum(producer) && isa<ElementwiseInterface>(use.getOwner())))
    return false;
  return readsOnce(use);
}

} // namespace cleave
