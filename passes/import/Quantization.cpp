// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers as integers of 8 or 16 bits with a scale and a zero point: their conversion from and to reals, and products
// and convolutions of them, which are computed in int32.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"
#include "passes/import/QuantizationParts.h"
#include "passes/import/Window.h"

#include <cmath>

using namespace mlir;

namespace cleave {

/// The axis of the scales, counted from the front; -1 where it is no dimension, which a single scale does not need.
static int64_t readAxis(NodeImporter &node) {
  int64_t axis = node.integer("axis", 1), rank = node.rank(0);
  axis = axis < 0 ? axis + rank : axis;
  return axis < rank ? axis : -1;
}

/// Each element of `value` along `axis` `count` times, the first `size` of them.
static Value repeated(NodeImporter &node, Value value, int64_t axis, int64_t count, int64_t size) {
  SmallVector<int64_t> apart(NodeImporter::typeOf(value).getShape());
  SmallVector<int64_t> joined = withSize(apart, axis, apart[axis] * count);
  apart.insert(apart.begin() + axis + 1, 1);
  SmallVector<int64_t> wide = withSize(apart, axis + 1, count);
  return node.slice(node.reshape(node.broadcast(node.reshape(value, apart), wide), joined), axis, 0, size);
}

/// Refuses scales that are known to be negative, infinite or no numbers: what is quantized by them has no order, and
/// sums of integers times an infinite one are others than sums of reals.
static LogicalResult checkScales(NodeImporter &node, unsigned index) {
  std::optional<HostTensor> tensor = node.knownIfAny(index);
  if (tensor && tensor->getElementType().isF32() &&
      llvm::any_of(tensor->as<float>(), [](float scale) { return !(scale >= 0) || std::isinf(scale); }))
    return node.error("expects finite scales of 0 and more in input " + Twine(index));
  return success();
}

FailureOr<SmallVector<float>> knownReals(NodeImporter &node, unsigned index, int64_t count, StringRef what) {
  using Numbers = FailureOr<SmallVector<float>>;
  if (node.type(index).getNumElements() != count)
    return Numbers(
        node.error("expects " + Twine(count) + " " + what + ", got " + Twine(node.type(index).getNumElements())));
  FailureOr<HostTensor> tensor = node.known(*node.imported(index), "what the weights are");
  if (failed(tensor))
    return failure();
  if (tensor->getElementType().isF32())
    return SmallVector<float>(tensor->as<float>());
  SmallVector<float> numbers;
  DenseElementsAttr elements = tensor->toAttribute();
  auto values = elements.tryGetValues<APFloat>();
  if (failed(values))
    return Numbers(node.error("expects " + what + " to be reals"));
  for (APFloat value : *values) {
    bool lossy = false;
    value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
    numbers.push_back(value.convertToFloat());
  }
  return numbers;
}

unsigned packedNumber(const HostTensor &packed, int64_t first, int64_t index, int64_t bits) {
  int64_t bit = index * bits;
  unsigned byte = static_cast<unsigned char>(packed.data()[first + bit / 8]);
  return (byte >> (bit % 8)) & ((1u << bits) - 1);
}

FailureOr<Value> alongAxis(NodeImporter &node, unsigned index, ArrayRef<int64_t> shape, int64_t axis) {
  if (failed(checkScales(node, index)))
    return failure();
  auto rank = static_cast<int64_t>(shape.size());
  int64_t block = node.integer("block_size", 0);
  if (block != 0) {
    if (block < 0 || axis < 0 || node.rank(index) != rank ||
        node.shape(index) !=
            ArrayRef(withSize(shape, axis, llvm::divideCeil(shape[axis], std::max<int64_t>(block, 1)))))
      return FailureOr<Value>(node.error("expects one scale and zero point a block of \"block_size\" along the axis"));
    return repeated(node, node.input(index), axis, std::min(block, std::max<int64_t>(shape[axis], 1)), shape[axis]);
  }
  if (node.type(index).getNumElements() == 1)
    return node.reshape(node.input(index), {});
  if (node.rank(index) != 1 || axis < 0 || axis >= rank || node.shape(index)[0] != shape[axis])
    return FailureOr<Value>(node.error("expects one scale and zero point, or one each along the axis"));
  SmallVector<int64_t> along(rank - axis, 1);
  along[0] = shape[axis];
  return node.reshape(node.input(index), along);
}

static bool isQuantized(Type type) {
  return isa<IntegerType>(type) && llvm::is_contained({8u, 16u}, type.getIntOrFloatBitWidth());
}

/// What a node without that type is not supported for.
static LogicalResult refuseType(NodeImporter &node) {
  return node.unsupported("numbers quantized to other types than integers of 8 and 16 bits are not known");
}

/// Whole numbers near reals, moved by the zero point, within the range of `type`.
static Value quantized(NodeImporter &node, Value value, Value zero, Type type) {
  Value rounded = node.emit<dfg::RoundOp>(value);
  if (zero)
    rounded = node.emit<dfg::AddOp>({rounded, node.cast(zero, NodeImporter::elementOf(value))});
  return node.cast(rounded, type); // which saturates
}

/// round(x / scale) + zero point, halves going to the even neighbour.
static ImportResults importQuantizeLinear(NodeImporter &node) {
  Type type = node.getBuilder().getIntegerType(8, /*isSigned=*/false);
  if (int64_t given = node.integer("output_dtype", 0))
    type = elementTypeFromOnnx(node.getContext(), static_cast<int>(given));
  if (node.hasInput(2))
    type = node.type(2).getElementType();
  if (!type || !isQuantized(type))
    return refuseType(node);
  int64_t axis = readAxis(node);
  FailureOr<Value> scale = alongAxis(node, 1, node.shape(0), axis), zero = Value();
  if (node.hasInput(2))
    zero = alongAxis(node, 2, node.shape(0), axis);
  if (failed(scale) || failed(zero))
    return failure();
  Type real = node.type(1).getElementType();
  if (auto precision = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("precision", 0))))
    real = precision;
  Value ratio = node.emit<dfg::DivOp>({node.cast(node.input(0), real), node.cast(*scale, real)});
  return ratio ? oneResult(quantized(node, ratio, *zero, type)) : ImportResults(failure());
}

