// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values held the bytes of an arena last: what a value must wait for that takes their place.

#ifndef CLEAVE_PASSES_SCHEDULE_OCCUPANCY_H
#define CLEAVE_PASSES_SCHEDULE_OCCUPANCY_H

#include <cstdint>
#include <map>
#include <vector>

namespace cleave::schedule {

/// The bytes of one arena, as a map from ranges of bytes to the value that was written there last.
class Occupancy {
public:
  /// Gives `bytes` bytes at `offset` to `value`, and returns the values that held some of them, without repetition.
  std::vector<unsigned> take(unsigned value, uint64_t offset, uint64_t bytes);

private:
  struct Holder {
    uint64_t end = 0;
    unsigned value = 0;
  };
  /// By offset; disjoint.
  std::map<uint64_t, Holder> holders;
};

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_OCCUPANCY_H
