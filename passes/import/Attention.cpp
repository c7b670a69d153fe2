// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and rotary position embeddings as operators of ONNX.

#include "passes/import/AttentionParts.h"
#include "passes/import/OperatorTable.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace cleave {

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {
/// One Attention node.
class Attention {
public:
  Attention(NodeImporter &node) : node(node) {}

  ImportResults build();

private:
  LogicalResult readInputs();
  Value addPast(unsigned past, Value present);
  Value mask(Value scores);
  Value softmax(Value scores);
  Value lowest(Value like) { return node.scalar(NodeImporter::elementOf(like), -infinity); }

  NodeImporter &node;
  bool isFlat = false;
  Value query, key, value;
  int64_t past = 0;
  AttentionSizes sizes;
};
} // namespace

Value Attention::addPast(unsigned index, Value present) {
  if (!node.hasInput(index))
    return present;
  return node.concat({node.input(index), present}, 2);
}

LogicalResult Attention::readInputs() {
  for (unsigned i = 0; i < 3; ++i)
    if (node.rank(i) != node.rank(0) || node.rank(i) < 3 || node.rank(i) > 4)
      return node.error("expects queries, keys and values of rank 3 or 4");
  isFlat = node.rank(0) == 3;
  query = node.input(0), key = node.input(1), value = node.input(2);
  if (isFlat) {
    int64_t groups = node.integer("kv_num_heads", 0);
    query = splitHeads(node, query, node.integer("q_num_heads", 0));
    key = splitHeads(node, key, groups);
    value = splitHeads(node, value, groups);
  }
  if (node.hasInput(4) != node.hasInput(5))
    return node.error("expects past keys and past values together");
  for (unsigned i : {4u, 5u})
    if (node.hasInput(i) && node.rank(i) != 4)
      return node.error("expects past keys and values of rank 4");
  past = node.hasInput(4) ? node.shape(4)[2] : 0;
  key = addPast(4, key);
  value = addPast(5, value);
  FailureOr<AttentionSizes> read = readAttentionSizes(node, query, key, value);
  if (failed(read))
    return failure();
  sizes = *read;
  return success();
}

/// Scores of keys that a query may not attend to become minus infinity; other masks are added.
Value Attention::mask(Value scores) {
  if (!scores)
    return {};
  if (node.hasInput(3)) {
    Value given = node.input(3);
    bool isChoice = NodeImporter::elementOf(given).isInteger(1);
    int64_t last = node.rank(3) - 1, missing = last < 0 ? 0 : sizes.total - node.shape(3)[last];
    if (last < 1 || last > 3 || missing < 0) {
      (void)node.error("expects a mask of rank 2 to 4 that broadcasts over the scores");
      return {};
    }
    if (missing > 0 && node.shape(3)[last] != 1) {
      SmallVector<int64_t> low(last + 1, 0), high(last + 1, 0);
      high[last] = missing;
      Value outside = isChoice ? node.scalar(NodeImporter::elementOf(given), 0.0) : lowest(given);
      given = node.emit<dfg::PadOp>({given, outside}, {node.attr("low", low), node.attr("high", high)});
    }
    scores = isChoice ? keepScores(node, given, scores)
                      : node.emit<dfg::AddOp>({scores, node.cast(given, NodeImporter::elementOf(scores))});
  }
  if (node.integer("is_causal", 0) && scores)
    scores = keepScores(node, isCausal(node, sizes.length, sizes.total, past), scores);
  return scores;
}

/// A query that may attend to nothing gives zero, where the quotient would be NaN. The causal rule alone leaves every
/// query a key.
Value Attention::softmax(Value scores) {
  if (!scores)
    return {};
  Value weights = node.emit<dfg::SoftmaxOp>(scores, node.attr("dim", int64_t(3)));
  if (!node.hasInput(3))
    return weights;
  Value largest = node.reduce(scores, dfg::ReduceKind::Max, {3}, /*keepDims=*/true);
  Value isEmpty = node.compare(largest, lowest(scores), dfg::Comparison::Equal);
  return node.emit<dfg::SelectOp>({isEmpty, node.scalar(NodeImporter::elementOf(scores), 0.0), weights});
}

ImportResults Attention::build() {
  if (node.hasInput(6))
    return node.unsupported("lengths of padded keys and values (input 6) are not known");
  if (failed(readInputs()))
    return failure();
  AttentionRule rule;
  rule.scale = node.real("scale", 1.0 / std::sqrt(static_cast<double>(sizes.size)));
  rule.cap = node.real("softcap", 0.0);
  rule.precision = node.type(0).getElementType();
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (node.hasAttribute("softmax_precision"))
    rule.precision = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("softmax_precision", 1)));
  if (!isa_and_nonnull<FloatType>(rule.precision) || mode < 0 || mode > 3)
    return node.error("expects \"softmax_precision\" to be a type of real numbers and \"qk_matmul_output_mode\" from 0 "
                      "to 3");
  rule.mask = [&](Value scores) { return mask(scores); };
  rule.softmax = [&](Value scores) { return softmax(scores); };

  AttentionValues values = attend(node, sizes, query, key, value, rule);
  Value result = isFlat ? joinHeads(node, values.result) : values.result;
  Value shown[] = {values.product, values.capped, values.masked, values.weights};
  return SmallVector<NodeResult, 1>{result, key, value, node.cast(shown[mode], node.type(0).getElementType())};
}

