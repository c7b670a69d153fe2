// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which an epoch goes through its samples: a function of the seed and the epoch alone, the same on every
// machine and in every process.

#ifndef CLEAVE_RUNTIME_TRAINING_RANDOMORDER_H
#define CLEAVE_RUNTIME_TRAINING_RANDOMORDER_H

#include <cstdint>
#include <vector>

namespace cleave::runtime {

/// A permutation of 0, ..., count - 1, each as likely as any other: Fisher and Yates' shuffle (Knuth, The Art of
/// Computer Programming 2, algorithm P), with numbers below a bound as Lemire draws them (Fast Random Integer
/// Generation in an Interval, 2019) from the words of Generator.h; their seed is the word that counter `epoch` of
/// `seed` gives.
std::vector<uint64_t> randomOrder(uint64_t count, uint64_t seed, uint64_t epoch);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_RANDOMORDER_H
