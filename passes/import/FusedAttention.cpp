// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention as ONNX Runtime's optimizer writes it (domain com.microsoft): with the projections in front (Attention), or
// with their biases only (MultiHeadAttention). Every head of queries has keys of its own.

#include "passes/import/AttentionParts.h"
#include "passes/import/OperatorTable.h"

#include <cmath>

using namespace mlir;

namespace cleave {

namespace {
/// What both operators have in common once queries, keys and values are there.
class FusedAttention {
public:
  FusedAttention(NodeImporter &node) : node(node), heads(node.integer("num_heads", 0)) {}

  ImportResults buildProjected();
  ImportResults buildMultiHead();

private:
  FailureOr<SmallVector<Value>> project();
  FailureOr<SmallVector<Value>> readPacked();
  FailureOr<SmallVector<Value>> readApart();
  LogicalResult checkMultiHead();
  Value packedPart(unsigned index, int64_t part);
  Value withBias(Value value, int64_t start);

  FailureOr<Value> isKept(unsigned mask);
  /// The attention with a mask and a bias of the scores, where the node has these inputs.
  FailureOr<Value> build(unsigned mask, unsigned bias, int64_t past);

  NodeImporter &node;
  int64_t heads;
  Value query, key, value;
  AttentionSizes sizes;
};
} // namespace

//===-- the attention itself ----------------------------------------------------------------------------------===//

/// Which keys a query may attend to, in a shape that broadcasts over the scores. A mask of one dimension says where
/// each sequence ends, and may say behind that where it begins; others have one number a key, zero where it is masked.
FailureOr<Value> FusedAttention::isKept(unsigned index) {
  ArrayRef<int64_t> shape = node.shape(index);
  Type element = node.type(index).getElementType();
  Value mask = node.input(index);
  if (element.isInteger(1))
    return FailureOr<Value>(node.error("expects a mask of integers"));
  auto isMatrix = [&](ArrayRef<int64_t> wanted) { return shape == wanted; };
  if (isMatrix({sizes.batch, sizes.total}) || isMatrix({sizes.batch, sizes.length, sizes.total})) {
    int64_t rows = shape.size() == 2 ? 1 : sizes.length;
    Value apart = node.reshape(mask, {sizes.batch, 1, rows, sizes.total});
    return node.compare(apart, node.scalar(element, 0.0), dfg::Comparison::Greater);
  }
  if (!isMatrix({sizes.batch}) && !isMatrix({2 * sizes.batch})) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleave(shape, stream, "x");
    return FailureOr<Value>(node.unsupported("a mask of shape " + text + " is not known"));
  }
  auto type = RankedTensorType::get({1, 1, 1, sizes.total}, element);
  Value position = node.emitAs<dfg::IotaOp>(type, {}, node.attr("dim", int64_t(3)));
  auto bounds = [&](int64_t first) {
    return node.reshape(node.slice(mask, 0, first, first + sizes.batch), {sizes.batch, 1, 1, 1});
  };
  Value kept = node.compare(position, bounds(0), dfg::Comparison::Less);
  if (shape[0] == sizes.batch)
    return kept;
  return node.emit<dfg::AndOp>({kept, node.compare(position, bounds(sizes.batch), dfg::Comparison::GreaterOrEqual)});
}

FailureOr<Value> FusedAttention::build(unsigned mask, unsigned bias, int64_t past) {
  FailureOr<AttentionSizes> read = readAttentionSizes(node, query, key, value);
  if (failed(read))
    return failure();
  sizes = *read;
  Value kept;
  if (node.hasInput(mask)) {
    FailureOr<Value> known = isKept(mask);
    if (failed(known))
      return failure();
    kept = *known;
  }
  AttentionRule rule;
  double scale = node.real("scale", 0.0), filter = node.real("mask_filter_value", -10000.0);
  rule.scale = scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(sizes.size)) : scale;
  rule.precision = node.type(0).getElementType();
  bool isCausalToo = node.integer("unidirectional", 0);
  rule.mask = [&](Value scores) -> Value {
    if (!scores)
      return {};
    Type element = NodeImporter::elementOf(scores);
    // A masked score is made small, not minus infinity: where all are masked, they count as they are.
    if (kept)
      scores = node.emit<dfg::AddOp>(
          {scores, node.emit<dfg::SelectOp>({kept, node.scalar(element, 0.0), node.scalar(element, filter)})});
    if (isCausalToo)
      scores = keepScores(node, isCausal(node, sizes.length, sizes.total, past), scores);
    return node.hasInput(bias) ? addToScores(node, scores, node.input(bias)) : scores;
  };
  Value result = attend(node, sizes, query, key, value, rule).result;
  return joinHeads(node, result);
}

