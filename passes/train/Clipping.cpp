// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The norm as a sum of sums.

#include "passes/train/Clipping.h"

#include "passes/train/Arithmetic.h"

using namespace mlir;

namespace cleave {

Value buildGlobalNorm(OpBuilder &builder, Location location, ValueRange gradients) {
  Arithmetic math(builder, location);
  Value total;
  for (Value gradient : gradients) {
    Value wide = math.cast(gradient, builder.getF32Type());
    Value sum = math.sum(math.mul(wide, wide));
    total = total ? math.add(total, sum) : sum;
  }
  return math.sqrt(total ? total : math.number(builder.getF32Type(), 0.0));
}

SmallVector<Value> clipByGlobalNorm(OpBuilder &builder, Location location, ValueRange gradients, double largest) {
  // Keeps the factor finite where all gradients are zero.
  constexpr double smallest = 1e-6;
  Arithmetic math(builder, location);
  Value norm = buildGlobalNorm(builder, location, gradients);
  Value factor = math.min(math.div(largest, math.add(norm, smallest)), 1.0);
  return llvm::map_to_vector(gradients, [&](Value gradient) -> Value {
    return math.mul(gradient, math.cast(factor, Arithmetic::elementOf(gradient)));
  });
}

} // namespace cleave
