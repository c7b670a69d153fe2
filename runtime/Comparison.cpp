// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparison of tensors within tolerances.

#include "runtime/Comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cleave::runtime {

/// Exact for every element type: x87's long double holds all 64 bits of an integer.
static long double load(ElementType type, const std::byte *address) {
  if (type != ElementType::I64)
    return loadElement(type, address);
  int64_t value;
  std::memcpy(&value, address, sizeof(value));
  return value;
}

static long double distance(long double actual, long double expected) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected)))
    return 0;
  return std::isfinite(actual) && std::isfinite(expected) ? std::fabs(actual - expected) : HUGE_VALL;
}

static std::vector<int64_t> indexOf(uint64_t position, const std::vector<int64_t> &shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = static_cast<int64_t>(position % shape[d]);
    position /= shape[d];
  }
  return index;
}

double largestMagnitude(const HostTensor &tensor) {
  ElementType type = tensor.type().element;
  unsigned width = elementBytes(type);
  long double largest = 0;
  for (size_t i = 0; i != tensor.bytes().size() / width; ++i)
    if (long double value = load(type, tensor.bytes().data() + i * width); std::isfinite(value))
      largest = std::max(largest, std::fabs(value));
  return static_cast<double>(largest);
}

Comparison compare(const HostTensor &actual, const HostTensor &expected, double rtol, double atol) {
  ElementType type = actual.type().element;
  unsigned width = elementBytes(type);
  Comparison result;
  result.elements = actual.bytes().size() / width;
  long double worst = -1;
  for (uint64_t i = 0; i != result.elements; ++i) {
    long double a = load(type, actual.bytes().data() + i * width);
    long double b = load(type, expected.bytes().data() + i * width);
    long double error = distance(a, b);
    result.maxError = std::max(result.maxError, static_cast<double>(error));
    long double allowed = std::isfinite(b) ? atol + rtol * std::fabs(b) : 0;
    if (error <= allowed)
      continue;
    ++result.differing;
    if (error - allowed <= worst)
      continue;
    worst = error - allowed;
    result.worstIndex = indexOf(i, actual.type().shape);
    result.worstActual = static_cast<double>(a);
    result.worstExpected = static_cast<double>(b);
  }
  return result;
}

std::string Comparison::text() const {
  std::ostringstream out;
  out.precision(9);
  if (equal()) {
    out << "equal, largest error " << maxError;
    return out.str();
  }
  out << differing << " of " << elements << " elements differ; worst at [";
  for (size_t d = 0; d != worstIndex.size(); ++d)
    out << (d ? "," : "") << worstIndex[d];
  out << "]: expected " << worstExpected << ", got " << worstActual;
  return out.str();
}

} // namespace cleave::runtime
