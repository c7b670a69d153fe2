// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of reductions on known operands. Floating-point sums and products are accumulated in double.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/EvaluateElements.h"
#include "dialects/dfg/EvaluateLoops.h"

#include <vector>

using namespace mlir;

namespace cleave::dfg {

/// Joins every element of `input` into the accumulator at its place in the result.
template <typename Accumulator, typename T, typename Join>
static void accumulate(const HostTensor &input, const StridedLoop &loop, std::vector<Accumulator> &accumulators,
                       Join join) {
  const T *from = reinterpret_cast<const T *>(input.data());
  int64_t fromStep = loop.innerStride(0), toStep = loop.innerStride(1);
  loop.run([&](ArrayRef<int64_t> at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Accumulator &place = accumulators[at[1] + i * toStep];
      place = join(place, static_cast<Accumulator>(from[at[0] + i * fromStep]));
    }
  });
}

template <typename T>
static bool reduceElements(ReduceKind kind, const HostTensor &input, const StridedLoop &loop, T *out, int64_t count) {
  using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  using Limits = std::numeric_limits<Accumulator>;
  using E = Element<Accumulator>;
  Accumulator largest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  Accumulator smallest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  std::vector<Accumulator> accumulators;
  switch (kind) {
  case ReduceKind::Sum:
    accumulators.assign(count, Accumulator(0));
    accumulate<Accumulator, T>(input, loop, accumulators, E::add);
    break;
  case ReduceKind::Product:
    accumulators.assign(count, Accumulator(1));
    accumulate<Accumulator, T>(input, loop, accumulators, E::multiply);
    break;
  case ReduceKind::Max:
    accumulators.assign(count, smallest);
    accumulate<Accumulator, T>(input, loop, accumulators, E::larger);
    break;
  case ReduceKind::Min:
    accumulators.assign(count, largest);
    accumulate<Accumulator, T>(input, loop, accumulators, E::smaller);
    break;
  }
  std::copy(accumulators.begin(), accumulators.end(), out);
  return true;
}

FailureOr<SmallVector<HostTensor>> ReduceOp::evaluate(ArrayRef<HostTensor> operands) {
  HostTensor input = widen(operands[0]);
  auto type = cast<RankedTensorType>(getResult().getType());
  // The result's strides over the input's dimensions: reduced ones stay in place.
  SmallVector<int64_t> kept(input.getShape());
  for (int64_t dim : getDims())
    kept[dim] = 1;
  Strides target = denseStrides(kept);
  for (int64_t dim : getDims())
    target[dim] = 0;
  StridedLoop loop(input.getShape(), {denseStrides(input.getShape()), target});
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(type.clone(input.getElementType()), writable);
  bool done = withElementType(input.getElementType(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      // As bytes, the largest of truth values is their disjunction and the smallest their conjunction.
      if (getKind() == ReduceKind::Sum)
        return false;
      ReduceKind kind = getKind() == ReduceKind::Product ? ReduceKind::Min : getKind();
      reduceElements<int8_t>(kind, input, loop, reinterpret_cast<int8_t *>(writable), type.getNumElements());
      for (int64_t i = 0; i < type.getNumElements(); ++i)
        writable[i] = writable[i] > 0;
      return true;
    } else {
      return reduceElements<T>(getKind(), input, loop, reinterpret_cast<T *>(writable), type.getNumElements());
    }
  });
  if (!done)
    return failure();
  return SmallVector<HostTensor>{narrow(result, type.getElementType())};
}

} // namespace cleave::dfg