static ImportResults importAttention(NodeImporter &node) { return Attention(node).build(); }

//===-- rotary embeddings -------------------------------------------------------------------------------------===//

/// The factors of every position (batch x sequence x 1 x pairs), looked up where positions are given.
static Value rotaryFactors(NodeImporter &node, Value factors, Value positions, int64_t pairs) {
  if (positions)
    factors = node.emit<dfg::GatherOp>({factors, positions}, node.attr("dim", int64_t(0)));
  if (!factors)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(factors).getShape();
  if (shape.size() != 3 || shape[2] != pairs) {
    (void)node.error("expects factors for " + Twine(pairs) + " pairs at every position");
    return {};
  }
  return node.reshape(factors, {shape[0], shape[1], 1, shape[2]});
}

/// Pairs of elements turn by their position's angle; the elements behind "rotary_embedding_dim" stay. `positions` is
/// null where `cosine` and `sine` are of every position, and not rows of a table. Heads of an unknown size are as large
/// as `usualSize`; 0: "num_heads" must tell it.
static ImportResults buildRotary(NodeImporter &node, Value cosine, Value sine, Value positions, int64_t usualSize) {
  ArrayRef<int64_t> shape = node.shape(0);
  if (node.rank(0) < 3 || node.rank(0) > 4)
    return node.error("expects an input of rank 3 or 4");
  bool isFlat = node.rank(0) == 3, interleaved = node.integer("interleaved", 0);
  int64_t heads = isFlat ? node.integer("num_heads", 0) : shape[1];
  if (isFlat && heads == 0 && usualSize > 0)
    heads = shape[2] / usualSize;
  if (heads < 1 || (isFlat && shape[2] % heads != 0))
    return node.error("expects \"num_heads\" to divide the last dimension");
  int64_t length = isFlat ? shape[1] : shape[2], size = isFlat ? shape[2] / heads : shape[3];
  int64_t turned = node.integer("rotary_embedding_dim", 0);
  turned = turned == 0 ? size : turned;
  if (turned < 2 || turned > size || turned % 2 != 0)
    return node.error("expects \"rotary_embedding_dim\" to be even and at most " + Twine(size) + ", got " +
                      Twine(turned));
  Value input = isFlat ? node.reshape(node.input(0), {shape[0], length, heads, size})
                       : node.transpose(node.input(0), {0, 2, 1, 3});
  Value cosines = rotaryFactors(node, cosine, positions, turned / 2);
  Value sines = rotaryFactors(node, sine, positions, turned / 2);
  Value result = turnPairs(node, input, cosines, sines, interleaved);
  return oneResult(isFlat ? node.reshape(result, shape) : node.transpose(result, {0, 2, 1, 3}));
}

static ImportResults importRotaryEmbedding(NodeImporter &node) {
  return buildRotary(node, node.input(1), node.input(2), node.input(3), /*usualSize=*/0);
}

/// ONNX Runtime's own, which became ONNX's: factors are always rows of a table, and a single position is the first one
/// of every sequence.
static ImportResults importTableRotaryEmbedding(NodeImporter &node) {
  if (node.integer("is_packed_batching", 0))
    return node.unsupported("sequences without padding (\"is_packed_batching\" = 1) are not known");
  if (node.real("scale", 1.0) != 1.0)
    return node.unsupported("a \"scale\" other than 1 is not known");
  if (node.rank(0) < 3 || node.rank(2) != 2)
    return node.error("expects an input of rank 3 or 4 and tables of factors");
  Value positions = node.input(1);
  if (node.rank(1) == 1) {
    if (node.shape(1)[0] != 1)
      return node.error("expects one position, or one an element of each sequence, got " + Twine(node.shape(1)[0]));
    int64_t length = node.shape(0)[node.rank(0) - 2];
    auto type = RankedTensorType::get({1, length}, node.type(1).getElementType());
    positions = node.emit<dfg::AddOp>({node.emitAs<dfg::IotaOp>(type, {}, node.attr("dim", int64_t(1))), positions});
  }
  return buildRotary(node, node.input(2), node.input(3), positions, /*usualSize=*/2 * node.shape(2)[1]);
}

void addAttentionOperators(OperatorTable &table) {
  table.add("Attention", {importAttention, 3, 7, Elements::Float, 23});
  table.add("RotaryEmbedding", {importRotaryEmbedding, 3, 4, Elements::Float, 23});
  table.add("com.microsoft.RotaryEmbedding", {importTableRotaryEmbedding, 4, 4, Elements::Float, 1});
}

} // namespace cleave
