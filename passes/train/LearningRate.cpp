// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/train/LearningRate.h"

#include "passes/train/Arithmetic.h"

#include <numbers>

using namespace mlir;

namespace cleave {

Value buildLearningRate(OpBuilder &builder, Location location, ArrayRef<Value> numbers, Value step) {
  Arithmetic math(builder, location);
  Value rate = numbers[0], gamma = numbers[1], period = numbers[2], total = numbers[3], warmup = numbers[4];
  Value time = math.cast(step, builder.getF64Type());
  Value falls = math.pow(gamma, math.floor(math.div(time, period)));
  Value rising = math.min(math.div(math.add(time, 1.0), math.max(warmup, 1.0)), 1.0);
  Value decay = math.sub(total, warmup);
  Value since = math.max(math.sub(time, warmup), 0.0);
  Value share = math.div(dfg::MinOp::create(builder, location, since, decay), math.max(decay, 1.0));
  Value cosine = math.mul(math.add(math.cos(math.mul(share, std::numbers::pi)), 1.0), 0.5);
  return math.mul(math.mul(math.mul(falls, rising), cosine), rate);
}

} // namespace cleave
