// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backward: gradients of operands, and what is kept for them.

#include "passes/planner/search/OperatorWork.h"

namespace cleave::search {

KernelWork OperatorWork::gradientOf(const KernelWork &work, unsigned operand) {
  KernelWork gradient = work;
  std::swap(gradient.result, operand == 0 ? gradient.lhs : gradient.rhs);
  return gradient;
}

double OperatorWork::keptBytes(const Tensor &tensor, const State &state) const {
  double bytes = grid.localBytes(bytesOf(tensor), state);
  bool isRounded = tensor.keptRounded && cost.roundsLinearLayers();
  return isRounded
             ? std::min(bytes, localElements(tensor, state) * bytesOfElement(options.executor.linearLayers.products))
             : bytes;
}

void OperatorWork::addKernelBackward(const Operator &op, const KernelWork &work, const OperatorStates &state,
                                     double resultBytes, Sums &sums) const {
  const KernelUse &use = *op.use;
  const Executor &executor = options.executor;
  for (auto [tensor, at] : llvm::zip_equal(op.results, state.results)) {
    const Tensor &result = graph.tensors[tensor];
    double bytes = grid.localBytes(bytesOf(result), at);
    if (result.kept)
      sums.saved += keptBytes(result, at);
    if (result.kept && op.cost.costClass == CostClass::Contraction)
      sums.savedProducts += keptBytes(result, at);
    if (result.gradientSums > 0)
      sums.backward += result.gradientSums * cost.seconds(CostClass::Elementwise, 0, 3 * bytes);
  }
  if (llvm::none_of(op.operands, [&](const Operand &operand) { return graph.learns(operand); }))
    return;
  for (auto [operand, at] : llvm::zip_equal(op.operands, state.operands))
    if (operand.parameter != none && graph.learns(operand) && executor.accumulationBytes > 0)
      sums.backward += cost.streamSeconds(localElements(operand, at.state) * executor.accumulationBytes);
  if (op.cost.costClass == CostClass::Contraction) {
    addProductGradients(op, work, state, resultBytes, sums);
    return;
  }
  if (use.masks)
    sums.saved += maskBytes(op, state);
  double bytes = (use.gradientReads + use.backwardPasses) * resultBytes + (use.readsResultAgain ? resultBytes : 0) +
                 (use.masks ? maskBytes(op, state) : 0);
  for (auto [number, operand] : llvm::enumerate(op.operands))
    bytes +=
        (use.readsAgain[number] + use.writesGradient[number]) * operandBytes(operand, state.operands[number].state);
  if (bytes <= 0)
    return;
  // The bias of a product is summed by a kernel of its own.
  bool launches = use.launchesBackward || use.isEpilogue;
  sums.backward += movedSeconds(op.cost.costClass, work.flops, bytes, launches);
  sums.backwardHost += launches ? executor.backwardDispatch : 0;
}

void OperatorWork::addProductGradients(const Operator &op, const KernelWork &work, const OperatorStates &state,
                                       double resultBytes, Sums &sums) const {
  const KernelUse &use = *op.use;
  const Executor &executor = options.executor;
  if (use.isStreamed) {
    sums.backward += streamedSeconds(work, use.backwardProducts, executor.attentionBackward);
    sums.backwardHost += executor.backwardDispatch;
    return;
  }
  for (auto [number, operand] : llvm::enumerate(op.operands)) {
    if (number > 1 || !graph.learns(operand))
      continue;
    KernelWork gradient = work;
    // The columns of a joined product are joined in its gradients, too.
    gradient.flops /= use.share;
    gradient.rhs /= use.share;
    gradient.result /= use.share;
    double seconds = cost.seconds(gradientOf(gradient, number)) * use.share;
    sums.backward += seconds;
    sums.backwardHost += executor.backwardDispatch * use.share;
    if (operand.parameter != none)
      sums.backwardWeights += seconds;
  }
  // A joined product's gradient has the columns of all.
  sums.backward += castSeconds(use, work.result / use.share / copiesOf(state.results.front()),
                               executor.linearLayers.gradientCastBytes);
  // Gradients of joined products are put side by side.
  if (use.share < 1)
    sums.backward += movedSeconds(CostClass::Movement, 0, 2 * resultBytes, /*launches=*/false);
}

void OperatorWork::addBackward(unsigned index, const KernelWork &work, const OperatorStates &state, double forward,
                               double resultBytes, Sums &sums) const {
  const Operator &op = graph.operators[index];
  bool product = op.cost.costClass == CostClass::Contraction;
  unsigned gradients = 0;
  for (auto [number, operand] : llvm::enumerate(op.operands)) {
    if (!graph.learns(operand))
      continue;
    ++gradients;
    bool isWeight = graph.isPrepared(operand);
    // Each microbatch but the first adds to what there is. Several products with a weight, of the steps of a recurrent
    // layer say, have one for its gradient.
    double own = grid.localBytes(operand.bytes, state.operands[number].state) * options.precision.gradient,
           added = own * (graph.isFirstUse(operand, index) ? 1 - 1 / std::max(1.0, options.microbatches) : -1);
    if (!product) {
      // Of a table of which an operator reads a part there is a whole gradient, too, unless one kernel of the optimizer
      // makes it of what was read.
      bool isStored = options.microbatches > 1 || options.precision.optimizer > 1;
      sums.backward += isWeight && isStored ? cost.memorySeconds(own + std::max(0.0, added)) : 0;
      continue;
    }
    KernelWork gradient = gradientOf(work, number);
    if (isWeight)
      gradient.bytes = std::max(0.0, gradient.bytes + added);
    double seconds = number < 2 && !op.fused ? cost.seconds(gradient) : forward;
    sums.backward += seconds;
    if (isWeight)
      sums.backwardWeights += seconds;
  }
  if (!gradients)
    return;
  // What is fused forward goes through memory once backward, between two products, say; a bias's gradient is a sum of
  // what comes out of that.
  if (op.endsFused && !op.findsStatistics)
    sums.backward += cost.seconds(CostClass::Elementwise, work.flops, 3 * resultBytes);
  if (op.fused && llvm::any_of(op.operands, [&](const Operand &operand) {
        return graph.isPrepared(operand) && graph.learns(operand);
      }))
    sums.backward += cost.seconds(CostClass::Reduction, work.flops, resultBytes);
  if (op.findsStatistics)
    sums.backward += cost.seconds(work.costClass, 2 * work.flops, statisticsGradientPasses * resultBytes);
  else if (!product)
    sums.backward += forward;
  bool view = op.cost.costClass == CostClass::View || op.cost.costClass == CostClass::Movement;
  // What is fused is computed again from what it was fused to.
  if (!view && (!op.fused || op.findsStatistics))
    sums.saved += resultBytes;
  if (product)
    sums.savedProducts += resultBytes;
}

} // namespace cleave::search
