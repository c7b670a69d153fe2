// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds attention with gathered keys and values, and writes it as a ring.

#include "passes/distribute/KeyRing.h"

#include "dialects/dfg/TensorType.h"
#include "dialects/dist/Accumulation.h"
#include "passes/distribute/RingChunks.h"

#include <limits>

using namespace mlir;

namespace cleave {

using dist::Layout;

namespace {
/// A product of the attention, with the operand and dimension of the keys or values in it.
struct KeyOperand {
  dfg::DotGeneralOp product;
  Value value;
  int64_t dim;
};
} // namespace

/// The operand of a product that is not of scores, and its dimension of keys; none where it has no keys.
static std::optional<KeyOperand> keysBeside(OpOperand &scores) {
  auto product = cast<dfg::DotGeneralOp>(scores.getOwner());
  unsigned own = scores.getOperandNumber(), other = 1 - own;
  SplitRule rule = product.getSplitRule();
  const DimFactors &keys = rule.operands[own].back();
  auto found = llvm::find(rule.operands[other], keys);
  if (found == rule.operands[other].end())
    return std::nullopt;
  return KeyOperand{product, product->getOperand(other), found - rule.operands[other].begin()};
}

static KeyOperand rhsKeys(dfg::DotGeneralOp product) { return {product, product.getRhs(), product.getRhsFree()[0]}; }

/// All products with keys or values.
static SmallVector<KeyOperand> keyOperands(dfg::Attention &attention) {
  dfg::DotGeneralOp result = attention.result;
  SmallVector<KeyOperand> list = {rhsKeys(attention.scores), {result, result.getRhs(), result.getRhsContracting()[0]}};
  if (!attention.gradient)
    return list;
  list.push_back(rhsKeys(attention.gradient->weights));
  for (OpOperand *use : attention.gradient->overKeys)
    if (auto beside = keysBeside(*use))
      list.push_back(*beside);
  return list;
}

/// The reduce-scatter that brings the gradient of keys or values, which nothing else reads, where they are: one, or the
/// last of some of an axis each. Null where there is none.
static dist::ReduceScatterOp findScatter(Value gradient, int64_t dim, const dist::Part &keys) {
  std::optional<Layout> first;
  dist::ReduceScatterOp last;
  while (gradient.hasOneUse()) {
    auto scatter = dyn_cast<dist::ReduceScatterOp>(*gradient.user_begin());
    if (!scatter || scatter.getInputs().size() != 1)
      break;
    if (!first)
      first = Layout::of(scatter.getFromLayout(0));
    last = scatter;
    gradient = scatter.getResult(0);
    if (Layout::of(scatter.getToLayout(0)).partial.empty())
      break;
  }
  if (!last)
    return {};
  Layout home = Layout::of(last.getToLayout(0));
  dist::DimParts &parts = home.dims[static_cast<size_t>(dim)];
  if (parts.size() != 1 || !(parts.front() == keys) || !home.partial.empty() || first->combiner != Combiner::Sum ||
      first->partial.size() != keys.axes.size() ||
      !llvm::all_of(keys.axes, [&](StringAttr axis) { return llvm::is_contained(first->partial, axis); }))
    return {};
  parts.front().axes.clear();
  return first->dims == home.dims ? last : dist::ReduceScatterOp();
}

/// Of a product that sums up over queries: the factor of keys, and its place in the result.
static std::pair<unsigned, int64_t> keysOf(OpOperand &scores) {
  SplitRule rule = cast<SplitInterface>(scores.getOwner()).getSplitRule();
  const DimFactors &keys = rule.operands[scores.getOperandNumber()].back();
  auto found = llvm::find(rule.results.front(), keys);
  return {keys.front(), found - rule.results.front().begin()};
}

namespace {
/// Where all of a gradient can be computed: in front of the first of its operators, once what it needs is there.
struct GradientPlace {
  Operation *front = nullptr;
  /// In order: what comes behind the place as yet, and moves there.
  SmallVector<Operation *> needed;
};
} // namespace

/// Nothing where something that the gradient needs follows from a part of it.
static std::optional<GradientPlace> findPlace(dfg::Attention &attention) {
  llvm::SetVector<Operation *> all = attention.getAllOperators();
  llvm::SmallPtrSet<Operation *, 16> forward;
  forward.insert_range(attention.getOperators());
  // What only repeats the attention is not made again.
  auto isMade = [&](Operation *op) {
    return !forward.contains(op) && !attention.gradient->repeated.contains(op->getResult(0));
  };
  GradientPlace place;
  SmallVector<Operation *> readers;
  for (Operation *op : llvm::make_filter_range(all, isMade)) {
    readers.push_back(op);
    if (!place.front || op->isBeforeInBlock(place.front))
      place.front = op;
  }
  if (!place.front || place.front->isBeforeInBlock(attention.result))
    return std::nullopt;
  llvm::SetVector<Operation *> needed;
  while (!readers.empty()) {
    Operation *reader = readers.pop_back_val();
    for (Value operand : reader->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || producer->isBeforeInBlock(place.front))
        continue;
      bool isOfGradient = all.contains(producer);
      if ((isOfGradient && needed.contains(reader)) || !isMemoryEffectFree(producer))
        return std::nullopt;
      if (!isOfGradient && needed.insert(producer))
        readers.push_back(producer);
    }
  }
  place.needed = needed.takeVector();
  llvm::sort(place.needed, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return place;
}

/// Whether the result's gradient lies as the result does, so that their products can be summed up.
static bool isLikeResult(dfg::Attention &attention) {
  dfg::DotGeneralOp weights = attention.gradient->weights, result = attention.result;
  int64_t rank = tensorType(result.getResult()).getRank();
  return weights.getLhs().getType() == result.getType() && weights.getLhsContracting() == ArrayRef<int64_t>(rank - 1) &&
         weights.getLhsBatch() == result.getLhsBatch();
}

std::optional<KeyRing> findKeyRing(dfg::SoftmaxOp softmax, const dist::MeshShape &mesh, std::string &why) {
  why.clear();
  auto found = dfg::findAttention(softmax, nullptr, dfg::ScoreTypes::Any);
  if (!found)
    return std::nullopt;
  SmallVector<KeyOperand> operands = keyOperands(*found);
  auto first = findGathered(operands.front().value, operands.front().dim);
  if (!first)
    return std::nullopt;
  KeyRing ring{std::move(*found), mesh, first->getPart()};
  auto refuse = [&](const char *reason) {
    why = std::string("are gathered: ") + reason;
    return std::nullopt;
  };
  if (ring.keys.isPadded(mesh))
    return refuse("the devices have unequal numbers of keys");
  llvm::SetVector<Operation *> all = ring.attention.getAllOperators();
  for (const KeyOperand &operand : operands) {
    auto gathered = findGathered(operand.value, operand.dim);
    if (!gathered || !(gathered->getPart() == ring.keys))
      return refuse("keys and values are not gathered along the same axes");
    if (!llvm::all_of(operand.value.getUsers(), [&](Operation *user) { return all.contains(user); }))
      return refuse("others read what is gathered");
  }
  OpBuilder builder(softmax);
  RingChunks chunks(ring, builder);
  dfg::Attention &attention = ring.attention;
  int64_t last = attention.getScoresType().getRank() - 1;
  Value weights = attention.result.getLhs();
  if (!chunks.canChunk(attention.softmax.getInput(), last) ||
      !chunks.canChunk(weights, tensorType(weights).getRank() - 1))
    return refuse("what the scores are made of cannot be cut along the keys");
  if (!attention.gradient)
    return ring;
  if (!isLikeResult(attention))
    return refuse("the gradient of the result lies in another way than the result");
  for (OpOperand *use : attention.gradient->overQueries)
    if (!findScatter(use->getOwner()->getResult(0), keysOf(*use).second, ring.keys))
      return refuse("the gradients of keys and values are not scattered along the same axes");
  for (const auto *uses : {&attention.gradient->overKeys, &attention.gradient->overQueries})
    for (OpOperand *use : *uses)
      if (!chunks.canChunk(use->get(), tensorType(use->get()).getRank() - 1))
        return refuse("the gradient of the scores cannot be cut along the keys");
  if (!findPlace(attention))
    return refuse("products of the gradient depend on each other");
  return ring;
}

//===-- writing -----------------------------------------------------------------------------------------------===//

namespace {

class RingWriter {
public:
  explicit RingWriter(KeyRing &ring)
      : ring(ring), attention(ring.attention), builder(attention.result), location(attention.softmax.getLoc()) {}