//===-- Attention ---------------------------------------------------------------------------------------------===//

/// Queries, keys and values (batch x sequence x heads * size): each has its columns of the weights. Cutting the weights
/// and not the product leaves a split by heads without communication.
FailureOr<SmallVector<Value>> FusedAttention::project() {
  using Parts = FailureOr<SmallVector<Value>>;
  if (node.rank(0) != 3 || node.rank(1) != 2 || node.shape(0)[2] != node.shape(1)[0])
    return Parts(node.error("expects an input of rank 3 and weights with a row for each of its features"));
  int64_t columns = node.shape(1)[1];
  SmallVector<int64_t> widths = {columns / 3, columns / 3, columns / 3};
  if (std::optional<SmallVector<int64_t>> given = node.integers("qkv_hidden_sizes"))
    widths = *given;
  if (widths.size() != 3 || llvm::any_of(widths, [&](int64_t width) { return width < 1 || width > columns; }) ||
      widths[0] + widths[1] + widths[2] != columns)
    return Parts(node.error("expects weights with columns for queries, keys and values, got " + Twine(columns)));
  if (node.hasInput(2) && node.shape(2) != ArrayRef<int64_t>(columns))
    return Parts(node.error("expects a bias of " + Twine(columns) + " elements"));
  SmallVector<Value> parts;
  int64_t start = 0;
  for (int64_t width : widths) {
    Value weights = node.slice(node.input(1), 1, start, start + width);
    Value part = node.dot(node.input(0), weights, {}, {}, {2}, {0});
    if (node.hasInput(2))
      part = node.emit<dfg::AddOp>({part, node.slice(node.input(2), 0, start, start + width)});
    parts.push_back(splitHeads(node, part, heads));
    start += width;
  }
  return parts;
}

ImportResults FusedAttention::buildProjected() {
  if (node.integer("do_rotary", 0))
    return node.unsupported("rotary embeddings without their factors (\"do_rotary\" = 1) are not known");
  if (node.integer("past_present_share_buffer", 0) || node.hasInput(6))
    return node.unsupported("a buffer that past and present share (\"past_present_share_buffer\" = 1) is not known");
  FailureOr<SmallVector<Value>> parts = project();
  if (failed(parts))
    return failure();
  query = (*parts)[0], key = (*parts)[1], value = (*parts)[2];
  int64_t past = 0;
  if (node.hasInput(4)) {
    ArrayRef<int64_t> shape = node.shape(4);
    if (shape.size() != 5 || shape[0] != 2)
      return node.error("expects past keys and values in one tensor of rank 5");
    past = shape[3];
    auto before = [&](int64_t part) {
      return node.reshape(node.slice(node.input(4), 0, part, part + 1), shape.drop_front());
    };
    key = node.concat({before(0), key}, 2);
    value = node.concat({before(1), value}, 2);
  }
  FailureOr<Value> result = build(/*mask=*/3, /*bias=*/5, past);
  if (failed(result))
    return failure();
  SmallVector<NodeResult, 1> results = {*result};
  if (node.hasOutput(1)) {
    auto apart = [&](Value part) {
      SmallVector<int64_t> shape = {1};
      llvm::append_range(shape, NodeImporter::typeOf(part).getShape());
      return node.reshape(part, shape);
    };
    results.push_back(node.concat({apart(key), apart(value)}, 0));
  }
  return results;
}

//===-- MultiHeadAttention ------------------------------------------------------------------------------------===//

/// Part `part` of an input batch x sequence x heads x parts x size, as batch x sequence x heads * size.
Value FusedAttention::packedPart(unsigned index, int64_t part) {
  ArrayRef<int64_t> shape = node.shape(index);
  return node.reshape(node.slice(node.input(index), 3, part, part + 1), {shape[0], shape[1], shape[2] * shape[4]});
}

