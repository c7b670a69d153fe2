// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Secants of the lower convex hull of (bytes, seconds) around the limit.

#include "passes/planner/solver/Multiplier.h"

#include <cmath>

namespace cleave::solver {
namespace {

/// The multiplier is exact after a few steps; rounding must not keep the search from ending.
constexpr unsigned mostSteps = 100;

} // namespace

Multiplier findMultiplier(const std::function<Priced(double secondsPerByte)> &solveAt, Choice over, Choice under,
                          double memoryLimit, const std::function<bool()> &isDone) {
  Multiplier best;
  for (unsigned step = 0; step != mostSteps && !isDone(); ++step) {
    if (std::isinf(under.seconds) || under.bytes > memoryLimit || under.seconds <= over.seconds)
      break;
    double price = (under.seconds - over.seconds) / (over.bytes - under.bytes);
    Priced found = solveAt(price);
    double bound = found.least - price * memoryLimit;
    if (bound > best.lowerBound)
      best = {price, bound};
    double onLine = over.seconds + price * over.bytes;
    if (!(found.cost.seconds + price * found.cost.bytes < onLine * (1 - rounding)))
      break;
    (found.cost.bytes <= memoryLimit ? under : over) = found.cost;
  }
  return best;
}

} // namespace cleave::solver
