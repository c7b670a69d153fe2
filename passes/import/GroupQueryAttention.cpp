// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GroupQueryAttention of ONNX Runtime's domain com.microsoft: attention of language models with the keys and values of
// earlier steps, of which every sequence of the batch may have another number.

#include "passes/import/AttentionParts.h"
#include "passes/import/NormalizationParts.h"
#include "passes/import/OperatorTable.h"

#include <cmath>

using namespace mlir;

namespace cleave {

namespace {
/// One node. Past keys and values lie in buffers of `room` positions; what a sequence has of them ("past") is the same
/// for all sequences and known, or computed when the graph runs.
class GroupQueryAttention {
public:
  GroupQueryAttention(NodeImporter &node) : node(node) {}

  ImportResults build();

private:
  /// Inputs by their positions.
  enum : unsigned {
    Query,
    Key,
    Values,
    PastKey,
    PastValue,
    LastPositions,
    Total,
    Cosine,
    Sine,
    Positions,
    Bias,
    Sink,
    KeyScale,
    ValueScale,
    QueryNorm,
    KeyNorm
  };

  LogicalResult checkKnown();
  LogicalResult readHeads();
  LogicalResult readLengths();
  LogicalResult readPast();
  LogicalResult normalize();
  LogicalResult rotate();
  Value rotaryFactors(unsigned table);
  Value present(unsigned past, Value added);
  Value gatherPresent(Value past, Value added, int64_t size);
  Value keeps();
  Value softmax(Value scores);
  ImportResults buildAttention(Value keys, Value values);

  Value position(ArrayRef<int64_t> shape, int64_t dim) {
    return node.emitAs<dfg::IotaOp>(RankedTensorType::get(shape, node.getBuilder().getI64Type()), {},
                                    node.attr("dim", dim));
  }
  Value add(Value a, Value b) { return node.emit<dfg::AddOp>({a, b}); }
  Value sub(Value a, Value b) { return node.emit<dfg::SubOp>({a, b}); }
  Value plus(Value a, int64_t amount) {
    return amount == 0 ? a : add(a, node.scalar(node.getBuilder().getI64Type(), static_cast<double>(amount)));
  }

