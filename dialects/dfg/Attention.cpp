// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds attention from its softmax, backwards and forwards; its gradient from everything else that reads the scores.

#include "dialects/dfg/Attention.h"

#include "dialects/dfg/TensorType.h"

#include <cmath>
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
  if (!op || chain.size() == longestChain)
    return {};
  if (auto product = dyn_cast<DotGeneralOp>(op))
    return product;
  auto reshape = dyn_cast<ReshapeOp>(op);
  if ((!isa<ElementwiseInterface>(op) || op->getNumResults() != 1) && !(reshape && regroupsLeading(reshape)))
    return {};
  size_t behind = chain.size();
  chain.push_back(op);
  for (Value operand : op->getOperands())
    if (reshape || isa<CastOp>(op) || tensorType(operand) == tensorType(value))
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

llvm::SetVector<Operation *> Attention::getAllOperators() {
  llvm::SetVector<Operation *> all;
  all.insert_range(getOperators());
  if (!gradient)
    return all;
  all.insert(gradient->operators.begin(), gradient->operators.end());
  all.insert(gradient->weights);
  all.insert(gradient->sums);
  for (const auto *uses : {&gradient->overKeys, &gradient->overQueries})
    for (OpOperand *use : *uses)
      all.insert(use->getOwner());
  return all;
}

/// The product with values among the readers of the weights, behind a reshape or not; false where there are several or
/// none.
static bool findResult(Attention &attention) {
  auto find = [&](Value weights, ReshapeOp regrouped) {
    int64_t last = tensorType(weights).getRank() - 1;
    for (Operation *user : weights.getUsers()) {
      auto product = dyn_cast<DotGeneralOp>(user);
      if (!product || product.getLhs() != weights || product.getLhsContracting() != ArrayRef<int64_t>(last))
        continue;
      if (attention.result)
        return false;
      attention.result = product;
      attention.regrouped = regrouped;
    }
    return true;
  };
  Value weights = attention.softmax.getResult();
  bool isOne = find(weights, {});
  for (Operation *user : weights.getUsers())
    if (auto reshape = dyn_cast<ReshapeOp>(user); reshape && regroupsLeading(reshape))
      isOne &= find(reshape.getResult(), reshape);
  return isOne && attention.result;
}

//===-- the gradient ------------------------------------------------------------------------------------------===//

namespace {

/// Compares values by what they are made of.
class Sameness {
public:
  explicit Sameness(const AttentionGradient &gradient) : gradient(gradient) {}

  bool isRepetition(Operation *op, Operation *own, unsigned depth = 0) const {
    auto isSame = [&](Value a, Value b) { return success(areSame(a, b, depth + 1)); };
    return op == own ||
           OperationEquivalence::isEquivalentTo(own, op, isSame, nullptr, OperationEquivalence::IgnoreLocations);
  }
  bool areSame(Value a, Value b, unsigned depth = 0) const {
    constexpr unsigned deepest = 8;
    for (Value *value : {&a, &b})
      while (auto barrier = value->getDefiningOp<BarrierOp>())
        *value = barrier.getOperand();
    a = known(a);
    b = known(b);
    Operation *one = a.getDefiningOp(), *other = b.getDefiningOp();
    return a == b || (depth < deepest && one && other && one->getNumResults() == 1 && isMemoryEffectFree(one) &&
                      isRepetition(other, one, depth));
  }
  /// What a repetition stands for.
  Value known(Value value) const {
    auto found = gradient.repeated.find(value);
    return found == gradient.repeated.end() ? value : found->second;
  }

private:
  const AttentionGradient &gradient;
};

class GradientFinder {
public:
  GradientFinder(Attention &attention, AttentionMiss &miss)
      : attention(attention), miss(miss), scoresType(attention.getScoresType()), block(attention.softmax->getBlock()) {
    SmallVector<Operation *> operators = attention.getOperators();
    forward.insert_range(operators);
    operators.pop_back();
    for (Operation *op : operators)
      values.push_back(op->getResult(0));
  }

