// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads linalg operations as nests: sizes and kinds of loops, and addresses that are linear in them.

#include "passes/codegen/NativeNests.h"

using namespace mlir;

namespace cleave {

/// Adds `scale` times an affine expression without divisions to an address.
static void addExpression(AffineExpr expr, int64_t scale, Access &access) {
  if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
    access.coefficients[loop.getPosition()] += scale;
  } else if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    access.offset += scale * constant.getValue();
  } else {
    auto binary = cast<AffineBinaryOpExpr>(expr);
    if (expr.getKind() == AffineExprKind::Add) {
      addExpression(binary.getLHS(), scale, access);
      addExpression(binary.getRHS(), scale, access);
    } else {
      assert(expr.getKind() == AffineExprKind::Mul && "lowerings index without divisions");
      addExpression(binary.getLHS(), scale * cast<AffineConstantExpr>(binary.getRHS()).getValue(), access);
    }
  }
}

static Access makeAccess(const View &view, AffineMap map) {
  Access access;
  access.buffer = view.buffer;
  access.offset = view.offset;
  access.coefficients.assign(map.getNumDims(), 0);
  for (auto [expr, stride] : llvm::zip(map.getResults(), view.strides))
    addExpression(expr, stride, access);
  return access;
}

/// A temporary on the stack holds what one iteration of the common loops needs: it does not move with them.
static void splitAccesses(Nest &nest, const Storage &storage, const LoopSplit &split) {
  for (std::optional<Access> &access : nest.accesses) {
    if (!access)
      continue;
    int64_t &outer = access->coefficients[split.loop], step = outer;
    outer = split.isCommon && storage.getBuffers()[access->buffer].isOnStack() ? 0 : step * split.unit;
    access->coefficients.push_back(step);
  }
}

void splitLoop(Nest &nest, const Storage &storage, const LoopSplit &split) {
  nest.sizes[split.loop] /= split.unit;
  nest.sizes.push_back(split.unit);
  nest.reduction.push_back(nest.reduction[split.loop]);
  nest.indexed.push_back(nest.indexed[split.loop]);
  nest.splits.push_back(split);
  splitAccesses(nest, storage, split);
}

void findAccesses(Nest &nest, const Storage &storage) {
  nest.accesses.clear();
  for (OpOperand &operand : nest.op->getOpOperands()) {
    Value tensor = operand.get();
    if (nest.op.isDpsInit(&operand))
      tensor = nest.op.getTiedOpResult(&operand);
    const View *view = isa<RankedTensorType>(tensor.getType()) ? storage.find(tensor) : nullptr;
    nest.accesses.push_back(view ? std::optional(makeAccess(*view, nest.op.getMatchingIndexingMap(&operand)))
                                 : std::nullopt);
  }
  for (const LoopSplit &split : nest.splits)
    splitAccesses(nest, storage, split);
}

static Nest makeNest(linalg::LinalgOp op, const Storage &storage) {
  Nest nest;
  nest.op = op;
  nest.sizes = op.getStaticLoopRanges();
  for (utils::IteratorType type : op.getIteratorTypesArray())
    nest.reduction.push_back(type == utils::IteratorType::reduction);
  nest.indexed.assign(nest.sizes.size(), false);
  op.getBlock()->walk([&](linalg::IndexOp index) { nest.indexed[index.getDim()] = true; });
  findAccesses(nest, storage);
  return nest;
}

bool isInBlocks(const NestPlan &plan, unsigned buffer) {
  return plan.nestsInBlocks > 0 &&
         llvm::none_of(ArrayRef(plan.nests).drop_front(plan.nestsInBlocks), [&](const Nest &nest) {
           return llvm::any_of(nest.accesses, [&](const auto &access) { return access && access->buffer == buffer; });
         });
}

std::vector<Nest> findNests(Block &block, const Storage &storage) {
  std::vector<Nest> nests;
  for (auto op : block.getOps<linalg::LinalgOp>())
    nests.push_back(makeNest(op, storage));
  return nests;
}

} // namespace cleave
