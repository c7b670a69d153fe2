// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes attention by blocks of keys, each with a softmax of its own; the blocks' results are joined by how much each
// weighs in the whole (Rabe and Staats: Self-attention Does Not Need O(n^2) Memory, 2021). Of scores s in blocks b,
// with the values v:
//
//   m_b = max s    l_b = sum e^(s - m_b)    o_b = sum e^(s - m_b) v          by block
//   m = max m_b    result = sum e^(m_b - m) o_b / sum e^(m_b - m) l_b        over blocks
//
// Here that is a fusion of operators; which loops run over blocks and queries outside of all of them, so that a few
// queries' scores with one block are all that there is at a time, is decided in NativeNests.cpp.

#include "passes/codegen/KernelPasses.h"

#include "dialects/dfg/Attention.h"
#include "dialects/dfg/TensorType.h"

#include "mlir/IR/IRMapping.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FUSEATTENTIONPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// Keys are divided into blocks, and these into groups that fill the registers with vectors of scores; a group's keys
/// and values fit into the nearest cache.
constexpr int64_t usualBlock = 512, groupSize = 64;
/// Values are padded to whole vectors, and queries to whole groups of rows: to `manyRows` where that is little.
constexpr int64_t vectorSize = 16, fewRows = 4, manyRows = 32;
/// How many operators without inputs, such as those of a causal mask, are computed for each pair of query and key.
constexpr unsigned mostComputed = 8;

/// Keys a block, for values of that size: of those about the usual size, or about that for which the scores of a query
/// and what its blocks give take the same memory, the one that leaves the fewest unused, the largest of those.
int64_t blockOf(int64_t keys, int64_t size) {
  if (keys <= usualBlock)
    return llvm::alignTo(keys, groupSize);
  auto balanced = static_cast<int64_t>(std::sqrt(static_cast<double>(keys) * static_cast<double>(size) / 2));
  int64_t largest = llvm::alignTo(std::max(usualBlock, balanced), groupSize), best = largest;
  for (int64_t block = largest; block >= largest / 2; block -= groupSize)
    if (llvm::alignTo(keys, block) < llvm::alignTo(keys, best))
      best = block;
  return best;
}

/// It needs no input: positions along queries or keys, values that are the same everywhere, and what is made of them
/// element by element in a few operators, which `count` counts.
bool isComputed(Value value, unsigned &count) {
  Operation *op = value.getDefiningOp();
  if (!op || ++count > mostComputed)
    return false;
  if (auto constant = dyn_cast<dfg::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (auto iota = dyn_cast<dfg::IotaOp>(op))
    return static_cast<int64_t>(iota.getDim()) >= tensorType(value).getRank() - 2;
  return isa<ElementwiseInterface>(op) && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isComputed(operand, count); });
}
bool isComputed(Value value) {
  unsigned count = 0;
  return isComputed(value, count);
}

/// Builds the fusion. In it scores are leading..., queries, blocks, groups, keys, the leading dimensions being those of
/// dfg::Attention.
class AttentionBuilder {
public:
  explicit AttentionBuilder(const dfg::Attention &found)
      : attention(found), builder(attention.result), location(attention.result.getLoc()),
        type(attention.getScoresType()), leading(attention.leading), batchDims(attention.batchDims),
        queryDim(static_cast<int64_t>(leading.size())), blockDim(queryDim + 1), numKeys(type.getShape().back()),
        block(blockOf(numKeys, tensorType(attention.result.getResult()).getShape().back())),
        blocks(llvm::divideCeil(numKeys, block)), groups(block / groupSize),
        numQueries(type.getDimSize(type.getRank() - 2)),
        paddedQueries(llvm::alignTo(numQueries, numQueries >= 16 * manyRows ? manyRows : fewRows)) {}

