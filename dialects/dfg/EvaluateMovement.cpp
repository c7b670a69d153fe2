// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the operators that move elements, on known operands.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/EvaluateLoops.h"
#include "dialects/dfg/TensorType.h"

#include <algorithm>
#include <memory>
#include <numeric>

using namespace mlir;

namespace cleave::dfg {

using Values = SmallVector<HostTensor>;

/// A dense result whose element at an index is the input's at `offset` plus the index times `strides`.
static Values gatherStrided(Operation *op, const HostTensor &input, int64_t offset, const Strides &strides) {
  RankedTensorType type = resultType(op);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type, writable);
  int64_t width = elementWidth(type.getElementType());
  copyStrided(input.data() + offset * width, strides, writable, denseStrides(type.getShape()), type.getShape(), width);
  return {result};
}

FailureOr<Values> ReshapeOp::evaluate(ArrayRef<HostTensor> operands) {
  return Values{operands[0].withType(resultType(*this))};
}

FailureOr<Values> TransposeOp::evaluate(ArrayRef<HostTensor> operands) {
  Strides dense = denseStrides(operands[0].getShape()), strides;
  for (int64_t dim : getPermutation())
    strides.push_back(dense[dim]);
  return gatherStrided(*this, operands[0], 0, strides);
}

FailureOr<Values> BroadcastOp::evaluate(ArrayRef<HostTensor> operands) {
  return gatherStrided(*this, operands[0], 0, broadcastStrides(operands[0].getShape(), resultType(*this).getShape()));
}

FailureOr<Values> SliceOp::evaluate(ArrayRef<HostTensor> operands) {
  Strides dense = denseStrides(operands[0].getShape()), strides;
  int64_t offset = 0;
  bool inOrder = true;
  for (auto [index, stride] : llvm::enumerate(dense)) {
    offset += getStarts()[index] * stride;
    strides.push_back(stride * getStrides()[index]);
    inOrder &= getStrides()[index] == 1;
  }
  RankedTensorType type = resultType(*this);
  if (type.getNumElements() == 0)
    offset = 0;
  // A range of the slowest dimension is a part of the input's bytes: nothing is copied.
  bool contiguous = inOrder && type.getRank() > 0 && type.getNumElements() > 0 &&
                    type.getShape().drop_front() == operands[0].getShape().drop_front();
  if (contiguous)
    return Values{HostTensor(type, operands[0].data() + offset * elementWidth(type.getElementType()),
                             std::make_shared<HostTensor>(operands[0]))};
  return gatherStrided(*this, operands[0], offset, strides);
}

FailureOr<Values> ReverseOp::evaluate(ArrayRef<HostTensor> operands) {
  Strides strides = denseStrides(operands[0].getShape());
  SmallVector<bool> reversed(strides.size(), false);
  int64_t offset = 0;
  for (int64_t dim : getDims()) {
    if (reversed[dim] || operands[0].getNumElements() == 0)
      continue;
    reversed[dim] = true;
    offset += (operands[0].getShape()[dim] - 1) * strides[dim];
    strides[dim] = -strides[dim];
  }
  return gatherStrided(*this, operands[0], offset, strides);
}

FailureOr<Values> ConcatOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type, writable);
  int64_t width = elementWidth(type.getElementType());
  Strides target = denseStrides(type.getShape());
  for (const HostTensor &operand : operands) {
    copyStrided(operand.data(), denseStrides(operand.getShape()), writable, target, operand.getShape(), width);
    writable += operand.getShape()[getDim()] * target[getDim()] * width;
  }
  return Values{result};
}

FailureOr<Values> PadOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type, writable);
  int64_t width = elementWidth(type.getElementType());
  Strides target = denseStrides(type.getShape());
  copyStrided(operands[1].data(), Strides(type.getRank(), 0), writable, target, type.getShape(), width);
  for (auto [low, stride] : llvm::zip(getLow(), target))
    writable += low * stride * width;
  copyStrided(operands[0].data(), denseStrides(operands[0].getShape()), writable, target, operands[0].getShape(),
              width);
  return Values{result};
}

FailureOr<Values> GatherOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type, writable);
  if (type.getNumElements() == 0)
    return Values{result};
  ArrayRef<int64_t> shape = operands[0].getShape();
  int64_t dim = getDim(), size = shape[dim];
  auto product = [](ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  };
  int64_t outer = product(shape.take_front(dim));
  int64_t block = product(shape.drop_front(dim + 1)) * elementWidth(type.getElementType());
  bool wide = operands[1].getElementType().isInteger(64);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0, e = operands[1].getNumElements(); i < e; ++i, writable += block) {
      int64_t index = wide ? operands[1].as<int64_t>()[i] : operands[1].as<int32_t>()[i];
      index = std::clamp<int64_t>(index < 0 ? index + size : index, 0, size - 1);
      std::memcpy(writable, operands[0].data() + (o * size + index) * block, block);
    }
  return Values{result};
}

FailureOr<Values> IotaOp::evaluate(ArrayRef<HostTensor>) {
  RankedTensorType type = resultType(*this);
  Type element = type.getElementType();
  Type wide = element.isF16() || element.isBF16() ? Type(Float32Type::get(getContext())) : element;
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type.clone(wide), writable);
  int64_t stride = denseStrides(type.getShape())[getDim()], size = type.getDimSize(getDim());
  bool known = withElementType(wide, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, e = type.getNumElements(); i < e; ++i)
      reinterpret_cast<T *>(writable)[i] = static_cast<T>(i / stride % size);
    return true;
  });
  if (!known)
    return failure();
  return Values{narrow(result, element)};
}

} // namespace cleave::dfg
