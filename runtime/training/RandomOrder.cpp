// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shuffle.

#include "runtime/training/RandomOrder.h"

#include "runtime/Generator.h"

#include <numeric>
#include <utility>

namespace cleave::runtime {

namespace {

/// Numbers from the words of one seed, in the order of the counters.
class Words {
public:
  explicit Words(uint64_t seed) : seed(seed) {}

  /// One below `bound`, each as likely: the upper half of a product of 128 bits, but for the few lower halves that
  /// would make some numbers likelier.
  uint64_t below(uint64_t bound) {
    for (;;) {
      auto product = static_cast<unsigned __int128>(randomWord(seed, counter++)) * bound;
      auto low = static_cast<uint64_t>(product);
      if (low >= bound || low >= -bound % bound)
        return static_cast<uint64_t>(product >> 64);
    }
  }

private:
  uint64_t seed, counter = 0;
};

} // namespace

std::vector<uint64_t> randomOrder(uint64_t count, uint64_t seed, uint64_t epoch) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  Words words(randomWord(seed, epoch));
  for (uint64_t left = count; left > 1; --left)
    std::swap(order[left - 1], order[words.below(left)]);
  return order;
}

} // namespace cleave::runtime