/// Whether an input is known to hold zeros alone.
static bool isZero(NodeImporter &node, unsigned index) {
  std::optional<HostTensor> tensor = node.knownIfAny(index);
  return tensor && llvm::all_of(ArrayRef(tensor->data(), tensor->getNumBytes()), [](char byte) { return byte == 0; });
}

FailureOr<Value> centred(NodeImporter &node, unsigned index, unsigned zero, int64_t axis) {
  Type wide = node.getBuilder().getI32Type();
  Value value = node.cast(node.input(index), wide);
  if (!node.hasInput(zero))
    return value;
  FailureOr<Value> shift = alongAxis(node, zero, node.shape(index), axis);
  if (failed(shift))
    return failure();
  return isZero(node, zero) ? value : node.emit<dfg::SubOp>({value, node.cast(*shift, wide)});
}

void keepWeights(NodeImporter &node, unsigned index) {
  if (!node.isTraining() && isQuantized(node.type(index).getElementType()) &&
      node.type(index).getElementTypeBitWidth() == 8 && !node.imported(index)->isPacked)
    node.keepAsParameter(index);
}

FailureOr<Value> dequantized(NodeImporter &node, unsigned index, int64_t axis) {
  FailureOr<Value> scale = alongAxis(node, index + 1, node.shape(index), axis);
  FailureOr<Value> value = centred(node, index, index + 2, axis);
  if (failed(scale) || failed(value))
    return failure();
  Type real = node.type(index + 1).getElementType();
  if (auto given = elementTypeFromOnnx(node.getContext(), static_cast<int>(node.integer("output_dtype", 0))))
    real = given;
  return node.emit<dfg::MulOp>({node.cast(*value, real), node.cast(*scale, real)});
}

static ImportResults importDequantizeLinear(NodeImporter &node) {
  if (node.isQuantizedWeight() && node.integer("block_size", 0) == 0)
    keepWeights(node, 0);
  FailureOr<Value> value = dequantized(node, 0, readAxis(node));
  return failed(value) ? ImportResults(failure()) : oneResult(*value);
}

