// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far replicas of a training step are, and which of them may begin another one: the rule of stale synchronous
// parallel training (Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, 2013).
// Bookkeeping alone, for the runtime, where threads wait for it, and for the simulator.

#ifndef CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICACLOCKS_H
#define CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICACLOCKS_H

#include <cstdint>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// The clock of a replica is how many of its steps are part of the parameters' newest version.
class ReplicaClocks {
public:
  /// All stand at zero. `bound`: how many steps one may be ahead of the slowest when it begins a step; nothing: any.
  ReplicaClocks(uint32_t replicas, std::optional<uint64_t> bound) : bound(bound), clocks(replicas), gone(replicas) {}

  /// Whether the newest version has all steps of others that are more than `bound` before the replica's next one.
  bool mayBegin(uint32_t replica) const { return !bound || ahead(replica) <= *bound; }
  /// How many steps the slowest is behind a replica.
  uint64_t ahead(uint32_t replica) const { return clocks[replica] - slowest(); }
  uint64_t at(uint32_t replica) const { return clocks[replica]; }
  uint64_t slowest() const;
  /// A step of the replica is part of the newest version now.
  void advance(uint32_t replica) { ++clocks[replica]; }
  /// The others no longer wait for the replica.
  void leave(uint32_t replica) { gone[replica] = true; }
  bool hasLeft(uint32_t replica) const { return gone[replica]; }
  /// How many have not left.
  uint32_t count() const;
  uint32_t size() const { return static_cast<uint32_t>(clocks.size()); }
  /// All have seen everything: they stand at zero again.
  void restart() { clocks.assign(clocks.size(), 0); }

private:
  std::optional<uint64_t> bound;
  std::vector<uint64_t> clocks;
  std::vector<bool> gone;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_ASYNCHRONOUS_REPLICACLOCKS_H