/// `value` (batch x sequence x features) and the part of the bias that begins at `start`.
Value FusedAttention::withBias(Value value, int64_t start) {
  if (!value || !node.hasInput(3))
    return value;
  int64_t width = NodeImporter::typeOf(value).getDimSize(2);
  if (node.rank(3) != 1 || node.shape(3)[0] < start + width) {
    (void)node.error("expects a bias of an element for each feature of queries, keys and values");
    return {};
  }
  return node.emit<dfg::AddOp>({value, node.slice(node.input(3), 0, start, start + width)});
}

/// Queries, keys and values of one tensor batch x sequence x heads x 3 x size.
FailureOr<SmallVector<Value>> FusedAttention::readPacked() {
  if (node.hasInput(1) || node.hasInput(2) || node.shape(0)[3] != 3)
    return FailureOr<SmallVector<Value>>(node.error("expects packed queries, keys and values, and no others"));
  int64_t width = node.shape(0)[2] * node.shape(0)[4];
  SmallVector<Value> parts;
  for (int64_t part = 0; part < 3; ++part)
    parts.push_back(splitHeads(node, withBias(packedPart(0, part), part * width), heads));
  return parts;
}

/// Queries of a tensor of their own; keys and values packed (batch x sequence x heads x 2 x size), each with their
/// heads before the sequence and no bias, or as the queries.
FailureOr<SmallVector<Value>> FusedAttention::readApart() {
  using Parts = FailureOr<SmallVector<Value>>;
  if (node.rank(0) != 3 || !node.hasInput(1))
    return Parts(node.error("expects queries of rank 3 and keys"));
  int64_t width = node.shape(0)[2];
  Value queries = splitHeads(node, withBias(node.input(0), 0), heads);
  if (node.rank(1) == 5) {
    if (node.hasInput(2) || node.shape(1)[3] != 2)
      return Parts(node.error("expects packed keys and values, and no others"));
    return SmallVector<Value>{queries, splitHeads(node, withBias(packedPart(1, 0), width), heads),
                              splitHeads(node, withBias(packedPart(1, 1), 2 * width), heads)};
  }
  if (!node.hasInput(2) || node.rank(2) != node.rank(1) || node.rank(1) < 3 || node.rank(1) > 4)
    return Parts(node.error("expects keys and values of rank 3 or 4"));
  if (node.rank(1) == 4)
    return SmallVector<Value>{queries, node.input(1), node.input(2)};
  return SmallVector<Value>{queries, splitHeads(node, withBias(node.input(1), width), heads),
                            splitHeads(node, withBias(node.input(2), 2 * width), heads)};
}

LogicalResult FusedAttention::checkMultiHead() {
  if (node.hasInput(8) || node.hasInput(9))
    return node.unsupported("a buffer that past and present share is not known");
  if (node.hasOutput(3))
    return node.unsupported("the products of queries and keys as a result are not known");
  if (node.hasInput(6) != node.hasInput(7))
    return node.error("expects past keys and past values together");
  for (unsigned i : {6u, 7u})
    if (node.hasInput(i) && node.rank(i) != 4)
      return node.error("expects past keys and values of rank 4");
  return success();
}

ImportResults FusedAttention::buildMultiHead() {
  if (failed(checkMultiHead()))
    return failure();
  FailureOr<SmallVector<Value>> parts = node.rank(0) == 5 ? readPacked() : readApart();
  if (failed(parts))
    return failure();
  query = (*parts)[0], key = (*parts)[1], value = (*parts)[2];
  int64_t past = 0;
  if (node.hasInput(6)) {
    past = node.shape(6)[2];
    key = node.concat({node.input(6), key}, 2);
    value = node.concat({node.input(7), value}, 2);
  }
  FailureOr<Value> result = build(/*mask=*/4, /*bias=*/5, past);
  if (failed(result))
    return failure();
  return SmallVector<NodeResult, 1>{*result, key, value};
}

void addFusedAttentionOperators(OperatorTable &table) {
  table.add("com.microsoft.Attention",
            {[](NodeImporter &node) { return FusedAttention(node).buildProjected(); }, 2, 7, Elements::Float, 1});
  table.add("com.microsoft.MultiHeadAttention",
            {[](NodeImporter &node) { return FusedAttention(node).buildMultiHead(); }, 1, 10, Elements::Float, 1});
}

} // namespace cleave
