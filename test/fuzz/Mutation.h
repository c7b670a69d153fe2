// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What mutators of every format draw from: random numbers from a seed, and numbers at which programs go wrong.

#ifndef CLEAVE_TEST_FUZZ_MUTATION_H
#define CLEAVE_TEST_FUZZ_MUTATION_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>

namespace cleave::fuzz {

/// Equal seeds give equal numbers.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  /// A number in [0, count); 0 of none.
  uint64_t below(uint64_t count) { return count ? engine() % count : 0; }
  bool oneIn(uint64_t count) { return below(count) == 0; }

private:
  std::mt19937_64 engine;
};

/// Another value of an integer: near it, far from it, or one of those that bounds are made of.
inline int64_t mutated(int64_t value, Random &random) {
  static constexpr std::array<int64_t, 16> edges = {0,
                                                    1,
                                                    2,
                                                    -1,
                                                    -2,
                                                    3,
                                                    7,
                                                    64,
                                                    255,
                                                    256,
                                                    65536,
                                                    std::numeric_limits<int32_t>::max(),
                                                    std::numeric_limits<int32_t>::min(),
                                                    std::numeric_limits<int64_t>::max(),
                                                    std::numeric_limits<int64_t>::min(),
                                                    int64_t(1) << 40};
  auto bits = static_cast<uint64_t>(value);
  switch (random.below(6)) {
  case 0:
    return static_cast<int64_t>(bits + 1);
  case 1:
    return static_cast<int64_t>(bits - 1);
  case 2:
    return static_cast<int64_t>(bits * 2);
  case 3:
    return value / 2;
  case 4:
    return static_cast<int64_t>(bits ^ uint64_t(1) << random.below(64));
  default:
    return edges[random.below(edges.size())];
  }
}

/// Another value of a real number.
inline double mutated(double value, Random &random) {
  static constexpr std::array<double, 8> edges = {0,     -1,
                                                  1e-30, 1e30,
                                                  1e300, std::numeric_limits<double>::infinity(),
                                                  -1e9,  std::numeric_limits<double>::quiet_NaN()};
  return random.oneIn(2) ? value * 2 + 1 : edges[random.below(edges.size())];
}

/// Changes bytes: some become others, some go, some stand twice. The new size, at most `most`.
size_t mutateBytes(uint8_t *data, size_t size, size_t most, Random &random);

} // namespace cleave::fuzz

#endif // CLEAVE_TEST_FUZZ_MUTATION_H