DynamicallyQuantized quantizeDynamically(NodeImporter &node, Value input) {
  RankedTensorType shown = NodeImporter::typeOf(input);
  Type real = shown.getElementType(), type = node.getBuilder().getIntegerType(8, /*isSigned=*/false);
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, shown.getRank()));
  Value none = node.scalar(real, 0);
  Value low = node.emit<dfg::MinOp>({node.reduce(input, dfg::ReduceKind::Min, all, false), none});
  Value high = node.emit<dfg::MaxOp>({node.reduce(input, dfg::ReduceKind::Max, all, false), none});
  Value span = node.emit<dfg::SubOp>({high, low});
  Value scale = node.emit<dfg::DivOp>({span, node.scalar(real, 255)});
  // Where all elements are zero there is nothing to scale.
  Value divisor =
      node.emit<dfg::SelectOp>({node.compare(span, none, dfg::Comparison::Equal), node.scalar(real, 1), scale});
  Value zero = quantized(node, node.emit<dfg::DivOp>({node.emit<dfg::NegOp>(low), divisor}), {}, type);
  Value numbers = quantized(node, node.emit<dfg::DivOp>({input, divisor}), zero, type);
  return {numbers, scale, zero};
}

static ImportResults importDynamicQuantizeLinear(NodeImporter &node) {
  DynamicallyQuantized result = quantizeDynamically(node, node.input(0));
  return SmallVector<NodeResult, 1>{result.numbers, result.scale, result.zero};
}

Value integerProduct(NodeImporter &node, Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return {};
  int64_t left = NodeImporter::typeOf(lhs).getRank(), right = NodeImporter::typeOf(rhs).getRank();
  SmallVector<int64_t> batch = llvm::to_vector(llvm::seq<int64_t>(0, right - 2));
  return node.emit<dfg::DotGeneralOp>({lhs, rhs}, {node.attr("lhs_batch", batch), node.attr("rhs_batch", batch),
                                                   node.attr("lhs_contracting", ArrayRef<int64_t>(left - 1)),
                                                   node.attr("rhs_contracting", ArrayRef<int64_t>(right - 2))});
}

LogicalResult checkIntegerProduct(NodeImporter &node, unsigned left, unsigned right) {
  int64_t leftRank = node.rank(left), rightRank = node.rank(right);
  if (leftRank < 2 || rightRank < 2)
    return node.error("expects matrices");
  if (rightRank != 2 && (rightRank != leftRank || node.shape(left).drop_back(2) != node.shape(right).drop_back(2)))
    return node.unsupported("stacks of matrices that broadcast are not known");
  return success();
}

static ImportResults importMatMulInteger(NodeImporter &node) {
  if (failed(checkIntegerProduct(node, 0, 1)))
    return failure();
  keepWeights(node, 1);
  FailureOr<Value> lhs = centred(node, 0, 2, node.rank(0) - 2), rhs = centred(node, 1, 3, node.rank(1) - 1);
  if (failed(lhs) || failed(rhs))
    return failure();
  return oneResult(integerProduct(node, *lhs, *rhs));
}

static ImportResults importConvInteger(NodeImporter &node) {
  keepWeights(node, 1);
  FailureOr<Value> input = centred(node, 0, 2, -1), filter = centred(node, 1, 3, 0);
  if (failed(input) || failed(filter))
    return failure();
  return oneResult(buildConvolution(node, *input, *filter));
}

/// An exact result in int32 by the scales of its factors (which broadcast with it) and of what becomes of it (inputs
/// `scaleIndex` and the next).
static ImportResults rescaled(NodeImporter &node, Value exact, Value lhsScale, Value rhsScale, unsigned scaleIndex) {
  Type type = node.type(scaleIndex + 1).getElementType(), real = node.type(scaleIndex).getElementType();
  if (!isQuantized(type))
    return refuseType(node);
  FailureOr<Value> scale = alongAxis(node, scaleIndex, {}, -1), zero = alongAxis(node, scaleIndex + 1, {}, -1);
  if (failed(scale) || failed(zero))
    return failure();
  Value factor = node.emit<dfg::DivOp>({node.emit<dfg::MulOp>({lhsScale, rhsScale}), *scale});
  Value value = node.emit<dfg::MulOp>({node.cast(exact, real), factor});
  return value ? oneResult(quantized(node, value, *zero, type)) : ImportResults(failure());
}

