// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far a tensor is from the expected one.

#ifndef CLEAVE_RUNTIME_COMPARISON_H
#define CLEAVE_RUNTIME_COMPARISON_H

#include "runtime/HostTensor.h"

namespace cleave::runtime {

/// Result of comparing element by element. An element agrees if |actual - expected| <= atol + rtol |expected|, or both
/// are NaN, or both the same infinity.
struct Comparison {
  uint64_t elements = 0, differing = 0;
  double maxError = 0; ///< the largest |actual - expected|; NaN against a number, or infinities, count as infinite
  /// The element that exceeds its tolerance most; only if some differ.
  std::vector<int64_t> worstIndex;
  double worstActual = 0, worstExpected = 0;

  bool equal() const { return differing == 0; }
  /// For people: "equal, largest error 1.2e-07", or how many differ and the worst of them.
  std::string text() const;
};

/// The largest magnitude of a finite element; 0 without any.
double largestMagnitude(const HostTensor &tensor);

/// Compares two tensors of the same type.
Comparison compare(const HostTensor &actual, const HostTensor &expected, double rtol, double atol);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMPARISON_H
