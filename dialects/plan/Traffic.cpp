// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What instructions bring from other devices. Reductions are counted as rings over n devices, of which each receives
// 2 (n - 1) / n of its buffer, or half of that where the result is scattered (Thakur, Rabenseifner, Gropp 2005).

#include "dialects/plan/Tile.h"

using namespace mlir;
using namespace cleave::plan;

static double bufferBytes(Value buffer) {
  return static_cast<double>(storageBytes(cast<BufferType>(buffer.getType()).getTensor()));
}

/// What a device receives when groups along `axes` pass each of their parts of `buffer` around once.
static double onceAround(Value buffer, ArrayRef<int64_t> axes, ArrayRef<int64_t> axisSizes) {
  double ways = 1;
  for (int64_t axis : axes)
    ways *= static_cast<double>(axisSizes[static_cast<size_t>(axis)]);
  return bufferBytes(buffer) * (ways - 1) / ways;
}

Value ReceiveOp::getFilledBuffer() { return getBuffer(); }
bool ReceiveOp::joinsValues() { return false; }
double ReceiveOp::getReceivedBytes(ArrayRef<int64_t>) { return bufferBytes(getBuffer()); }

Value ExchangeOp::getFilledBuffer() { return getTarget(); }
bool ExchangeOp::joinsValues() { return false; }
double ExchangeOp::getReceivedBytes(ArrayRef<int64_t> axisSizes) {
  RankedTensorType type = cast<BufferType>(getTarget().getType()).getTensor();
  double elements = trafficOf(getSourceTileAttr(), getTargetTileAttr(), axisSizes).elements;
  return elements * bufferBytes(getTarget()) / static_cast<double>(std::max<int64_t>(1, type.getNumElements()));
}

Value AllReduceOp::getFilledBuffer() { return getTarget(); }
bool AllReduceOp::joinsValues() { return true; }
double AllReduceOp::getReceivedBytes(ArrayRef<int64_t> axisSizes) {
  return 2 * onceAround(getSource(), getAxes(), axisSizes);
}

Value ReduceScatterOp::getFilledBuffer() { return getTarget(); }
bool ReduceScatterOp::joinsValues() { return true; }
double ReduceScatterOp::getReceivedBytes(ArrayRef<int64_t> axisSizes) {
  return onceAround(getSource(), getAxes(), axisSizes);
}
