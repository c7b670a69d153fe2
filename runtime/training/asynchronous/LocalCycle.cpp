// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The next point at which a version is needed.

#include "runtime/training/asynchronous/LocalCycle.h"

#include <algorithm>

namespace cleave::runtime {

ReplicaStretch LocalCycle::next(uint64_t left) const {
  ReplicaStretch stretch;
  stretch.steps = left;
  stretch.fetches = since == 0 && !isBehind;
  stretch.gives = false;
  if (isBehind && since < overlap) {
    stretch.steps = std::min(left, overlap - since);
    return stretch;
  }
  stretch.merges = isBehind;
  uint64_t before = all - since;
  if (left < before)
    return stretch;
  if (overlap == 0)
    stretch.gives = true;
  else
    stretch.exchangesAfter = before;
  stretch.steps = std::min(left, before + overlap);
  return stretch;
}

ReplicaStretch LocalCycle::drain() const {
  ReplicaStretch stretch;
  stretch.steps = 0;
  stretch.fetches = false;
  stretch.merges = isBehind;
  return stretch;
}

void LocalCycle::add(const ReplicaStretch &stretch) {
  isBehind = stretch.exchangesAfter || (isBehind && !stretch.merges && !stretch.gives);
  if (stretch.gives)
    since = 0;
  else
    since = stretch.exchangesAfter ? stretch.steps - *stretch.exchangesAfter : since + stretch.steps;
}

} // namespace cleave::runtime
