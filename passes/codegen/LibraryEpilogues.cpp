// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows results with one reader as long as the readers can be epilogues.

#include "passes/codegen/LibraryEpilogues.h"

#include "passes/codegen/DimensionOrder.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Accumulation.h"
#include "dialects/dist/Dist.h"

using namespace mlir;

namespace cleave {

/// The value of a parameter, which steps may write, perhaps under another shape.
static bool isParameter(Value value) {
  while (auto reshape = value.getDefiningOp<dfg::ReshapeOp>())
    value = reshape.getInput();
  return isa_and_nonnull<dfg::ReadOp, dist::ShardOfOp>(value.getDefiningOp());
}

SmallVector<Epilogue> epiloguesBehind(Operation *op, const LibraryCall &call, ConstantValues &constants) {
  SmallVector<Epilogue> epilogues;
  Operation *last = op;
  while (last->getResult(0).hasOneUse() && !last->hasAttr(dist::accumulatesAttrName)) {
    OpOperand &use = *last->getResult(0).getUses().begin();
    auto library = dyn_cast<LibraryInterface>(use.getOwner());
    if (!library || use.getOwner()->getBlock() != op->getBlock())
      break;
    auto kind = library.getLibraryEpilogue(use.getOperandNumber());
    if (failed(kind))
      break;
    Epilogue epilogue{use.getOwner(), *kind, nullptr};
    if (kind->otherOperand >= 0) {
      epilogue.other = use.getOwner()->getOperand(kind->otherOperand);
      // What was not walked yet has no layout yet; parameters do not depend on the walk.
      Operation *definition = epilogue.other.getDefiningOp();
      bool isKnown = constants.contains(epilogue.other) || isParameter(epilogue.other);
      if (definition && !definition->isBeforeInBlock(op) && !isKnown)
        break;
      RankedTensorType type = tensorType(epilogue.other), result = tensorType(op->getResult(0));
      int64_t dim = call.biasDim - (result.getRank() - type.getRank());
      epilogue.isBias = epilogues.empty() && kind->kind == "binary_add" && call.biasDim >= 0 && dim >= 0 &&
                        type.getNumElements() == result.getDimSize(call.biasDim) &&
                        type.getDimSize(dim) == type.getNumElements() && isKnown;
    }
    epilogues.push_back(epilogue);
    last = use.getOwner();
  }
  return epilogues;
}

} // namespace cleave