  void run() {
    llvm::SetVector<Operation *> old = attention.getAllOperators();
    std::optional<GradientPlace> place;
    if (attention.gradient)
      place = findPlace(attention);
    writeForward();
    if (place) {
      for (Operation *op : place->needed)
        op->moveBefore(place->front);
      builder.setInsertionPoint(place->front);
      writeBackward();
    }
    attention.result.getResult().replaceAllUsesWith(result);
    eraseAll(old);
  }

private:
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, location, std::forward<Args>(args)...);
  }
  Value reduce(Value value, dfg::ReduceKind kind) {
    return make<dfg::ReduceOp>(value, kind, ArrayRef<int64_t>(tensorType(value).getRank() - 1), /*keep_dims=*/true);
  }
  Value scalar(double number) {
    Type element = wideType();
    auto type = RankedTensorType::get({}, element);
    return make<dfg::ConstantOp>(DenseElementsAttr::get(type, Attribute(builder.getFloatAttr(element, number))));
  }
  /// Chunks are joined in f64 where scores are that, else in f32: with each chunk numbers of 16 bits would be rounded
  /// once more.
  Type wideType() {
    Type element = attention.getScoresType().getElementType();
    return element.isF64() ? element : builder.getF32Type();
  }
  Value toType(Value value, Type element) {
    return tensorType(value).getElementType() == element ? value : make<dfg::CastOp>(value, element);
  }
  Value widened(Value value) { return toType(value, wideType()); }
  /// With elements as those of another value.
  Value castLike(Value value, Value other) { return toType(value, tensorType(other).getElementType()); }
  Value powers(Value of, Value from) { return make<dfg::ExpOp>(make<dfg::SubOp>(of, from)); }
  /// A number a query under the shape of the result, or of scores, with one element in the last dimension.
  Value queries(Value value, Type like) {
    SmallVector<int64_t> shape(cast<RankedTensorType>(like).getShape());
    shape.back() = 1;
    RankedTensorType type = tensorType(value).clone(shape);
    return type == value.getType() ? value : make<dfg::ReshapeOp>(type, value);
  }
  /// Those that the products read.
  static SmallVector<Gathered> gatheredOf(ArrayRef<KeyOperand> operands) {
    SmallVector<Gathered> list;
    DenseSet<Value> known;
    for (const KeyOperand &operand : operands)
      if (known.insert(operand.value).second)
        list.push_back(*findGathered(operand.value, operand.dim));
    return list;
  }
  /// `a` and `b` weighed.
  Value join(Value a, Value weightA, Value b, Value weightB) {
    auto like = [&](Value weight) { return queries(weight, a.getType()); };
    return running(make<dfg::AddOp>(make<dfg::MulOp>(a, like(weightA)), make<dfg::MulOp>(b, like(weightB))));
  }
  /// What is joined of the chunks so far: no kernel computes with several chunks, of which only one is there.
  static Value running(Value joined) {
    joined.getDefiningOp()->setAttr(dist::accumulatesAttrName, UnitAttr::get(joined.getContext()));
    return joined;
  }

