// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scaled dot-product attention (Vaswani et al.: Attention Is All You Need, 2017) and rotary position embeddings (Su et
// al.: RoFormer, 2021), as operators of ONNX.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace cleave {

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// batch x sequence x heads * size as batch x heads x sequence x size; null where the heads do not divide.
static Value splitHeads(NodeImporter &node, Value value, int64_t heads) {
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  if (heads < 1 || shape[2] % heads != 0) {
    (void)node.error("expects a number of heads that divides " + Twine(shape[2]) + ", got " + Twine(heads));
    return {};
  }
  return node.transpose(node.reshape(value, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

namespace {
/// One Attention node. Queries are batch x heads x sequence x size; keys and values have `groups` heads, each for
/// `heads / groups` heads of the queries.
class Attention {
public:
  Attention(NodeImporter &node) : node(node) {}

  ImportResults build();

private:
  LogicalResult readInputs();
  LogicalResult checkShapes();
  Value addPast(unsigned past, Value present);
  /// Per key, whether the query may attend to it, by the causal rule; broadcasts over the scores.
  Value isBefore();
  Value mask(Value scores);
  Value softmax(Value scores);
  Value position(int64_t dim) {
    auto type = RankedTensorType::get({length, total}, node.getBuilder().getI64Type());
    return node.emitAs<dfg::IotaOp>(type, {}, node.attr("dim", dim));
  }
  Value scaled(Value value, double factor) {
    return value ? node.emit<dfg::MulOp>({value, node.scalar(NodeImporter::elementOf(value), factor)}) : Value();
  }
  Value lowest(Value like) { return node.scalar(NodeImporter::elementOf(like), -infinity); }

  NodeImporter &node;
  bool isFlat = false;
  Value query, key, value;
  int64_t batch = 0, heads = 0, groups = 0, length = 0, past = 0, total = 0, size = 0, valueSize = 0;
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
    heads = node.integer("q_num_heads", 0), groups = node.integer("kv_num_heads", 0);
    query = splitHeads(node, query, heads);
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
  return success(query && key && value);
}

LogicalResult Attention::checkShapes() {
  auto queryShape = NodeImporter::typeOf(query).getShape(), keyShape = NodeImporter::typeOf(key).getShape(),
       valueShape = NodeImporter::typeOf(value).getShape();
  batch = queryShape[0], heads = queryShape[1], length = queryShape[2], size = queryShape[3];
  groups = keyShape[1], total = keyShape[2], valueSize = valueShape[3];
  if (keyShape[0] != batch || keyShape[3] != size || valueShape[0] != batch || valueShape[1] != groups ||
      valueShape[2] != total)
    return node.error("expects keys and values that fit the queries");
  if (groups < 1 || heads % groups != 0)
    return node.error("expects the queries' heads (" + Twine(heads) + ") to be a multiple of the keys' (" +
                      Twine(groups) + ")");
  return success();
}

/// The last query attends to the last key: query i to the keys up to i plus the number of those before.
Value Attention::isBefore() {
  Value row = position(0);
  if (past > 0)
    row = node.emit<dfg::AddOp>({row, node.scalar(NodeImporter::elementOf(row), static_cast<double>(past))});
  return node.compare(position(1), row, dfg::Comparison::LessOrEqual);
}

/// Scores of keys that a query may not attend to become minus infinity; other masks are added.
Value Attention::mask(Value scores) {
  if (!scores)
    return {};
  if (node.hasInput(3)) {
    Value given = node.input(3);
    bool isChoice = NodeImporter::elementOf(given).isInteger(1);
    int64_t last = node.rank(3) - 1, missing = last < 0 ? 0 : total - node.shape(3)[last];
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
    scores = isChoice ? node.emit<dfg::SelectOp>({given, scores, lowest(scores)})
                      : node.emit<dfg::AddOp>({scores, node.cast(given, NodeImporter::elementOf(scores))});
  }
  if (node.integer("is_causal", 0) && scores)
    scores = node.emit<dfg::SelectOp>({isBefore(), scores, lowest(scores)});
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
  if (failed(readInputs()) || failed(checkShapes()))
    return failure();
  double scale = node.real("scale", 1.0 / std::sqrt(static_cast<double>(size))), cap = node.real("softcap", 0.0);
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  Type precision = node.type(0).getElementType();
  if (node.hasAttribute("softmax_precision"))
    precision = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("softmax_precision", 1)));
  if (!isa_and_nonnull<FloatType>(precision) || mode < 0 || mode > 3)
    return node.error("expects \"softmax_precision\" to be a type of real numbers and \"qk_matmul_output_mode\" from 0 "
                      "to 3");

  // The heads that share keys are rows of one product.
  int64_t perGroup = heads / groups;
  SmallVector<int64_t> scoreShape = {batch, heads, length, total};
  Value rows = node.reshape(scaled(query, scale), {batch, groups, perGroup * length, size});
  Value product = node.reshape(node.dot(rows, key, {0, 1}, {0, 1}, {3}, {3}), scoreShape);
  Value capped = product;
  if (cap > 0)
    capped = scaled(node.emit<dfg::TanhOp>(scaled(product, 1.0 / cap)), cap);
  Value masked = mask(capped);
  Value weights = softmax(node.cast(masked, precision));
  Value shared = node.reshape(weights, {batch, groups, perGroup * length, total});
  Value mixed = node.dot(shared, node.cast(value, precision), {0, 1}, {0, 1}, {3}, {2});
  Value result = node.cast(node.reshape(mixed, {batch, heads, length, valueSize}), node.type(0).getElementType());
  if (isFlat)
    result = node.reshape(node.transpose(result, {0, 2, 1, 3}), {batch, length, heads * valueSize});
  Value shown[] = {product, capped, masked, weights};
  return SmallVector<NodeResult, 1>{result, key, value, node.cast(shown[mode], node.type(0).getElementType())};
}

static ImportResults importAttention(NodeImporter &node) { return Attention(node).build(); }

//===-- rotary embeddings -------------------------------------------------------------------------------------===//

/// The factors of every position (batch x sequence x 1 x pairs), looked up where positions are given.
static Value rotaryFactors(NodeImporter &node, unsigned index, int64_t pairs) {
  Value factors = node.input(index);
  if (node.hasInput(3))
    factors = node.emit<dfg::GatherOp>({factors, node.input(3)}, node.attr("dim", int64_t(0)));
  if (!factors)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(factors).getShape();
  if (shape.size() != 3 || shape[2] != pairs) {
    (void)node.error("expects factors for " + Twine(pairs) + " pairs at every position");
    return {};
  }
  return node.reshape(factors, {shape[0], shape[1], 1, shape[2]});
}

/// Pairs of elements turn by their position's angle; the elements behind "rotary_embedding_dim" stay.
static ImportResults importRotaryEmbedding(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.shape(0);
  if (node.rank(0) < 3 || node.rank(0) > 4)
    return node.error("expects an input of rank 3 or 4");
  bool isFlat = node.rank(0) == 3, interleaved = node.integer("interleaved", 0);
  int64_t heads = isFlat ? node.integer("num_heads", 0) : shape[1];
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
  int64_t pairs = turned / 2;
  Value first = interleaved ? node.slice(input, 3, 0, turned, 2) : node.slice(input, 3, 0, pairs);
  Value second = interleaved ? node.slice(input, 3, 1, turned, 2) : node.slice(input, 3, pairs, turned);
  Value cosine = rotaryFactors(node, 1, pairs), sine = rotaryFactors(node, 2, pairs);
  auto mul = [&](Value a, Value b) { return node.emit<dfg::MulOp>({a, b}); };
  Value real = node.emit<dfg::SubOp>({mul(cosine, first), mul(sine, second)});
  Value imaginary = node.emit<dfg::AddOp>({mul(sine, first), mul(cosine, second)});
  SmallVector<int64_t> apart = {shape[0], length, heads, pairs, 1}, joined = {shape[0], length, heads, turned};
  Value result = interleaved
                     ? node.reshape(node.concat({node.reshape(real, apart), node.reshape(imaginary, apart)}, 4), joined)
                     : node.concat({real, imaginary}, 3);
  if (turned < size)
    result = node.concat({result, node.slice(input, 3, turned, size)}, 3);
  return oneResult(isFlat ? node.reshape(result, shape) : node.transpose(result, {0, 2, 1, 3}));
}

void addAttentionOperators(OperatorTable &table) {
  table.add("Attention", {importAttention, 3, 7, Elements::Float, 23});
  table.add("RotaryEmbedding", {importRotaryEmbedding, 3, 4, Elements::Float, 23});
}

} // namespace cleave
