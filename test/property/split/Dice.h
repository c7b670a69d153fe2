// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random choices of the split test, all from one seed.

#ifndef CLEAVE_TEST_PROPERTY_SPLIT_DICE_H
#define CLEAVE_TEST_PROPERTY_SPLIT_DICE_H

#include "test/property/Tensor.h"

#include "llvm/ADT/ArrayRef.h"

#include <algorithm>

namespace cleave::test {

/// Random choices.
class Dice {
public:
  explicit Dice(uint64_t seed) : random(seed) {}

  /// From `low` to `high`, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  }
  /// From 0 to `count` - 1.
  size_t below(size_t count) { return random() % count; }
  /// True in one of `n` throws.
  bool oneIn(size_t n) { return below(n) == 0; }
  double real(double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1.0p-53);
  }
  template <typename T> const T &of(llvm::ArrayRef<T> values) { return values[below(values.size())]; }
  template <typename T> T of(std::initializer_list<T> values) { return *(values.begin() + below(values.size())); }
  template <typename Range> void shuffle(Range &values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[below(i)]);
  }
  uint64_t seed() { return random(); }

private:
  Random random;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_SPLIT_DICE_H
