// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins elementwise operators with the one operator that reads them. Clusters grow backwards from their last operator:
//
//   %a = exp %x   ┐ used by %b alone, read once and in the same shape: joins
//   %b = mul %a   ┤
//   %c = reduce %b┘ the root
//
// so every cluster has one result, and nothing is computed twice. A contraction or reduction joins the elementwise
// operators behind it: the few elements that it has made are still close when they go on with them.
//
// Transposes between the order in memory and the order of dimensions (see SelectLibraryKernels.cpp) join all their
// readers and their only producer: inside a kernel they are a way of counting.

#include "passes/codegen/ConstantValues.h"
#include "passes/codegen/KernelFusion.h"
#include "passes/codegen/KernelPasses.h"

#include "dialects/dist/Accumulation.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FUSEELEMENTWISEPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// Clusters beyond this many operators compile slowly and spill registers.
constexpr size_t maxClusterSize = 48;

/// It shows bytes that lie permuted.
bool readsPermuted(Operation *op) {
  auto transpose = dyn_cast<dfg::TransposeOp>(op);
  return transpose && transpose.getInput().getDefiningOp<plan::ViewOp>();
}

/// It brings its operand into the order in which it shall lie.
bool writesPermuted(Operation *op) {
  return isa<dfg::TransposeOp>(op) && op->getResult(0).hasOneUse() && isa<plan::ViewOp>(*op->getResult(0).user_begin());
}

/// Elementwise operators only, in whatever order they count.
bool isElementwise(const llvm::SetVector<Operation *> &cluster) {
  return llvm::all_of(cluster, [](Operation *op) { return isa<ElementwiseInterface, dfg::TransposeOp>(op); });
}

class FuseElementwise : public impl::FuseElementwisePassBase<FuseElementwise> {
  void runOnOperation() override {
    ConstantValues constants;
    SmallVector<Operation *> roots;
    for (Operation &op : llvm::reverse(getOperation().getBody().front()))
      if (isa<LowerInterface>(op) && op.getNumResults() == 1)
        roots.push_back(&op);
    DenseSet<Operation *> taken;
    for (Operation *root : roots) {
      if (taken.contains(root))
        continue;
      if (readsPermuted(root) && root->use_empty()) {
        root->erase();
        continue;
      }
      llvm::SetVector<Operation *> cluster = clusterOf(root, constants);
      for (Operation *member : cluster)
        if (!readsPermuted(member))
          taken.insert(member);
      if (cluster.size() > 1)
        fuse(root, cluster);
    }
  }

  llvm::SetVector<Operation *> clusterOf(Operation *root, ConstantValues &constants) {
    llvm::SetVector<Operation *> cluster;
    cluster.insert(root);
    bool constant = constants.contains(root->getResult(0));
    if (writesPermuted(root))
      if (Operation *producer = root->getOperand(0).getDefiningOp(); producer && isa<LowerInterface>(producer) &&
                                                                     producer->getNumResults() == 1 &&
                                                                     producer->getResult(0).hasOneUse())
        cluster.insert(producer);
    for (size_t i = 0; i < cluster.size() && cluster.size() < maxClusterSize; ++i)
      for (OpOperand &operand : cluster[i]->getOpOperands()) {
        Operation *producer = operand.get().getDefiningOp();
        if (producer && readsPermuted(producer)) {
          cluster.insert(producer);
          continue;
        }
        if (!producer || producer->getBlock() != root->getBlock() || producer->hasAttr(dist::accumulatesAttrName) ||
            dist::waitsForSum(operand))
          continue;
        if (!isa<ElementwiseInterface>(producer) && !(isSum(producer) && isElementwise(cluster)))
          continue;
        // What is known when the plan is loaded is not computed in every step.
        if (constants.contains(operand.get()) != constant)
          continue;
        if (llvm::all_of(producer->getResult(0).getUses(),
                         [&](OpOperand &use) { return cluster.contains(use.getOwner()) && readsOnce(use); }))
          cluster.insert(producer);
      }
    return cluster;
  }

  void fuse(Operation *root, const llvm::SetVector<Operation *> &cluster) {
    SmallVector<Operation *> members(cluster.begin(), cluster.end());
    llvm::sort(members, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    llvm::SetVector<Value> inputs;
    SmallVector<Location> locations = {root->getLoc()};
    for (Operation *op : members) {
      locations.push_back(op->getLoc());
      for (Value operand : op->getOperands())
        if (!operand.getDefiningOp() || !cluster.contains(operand.getDefiningOp()))
          inputs.insert(operand);
    }
    OpBuilder builder(root);
    auto fusion =
        dfg::FusionOp::create(builder, builder.getFusedLoc(locations), root->getResultTypes(), inputs.getArrayRef());
    Block *body = builder.createBlock(&fusion.getBody());
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    for (Operation *op : members)
      builder.clone(*op, mapping);
    dfg::YieldOp::create(builder, root->getLoc(), mapping.lookup(root->getResult(0)));
    root->replaceAllUsesWith(fusion);
    // A transpose that other clusters read, too, goes when its turn as a root comes.
    for (Operation *op : llvm::reverse(members))
      if (!readsPermuted(op) || op == root)
        op->erase();
  }
};

} // namespace
} // namespace cleave