  NodeImporter &node;
  Value query, key, value; // batch x length x heads x size
  int64_t batch = 0, length = 0, total = 0, room = 0;
  std::optional<int64_t> past;
  /// Of one element a sequence, where `past` is not known.
  Value pasts;
  AttentionSizes sizes;
};
} // namespace

//===-- inputs ------------------------------------------------------------------------------------------------===//

LogicalResult GroupQueryAttention::checkKnown() {
  for (StringRef name : {"k_quant_type", "v_quant_type"})
    if (node.text(name, "NONE") != "NONE")
      return node.unsupported("quantized keys and values (\"" + name + "\") are not known");
  if (node.hasInput(KeyScale) || node.hasInput(ValueScale))
    return node.unsupported("quantized keys and values are not known");
  if (node.integer("sliding_window_cache", 0))
    return node.unsupported("a window as buffer (\"sliding_window_cache\" = 1) is not known");
  if (node.integer("qk_output", 0) || node.hasOutput(3))
    return node.unsupported("the products of queries and keys as a result (\"qk_output\") are not known");
  for (unsigned index : {LastPositions, Total})
    if (!node.hasInput(index))
      return node.error("expects input " + Twine(index));
  return success();
}

/// Queries, keys and values apart, also where they come as one tensor.
LogicalResult GroupQueryAttention::readHeads() {
  int64_t heads = node.integer("num_heads", 0), groups = node.integer("kv_num_heads", 0);
  if (heads < 1 || groups < 1 || heads % groups != 0)
    return node.error("expects \"num_heads\" to be a multiple of \"kv_num_heads\", got " + Twine(heads) + " and " +
                      Twine(groups));
  if (node.hasInput(Key) != node.hasInput(Values))
    return node.error("expects keys and values together");
  bool isPacked = !node.hasInput(Key);
  for (unsigned i = 0; i < (isPacked ? 1u : 3u); ++i)
    if (node.rank(i) != 3)
      return node.error("expects queries, keys and values of rank 3");
  batch = node.shape(Query)[0], length = node.shape(Query)[1];
  // More heads than elements do not divide them, and must not overflow before that is clear.
  int64_t width = node.shape(Query)[2], parts = std::min(heads, width + 1);
  if (isPacked)
    parts += 2 * std::min(groups, width + 1);
  if (width % parts != 0)
    return node.error("expects a number of heads that divides " + Twine(width) + ", got " + Twine(parts));
  int64_t size = width / parts;
  auto apart = [&](Value flat, int64_t count) { return node.reshape(flat, {batch, length, count, size}); };
  if (isPacked) {
    auto part = [&](int64_t first, int64_t count) {
      return apart(node.slice(node.input(Query), 2, first * size, (first + count) * size), count);
    };
    query = part(0, heads), key = part(heads, groups), value = part(heads + groups, groups);
    return success();
  }
  for (unsigned i : {Key, Values})
    if (node.shape(i) != ArrayRef<int64_t>({batch, length, groups * size}))
      return node.error("expects keys and values that fit the queries");
  query = apart(node.input(Query), heads), key = apart(node.input(Key), groups);
  value = apart(node.input(Values), groups);
  return success();
}

/// How many positions the longest sequence has, which fixes shapes.
LogicalResult GroupQueryAttention::readLengths() {
  FailureOr<double> longest = node.knownNumber(Total);
  if (failed(longest))
    return failure();
  if (node.hasInput(PastKey) != node.hasInput(PastValue))
    return node.error("expects past keys and past values together");
  ArrayRef<int64_t> keyShape = NodeImporter::typeOf(key).getShape();
  for (unsigned i : {PastKey, PastValue}) {
    if (!node.hasInput(i))
      continue;
    ArrayRef<int64_t> shape = node.shape(i);
    if (shape.size() != 4 || shape[0] != batch || shape[1] != keyShape[2] || shape[3] != keyShape[3] ||
        shape[2] != node.shape(PastKey)[2])
      return node.error("expects past keys and values of rank 4 that fit the keys");
    room = shape[2];
  }
  if (*longest < static_cast<double>(length) || *longest > static_cast<double>(length + room))
    return node.error("expects a total length from " + Twine(length) + " to " + Twine(length + room) +
                      ", the queries' and what the past has, got " + Twine(static_cast<int64_t>(*longest)));
  total = static_cast<int64_t>(*longest);
  if (node.type(LastPositions).getNumElements() != batch)
    return node.error("expects the last position of each of the " + Twine(batch) + " sequences");
  return success();
}

/// How much of the past there is. The first step has none; a single sequence is the longest one.
LogicalResult GroupQueryAttention::readPast() {
  if (total == length || batch == 1) {
    past = total - length;
    return success();
  }
  if (std::optional<HostTensor> last = node.knownIfAny(LastPositions);
      last && last->getElementType().isInteger(32) && llvm::all_equal(last->as<int32_t>())) {
    past = int64_t(last->as<int32_t>().front()) + 1 - length;
    if (*past < 0 || *past > room)
      return node.error("expects a past from 0 to " + Twine(room) + " positions, got " + Twine(*past));
    return success();
  }
  Value last = node.cast(node.reshape(node.input(LastPositions), {batch}), node.getBuilder().getI64Type());
  pasts = plus(last, 1 - length);
  return success(static_cast<bool>(pasts));
}

/// Each head of queries and keys by its own root mean square, where the node has scales for both.
LogicalResult GroupQueryAttention::normalize() {
  if (node.hasInput(QueryNorm) != node.hasInput(KeyNorm))
    return node.error("expects scales of normalized queries and keys together");
  if (!node.hasInput(QueryNorm))
    return success();
  double epsilon = node.real("qk_norm_epsilon", 1e-6);
  auto normalized = [&](Value heads, unsigned scale) -> Value {
    if (!heads)
      return {};
    if (node.shape(scale) != NodeImporter::typeOf(heads).getShape().take_back()) {
      (void)node.error("expects input " + Twine(scale) + " to have one element for each of a head");
      return {};
    }
    Value root = rootMeanSquare(node, heads, {3}, epsilon);
    return scaleAndShift(node, node.emit<dfg::DivOp>({heads, root}), node.input(scale), Value());
  };
  query = normalized(query, QueryNorm);
  key = normalized(key, KeyNorm);
  return success(query && key);
}

//===-- rotary embeddings -------------------------------------------------------------------------------------===//

/// The factors of the new positions: batch (or 1) x length x 1 x pairs.
Value GroupQueryAttention::rotaryFactors(unsigned table) {
  int64_t rows = node.shape(table)[0], pairs = node.shape(table)[1];
  if (past && !node.hasInput(Positions)) {
    if (*past + length > rows) {
      (void)node.error("expects factors for " + Twine(*past + length) + " positions, got " + Twine(rows));
      return {};
    }
    return node.reshape(node.slice(node.input(table), 0, *past, *past + length), {1, length, 1, pairs});
  }
  Value positions =
      node.hasInput(Positions) ? node.input(Positions) : add(node.reshape(pasts, {batch, 1}), position({1, length}, 1));
  Value factors = node.emit<dfg::GatherOp>({node.input(table), positions}, node.attr("dim", int64_t(0)));
  return node.reshape(factors, {batch, length, 1, pairs});
}

LogicalResult GroupQueryAttention::rotate() {
  if (!node.integer("do_rotary", 0))
    return success();
  int64_t size = NodeImporter::typeOf(query).getDimSize(3);
  for (unsigned table : {Cosine, Sine})
    if (!node.hasInput(table) || node.rank(table) != 2 || node.shape(table) != node.shape(Cosine) ||
        node.shape(table)[1] < 1 || 2 * node.shape(table)[1] > size)
      return node.error("expects tables of cosines and sines of at most " + Twine(size / 2) + " columns");
  if (node.hasInput(Positions) && node.shape(Positions) != ArrayRef<int64_t>({batch, length}))
    return node.error("expects one position an element of each sequence");
  Value cosine = rotaryFactors(Cosine), sine = rotaryFactors(Sine);
  bool neighbours = node.integer("rotary_interleaved", 0);
  query = turnPairs(node, query, cosine, sine, neighbours);
  key = turnPairs(node, key, cosine, sine, neighbours);
  return success(query && key);
}

//===-- past and present --------------------------------------------------------------------------------------===//

/// The past's keys (or values) followed by the new ones, and zeros up to the end of the buffer.
Value GroupQueryAttention::present(unsigned index, Value added) {
  added = node.transpose(added, {0, 2, 1, 3});
  int64_t size = std::max(room, total);
  if (!past)
    return gatherPresent(node.input(index), added, size);
  Value joined = added;
  if (*past > 0)
    joined = node.concat({node.slice(node.input(index), 2, 0, *past), added}, 2);
  if (*past + length >= size)
    return joined;
  Value zero = node.scalar(NodeImporter::elementOf(added), 0.0);
  return node.emit<dfg::PadOp>({joined, zero},
                               {node.attr("low", {0, 0, 0, 0}), node.attr("high", {0, 0, size - *past - length, 0})});
}

/// The same where each sequence has a past of its own: every position is looked up in past, new ones and a zero.
Value GroupQueryAttention::gatherPresent(Value pastValues, Value added, int64_t size) {
  Value zero = node.scalar(NodeImporter::elementOf(added), 0.0);
  Value all = node.emit<dfg::PadOp>({node.concat({pastValues, added}, 2), zero},
                                    {node.attr("low", {0, 0, 0, 0}), node.attr("high", {0, 0, 1, 0})});
  Type index = node.getBuilder().getI64Type();
  Value own = node.reshape(pasts, {batch, 1, 1, 1}), place = position({1, 1, size, 1}, 2), offset = sub(place, own);
  Value isNew = node.compare(offset, node.scalar(index, static_cast<double>(length)), dfg::Comparison::Less);
  Value behind =
      node.emit<dfg::SelectOp>({isNew, plus(offset, room), node.scalar(index, static_cast<double>(room + length))});
  Value isPast = node.compare(place, own, dfg::Comparison::Less);
  Value from = node.emit<dfg::SelectOp>({isPast, place, behind});
  return node.emit<dfg::GatherElementsOp>({all, from}, node.attr("dim", int64_t(2)));
}

//===-- the attention itself ----------------------------------------------------------------------------------===//

/// Which keys a query may attend to: none behind it, and none so far before it that the window has passed. Null where
/// it may attend to all.
Value GroupQueryAttention::keeps() {
  int64_t window = node.integer("local_window_size", -1);
  bool isCausalToo = node.integer("causal", 1);
  // A buffer with room is longer than the sequences, whatever they may attend to.
  if (past && window < 0 && (!isCausalToo || length == 1) && *past + length == sizes.total)
    return {};
  SmallVector<int64_t> shape = {length, sizes.total};
  Value key = position(shape, 1), own = position(shape, 0);
  own = past ? plus(own, *past) : add(own, node.reshape(pasts, {batch, 1, 1, 1}));
  Value kept;
  if (isCausalToo) {
    kept = node.compare(key, own, dfg::Comparison::LessOrEqual);
  } else {
    Value ends = past ? node.scalar(node.getBuilder().getI64Type(), static_cast<double>(*past + length))
                      : plus(node.reshape(pasts, {batch, 1, 1, 1}), length);
    kept = node.compare(key, ends, dfg::Comparison::Less);
  }
  if (window < 0)
    return kept;
  return node.emit<dfg::AndOp>({kept, node.compare(key, plus(own, -window), dfg::Comparison::Greater)});
}

/// Softmax over the keys and, where there is one, a sink that takes weight and gives nothing.
Value GroupQueryAttention::softmax(Value scores) {
  auto overKeys = [&](Value of) { return node.emit<dfg::SoftmaxOp>(of, node.attr("dim", int64_t(3))); };
  if (!scores || (!node.integer("smooth_softmax", 0) && !node.hasInput(Sink)))
    return overKeys(scores);
  Type element = NodeImporter::elementOf(scores);
  Value sink = node.hasInput(Sink) ? node.cast(node.reshape(node.input(Sink), {1, sizes.heads, 1, 1}), element)
                                   : node.scalar(element, 0.0);
  Value column = node.broadcast(sink, {batch, sizes.heads, length, 1});
  return node.slice(overKeys(node.concat({scores, column}, 3)), 3, 0, sizes.total);
}

ImportResults GroupQueryAttention::buildAttention(Value keys, Value values) {
  Value heads = node.transpose(query, {0, 2, 1, 3});
  if (!keys || !values)
    return failure();
  // What the buffers have behind the longest sequence nobody attends to.
  int64_t reached = std::min(total, NodeImporter::typeOf(keys).getDimSize(2));
  Value reachedKeys = node.slice(keys, 2, 0, reached), reachedValues = node.slice(values, 2, 0, reached);
  FailureOr<AttentionSizes> read = readAttentionSizes(node, heads, reachedKeys, reachedValues);
  if (failed(read))
    return failure();
  sizes = *read;
  AttentionRule rule;
  double scale = node.real("scale", 0.0);
  rule.scale = scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(sizes.size)) : scale;
  rule.cap = node.real("softcap", 0.0);
  rule.precision = node.type(Query).getElementType();
  rule.mask = [&](Value scores) {
    if (node.hasInput(Bias))
      scores = addToScores(node, scores, node.input(Bias));
    Value kept = keeps();
    return kept ? keepScores(node, kept, scores) : scores;
  };
  rule.softmax = [&](Value scores) { return softmax(scores); };
  AttentionValues attention = attend(node, sizes, heads, reachedKeys, reachedValues, rule);
  return SmallVector<NodeResult, 1>{joinHeads(node, attention.result), keys, values};
}

ImportResults GroupQueryAttention::build() {
  if (failed(checkKnown()) || failed(readHeads()) || failed(readLengths()) || failed(readPast()) ||
      failed(normalize()) || failed(rotate()))
    return failure();
  Value keys = present(PastKey, key), values = present(PastValue, value);
  return buildAttention(keys, values);
}

void addGroupQueryAttentionOperators(OperatorTable &table) {
  table.add("com.microsoft.GroupQueryAttention",
            {[](NodeImporter &node) { return GroupQueryAttention(node).build(); }, 1, 16, Elements::Float, 1});
}

} // namespace cleave