  /// Sets Attention::gradient where anything but the attention itself reads its scores; false where that is no
  /// gradient.
  bool run() {
    while (!values.empty()) {
      Value value = values.pop_back_val();
      for (OpOperand &use : value.getUses())
        if (!forward.contains(use.getOwner()) && !addReader(use))
          return refuse(use.getOwner(), "it reads them, and is neither elementwise nor a product over keys or queries");
      for (Value operand : value.getDefiningOp()->getOperands())
        addMaker(operand);
    }
    bool isInference = found.operators.empty() && found.overKeys.empty() && found.overQueries.empty() && !found.sums;
    if (isInference)
      return true;
    if (!found.weights || !found.sums || found.overQueries.empty() || !isOfWeights(found.weights) || !sumsWeights())
      return refuse(attention.softmax, "what reads them is not the gradient of softmax and its products");
    attention.gradient = std::move(found);
    return true;
  }

private:
  bool refuse(Operation *op, StringRef reason) {
    miss = {op, reason};
    return false;
  }
  bool isScores(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() >= 2 && type.getNumElements() == scoresType.getNumElements() &&
           type.getShape().take_back(2) == scoresType.getShape().take_back(2);
  }
  bool isBetween(Operation *op) const {
    if (op->getBlock() != block || op->getNumResults() != 1 || !isScores(op->getResult(0)))
      return false;
    auto reshape = dyn_cast<ReshapeOp>(op);
    return reshape ? regroupsLeading(reshape) : isa<ElementwiseInterface>(op);
  }
  void addBetween(Operation *op) {
    if (found.operators.insert(op))
      values.push_back(op->getResult(0));
  }

  bool addReader(OpOperand &use) {
    Operation *op = use.getOwner();
    if (op->getBlock() != block)
      return false;
    if (auto product = dyn_cast<DotGeneralOp>(op))
      return addProduct(product, use);
    if (auto sum = dyn_cast<ReduceOp>(op)) {
      int64_t last = tensorType(sum.getInput()).getRank() - 1;
      if (found.sums || sum.getKind() != ReduceKind::Sum || !sum.getKeepDims() ||
          sum.getDims() != ArrayRef<int64_t>(last))
        return false;
      found.sums = sum;
      return true;
    }
    bool isRepeated = addRepetition(op);
    if (!isRepeated && !isBetween(op))
      return false;
    addBetween(op);
    return true;
  }

  /// Where activations are not kept, the backward pass repeats operators of the attention on the same operands.
  bool addRepetition(Operation *op) {
    if (auto barrier = dyn_cast<BarrierOp>(op)) {
      found.repeated[barrier.getResult()] = known(barrier.getOperand());
      return true;
    }
    for (Operation *own : attention.getOperators())
      if (own != attention.result && isRepetition(op, own)) {
        found.repeated[op->getResult(0)] = own->getResult(0);
        return true;
      }
    return false;
  }

  bool isRepetition(Operation *op, Operation *own) const { return Sameness(found).isRepetition(op, own); }
  bool areSame(Value a, Value b) const { return Sameness(found).areSame(a, b); }
  Value known(Value value) const { return Sameness(found).known(value); }

  /// A product that reads scores: over the keys, or over the queries and all that lies before them but batches.
  bool addProduct(DotGeneralOp product, OpOperand &use) {
    bool isLhs = use.getOperandNumber() == 0;
    if (product.getLhs() == product.getRhs())
      return false;
    ArrayRef<int64_t> batch = isLhs ? product.getLhsBatch() : product.getRhsBatch();
    ArrayRef<int64_t> contracting = isLhs ? product.getLhsContracting() : product.getRhsContracting();
    auto otherFree = isLhs ? product.getRhsFree() : product.getLhsFree();
    int64_t keys = tensorType(use.get()).getRank() - 1, numBatch = static_cast<int64_t>(batch.size());
    if (otherFree.size() != 1 || !llvm::equal(batch, llvm::seq<int64_t>(0, numBatch)) ||
        numBatchElements(use.get(), batch.size()) != numBatchElements())
      return false;
    SmallVector<int64_t> sorted(contracting);
    llvm::sort(sorted);
    if (sorted == SmallVector<int64_t>{keys})
      found.overKeys.push_back(&use);
    else if (llvm::equal(sorted, llvm::seq<int64_t>(numBatch, keys)))
      found.overQueries.push_back(&use);
    else
      return false;
    return true;
  }

  static int64_t numBatchElements(Value scores, size_t numBatch) {
    return ShapedType::getNumElements(tensorType(scores).getShape().take_front(numBatch));
  }
  int64_t numBatchElements() const {
    return ShapedType::getNumElements(ArrayRef(attention.leading).take_front(attention.batchDims));
  }

  /// Adds the producer of an operand where only operators between read it.
  void addMaker(Value operand) {
    Operation *op = operand.getDefiningOp();
    if (!op || forward.contains(op) || found.operators.contains(op) || op->getBlock() != block || !isScores(operand))
      return;
    auto product = dyn_cast<DotGeneralOp>(op);
    if ((!product && !isBetween(op)) || !llvm::all_of(operand.getUsers(), [&](Operation *user) {
          return found.operators.contains(user) || (isBetween(user) && !forward.contains(user));
        }))
      return;
    if (!product) {
      addBetween(op);
    } else if (!found.weights) {
      found.weights = product;
      for (Operation *user : operand.getUsers())
        addBetween(user);
    }
  }