  void run() {
    findInputs();
    SmallVector<int64_t> shape(leading.begin(), leading.end());
    shape.append({paddedQueries, tensorType(value).getShape().back()});
    SmallVector<Operation *> operators = attention.getOperators();
    SmallVector<Location> locations;
    for (Operation *op : operators)
      locations.push_back(op->getLoc());
    auto fusion = dfg::FusionOp::create(builder, builder.getFusedLoc(locations), TypeRange(type.clone(shape)),
                                        inputs.getArrayRef());
    {
      OpBuilder::InsertionGuard guard(builder);
      Block *body = builder.createBlock(&fusion.getBody());
      for (Value input : inputs)
        mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
      dfg::YieldOp::create(builder, location, joinBlocks(computeBlocks()));
    }
    attention.result.replaceAllUsesWith(withoutPadding(fusion.getResult(0)));
    for (Operation *op : llvm::reverse(operators))
      op->erase();
  }

private:
  /// Of each block and query: the largest score, the sum of powers, and the sum of values (batch, block, queries,
  /// size).
  struct Blocks {
    Value largest, sum, values;
  };

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, location, std::forward<Args>(args)...);
  }
  Value splat(RankedTensorType type, Attribute element) {
    return make<dfg::ConstantOp>(DenseElementsAttr::get(type, element));
  }
  /// A constant of no dimensions, which the kernel reads.
  Value scalar(double number) {
    Type element = type.getElementType();
    Value made = splat(RankedTensorType::get({}, element), builder.getFloatAttr(element, number));
    inputs.insert(made);
    return made;
  }
  Value reshaped(Value value, ArrayRef<int64_t> shape) {
    RankedTensorType wanted = tensorType(value).clone(shape);
    return wanted == value.getType() ? value : make<dfg::ReshapeOp>(wanted, value);
  }

  //===-- outside ---------------------------------------------------------------------------------------------===//

  /// `value` with zeros behind a dimension, up to that size.
  Value padded(Value value, int64_t dim, int64_t size) {
    RankedTensorType whole = tensorType(value);
    if (whole.getDimSize(dim) == size)
      return value;
    SmallVector<int64_t> low(whole.getRank(), 0), high(whole.getRank(), 0);
    high[dim] = size - whole.getDimSize(dim);
    auto none = RankedTensorType::get({}, whole.getElementType());
    return make<dfg::PadOp>(value, splat(none, builder.getZeroAttr(whole.getElementType())), low, high);
  }

  Value withoutPadding(Value result) {
    SmallVector<int64_t> limits(leading.begin(), leading.end());
    limits.append({numQueries, tensorType(attention.result.getResult()).getShape().back()});
    if (tensorType(result).getShape() != ArrayRef(limits))
      result = make<dfg::SliceOp>(result, SmallVector<int64_t>(limits.size(), 0), limits,
                                  SmallVector<int64_t>(limits.size(), 1));
    return reshaped(result, tensorType(attention.result.getResult()).getShape());
  }

  /// The operand with its dimensions in this order. What was transposed for the product is read as it was before.
  Value inOrder(Value operand, SmallVector<int64_t> order) {
    if (auto transpose = operand.getDefiningOp<dfg::TransposeOp>()) {
      for (int64_t &dim : order)
        dim = transpose.getPermutation()[dim];
      operand = transpose.getInput();
    }
    return llvm::is_sorted(order) ? operand : make<dfg::TransposeOp>(operand, order);
  }

  /// Queries: leading..., queries, size.
  Value findQueries() {
    dfg::DotGeneralOp scores = attention.scores;
    SmallVector<int64_t> order(scores.getLhsBatch()), shape(leading.begin(), leading.end());
    llvm::append_range(order, scores.getLhsFree());
    llvm::append_range(order, scores.getLhsContracting());
    int64_t size = tensorType(scores.getLhs()).getDimSize(order.back());
    shape.append({numQueries, size});
    return padded(reshaped(inOrder(scores.getLhs(), order), shape), queryDim, paddedQueries);
  }

  /// Keys or values as batch, block, group and the other two dimensions, with the keys of a group first or last of
  /// these.
  Value operandInBlocks(Value operand, ArrayRef<int64_t> batch, int64_t keys, int64_t other, bool keysFirst) {
    SmallVector<int64_t> order(batch), shape(leading.begin(), leading.begin() + batchDims);
    int64_t size = tensorType(operand).getDimSize(other);
    order.append({keys, other});
    shape.append({numKeys, size});
    operand = padded(reshaped(inOrder(operand, order), shape), batchDims, blocks * block);
    shape.resize(batchDims);
    shape.append({blocks, groups, groupSize, size});
    operand = reshaped(operand, shape);
    if (keysFirst)
      return operand;
    SmallVector<int64_t> swapped = range(0, shape.size());
    std::swap(swapped[batchDims + 2], swapped[batchDims + 3]);
    return make<dfg::TransposeOp>(operand, swapped);
  }

  /// The leading dimensions of what broadcasts to scores, given those of the scores and its own.
  SmallVector<int64_t> leadingOf(ArrayRef<int64_t> scores, ArrayRef<int64_t> own) {
    SmallVector<int64_t> dims;
    ArrayRef<int64_t> rest = leading;
    for (auto [position, size] : llvm::enumerate(scores)) {
      size_t count = 0;
      for (int64_t covered = 1; covered != size; ++count)
        covered *= rest[count];
      bool isWhole = position + own.size() >= scores.size() && own[position + own.size() - scores.size()] == size;
      for (size_t i = 0; i < count; ++i)
        dims.push_back(isWhole ? rest[i] : 1);
      rest = rest.drop_front(count);
    }
    return dims;
  }

  /// The shape of a tensor that broadcasts to scores of that shape: with leading dimensions, padded queries, blocks,
  /// groups, keys; none for one without dimensions.
  SmallVector<int64_t> shapeInBlocks(ArrayRef<int64_t> scores, ArrayRef<int64_t> whole) {
    if (whole.empty())
      return {};
    SmallVector<int64_t> shape;
    if (whole.size() > 2)
      shape = leadingOf(scores.drop_back(2), whole.drop_back(2));
    if (whole.size() > 1)
      shape.push_back(whole.take_back(2).front() == numQueries ? paddedQueries : 1);
    bool isWhole = whole.back() == numKeys;
    for (int64_t size : {blocks, groups, groupSize})
      shape.push_back(isWhole ? size : 1);
    return shape;
  }

  /// What the chain reads beside scores of that shape.
  Value otherInBlocks(Value operand, ArrayRef<int64_t> scores) {
    ArrayRef<int64_t> whole = tensorType(operand).getShape();
    if (whole.empty())
      return operand;
    int64_t last = static_cast<int64_t>(whole.size()) - 1;
    SmallVector<int64_t> shape = shapeInBlocks(scores, whole);
    if (whole[last] == numKeys)
      operand = padded(operand, last, blocks * block);
    if (last > 0 && whole[last - 1] == numQueries)
      operand = padded(operand, last - 1, paddedQueries);
    return reshaped(operand, shape);
  }

  /// Everything that the kernel reads. Keys lie side by side, as the sums that stand side by side in a vector do, and
  /// those of a block together.
  void findInputs() {
    dfg::DotGeneralOp scores = attention.scores, result = attention.result;
    query = findQueries();
    key = operandInBlocks(scores.getRhs(), scores.getRhsBatch(), scores.getRhsFree()[0], scores.getRhsContracting()[0],
                          /*keysFirst=*/false);
    value =
        operandInBlocks(result.getRhs(), result.getRhsBatch(), result.getRhsContracting()[0], result.getRhsFree()[0],
                        /*keysFirst=*/true);
    int64_t last = tensorType(value).getRank() - 1;
    value = padded(value, last, llvm::alignTo(tensorType(value).getDimSize(last), vectorSize));
    inputs.insert(query);
    inputs.insert(key);
    inputs.insert(value);
    Value before = scores.getResult();
    for (Operation *op : attention.chain) {
      for (OpOperand &operand : op->getOpOperands())
        if (operand.get() != before && !isComputed(operand.get())) {
          others[&operand] = otherInBlocks(operand.get(), tensorType(before).getShape());
          inputs.insert(others[&operand]);
        }
      before = op->getResult(0);
    }
    none = scalar(-std::numeric_limits<double>::infinity());
    zero = scalar(0);
  }

  //===-- inside ----------------------------------------------------------------------------------------------===//

  Value reduce(Value value, dfg::ReduceKind kind, ArrayRef<int64_t> dims) {
    return make<dfg::ReduceOp>(value, kind, dims, /*keep_dims=*/false);
  }
  /// With `count` dimensions of one element behind the others.
  Value expanded(Value value, unsigned count) {
    SmallVector<int64_t> shape(tensorType(value).getShape());
    shape.append(count, 1);
    return reshaped(value, shape);
  }
  static SmallVector<int64_t> range(int64_t begin, int64_t end) { return llvm::to_vector(llvm::seq(begin, end)); }

  /// The number of each key.
  Value keyNumbers() {
    auto numbers = RankedTensorType::get({blocks, groups, groupSize}, builder.getI64Type());
    return make<dfg::ConstantOp>(DenseElementsAttr::get(numbers, ArrayRef(range(0, blocks * block))));
  }

  /// What is computed without inputs for scores of that shape.
  Value computedInBlocks(Value value, ArrayRef<int64_t> scores) {
    RankedTensorType whole = tensorType(value);
    RankedTensorType inBlocks = whole.clone(shapeInBlocks(scores, whole.getShape()));
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast<dfg::ConstantOp>(op))
      return splat(inBlocks, cast<SplatElementsAttr>(constant.getValue()).getSplatValue<Attribute>());
    if (auto iota = dyn_cast<dfg::IotaOp>(op)) {
      if (whole.getDimSize(iota.getDim()) == 1)
        return splat(inBlocks, builder.getZeroAttr(whole.getElementType()));
      bool isOfKeys = static_cast<int64_t>(iota.getDim()) == whole.getRank() - 1;
      return isOfKeys ? make<dfg::CastOp>(keyNumbers(), whole.getElementType())
                      : make<dfg::IotaOp>(inBlocks, inBlocks.getRank() - 4);
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(computedInBlocks(operand, scores));
    return copyOf(op, operands, inBlocks);
  }

  /// The operator on other operands.
  Value copyOf(Operation *op, ArrayRef<Value> operands, RankedTensorType result) {
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    copy->getResult(0).setType(result);
    return copy->getResult(0);
  }

  /// The scores: none of the keys that there are not.
  Value computeScores() {
    Value scores =
        make<dfg::DotGeneralOp>(mapping.lookup(query), mapping.lookup(key), range(0, batchDims), range(0, batchDims),
                                ArrayRef<int64_t>(queryDim + 1), ArrayRef<int64_t>(batchDims + 2), /*wide=*/false);
    Value before = attention.scores.getResult();
    for (Operation *op : attention.chain) {
      if (!isa<dfg::ReshapeOp>(op)) {
        ArrayRef<int64_t> shape = tensorType(before).getShape();
        SmallVector<Value> operands;
        for (OpOperand &operand : op->getOpOperands()) {
          auto other = others.find(&operand);
          operands.push_back(operand.get() == before ? scores
                             : other != others.end() ? mapping.lookup(other->second)
                                                     : computedInBlocks(operand.get(), shape));
        }
        scores = copyOf(op, operands, tensorType(op->getResult(0)).clone(tensorType(scores).getShape()));
      }
      before = op->getResult(0);
    }
    if (blocks * block == numKeys)
      return scores;
    SmallVector<bool> areKeys(static_cast<size_t>(blocks * block), true);
    std::fill(areKeys.begin() + numKeys, areKeys.end(), false);
    auto flags = RankedTensorType::get({blocks, groups, groupSize}, builder.getI1Type());
    Value isKey = make<dfg::ConstantOp>(DenseElementsAttr::get(flags, ArrayRef<bool>(areKeys)));
    return make<dfg::SelectOp>(isKey, scores, mapping.lookup(none));
  }

  Blocks computeBlocks() {
    Blocks result;
    Value scores = computeScores();
    SmallVector<int64_t> ofBlock = {blockDim + 1, blockDim + 2};
    result.largest = reduce(scores, dfg::ReduceKind::Max, ofBlock);
    // Where a mask leaves nothing of a block, powers are to be 0, not those of infinity less infinity.
    Value isNothing = make<dfg::CompareOp>(result.largest, mapping.lookup(none), dfg::Comparison::Equal);
    Value from = make<dfg::SelectOp>(isNothing, mapping.lookup(zero), result.largest);
    Value powers = make<dfg::ExpOp>(make<dfg::SubOp>(scores, expanded(from, 2)));
    result.sum = reduce(powers, dfg::ReduceKind::Sum, ofBlock);
    SmallVector<int64_t> powersBatch = range(0, batchDims);
    powersBatch.push_back(blockDim);
    result.values = make<dfg::DotGeneralOp>(powers, mapping.lookup(value), powersBatch, range(0, batchDims + 1),
                                            ofBlock, range(batchDims + 1, batchDims + 3), /*wide=*/false);
    return result;
  }

  Value joinBlocks(const Blocks &each) {
    Value largest = expanded(reduce(each.largest, dfg::ReduceKind::Max, blockDim), 1);
    Value weights = make<dfg::ExpOp>(make<dfg::SubOp>(each.largest, largest));
    Value sum = reduce(make<dfg::MulOp>(weights, each.sum), dfg::ReduceKind::Sum, blockDim);
    SmallVector<int64_t> valueBatch = range(0, blockDim + 1);
    valueBatch.erase(valueBatch.begin() + batchDims);
    Value values = make<dfg::DotGeneralOp>(weights, each.values, range(0, blockDim), valueBatch,
                                           ArrayRef<int64_t>(blockDim), ArrayRef<int64_t>(batchDims), /*wide=*/false);
    return make<dfg::DivOp>(values, expanded(sum, 1));
  }

  dfg::Attention attention;
  OpBuilder builder;
  Location location;
  RankedTensorType type;
  SmallVector<int64_t, 4> leading;
  /// Dimensions of the scores in the kernel: `batchDims` of batches, then other leading ones, queries, blocks, groups,
  /// keys.
  int64_t batchDims, queryDim, blockDim;
  int64_t numKeys, block, blocks, groups, numQueries, paddedQueries;
  llvm::SetVector<Value> inputs;
  Value query, key, value, none, zero;
  /// By operand of the chain: what the kernel reads in its place.
  llvm::MapVector<OpOperand *, Value> others;
  IRMapping mapping;
};

class FuseAttention : public impl::FuseAttentionPassBase<FuseAttention> {
  void runOnOperation() override {
    if (dist::getDeviceOf(getOperation()).isGpu())
      return;
    SmallVector<dfg::Attention> found;
    for (Operation &op : getOperation().getBody().front())
      if (auto attention = dfg::findAttention(&op))
        found.push_back(*attention);
    for (dfg::Attention &attention : found) {
      RankedTensorType type = attention.getScoresType();
      double bytes = static_cast<double>(type.getNumElements()) * type.getElementTypeBitWidth() / 8;
      if (dfg::streamsScores(bytes, type.getDimSize(type.getRank() - 2), type.getShape().back()))
        AttentionBuilder(attention).run();
    }
  }
};

} // namespace
} // namespace cleave
