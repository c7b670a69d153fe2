// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that need more than their operands.

#include "passes/train/Arithmetic.h"

using namespace mlir;

namespace cleave {

Value Arithmetic::number(Type elementType, double value) {
  auto type = RankedTensorType::get({}, elementType);
  Attribute attribute;
  if (isa<FloatType>(elementType))
    attribute = builder.getFloatAttr(elementType, value);
  else
    attribute = builder.getIntegerAttr(elementType, static_cast<int64_t>(value));
  return dfg::ConstantOp::create(builder, location, DenseElementsAttr::get(type, attribute));
}

Value Arithmetic::integer(int64_t value) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  return dfg::ConstantOp::create(builder, location, DenseElementsAttr::get(type, value));
}

Value Arithmetic::cast(Value value, Type elementType) {
  return elementOf(value) == elementType ? value : dfg::CastOp::create(builder, location, value, elementType);
}

Value Arithmetic::reshape(Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return dfg::ReshapeOp::create(builder, location, RankedTensorType::get(shape, elementOf(value)), value);
}

Value Arithmetic::positions(int64_t rank, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(rank, 1);
  shape[dim] = size;
  return dfg::IotaOp::create(builder, location, RankedTensorType::get(shape, builder.getI64Type()), dim);
}

Value Arithmetic::reduce(Value value, dfg::ReduceKind kind, ArrayRef<int64_t> dims, bool keepDims) {
  return dfg::ReduceOp::create(builder, location, value, kind, dims, keepDims);
}

Value Arithmetic::sum(Value value) {
  return reduce(value, dfg::ReduceKind::Sum, llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank())),
                /*keepDims=*/false);
}

Value Arithmetic::mean(Value value, ArrayRef<int64_t> dims, bool keepDims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= typeOf(value).getDimSize(dim);
  return mul(reduce(value, dfg::ReduceKind::Sum, dims, keepDims), 1.0 / static_cast<double>(count));
}

} // namespace cleave
