// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutates bytes of which nothing is known.

#include "Mutation.h"

#include <algorithm>

namespace cleave::fuzz {

size_t mutateBytes(uint8_t *data, size_t size, size_t most, Random &random) {
  if (size == 0)
    return 0;
  size_t at = random.below(size), length = std::min<size_t>(1 + random.below(8), size - at);
  switch (random.below(4)) {
  case 0:
    data[at] ^= static_cast<uint8_t>(1u << random.below(8));
    return size;
  case 1:
    data[at] = static_cast<uint8_t>(random.below(256));
    return size;
  case 2:
    std::copy(data + at + length, data + size, data + at);
    return size - length;
  default:
    if (size + length > most)
      return size;
    std::copy_backward(data + at, data + size, data + size + length);
    return size + length;
  }
}

} // namespace cleave::fuzz