  /// Whether the product is that of something like the result and the values.
  bool isOfWeights(DotGeneralOp product) {
    DotGeneralOp result = attention.result;
    return areSame(product.getRhs(), result.getRhs()) && product.getRhsBatch() == result.getRhsBatch() &&
           product.getRhsContracting() == ArrayRef(result.getRhsFree()) &&
           ArrayRef(product.getRhsFree()) == result.getRhsContracting() && product.getLhsContracting().size() == 1 &&
           numBatchElements(product.getResult(), product.getLhsBatch().size()) == numBatchElements();
  }

  /// Whether the sums are those of the weights times their gradient.
  bool sumsWeights() {
    auto product = found.sums.getInput().getDefiningOp<MulOp>();
    if (!product)
      return false;
    Value a = known(withoutCasts(product.getLhs())), b = known(withoutCasts(product.getRhs()));
    Value weights = attention.softmax.getResult(), gradient = found.weights.getResult();
    return (a == weights && b == gradient) || (a == gradient && b == weights);
  }

  Attention &attention;
  AttentionMiss &miss;
  RankedTensorType scoresType;
  Block *block;
  DenseSet<Operation *> forward;
  /// Whose readers and makers are still to be looked at.
  SmallVector<Value> values;
  AttentionGradient found;
};

} // namespace

/// The first of at most `most` elementwise operators between the weights and a product with them, such as dropout; null
/// where there is no such product.
static Operation *findBetweenResult(Value weights, unsigned most = 4) {
  // Others, behind it, belong to the gradient.
  Operation *first = nullptr;
  for (Operation *user : weights.getUsers()) {
    if (most == 0 || (first && first->isBeforeInBlock(user)) || user->getNumResults() != 1 ||
        !isa<ElementwiseInterface>(user))
      continue;
    bool isMultiplied = llvm::any_of(user->getUsers(), [&](Operation *next) {
      auto product = dyn_cast<DotGeneralOp>(next);
      return product && product.getLhs() == user->getResult(0) &&
             product.getLhsContracting() == ArrayRef<int64_t>(tensorType(product.getLhs()).getRank() - 1);
    });
    if (isMultiplied || findBetweenResult(user->getResult(0), most - 1))
      first = user;
  }
  return first;
}

std::optional<Attention> findAttention(Operation *op, AttentionMiss *miss, ScoreTypes types) {
  AttentionMiss unasked;
  AttentionMiss &missed = miss ? *miss : unasked;
  missed = {};
  auto softmax = dyn_cast<SoftmaxOp>(op);
  if (!softmax)
    return std::nullopt;
  RankedTensorType type = tensorType(softmax.getResult());
  if (static_cast<int64_t>(softmax.getDim()) != type.getRank() - 1 || type.getRank() < 2 || type.getNumElements() == 0)
    return std::nullopt;
  Attention found;
  found.softmax = softmax;
  found.scores = findProduct(softmax.getInput(), found.chain);
  std::reverse(found.chain.begin(), found.chain.end());
  if (!found.scores)
    return std::nullopt;
  if (!findResult(found)) {
    if (Operation *between = findBetweenResult(softmax.getResult()))
      missed = {between, "it stands between softmax and the product with the values"};
    return std::nullopt;
  }
  DotGeneralOp scores = found.scores, result = found.result;
  bool isWide = (type.getElementType().isF32() || type.getElementType().isF64()) &&
                tensorType(scores.getResult()).getElementType() == type.getElementType();
  bool fits = scores.getRhsFree().size() == 1 && !scores.getLhsFree().empty() &&
              scores.getLhsContracting().size() == 1 && result.getRhsFree().size() == 1 &&
              result.getLhsFree().size() >= 1 &&
              llvm::equal(result.getLhsBatch(), llvm::seq<int64_t>(0, result.getLhsBatch().size()));
  if (types == ScoreTypes::Wide && !isWide)
    missed = {softmax, "they are neither f32 nor f64 from the first product on"};
  else if (!fits || !findLeading(found))
    missed = {scores, "batches and heads are grouped in another way for each product"};
  else if (GradientFinder(found, missed).run())
    return found;
  return std::nullopt;
}

Value withoutCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, CastOp, BarrierOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

bool areSame(const AttentionGradient &gradient, Value a, Value b) { return Sameness(gradient).areSame(a, b); }

int64_t keysInBlock(int64_t keys, int64_t size, bool leavesOut) {
  int64_t usual = leavesOut ? 128 : 512;
  if (keys <= usual)
    return llvm::alignTo(keys, keysInGroup);
  auto balanced = static_cast<int64_t>(std::sqrt(static_cast<double>(keys) * static_cast<double>(size) / 2));
  int64_t largest = llvm::alignTo(std::max(usual, balanced), keysInGroup), best = largest;
  for (int64_t block = largest; block >= largest / 2; block -= keysInGroup)
    if (llvm::alignTo(keys, block) < llvm::alignTo(keys, best))
      best = block;
  return best;
}

} // namespace cleave::dfg
