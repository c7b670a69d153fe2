// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who meets in a communication, and which links its bytes cross.
//
//   all_reduce, reduce_scatter, all_gather   along a ring, a tree, or inside hosts first and then between them: what is
//                                            fastest (Thakur, Rabenseifner, Gropp 2005)
//   every other exchange, send and receive   each piece directly from its owner to its taker (Channels.h)
//
// The sites of a group meet; of a transfer, those that pieces connect.

#ifndef CLEAVE_RUNTIME_SIMULATOR_TRAFFIC_H
#define CLEAVE_RUNTIME_SIMULATOR_TRAFFIC_H

#include "runtime/Channels.h"
#include "runtime/simulator/MachineModel.h"

#include <deque>
#include <map>
#include <tuple>

namespace cleave::runtime {

struct LinkLoad {
  uint32_t link = 0;
  double bytes = 0;
};

/// A part of a communication: after the latency, bytes cross links, all at once; or work of known length is done.
struct TrafficPhase {
  double latency = 0;          ///< seconds
  double seconds = 0;          ///< of work, while nothing else runs
  std::vector<LinkLoad> loads; ///< each link once, in ascending order
};

/// Sites whose instructions begin their communication when the last of them can, and end together.
struct Meeting {
  std::vector<uint32_t> sites;      ///< ascending
  std::vector<TrafficPhase> phases; ///< one after the other
};

/// The meetings of the communications of an entry's body. Communications of equal geometry share them.
class Traffic {
public:
  Traffic(const PlanContents &plan, const Entry &entry, std::span<const Site> sites, const MachineModel &model);

  /// All there are.
  const std::deque<std::vector<Meeting>> &all() const { return lists; }
  /// The place in all() of what a channel's communication does.
  uint32_t of(uint32_t channel) const { return listOfChannel.at(channel); }

private:
  /// Of each tensor the tiles and the bytes.
  using Geometry = std::vector<std::tuple<int32_t, int32_t, uint64_t>>;
  /// What tells geometries apart: the action, the meshes, the tensors, the bytes of all, what else matters.
  using Key = std::tuple<size_t, uint32_t, uint32_t, Geometry, uint64_t, std::vector<uint32_t>>;
  /// One of the tensors of an exchange: both sides are the same for all but for the tiles.
  struct ExchangedTensor {
    ExchangeSide source, target;
    const TensorType &type; ///< of the target
  };

  void add(const Program &program, const Instruction &instruction);
  template <typename Make> void remember(uint32_t channel, Key key, Make make);
  static std::optional<std::vector<uint32_t>> joinedAxes(std::span<const ExchangedTensor> tensors);
  std::vector<Meeting> exchange(std::span<const ExchangedTensor> tensors) const;
  std::vector<Meeting> group(uint32_t mesh, const std::vector<uint32_t> &axes, GroupWork::Kind kind,
                             double bytes) const;
  std::vector<Meeting> direct(std::span<const ExchangedTensor> tensors) const;
  uint32_t deviceOf(uint32_t site) const { return sites[site].device; }

  const PlanContents &plan;
  const Entry &entry;
  std::span<const Site> sites;
  const MachineModel &model;
  std::map<uint32_t, uint32_t> firstSite; ///< by mesh
  std::deque<std::vector<Meeting>> lists;
  std::map<Key, uint32_t> listOf;
  std::map<uint32_t, uint32_t> listOfChannel;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_TRAFFIC_H
