// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operators on quantized tensors that ONNX Runtime's tools write besides the standard ones (domain com.microsoft):
// each is the operator on reals between a dequantization of its inputs and a quantization of its result, or a product
// of integers and what becomes of it.

#include "passes/import/OperatorTable.h"
#include "passes/import/QuantizationParts.h"
#include "passes/import/Window.h"

using namespace mlir;

namespace cleave {

/// Inputs: the tensor, its scale and zero point, those of the result. `function` is that of reals.
template <typename Function> static ImportResults onReals(NodeImporter &node, const Function &function) {
  FailureOr<Value> input = dequantized(node, 0);
  if (failed(input))
    return failure();
  return requantized(node, function(*input), 3);
}

template <typename OpTy> static ImportResults importQLinearBinary(NodeImporter &node) {
  FailureOr<Value> lhs = dequantized(node, 0), rhs = dequantized(node, 3);
  if (failed(lhs) || failed(rhs))
    return failure();
  return requantized(node, node.emit<OpTy>({*lhs, *rhs}), 6);
}

static ImportResults importQLinearSigmoid(NodeImporter &node) {
  return onReals(node, [&](Value input) { return node.emit<dfg::SigmoidOp>(input); });
}

static ImportResults importQLinearLeakyRelu(NodeImporter &node) {
  return onReals(node, [&](Value input) {
    return node.emit<dfg::LeakyReluOp>(input, node.real64("alpha", node.real("alpha", 0.01)));
  });
}

/// The attribute "opset" is the version of Softmax that is meant.
static ImportResults importQLinearSoftmax(NodeImporter &node) {
  bool isFlat = node.integer("opset", 13) < 13;
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(0));
  if (failed(axis))
    return failure();
  if (isFlat && llvm::product_of(node.shape(0).drop_front(*axis + 1)) != 1)
    return node.unsupported("a softmax over several dimensions is not known");
  return onReals(node, [&](Value input) { return node.emit<dfg::SoftmaxOp>(input, node.attr("dim", *axis)); });
}

static LogicalResult checkChannelsFirst(NodeImporter &node) {
  if (node.integer("channels_last", 0))
    return node.unsupported("images whose channels come last are not known");
  if (node.rank(0) < 3 || node.type(0).getNumElements() == 0)
    return node.error("expects an input of rank 3 at least that is not empty");
  return success();
}

static ImportResults importQLinearGlobalAveragePool(NodeImporter &node) {
  if (failed(checkChannelsFirst(node)))
    return failure();
  return onReals(node, [&](Value input) { return buildGlobalPool(node, input, dfg::PoolKind::Average); });
}

static ImportResults importQLinearAveragePool(NodeImporter &node) {
  if (failed(checkChannelsFirst(node)))
    return failure();
  FailureOr<Value> input = dequantized(node, 0);
  if (failed(input))
    return failure();
  FailureOr<Value> pooled = buildAveragePool(node, *input);
  return failed(pooled) ? ImportResults(failure()) : requantized(node, *pooled, 3);
}

/// The result's scale and zero point, then three inputs for each part.
static ImportResults importQLinearConcat(NodeImporter &node) {
  if (node.getNumInputs() % 3 != 2)
    return node.error("expects a scale and a zero point for the result, and three inputs for each part");
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 1), node.hasInput(2) ? node.rank(2) : 0);
  if (failed(axis))
    return failure();
  SmallVector<Value> parts;
  for (unsigned i = 2; i < node.getNumInputs(); i += 3) {
    if (!node.hasInput(i) || !node.hasInput(i + 1))
      return node.error("expects input " + Twine(i) + " and its scale");
    FailureOr<Value> part = dequantized(node, i);
    if (failed(part))
      return failure();
    parts.push_back(*part);
  }
  return requantized(node, node.emit<dfg::ConcatOp>(parts, node.attr("dim", *axis)), 0);
}

/// A product of integers as reals: times both scales, which broadcast with it.
static Value inReals(NodeImporter &node, Value sums, Value lhsScale, Value rhsScale) {
  Value factor = node.emit<dfg::MulOp>({lhsScale, rhsScale});
  return node.emit<dfg::MulOp>({node.cast(sums, NodeImporter::elementOf(lhsScale)), factor});
}