  void writeForward() {
    RingChunks chunks(ring, builder);
    SmallVector<KeyOperand> operands = keyOperands(attention);
    SmallVector<Gathered> gathered = gatheredOf(ArrayRef(operands).take_front(2));
    int64_t last = attention.getScoresType().getRank() - 1;
    Value lowest =
        scalar(wideType().isF64() ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest());
    Value largest, sum, values;
    for (int64_t step = 0; step != ring.numSteps(); ++step) {
      chunks.begin(step, gathered);
      Value scores = widened(chunks.chunk(attention.softmax.getInput(), last));
      // Where a mask leaves nothing of a chunk, powers are to be 0, not those of infinity less infinity.
      Value most = reduce(scores, dfg::ReduceKind::Max), chunkLargest = make<dfg::MaxOp>(most, lowest);
      // As the product reads them: what they are divided by is the sum of these.
      Value weights = castLike(powers(scores, chunkLargest), attention.softmax.getResult());
      Value chunkSum = reduce(widened(weights), dfg::ReduceKind::Sum);
      chunks.replaced[attention.softmax.getResult()] = weights;
      Value chunkValues = widened(chunks.apply(attention.result, keysFactor(attention.result->getOpOperand(0))));
      if (step == 0) {
        // Summed up at once: else the weights would wait for the next chunk's.
        std::tie(sum, values) = std::pair(running(chunkSum), chunkValues);
        largest = running(make<dfg::MaxOp>(most, lowest));
        continue;
      }
      Value both = running(make<dfg::MaxOp>(largest, chunkLargest));
      Value before = powers(largest, both), now = powers(chunkLargest, both);
      sum = join(sum, before, chunkSum, now);
      values = join(values, before, chunkValues, now);
      largest = both;
    }
    result = castLike(make<dfg::DivOp>(values, queries(sum, values.getType())), attention.result.getResult());
    if (attention.gradient)
      logSum = make<dfg::AddOp>(largest, make<dfg::LogOp>(sum));
  }

  static unsigned keysFactor(OpOperand &scores) {
    return cast<SplitInterface>(scores.getOwner()).getSplitRule().operands[scores.getOperandNumber()].back().front();
  }

