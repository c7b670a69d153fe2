// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies the body of a linalg operation, with its questions about loops and tensors answered.

#include "passes/codegen/NestBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

Operation *joinIn(linalg::LinalgOp op, unsigned result) {
  Block *body = op.getBlock();
  BlockArgument soFar = op.getMatchingBlockArgument(op.getDpsInitOperand(result));
  Operation *join = body->getTerminator()->getOperand(result).getDefiningOp();
  if (!join || join->getBlock() != body || !soFar.hasOneUse() || *soFar.user_begin() != join ||
      join->getNumOperands() != 2 || !join->hasOneUse())
    return nullptr;
  bool joins = isa<arith::AddFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp, arith::AddIOp, arith::MulIOp,
                   arith::MaxSIOp, arith::MinSIOp, arith::AndIOp, arith::OrIOp>(join);
  return joins ? join : nullptr;
}

/// Inside the loops of a body.
static void replaceReads(OpBuilder &builder, Operation *cloned, const BodySource &source) {
  OpBuilder::InsertionGuard guard(builder);
  cloned->walk([&](Operation *inner) {
    builder.setInsertionPoint(inner);
    if (auto position = dyn_cast<linalg::IndexOp>(inner))
      position.replaceAllUsesWith(source.loopIndex(position.getDim()));
    else if (auto extract = dyn_cast<tensor::ExtractOp>(inner))
      extract.replaceAllUsesWith(source.loadElement(extract.getTensor(), extract.getIndices()));
    else
      return;
    inner->erase();
  });
}

SmallVector<Value> writeBody(OpBuilder &builder, linalg::LinalgOp op, IRMapping &mapping, const BodySource &source) {
  Block *body = op.getBlock();
  // Values from outside: constants, which the new function has none of yet.
  body->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (definition && !isa<RankedTensorType>(operand.getType()) && !op->isProperAncestor(definition) &&
          !mapping.contains(operand))
        mapping.map(operand, builder.clone(*definition)->getResult(0));
    }
  });
  for (Operation &inner : body->without_terminator()) {
    if (auto position = dyn_cast<linalg::IndexOp>(inner)) {
      mapping.map(position.getResult(), source.loopIndex(position.getDim()));
    } else if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      auto indices = llvm::map_to_vector(extract.getIndices(), [&](Value i) { return mapping.lookupOrDefault(i); });
      mapping.map(extract.getResult(), source.loadElement(extract.getTensor(), indices));
    } else {
      replaceReads(builder, builder.clone(inner, mapping), source);
    }
  }
  return llvm::map_to_vector(body->getTerminator()->getOperands(),
                             [&](Value yielded) { return mapping.lookupOrDefault(yielded); });
}

} // namespace cleave
