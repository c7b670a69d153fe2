// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A grid of devices for the search: its axes, what collectives along them cost, and what it costs to bring a tensor
// from one way of lying on it to another.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_GRID_H
#define CLEAVE_PASSES_PLANNER_SEARCH_GRID_H

#include "passes/cost/MeshCost.h"

#include "llvm/ADT/SmallVector.h"

#include <array>

namespace cleave::search {

inline constexpr unsigned mostAxes = 5;

/// What one axis does with a tensor: nothing (all devices along it hold the same), a partial value each, or it cuts a
/// dimension. Cuts of a dimension differ by where in its mixed radix the factor stands that is cut: `offset` is the
/// product of the sizes of the slower varying factors.
struct AxisState {
  static constexpr uint64_t whole = 0, partial = 1;
  static constexpr uint64_t cut(unsigned dim, int64_t offset) {
    return 2 + ((static_cast<uint64_t>(dim) << 48) | static_cast<uint64_t>(offset));
  }
  static constexpr bool isCut(uint64_t state) { return state >= 2; }
  static constexpr unsigned dimOf(uint64_t state) { return static_cast<unsigned>((withoutRing(state) - 2) >> 48); }
  /// Of keys and values that go around in a ring: a cut whose chunks each device gets, one after the other, from where
  /// they are. What is cut so already need not be brought there.
  static constexpr uint64_t goingAround(uint64_t cut) { return cut | (uint64_t(1) << 62); }
  /// Of scores by which the queries of a ring are cut: what reads them is in the ring, too, and lies in the same way.
  static constexpr uint64_t byChunks(uint64_t cut) { return cut | (uint64_t(1) << 63); }
  static constexpr bool goesAround(uint64_t state) { return state >> 62 & 1; }
  static constexpr bool isByChunks(uint64_t state) { return state >> 63; }
  static constexpr uint64_t withoutRing(uint64_t state) { return state & ~(uint64_t(3) << 62); }
};

/// By axis.
using State = std::array<uint64_t, mostAxes>;

/// A grid's axes, the last one varying fastest.
class Grid {
public:
  /// `devices` are those of a mesh of these axes; links are the topology's while all groups along an axis are busy.
  /// `shown`: by axis, the part of an all-gather's and a reduce-scatter's seconds that conversions take, where
  /// computation hides the rest; empty: all of it.
  Grid(const Topology &topology, llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes,
       llvm::ArrayRef<double> shown = {});

  unsigned numAxes() const { return sizes.size(); }
  int64_t size(unsigned axis) const { return sizes[axis]; }
  int64_t numDevices() const;
  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }

  /// Bytes that a device holds of a tensor of `bytes`.
  double localBytes(double bytes, const State &state) const;
  /// Seconds to bring a tensor from one state to another: the cheapest order of axes, each taking the step that its two
  /// states ask for. `forbidden` (infinity) where an axis would have to become partial.
  ///
  ///   partial -> whole   all-reduce             cut -> whole   all-gather
  ///   partial -> cut     reduce-scatter         cut -> cut     all-to-all
  ///   whole -> cut       slice (free)
  ///
  /// To what goes around, and back, comes nothing but the same cut, and to what is by chunks nothing but that.
  double convert(double bytes, const State &from, const State &to) const { return convert(bytes, changeOf(from, to)); }
  /// What is done along each axis: of all that pairs of states may be, this alone is what it takes seconds for.
  enum class Step : uint8_t { None, NoneOfCut, AllReduce, ReduceScatter, Slice, AllGather, AllToAll };
  struct Change {
    uint32_t steps = 0; ///< Three bits an axis.
    bool isPossible = true;

    Step at(unsigned axis) const { return static_cast<Step>(steps >> 3 * axis & 7); }
  };
  Change changeOf(const State &from, const State &to) const;
  double convert(double bytes, Change change) const;
  /// An all-reduce of a device's `bytes` over axes.
  double allReduce(double bytes, llvm::ArrayRef<unsigned> axes) const;
  double allGather(double bytes, llvm::ArrayRef<unsigned> axes) const;
  /// Two messages between neighbours along an axis.
  double exchangeHalo(double bytes, unsigned axis) const;
  const MeshCost &getCost() const { return cost; }

private:
  llvm::SmallVector<int64_t, 3> sizes;
  MeshCost cost;
  llvm::SmallVector<double, 3> shown;
  /// Every order of axes.
  std::vector<llvm::SmallVector<unsigned, 3>> orders;
};

/// By axis, the part of an exchange that shows where products begin with the first part of it while the others are on
/// their way, which slow computation down by `hidden` seconds each second: of groups within a host. Else it is 1.
llvm::SmallVector<double> shownWithinHosts(const Machine &machine, llvm::ArrayRef<unsigned> devices,
                                           llvm::ArrayRef<int64_t> sizes, double hidden);

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_GRID_H
