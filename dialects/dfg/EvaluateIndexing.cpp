// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the operators that read, write or find positions, on known operands.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/EvaluateElements.h"
#include "dialects/dfg/EvaluateLoops.h"
#include "dialects/dfg/TensorType.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;

namespace cleave::dfg {

using Values = SmallVector<HostTensor>;

/// Calls `body` with the offsets at which each line along `dim` starts, one a tensor. `strides` are those of the
/// tensors over `shape`.
template <typename Body>
static void forEachLine(ArrayRef<int64_t> shape, int64_t dim, ArrayRef<Strides> strides, Body body) {
  SmallVector<int64_t> lines(shape);
  lines[dim] = 1;
  StridedLoop loop(lines, strides);
  loop.run([&](ArrayRef<int64_t> offsets, int64_t count) {
    SmallVector<int64_t, 4> at(offsets);
    for (int64_t i = 0; i < count; ++i) {
      body(ArrayRef<int64_t>(at));
      for (size_t tensor = 0; tensor < at.size(); ++tensor)
        at[tensor] += loop.innerStride(tensor);
    }
  });
}

/// The strides of a dense tensor whose dimensions of size one, other than `dim`, are the same for all lines.
static Strides lineStrides(ArrayRef<int64_t> shape, int64_t dim) {
  Strides strides = denseStrides(shape);
  for (auto [i, size] : llvm::enumerate(shape))
    if (size == 1 && static_cast<int64_t>(i) != dim)
      strides[i] = 0;
  return strides;
}

static int64_t indexAt(const HostTensor &indices, int64_t position) {
  return indices.getElementType().isInteger(64) ? indices.as<int64_t>()[position] : indices.as<int32_t>()[position];
}

FailureOr<Values> GatherElementsOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type, writable);
  if (type.getNumElements() == 0)
    return Values{result};
  int64_t dim = getDim(), size = operands[0].getShape()[dim], width = elementWidth(type.getElementType());
  Strides from = denseStrides(operands[0].getShape()), index = lineStrides(operands[1].getShape(), dim);
  Strides to = denseStrides(type.getShape());
  forEachLine(type.getShape(), dim, {from, index, to}, [&](ArrayRef<int64_t> at) {
    for (int64_t i = 0; i < type.getDimSize(dim); ++i) {
      int64_t position = indexAt(operands[1], at[1] + i * index[dim]);
      position = std::clamp<int64_t>(position < 0 ? position + size : position, 0, size - 1);
      std::memcpy(writable + (at[2] + i * to[dim]) * width, operands[0].data() + (at[0] + position * from[dim]) * width,
                  width);
    }
  });
  return Values{result};
}

/// `soFar` joined with `update`; `update` alone without a kind.
template <typename T> static T joined(std::optional<ReduceKind> kind, T soFar, T update) {
  if (!kind)
    return update;
  if constexpr (std::is_same_v<T, bool>) {
    return *kind == ReduceKind::Max ? soFar || update : soFar && update;
  } else {
    using E = Element<T>;
    switch (*kind) {
    case ReduceKind::Sum:
      return E::add(soFar, update);
    case ReduceKind::Product:
      return E::multiply(soFar, update);
    case ReduceKind::Max:
      return E::larger(soFar, update);
    case ReduceKind::Min:
      return E::smaller(soFar, update);
    }
    llvm_unreachable("all kinds are handled");
  }
}

FailureOr<Values> ScatterElementsOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  HostTensor input = widen(operands[0]), updates = widen(operands[2]);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type.clone(input.getElementType()), writable);
  std::memcpy(writable, input.data(), input.getNumBytes());
  int64_t dim = getDim(), size = type.getDimSize(dim);
  Strides to = denseStrides(type.getShape()), index = lineStrides(operands[1].getShape(), dim);
  Strides from = denseStrides(updates.getShape());
  bool done = withElementType(input.getElementType(), [&](auto zero) {
    using T = decltype(zero);
    T *out = reinterpret_cast<T *>(writable);
    const T *in = reinterpret_cast<const T *>(updates.data());
    forEachLine(type.getShape(), dim, {to, index, from}, [&](ArrayRef<int64_t> at) {
      for (int64_t i = 0; i < operands[1].getShape()[dim]; ++i) {
        int64_t position = indexAt(operands[1], at[1] + i * index[dim]);
        position = position < 0 ? position + size : position;
        if (position < 0 || position >= size)
          continue;
        T &place = out[at[0] + position * to[dim]];
        place = joined<T>(getReduction(), place, in[at[2] + i * from[dim]]);
      }
    });
    return true;
  });
  if (!done)
    return failure();
  return Values{narrow(result, type.getElementType())};
}

FailureOr<Values> CumulativeSumOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  HostTensor input = widen(operands[0]);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type.clone(input.getElementType()), writable);
  int64_t dim = getDim();
  Strides strides = denseStrides(type.getShape());
  bool done = withElementType(input.getElementType(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return false;
    } else {
      const T *in = reinterpret_cast<const T *>(input.data());
      T *out = reinterpret_cast<T *>(writable);
      forEachLine(type.getShape(), dim, {strides}, [&](ArrayRef<int64_t> at) {
        T sum = 0;
        for (int64_t i = 0; i < type.getDimSize(dim); ++i) {
          int64_t position = at[0] + i * strides[dim];
          T next = Element<T>::add(sum, in[position]);
          out[position] = getExclusive() ? sum : next;
          sum = next;
        }
      });
      return true;
    }
  });
  if (!done)
    return failure();
  return Values{narrow(result, type.getElementType())};
}

/// Whether `a` is smaller than `b`; NaN is larger than every number.
template <typename T> static bool isSmaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a < b || (std::isnan(b) && !std::isnan(a));
  else
    return a < b;
}

FailureOr<Values> ArgSortOp::evaluate(ArrayRef<HostTensor> operands) {
  RankedTensorType type = resultType(*this);
  HostTensor input = widen(operands[0]);
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type, writable);
  auto *out = reinterpret_cast<int64_t *>(writable);
  int64_t dim = getDim(), size = type.getDimSize(dim);
  Strides strides = denseStrides(type.getShape());
  bool done = withElementType(input.getElementType(), [&](auto zero) {
    using T = decltype(zero);
    const T *in = reinterpret_cast<const T *>(input.data());
    SmallVector<int64_t> order(size);
    forEachLine(type.getShape(), dim, {strides}, [&](ArrayRef<int64_t> at) {
      auto element = [&](int64_t i) { return in[at[0] + i * strides[dim]]; };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return getDescending() ? isSmaller(element(b), element(a)) : isSmaller(element(a), element(b));
      });
      for (int64_t i = 0; i < size; ++i)
        out[at[0] + i * strides[dim]] = order[i];
    });
    return true;
  });
  if (!done)
    return failure();
  return Values{result};
}

} // namespace cleave::dfg
