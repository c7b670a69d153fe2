// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds what imports that compute with positions are made of.

#include "passes/import/Positions.h"

#include <numeric>

using namespace mlir;

namespace cleave {

Value integerConstant(NodeImporter &node, ArrayRef<int64_t> values, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, node.getBuilder().getI64Type());
  return node.emit<dfg::ConstantOp>({}, node.getBuilder().getNamedAttr("value", DenseElementsAttr::get(type, values)));
}

Value realConstant(NodeImporter &node, Type element, ArrayRef<double> values, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, element);
  SmallVector<APFloat> numbers;
  for (double value : values) {
    APFloat number(value);
    bool lossy = false;
    number.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    numbers.push_back(number);
  }
  return node.emit<dfg::ConstantOp>({}, node.getBuilder().getNamedAttr("value", DenseElementsAttr::get(type, numbers)));
}

Value positionsAlong(NodeImporter &node, ArrayRef<int64_t> shape, int64_t dim) {
  auto type = RankedTensorType::get(shape, node.getBuilder().getI64Type());
  return node.emitAs<dfg::IotaOp>(type, {}, node.attr("dim", dim));
}

Value compare(NodeImporter &node, Value lhs, dfg::Comparison comparison, Value rhs) {
  auto kind = dfg::ComparisonAttr::get(node.getContext(), comparison);
  return node.emit<dfg::CompareOp>({lhs, rhs}, node.getBuilder().getNamedAttr("comparison", kind));
}

Value partOf(NodeImporter &node, Value value, int64_t dim, int64_t start, int64_t limit) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  if (start == 0 && limit == shape[dim])
    return value;
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape), strides(shape.size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  return node.emit<dfg::SliceOp>(
      value, {node.attr("starts", starts), node.attr("limits", limits), node.attr("strides", strides)});
}

Value fromStart(NodeImporter &node, Value positions, Value sizes) {
  Value zero = node.scalar(node.getBuilder().getI64Type(), 0);
  Value isNegative = compare(node, positions, dfg::Comparison::Less, zero);
  return node.emit<dfg::SelectOp>({isNegative, node.emit<dfg::AddOp>({positions, sizes}), positions});
}

SmallVector<int64_t> withSize(ArrayRef<int64_t> shape, int64_t dim, int64_t size) {
  SmallVector<int64_t> result(shape);
  result[dim] = size;
  return result;
}

int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
}

} // namespace cleave