  /// The sums over the keys of weights and their gradient are those of the result and its gradient.
  Value sumOfGradient() {
    Value product = make<dfg::MulOp>(widened(attention.gradient->weights.getLhs()), widened(result));
    Value sums = attention.gradient->sums.getResult();
    return castLike(queries(reduce(product, dfg::ReduceKind::Sum), sums.getType()), sums);
  }

  void writeBackward() {
    dfg::AttentionGradient &gradient = *attention.gradient;
    RingChunks chunks(ring, builder);
    chunks.replaced[gradient.sums.getResult()] = sumOfGradient();
    SmallVector<Gathered> gathered = gatheredOf(keyOperands(attention));
    // Else chunks and scores of the forward pass would be the same values, and kept until here.
    int64_t number = nextBarrier();
    for (Gathered &tensor : gathered)
      tensor.own = make<dfg::BarrierOp>(tensor.own, number++);
    int64_t last = attention.getScoresType().getRank() - 1;
    SmallVector<Value> overKeys(gradient.overKeys.size()), overQueries(gradient.overQueries.size());
    for (int64_t step = 0; step != ring.numSteps(); ++step) {
      chunks.replaced.erase(attention.softmax.getResult());
      chunks.begin(step, gathered);
      Value scores = widened(chunks.chunk(attention.softmax.getInput(), last));
      chunks.replaced[attention.softmax.getResult()] = castLike(powers(scores, logSum), attention.softmax.getResult());
      for (auto [use, sum] : llvm::zip_equal(gradient.overQueries, overQueries)) {
        Value term = chunks.apply(use->getOwner(), keysFactor(*use));
        sum = sum ? running(make<dfg::AddOp>(passGradient(chunks, *use, sum, step - 1), term)) : term;
      }
      for (auto [use, sum] : llvm::zip_equal(gradient.overKeys, overKeys)) {
        Value term = widened(chunks.apply(use->getOwner(), keysFactor(*use)));
        sum = sum ? running(make<dfg::AddOp>(sum, term)) : term;
      }
    }
    SmallVector<Operation *> scatters;
    for (auto [use, sum] : llvm::zip_equal(gradient.overQueries, overQueries)) {
      Value home = passGradient(chunks, *use, sum, ring.numSteps() - 1);
      scatterOf(*use).getResult(0).replaceAllUsesWith(home);
      for (Operation *op = *use->getOwner()->user_begin(); op;) {
        scatters.push_back(op);
        op = op->use_empty() ? nullptr : *op->user_begin();
      }
    }
    for (auto [use, sum] : llvm::zip_equal(gradient.overKeys, overKeys))
      use->getOwner()->getResult(0).replaceAllUsesWith(castLike(sum, use->getOwner()->getResult(0)));
    for (Operation *scatter : llvm::reverse(scatters))
      scatter->erase();
  }

  /// The first number that no barrier of the program has.
  int64_t nextBarrier() const {
    int64_t next = 0;
    for (auto barrier : attention.softmax->getBlock()->getOps<dfg::BarrierOp>())
      next = std::max(next, static_cast<int64_t>(barrier.getNumber()) + 1);
    return next;
  }

  dist::ReduceScatterOp scatterOf(OpOperand &use) const {
    return findScatter(use.getOwner()->getResult(0), keysOf(use).second, ring.keys);
  }

  /// The sum so far of a chunk's gradients goes on with the chunk.
  Value passGradient(const RingChunks &chunks, OpOperand &use, Value sum, int64_t from) {
    auto [factor, dim] = keysOf(use);
    dist::LayoutAttr layout = scatterOf(use).getToLayout(0);
    return make<dist::PermuteOp>(sum.getType(), sum, chunks.layoutAt(layout, dim, from),
                                 chunks.layoutAt(layout, dim, from + 1));
  }

  /// What is no more, and what only that needed.
  static void eraseAll(llvm::SetVector<Operation *> &old) {
    SmallVector<Operation *> list = old.takeVector();
    llvm::sort(list, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
    llvm::SetVector<Operation *> needed;
    auto erase = [&](Operation *op) {
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          needed.insert(producer);
      needed.remove(op);
      op->erase();
    };
    for (Operation *op : list)
      erase(op);
    while (!needed.empty()) {
      Operation *op = needed.pop_back_val();
      if (op->use_empty() && isMemoryEffectFree(op))
        erase(op);
    }
  }

  KeyRing &ring;
  dfg::Attention &attention;
  OpBuilder builder;
  Location location;
  /// By query, what takes the place of the result, and the logarithm of the sum of its scores' powers.
  Value result, logSum;
};

} // namespace

void writeKeyRing(KeyRing &ring) { RingWriter(ring).run(); }

} // namespace cleave
