// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers as int8 with a scale and a zero point: their conversion from and to reals, and products of them, which are
// computed in int32.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

using namespace mlir;

namespace cleave {

/// A scale or zero point: one for all, or one for each element of a dimension of a tensor of `rank`.
static FailureOr<Value> alongAxis(NodeImporter &node, unsigned index, ArrayRef<int64_t> shape, int64_t axis) {
  if (node.type(index).getNumElements() == 1)
    return node.reshape(node.input(index), {});
  if (node.rank(index) != 1 || axis < 0 || axis >= static_cast<int64_t>(shape.size()) ||
      node.shape(index)[0] != shape[axis])
    return FailureOr<Value>(node.error("expects one scale and zero point, or one each along the axis"));
  SmallVector<int64_t> along(shape.size() - axis, 1);
  along[0] = shape[axis];
  return node.reshape(node.input(index), along);
}

/// The axis of the scales, counted from the front; -1 where it is no dimension, which a single scale does not need.
static int64_t readAxis(NodeImporter &node) {
  int64_t axis = node.integer("axis", 1), rank = node.rank(0);
  axis = axis < 0 ? axis + rank : axis;
  return axis < rank ? axis : -1;
}

static bool isInt8(Type type) { return type.isSignlessInteger(8); }

/// Whole numbers near `value` within int8.
static Value saturate(NodeImporter &node, Value value) {
  Value inside = node.emit<dfg::ClampOp>(value, {node.real64("low", -128.0), node.real64("high", 127.0)});
  return node.cast(inside, node.getBuilder().getIntegerType(8));
}

/// round(x / scale) + zero point, halves going to the even neighbour.
static ImportResults importQuantizeLinear(NodeImporter &node) {
  if (!node.hasInput(2) || !isInt8(node.type(2).getElementType()))
    return node.unsupported("numbers quantized to other types than int8 are not known");
  int64_t axis = readAxis(node);
  FailureOr<Value> scale = alongAxis(node, 1, node.shape(0), axis), zero = alongAxis(node, 2, node.shape(0), axis);
  if (failed(scale) || failed(zero))
    return failure();
  Type real = node.type(1).getElementType();
  Value rounded = node.emit<dfg::RoundOp>(node.emit<dfg::DivOp>({node.cast(node.input(0), real), *scale}));
  return oneResult(saturate(node, node.emit<dfg::AddOp>({rounded, node.cast(*zero, real)})));
}

/// `value` less its zero point (input `zero`, if it is there), in int32.
static FailureOr<Value> centred(NodeImporter &node, unsigned index, unsigned zero, int64_t axis) {
  Type wide = node.getBuilder().getI32Type();
  Value value = node.cast(node.input(index), wide);
  if (!node.hasInput(zero))
    return value;
  FailureOr<Value> shift = alongAxis(node, zero, node.shape(index), axis);
  if (failed(shift))
    return failure();
  return node.emit<dfg::SubOp>({value, node.cast(*shift, wide)});
}

static ImportResults importDequantizeLinear(NodeImporter &node) {
  int64_t axis = readAxis(node);
  FailureOr<Value> scale = alongAxis(node, 1, node.shape(0), axis), value = centred(node, 0, 2, axis);
  if (failed(scale) || failed(value))
    return failure();
  return oneResult(node.emit<dfg::MulOp>({node.cast(*value, node.type(1).getElementType()), *scale}));
}

/// The product of two stacks of matrices; without a stack on the right all are multiplied by one matrix.
static Value product(NodeImporter &node, Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return {};
  int64_t left = NodeImporter::typeOf(lhs).getRank(), right = NodeImporter::typeOf(rhs).getRank();
  SmallVector<int64_t> batch = llvm::to_vector(llvm::seq<int64_t>(0, right - 2));
  return node.emit<dfg::DotGeneralOp>({lhs, rhs}, {node.attr("lhs_batch", batch), node.attr("rhs_batch", batch),
                                                   node.attr("lhs_contracting", ArrayRef<int64_t>(left - 1)),
                                                   node.attr("rhs_contracting", ArrayRef<int64_t>(right - 2))});
}

static LogicalResult checkProduct(NodeImporter &node, unsigned left, unsigned right) {
  int64_t leftRank = node.rank(left), rightRank = node.rank(right);
  if (leftRank < 2 || rightRank < 2)
    return node.error("expects matrices");
  if (rightRank != 2 && (rightRank != leftRank || node.shape(left).drop_back(2) != node.shape(right).drop_back(2)))
    return node.unsupported("stacks of matrices that broadcast are not known");
  return success();
}

static ImportResults importMatMulInteger(NodeImporter &node) {
  if (failed(checkProduct(node, 0, 1)))
    return failure();
  FailureOr<Value> lhs = centred(node, 0, 2, node.rank(0) - 2), rhs = centred(node, 1, 3, node.rank(1) - 1);
  if (failed(lhs) || failed(rhs))
    return failure();
  return oneResult(product(node, *lhs, *rhs));
}

static ImportResults importQLinearMatMul(NodeImporter &node) {
  if (!isInt8(node.type(7).getElementType()))
    return node.unsupported("numbers quantized to other types than int8 are not known");
  if (failed(checkProduct(node, 0, 3)))
    return failure();
  FailureOr<Value> lhs = centred(node, 0, 2, node.rank(0) - 2), rhs = centred(node, 3, 5, node.rank(3) - 1);
  FailureOr<Value> lhsScale = alongAxis(node, 1, node.shape(0), node.rank(0) - 2);
  FailureOr<Value> rhsScale = alongAxis(node, 4, node.shape(3), node.rank(3) - 1);
  FailureOr<Value> scale = alongAxis(node, 6, {}, -1), zero = alongAxis(node, 7, {}, -1);
  if (failed(lhs) || failed(rhs) || failed(lhsScale) || failed(rhsScale) || failed(scale) || failed(zero))
    return failure();
  Type real = node.type(6).getElementType();
  Value factor = node.emit<dfg::DivOp>({node.emit<dfg::MulOp>({*lhsScale, *rhsScale}), *scale});
  Value exact = node.emit<dfg::MulOp>({node.cast(product(node, *lhs, *rhs), real), factor});
  return oneResult(saturate(node, node.emit<dfg::AddOp>({node.emit<dfg::RoundOp>(exact), node.cast(*zero, real)})));
}

void addQuantizationOperators(OperatorTable &table) {
  table.add("QuantizeLinear", {importQuantizeLinear, 2, 3, Elements::Number, 10});
  table.add("DequantizeLinear", {importDequantizeLinear, 2, 3, Elements::Number, 10});
  table.add("MatMulInteger", {importMatMulInteger, 2, 4, Elements::Number, 10});
  table.add("QLinearMatMul", {importQLinearMatMul, 8, 8, Elements::Number, 10});
}

} // namespace cleave
