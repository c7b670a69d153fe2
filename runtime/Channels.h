// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who exchanges what with whom: the geometry of an entry's communications, worked out once from tiles and meshes, so
// that a communicator only moves bytes. One channel of a phase is one communication, repeated every step.

#ifndef CLEAVE_RUNTIME_CHANNELS_H
#define CLEAVE_RUNTIME_CHANNELS_H

#include "runtime/Tile.h"

#include <functional>
#include <numeric>
#include <unordered_map>

namespace cleave::runtime {

/// What one site gives another: a box of the giver's source buffer, for a box of the taker's target buffer. Site
/// numbers are places in the list of sites.
struct Piece {
  uint32_t from = 0, to = 0;
  StridedCopy box;
  uint32_t operand = 0; ///< which of the communication's tensors it is of
};

/// A box of one of a communication's tensors.
struct OperandBox {
  uint32_t operand = 0;
  StridedCopy box;
};

/// An exchange, or a send with its receives. Each of a taker's elements comes from one giver: from itself if it has it,
/// else from the replica with its own coordinates on the axes that the source does not cut; between meshes, from its
/// own device if that has it, else from the replica at the same fraction of the replicas as the taker is of its mesh.
struct ExchangeChannel {
  /// One site's view. Pieces are in the order of takers, then givers, then tensors; those from the site to itself are
  /// in both lists.
  struct Part {
    std::vector<uint32_t> incoming, outgoing; ///< indices of `pieces`
    std::vector<OperandBox> padding;          ///< target-side boxes that become `fill`
  };
  std::vector<Piece> pieces;
  std::unordered_map<uint32_t, Part> parts; ///< by site
  ElementType element = ElementType::F32;
  std::vector<std::byte> fill; ///< one element
};

/// An all-reduce or reduce-scatter.
struct ReduceChannel {
  struct Part {
    uint32_t group = 0, place = 0; ///< which of `groups` the site is in, and where
    /// For a reduce-scatter: the boxes of every member's source that, combined, are the site's target, and padding.
    std::vector<OperandBox> share, padding;
  };
  std::vector<std::vector<uint32_t>> groups; ///< sites that combine their sources
  std::unordered_map<uint32_t, Part> parts;  ///< by site, of all members of a group that has one here
  /// The program's queue on which it runs. Reductions of one queue and one group of sites run one after the other.
  uint32_t queue = 0;
  bool scatters = false;
  Combiner combiner = Combiner::Sum;
  ElementType element = ElementType::F32;
  /// Of each tensor's source buffer, padding of its layout included.
  std::vector<uint64_t> elements;

  /// Those of all tensors.
  uint64_t allElements() const { return std::accumulate(elements.begin(), elements.end(), uint64_t(0)); }
};

using Channel = std::variant<ExchangeChannel, ReduceChannel>;

/// All channels of an entry of a plan that has passed verifyPlan. Immutable once made.
class Channels {
public:
  /// `isHere` tells which sites this process runs: pieces that concern none of them are left out, and so are parts.
  /// Groups of reductions are always complete.
  Channels(
      const PlanContents &plan, const Entry &entry, std::vector<Site> sites,
      const std::function<bool(uint32_t site)> &isHere = [](uint32_t) { return true; });

  /// The same sites and channels, less the pieces that come from elsewhere or go there.
  Channels within(const std::function<bool(uint32_t site)> &isHere) const;

  const std::vector<Site> &sites() const { return allSites; }
  /// The channels of a phase by their numbers.
  const std::unordered_map<uint32_t, Channel> &of(Phase phase) const { return channels[static_cast<unsigned>(phase)]; }

private:
  friend class ChannelBuilder;
  Channels() = default;
  std::vector<Site> allSites;
  std::array<std::unordered_map<uint32_t, Channel>, 2> channels;
};

/// One side of an exchange: a mesh, its tile (null: the whole tensor), and the number of its first site.
struct ExchangeSide {
  const Mesh *mesh = nullptr;
  const Tile *tile = nullptr;
  uint32_t firstSite = 0;
};

/// Everything that the device `member` of the target gets; `elements` is the tensor's size when neither side has a
/// tile. The sides are of the same mesh exactly when their first sites are equal.
std::vector<Piece> piecesInto(const ExchangeSide &source, const ExchangeSide &target, uint32_t member,
                              unsigned elementBytes, uint64_t elements);

/// The sets of a mesh's devices that differ in these axes only, each in the order of the mesh.
std::vector<std::vector<uint32_t>> groupsAlong(const Mesh &mesh, const std::vector<uint32_t> &axes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CHANNELS_H