static ImportResults importQLinearMatMul(NodeImporter &node) {
  if (failed(checkIntegerProduct(node, 0, 3)))
    return failure();
  keepWeights(node, 3);
  FailureOr<Value> lhs = centred(node, 0, 2, node.rank(0) - 2), rhs = centred(node, 3, 5, node.rank(3) - 1);
  FailureOr<Value> lhsScale = alongAxis(node, 1, node.shape(0), node.rank(0) - 2);
  FailureOr<Value> rhsScale = alongAxis(node, 4, node.shape(3), node.rank(3) - 1);
  if (failed(lhs) || failed(rhs) || failed(lhsScale) || failed(rhsScale))
    return failure();
  return rescaled(node, integerProduct(node, *lhs, *rhs), *lhsScale, *rhsScale, 6);
}

static ImportResults importQLinearConv(NodeImporter &node) {
  keepWeights(node, 3);
  FailureOr<Value> input = centred(node, 0, 2, -1), filter = centred(node, 3, 5, 0);
  if (failed(input) || failed(filter))
    return failure();
  Value result = buildConvolution(node, *input, *filter);
  if (!result)
    return failure();
  int64_t rank = NodeImporter::typeOf(result).getRank(), channels = NodeImporter::typeOf(result).getDimSize(1);
  if (node.hasInput(8)) {
    if (node.rank(8) != 1 || node.shape(8)[0] != channels)
      return node.error("expects one bias a result channel");
    result = node.emit<dfg::AddOp>({result, node.perChannel(node.input(8), rank)});
  }
  FailureOr<Value> inputScale = alongAxis(node, 1, {}, -1);
  // The filter's scales are those of result channels.
  FailureOr<Value> filterScale = alongAxis(node, 4, NodeImporter::typeOf(result).getShape(), 1);
  if (failed(inputScale) || failed(filterScale))
    return failure();
  return rescaled(node, result, *inputScale, *filterScale, 6);
}

ImportResults requantized(NodeImporter &node, Value real, unsigned scaleIndex) {
  if (!node.hasInput(scaleIndex))
    return node.error("expects input " + Twine(scaleIndex));
  // Without a zero point the type is that of tools that leave it out.
  Type type = node.getBuilder().getIntegerType(8, /*isSigned=*/false);
  FailureOr<Value> scale = alongAxis(node, scaleIndex, {}, -1), zero = Value();
  if (node.hasInput(scaleIndex + 1)) {
    type = node.type(scaleIndex + 1).getElementType();
    zero = alongAxis(node, scaleIndex + 1, {}, -1);
  }
  if (!isQuantized(type))
    return refuseType(node);
  if (failed(scale) || failed(zero) || !real)
    return failure();
  Value ratio = node.emit<dfg::DivOp>({real, node.cast(*scale, NodeImporter::elementOf(real))});
  return ratio ? oneResult(quantized(node, ratio, *zero, type)) : ImportResults(failure());
}

void addQuantizationOperators(OperatorTable &table) {
  table.add("QuantizeLinear", {importQuantizeLinear, 2, 3, Elements::Number, 10});
  table.add("DequantizeLinear",
            {importDequantizeLinear, 2, 3, Elements::Number, 10, newestOperatorSet, /*takesPacked=*/true});
  table.add("DynamicQuantizeLinear", {importDynamicQuantizeLinear, 1, 1, Elements::Float, 11});
  table.add("MatMulInteger", {importMatMulInteger, 2, 4, Elements::Number, 10});
  table.add("QLinearMatMul", {importQLinearMatMul, 8, 8, Elements::Number, 10});
  table.add("ConvInteger", {importConvInteger, 2, 4, Elements::Number, 10});
  table.add("QLinearConv", {importQLinearConv, 8, 9, Elements::Number, 10});
}

} // namespace cleave
