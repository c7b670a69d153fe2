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

/// Of several tensors each has the node of its buffer.
static Location locationOf(Operation *op, OperandRange sources, unsigned tensor) {
  return sources.size() == 1 ? op->getLoc() : sources[tensor].getLoc();
}

ValueRange ReceiveOp::getFilledBuffers() { return getOperation()->getOperands(); }
Location ReceiveOp::getTensorLocation(unsigned) { return getLoc(); }
bool ReceiveOp::joinsValues() { return false; }
double ReceiveOp::getReceivedBytes(unsigned, ArrayRef<int64_t>) { return bufferBytes(getBuffer()); }

ValueRange ExchangeOp::getFilledBuffers() { return getTargets(); }
Location ExchangeOp::getTensorLocation(unsigned tensor) { return locationOf(*this, getSources(), tensor); }
bool ExchangeOp::joinsValues() { return false; }
double ExchangeOp::getReceivedBytes(unsigned tensor, ArrayRef<int64_t> axisSizes) {
  Value target = getTargets()[tensor];
  RankedTensorType type = cast<BufferType>(target.getType()).getTensor();
  double elements = trafficOf(getSourceTile(tensor), getTargetTile(tensor), axisSizes).elements;
  return elements * bufferBytes(target) / static_cast<double>(std::max<int64_t>(1, type.getNumElements()));
}

ValueRange AllReduceOp::getFilledBuffers() { return getTargets(); }
Location AllReduceOp::getTensorLocation(unsigned tensor) { return locationOf(*this, getSources(), tensor); }
bool AllReduceOp::joinsValues() { return true; }
double AllReduceOp::getReceivedBytes(unsigned tensor, ArrayRef<int64_t> axisSizes) {
  return 2 * onceAround(getSources()[tensor], getAxes(), axisSizes);
}

ValueRange ReduceScatterOp::getFilledBuffers() { return getTargets(); }
Location ReduceScatterOp::getTensorLocation(unsigned tensor) { return locationOf(*this, getSources(), tensor); }
bool ReduceScatterOp::joinsValues() { return true; }
double ReduceScatterOp::getReceivedBytes(unsigned tensor, ArrayRef<int64_t> axisSizes) {
  return onceAround(getSources()[tensor], getAxes(), axisSizes);
}
