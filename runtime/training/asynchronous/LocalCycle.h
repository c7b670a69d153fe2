// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a replica is between two exchanges. Bookkeeping alone, as ReplicaClocks is. With H local steps and an overlap
// of K, a replica whose data goes on for ever does
//
//   fetch | H steps | give | K steps | merge | H - K steps | give | K steps | merge | …
//                     ╰── the version is made ──╯
//
// so that it gives every H steps and merges K steps later. Where its steps end elsewhere it goes on in the next
// stretch, and where somebody reads the parameters it gives what it has and fetches the result.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_LOCALCYCLE_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_LOCALCYCLE_H

#include <cstdint>
#include <optional>

namespace cleave::runtime {

/// Steps of a replica without a wait for others.
struct ReplicaStretch {
  uint64_t steps = 1;
  /// What it begins with: a version in the place of what it has; or the version that its last exchange brought, to
  /// which it adds what it has moved since. At most one of them.
  bool fetches = true, merges = false;
  /// It gives after this number of the steps, and the version is made of it during the others.
  std::optional<uint64_t> exchangesAfter;
  /// It gives after the steps, and waits until the version is made.
  bool gives = true;
};

/// The stretches of one replica.
class LocalCycle {
public:
  /// `steps` (1 at least) from one exchange to the next, of which `overlap` (fewer) hide it.
  LocalCycle(uint64_t steps, uint64_t overlap) : all(steps), overlap(overlap) {}

  /// What it does next where `left` steps, 1 at least, are left to do: up to where it merges.
  ReplicaStretch next(uint64_t left) const;
  /// An exchange of what it has, without steps. Expects some since the last one.
  ReplicaStretch drain() const;
  /// It has done a stretch.
  void add(const ReplicaStretch &stretch);
  /// It is to fetch next, in the place of a merge. Expects no steps since the last exchange.
  void forget() { isBehind = false; }
  /// Its steps since it gave or, before that, since it fetched first.
  uint64_t stepsSinceExchange() const { return since; }

private:
  uint64_t all, overlap;
  uint64_t since = 0;
  bool isBehind = false; ///< the version of its last exchange is still to be merged
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_LOCALCYCLE_H
