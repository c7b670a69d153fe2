// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds attention from its softmax, backwards and forwards.

#include "dialects/dfg/Attention.h"

#include "dialects/dfg/TensorType.h"

#include <set>

using namespace mlir;

namespace cleave::dfg {

/// Chains beyond this many operators are not followed.
static constexpr size_t longestChain = 32;

/// Whether a reshape leaves the last two dimensions, of queries and keys, as they are.
static bool regroupsLeading(ReshapeOp reshape) {
  auto from = tensorType(reshape.getInput()).getShape(), to = tensorType(reshape.getResult()).getShape();
  return from.size() >= 2 && to.size() >= 2 && from.take_back(2) == to.take_back(2);
}

/// The product that makes a value of scores, and the operators behind it, which are added to `chain` from the last on.
static DotGeneralOp findProduct(Value value, SmallVectorImpl<Operation *> &chain) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse() || chain.size() == longestChain)
    return {};
  if (auto product = dyn_cast<DotGeneralOp>(op))
    return product;
  auto reshape = dyn_cast<ReshapeOp>(op);
  if ((!isa<ElementwiseInterface>(op) || op->getNumResults() != 1) && !(reshape && regroupsLeading(reshape)))
    return {};
  size_t behind = chain.size();
  chain.push_back(op);
  for (Value operand : op->getOperands())
    if (reshape || tensorType(operand) == tensorType(value))
      if (DotGeneralOp product = findProduct(operand, chain))
        return product;
  chain.truncate(behind);
  return {};
}

/// Sets Attention::leading and batchDims; false where groupings cross each other.
static bool findLeading(Attention &attention) {
  std::set<int64_t> bounds;
  auto add = [&](Value scores) {
    int64_t before = 1;
    for (int64_t size : tensorType(scores).getShape().drop_back(2))
      bounds.insert(before *= size);
  };
  add(attention.scores.getResult());
  for (Operation *op : attention.chain)
    add(op->getResult(0));
  add(attention.result.getLhs());
  int64_t before = 1;
  for (int64_t bound : bounds) {
    if (bound % before != 0)
      return false;
    if (bound != before)
      attention.leading.push_back(bound / before);
    before = bound;
  }
  auto batchOf = [](DotGeneralOp dot, Value scores) {
    return ShapedType::getNumElements(tensorType(scores).getShape().take_front(dot.getLhsBatch().size()));
  };
  int64_t batch = batchOf(attention.scores, attention.scores.getResult());
  for (int64_t size = 1; size != batch; ++attention.batchDims)
    size *= attention.leading[attention.batchDims];
  return batch == batchOf(attention.result, attention.result.getLhs());
}

SmallVector<Operation *> Attention::getOperators() {
  SmallVector<Operation *> list = {scores};
  list.append(chain);
  list.push_back(softmax);
  if (regrouped)
    list.push_back(regrouped);
  list.push_back(result);
  return list;
}

std::optional<Attention> findAttention(Operation *op) {
  auto softmax = dyn_cast<SoftmaxOp>(op);
  if (!softmax)
    return std::nullopt;
  RankedTensorType type = tensorType(softmax.getResult());
  if (static_cast<int64_t>(softmax.getDim()) != type.getRank() - 1 || !softmax->hasOneUse() || type.getRank() < 2 ||
      type.getNumElements() == 0 || !(type.getElementType().isF32() || type.getElementType().isF64()))
    return std::nullopt;
  Attention found;
  found.softmax = softmax;
  found.scores = findProduct(softmax.getInput(), found.chain);
  std::reverse(found.chain.begin(), found.chain.end());
  Value weights = softmax.getResult();
  if (auto reshape = dyn_cast<ReshapeOp>(*softmax->user_begin()); reshape && reshape->hasOneUse()) {
    found.regrouped = reshape;
    weights = reshape.getResult();
  }
  found.result = dyn_cast<DotGeneralOp>(*weights.user_begin());
  if (!found.scores || !found.result || found.result.getLhs() != weights ||
      (found.regrouped && !regroupsLeading(found.regrouped)))
    return std::nullopt;
  DotGeneralOp scores = found.scores, result = found.result;
  int64_t last = tensorType(weights).getRank() - 1;
  bool fits = tensorType(scores.getResult()).getElementType() == type.getElementType() &&
              scores.getRhsFree().size() == 1 && !scores.getLhsFree().empty() &&
              scores.getLhsContracting().size() == 1 && result.getLhsContracting() == ArrayRef<int64_t>(last) &&
              result.getRhsFree().size() == 1 && result.getLhsFree().size() >= 1 &&
              llvm::equal(result.getLhsBatch(), llvm::seq<int64_t>(0, result.getLhsBatch().size()));
  return fits && findLeading(found) ? std::optional(found) : std::nullopt;
}

} // namespace cleave::dfg
