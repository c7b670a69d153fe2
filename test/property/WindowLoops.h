// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What loops over products and windows are made of: sums, random windows, and how far rounding may move a sum.

#ifndef CLEAVE_TEST_PROPERTY_WINDOWLOOPS_H
#define CLEAVE_TEST_PROPERTY_WINDOWLOOPS_H

#include "test/property/KernelCases.h"

#include <algorithm>
#include <cmath>

namespace cleave::test {

/// "array<i64: 1, 2>"
inline std::string array(const Shape &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

/// From 0 to `bound` - 1.
inline int64_t below(Random &random, int64_t bound) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

/// Accepted difference of a sum of about `terms` products of numbers up to 2: of f32 in any order, then one rounding.
inline void allowRounding(KernelCase &kernelCase, const std::string &element, int64_t terms) {
  if (element[0] == 'i')
    return;
  bool exact = element == "f64";
  kernelCase.absolute = static_cast<double>(terms + 1) * 4 * (exact ? 1e-15 : 2.5e-7);
  kernelCase.relative = std::ldexp(1.0, -precisionOf(element));
}

/// Adds as the type does: integers wrap through 64 bits.
struct Sum {
  void add(const Tensor &a, int64_t i, const Tensor &b, int64_t j) {
    real += a.real(i) * b.real(j);
    integer +=
        static_cast<uint64_t>(a.isFloat() ? 0 : a.integer(i)) * static_cast<uint64_t>(b.isFloat() ? 0 : b.integer(j));
  }
  void store(Tensor &result, int64_t position) const {
    if (result.isFloat())
      result.setReal(position, real);
    else
      result.setInteger(position, static_cast<int64_t>(integer));
  }
  double real = 0;
  uint64_t integer = 0;
};

/// Random windows over `space` dimensions.
struct Windows {
  Windows(Random &random, size_t space) {
    for (size_t i = 0; i < space; ++i) {
      window.push_back(1 + below(random, 3));
      strides.push_back(1 + below(random, 3));
      dilations.push_back(1 + below(random, 2));
      // No window is wider, so that each has a position.
      input.push_back(5 + below(random, 7));
      before.push_back(below(random, std::min<int64_t>(window[i], 3)));
      after.push_back(below(random, std::min<int64_t>(window[i], 3)));
    }
    pads = before;
    pads.insert(pads.end(), after.begin(), after.end());
  }

  Shape positions() const {
    Shape result;
    for (size_t i = 0; i < window.size(); ++i)
      result.push_back((input[i] + before[i] + after[i] - dilations[i] * (window[i] - 1) - 1) / strides[i] + 1);
    return result;
  }

  /// The input's index at a position of the window, or nothing where it lies in the padding.
  bool at(const Shape &position, const Shape &offset, Shape &index) const {
    for (size_t i = 0; i < window.size(); ++i) {
      int64_t place = position[i] * strides[i] - before[i] + offset[i] * dilations[i];
      if (place < 0 || place >= input[i])
        return false;
      index.push_back(place);
    }
    return true;
  }

  std::string attributes() const {
    return "strides = " + array(strides) + ", pads = " + array(pads) + ", dilations = " + array(dilations);
  }

  Shape window, strides, dilations, input, before, after, pads;
};

inline Shape joined(Shape a, const Shape &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// What follows batch and channel.
inline Shape spaceOf(const Shape &index) { return Shape(index.begin() + 2, index.end()); }

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_WINDOWLOOPS_H
