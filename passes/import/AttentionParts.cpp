// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds what operators of attention are made of.

#include "passes/import/AttentionParts.h"

#include <limits>

using namespace mlir;

namespace cleave {

Value splitHeads(NodeImporter &node, Value value, int64_t heads) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  if (heads < 1 || shape[2] % heads != 0) {
    (void)node.error("expects a number of heads that divides " + Twine(shape[2]) + ", got " + Twine(heads));
    return {};
  }
  return node.transpose(node.reshape(value, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

Value joinHeads(NodeImporter &node, Value value) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  return node.reshape(node.transpose(value, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

FailureOr<AttentionSizes> readAttentionSizes(NodeImporter &node, Value query, Value key, Value value) {
  if (!query || !key || !value)
    return failure();
  auto queryShape = NodeImporter::typeOf(query).getShape(), keyShape = NodeImporter::typeOf(key).getShape(),
       valueShape = NodeImporter::typeOf(value).getShape();
  AttentionSizes sizes;
  sizes.batch = queryShape[0], sizes.heads = queryShape[1], sizes.length = queryShape[2], sizes.size = queryShape[3];
  sizes.groups = keyShape[1], sizes.total = keyShape[2], sizes.valueSize = valueShape[3];
  if (keyShape[0] != sizes.batch || keyShape[3] != sizes.size || valueShape[0] != sizes.batch ||
      valueShape[1] != sizes.groups || valueShape[2] != sizes.total)
    return FailureOr<AttentionSizes>(node.error("expects keys and values that fit the queries"));
  if (sizes.groups < 1 || sizes.heads % sizes.groups != 0)
    return FailureOr<AttentionSizes>(node.error("expects the queries' heads (" + Twine(sizes.heads) +
                                                ") to be a multiple of the keys' (" + Twine(sizes.groups) + ")"));
  return sizes;
}

static Value timesConstant(NodeImporter &node, Value value, double factor) {
  return value ? node.emit<dfg::MulOp>({value, node.scalar(NodeImporter::elementOf(value), factor)}) : Value();
}

AttentionValues attend(NodeImporter &node, const AttentionSizes &sizes, Value query, Value key, Value value,
                       const AttentionRule &rule) {
  if (!query)
    return {};
  Type element = NodeImporter::elementOf(query);
  // The heads that share keys are rows of one product, in a dimension of their own: a split by heads goes through.
  int64_t shared = sizes.heads / sizes.groups;
  auto inGroups = [&](Value of, int64_t last) {
    if (shared == 1)
      return of;
    return node.reshape(of, {sizes.batch, sizes.groups, shared, sizes.length, last});
  };
  int64_t lastRow = shared == 1 ? 3 : 4;
  AttentionValues values;
  Value rows = inGroups(timesConstant(node, query, rule.scale), sizes.size);
  values.product = node.reshape(node.dot(rows, key, {0, 1}, {0, 1}, {lastRow}, {3}),
                                {sizes.batch, sizes.heads, sizes.length, sizes.total});
  values.capped = values.product;
  if (rule.cap > 0)
    values.capped =
        timesConstant(node, node.emit<dfg::TanhOp>(timesConstant(node, values.product, 1.0 / rule.cap)), rule.cap);
  values.masked = rule.mask ? rule.mask(values.capped) : values.capped;
  Value scores = node.cast(values.masked, rule.precision);
  values.weights =
      rule.softmax ? rule.softmax(scores) : node.emit<dfg::SoftmaxOp>(scores, node.attr("dim", int64_t(3)));
  Value mixed =
      node.dot(inGroups(values.weights, sizes.total), node.cast(value, rule.precision), {0, 1}, {0, 1}, {lastRow}, {2});
  values.result = node.cast(node.reshape(mixed, {sizes.batch, sizes.heads, sizes.length, sizes.valueSize}), element);
  return values;
}

Value keepScores(NodeImporter &node, Value keeps, Value scores) {
  if (!keeps || !scores)
    return {};
  Value lowest = node.scalar(NodeImporter::elementOf(scores), -std::numeric_limits<double>::infinity());
  return node.emit<dfg::SelectOp>({keeps, scores, lowest});
}

Value addToScores(NodeImporter &node, Value scores, Value bias) {
  if (!scores || !bias)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(scores).getShape();
  auto joined = dfg::broadcastShapes(shape, NodeImporter::typeOf(bias).getShape());
  if (failed(joined) || ArrayRef<int64_t>(*joined) != shape) {
    (void)node.error("expects a bias that broadcasts over the scores");
    return {};
  }
  return node.emit<dfg::AddOp>({scores, bias});
}

Value isCausal(NodeImporter &node, int64_t length, int64_t total, int64_t past) {
  auto type = RankedTensorType::get({length, total}, node.getBuilder().getI64Type());
  Value row = node.emitAs<dfg::IotaOp>(type, {}, node.attr("dim", int64_t(0)));
  if (past > 0)
    row = node.emit<dfg::AddOp>({row, node.scalar(type.getElementType(), static_cast<double>(past))});
  Value column = node.emitAs<dfg::IotaOp>(type, {}, node.attr("dim", int64_t(1)));
  return node.compare(column, row, dfg::Comparison::LessOrEqual);
}

Value turnPairs(NodeImporter &node, Value input, Value cosine, Value sine, bool neighbours) {
  if (!input || !cosine || !sine)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(input).getShape();
  int64_t pairs = NodeImporter::typeOf(cosine).getDimSize(3), turned = 2 * pairs;
  Value first = neighbours ? node.slice(input, 3, 0, turned, 2) : node.slice(input, 3, 0, pairs);
  Value second = neighbours ? node.slice(input, 3, 1, turned, 2) : node.slice(input, 3, pairs, turned);
  auto mul = [&](Value a, Value b) { return node.emit<dfg::MulOp>({a, b}); };
  Value real = node.emit<dfg::SubOp>({mul(cosine, first), mul(sine, second)});
  Value imaginary = node.emit<dfg::AddOp>({mul(sine, first), mul(cosine, second)});
  Value result;
  if (neighbours) {
    SmallVector<int64_t> apart = {shape[0], shape[1], shape[2], pairs, 1};
    result = node.reshape(node.concat({node.reshape(real, apart), node.reshape(imaginary, apart)}, 4),
                          {shape[0], shape[1], shape[2], turned});
  } else {
    result = node.concat({real, imaginary}, 3);
  }
  return turned < shape[3] ? node.concat({result, node.slice(input, 3, turned, shape[3])}, 3) : result;
}

} // namespace cleave
