// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention takes whose queries and keys are cut along the sequence: with keys and values gathered from all
// devices, or with a device's at a time from the neighbour. The search asks before there is a program, the partitioner
// when it has one.

#ifndef CLEAVE_PASSES_COST_KEYEXCHANGECOST_H
#define CLEAVE_PASSES_COST_KEYEXCHANGECOST_H

#include "passes/cost/MeshCost.h"
#include "passes/cost/OperatorCost.h"

namespace cleave {

/// Attention as a device computes it that has a part of the queries. Bytes are those of its tensors; of keys, values
/// and scores for all keys.
struct CutAttention {
  int64_t devices = 1;                    ///< Each of them has a chunk of the keys.
  double scoreFlops = 0, resultFlops = 0; ///< Of the product with the keys, and of that with the values.
  double queries = 0, keys = 0, values = 0, scores = 0, result = 0;
  double numKeys = 1;
  bool training = false;
  /// Attention of all keys is one kernel, whose scores are never in memory. Those of chunks are.
  bool isOneKernel = false;
};

/// Seconds of a pass, and those of them in which it waits for keys, values and their gradients.
struct KeyPass {
  double seconds = 0, exchange = 0;
  double computing() const { return seconds - exchange; }
};

/// Both passes one way; no backward pass in inference.
struct KeyWay {
  KeyPass forward, backward;
  /// The bytes of keys, values and scores that a device has at once; in training with their gradients.
  double bytes = 0;
  double seconds() const { return forward.seconds + backward.seconds; }
};

struct KeyTimes {
  KeyWay gathered, ring;
};

/// Seconds to compute with one chunk after the other, of two `steps` or more that take `chunk` seconds each, and `join`
/// with what was there before, while the next one is on its way for `hop` seconds. A device has its own chunk from the
/// beginning; it passes one on when it has it and is done with the one before.
inline double ringSeconds(int64_t steps, double chunk, double join, double hop) {
  return std::max(chunk, hop) + static_cast<double>(steps - 2) * std::max(chunk + join, hop) + chunk + join;
}

/// Both ways on devices that all do the same, two or more along `axes` of a mesh. Gathers and reduce-scatters are
/// waited for; of a ring's messages what takes longer than a chunk's computation is. The operators of a chunk take that
/// share of what those of all keys take, and scores that are in memory are read and written twice between the products
/// forward, four times backward.
KeyTimes keyTimes(const CutAttention &attention, const OperatorCost &cost, const MeshCost &links,
                  llvm::ArrayRef<unsigned> axes);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_KEYEXCHANGECOST_H