/// Inputs: A, its scale and zero point, B, its own, C in int32, and the result's scale and zero point where it is
/// quantized.
static ImportResults importQGemm(NodeImporter &node) {
  if (node.rank(0) != 2 || node.rank(3) != 2)
    return node.error("expects matrices");
  bool transA = node.integer("transA", 0), transB = node.integer("transB", 0);
  int64_t columns = transB ? 0 : 1;
  keepWeights(node, 3);
  FailureOr<Value> lhs = centred(node, 0, 2, -1), rhs = centred(node, 3, 5, columns);
  FailureOr<Value> lhsScale = alongAxis(node, 1, {}, -1), rhsScale = alongAxis(node, 4, node.shape(3), columns);
  if (failed(lhs) || failed(rhs) || failed(lhsScale) || failed(rhsScale))
    return failure();
  auto turned = [&](Value value) {
    return node.emit<dfg::TransposeOp>(value, node.attr("permutation", ArrayRef<int64_t>({1, 0})));
  };
  Value sums = integerProduct(node, transA ? turned(*lhs) : *lhs, transB ? turned(*rhs) : *rhs);
  if (node.hasInput(6))
    sums = node.emit<dfg::AddOp>({sums, node.input(6)});
  // One scale a column stands along the last dimension.
  int64_t scales = NodeImporter::typeOf(*rhsScale).getNumElements();
  Value byColumn = scales == 1 ? *rhsScale : node.reshape(*rhsScale, {scales});
  Value result = inReals(node, sums, *lhsScale, byColumn);
  if (double alpha = node.real("alpha", 1.0); alpha != 1.0 && result)
    result = node.emit<dfg::MulOp>({result, node.scalar(NodeImporter::elementOf(result), alpha)});
  if (!node.hasInput(7))
    return oneResult(result);
  return node.hasInput(8) ? requantized(node, result, 7) : ImportResults(node.error("expects input 8"));
}

static Value withBias(NodeImporter &node, Value result, unsigned index) {
  return node.hasInput(index) ? node.emit<dfg::AddOp>({result, node.input(index)}) : result;
}

/// Inputs: A, B, their scales, their zero points, a bias.
static ImportResults importMatMulIntegerToFloat(NodeImporter &node) {
  if (failed(checkIntegerProduct(node, 0, 1)))
    return failure();
  keepWeights(node, 1);
  int64_t rows = node.rank(0) - 2, columns = node.rank(1) - 1;
  FailureOr<Value> lhs = centred(node, 0, 4, rows), rhs = centred(node, 1, 5, columns);
  FailureOr<Value> lhsScale = alongAxis(node, 2, node.shape(0), rows);
  FailureOr<Value> rhsScale = alongAxis(node, 3, node.shape(1), columns);
  if (failed(lhs) || failed(rhs) || failed(lhsScale) || failed(rhsScale))
    return failure();
  return oneResult(withBias(node, inReals(node, integerProduct(node, *lhs, *rhs), *lhsScale, *rhsScale), 6));
}

/// Inputs: A in float32, which is quantized by its range, B, its scale and zero point, a bias.
static ImportResults importDynamicQuantizeMatMul(NodeImporter &node) {
  if (failed(checkIntegerProduct(node, 0, 1)))
    return failure();
  keepWeights(node, 1);
  int64_t columns = node.rank(1) - 1;
  DynamicallyQuantized lhs = quantizeDynamically(node, node.input(0));
  FailureOr<Value> rhs = centred(node, 1, 3, columns), scale = alongAxis(node, 2, node.shape(1), columns);
  if (failed(rhs) || failed(scale) || !lhs.numbers)
    return failure();
  Type wide = node.getBuilder().getI32Type();
  Value numbers = node.emit<dfg::SubOp>({node.cast(lhs.numbers, wide), node.cast(lhs.zero, wide)});
  return oneResult(withBias(node, inReals(node, integerProduct(node, numbers, *rhs), lhs.scale, *scale), 4));
}

void addQuantizedOperators(OperatorTable &table) {
  constexpr unsigned any = OperatorTable::anyNumber;
  table.add("com.microsoft.QLinearAdd", {importQLinearBinary<dfg::AddOp>, 7, 8, Elements::Integer, 1});
  table.add("com.microsoft.QLinearMul", {importQLinearBinary<dfg::MulOp>, 7, 8, Elements::Integer, 1});
  table.add("com.microsoft.QLinearSigmoid", {importQLinearSigmoid, 4, 5, Elements::Integer, 1});
  table.add("com.microsoft.QLinearLeakyRelu", {importQLinearLeakyRelu, 4, 5, Elements::Integer, 1});
  table.add("com.microsoft.QLinearSoftmax", {importQLinearSoftmax, 4, 5, Elements::Integer, 1});
  table.add("com.microsoft.QLinearGlobalAveragePool", {importQLinearGlobalAveragePool, 4, 5, Elements::Integer, 1});
  table.add("com.microsoft.QLinearAveragePool", {importQLinearAveragePool, 4, 5, Elements::Integer, 1});
  table.add("com.microsoft.QLinearConcat", {importQLinearConcat, 2, any, Elements::Float, 1});
  table.add("com.microsoft.QGemm", {importQGemm, 6, 9, Elements::Integer, 1});
  table.add("com.microsoft.MatMulIntegerToFloat", {importMatMulIntegerToFloat, 4, 7, Elements::Integer, 1});
  table.add("com.microsoft.DynamicQuantizeMatMul", {importDynamicQuantizeMatMul, 3, 5, Elements::Float, 1});
}

} // namespace cleave
