// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the devices of a mesh take to tell each other something: CollectiveCost's formulas for the links along the
// mesh's axes. The search, the partitioner and the schedule all ask here.

#ifndef CLEAVE_PASSES_COST_MESHCOST_H
#define CLEAVE_PASSES_COST_MESHCOST_H

#include "passes/cost/CollectiveCost.h"
#include "passes/cost/Topology.h"

namespace cleave {

/// Axes are numbered in the mesh's order, and lists of them ascend; links are those while all groups of devices that
/// differ along these axes alone are busy. All results are seconds; bytes are those of the full tensor of a group,
/// which is what a device has before an all-reduce or a reduce-scatter and after an all-gather. May be asked by several
/// threads once prepare() has been called.
class MeshCost {
public:
  /// `devices` are those of a mesh of these axes, the last one varying fastest. The topology must outlive it.
  MeshCost(const Topology &topology, llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes);

  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }
  llvm::ArrayRef<unsigned> getDevices() const { return devices; }
  /// Finds the links of every set of axes.
  void prepare() const;

  double allReduce(double bytes, llvm::ArrayRef<unsigned> axes) const;
  double reduceScatter(double bytes, llvm::ArrayRef<unsigned> axes) const;
  double allGather(double bytes, llvm::ArrayRef<unsigned> axes) const;
  double allToAll(double bytes, llvm::ArrayRef<unsigned> axes) const;
  /// Every device receives `bytes` from at most `peers` others that differ along `axes`, one after the other.
  double exchange(double bytes, int64_t peers, llvm::ArrayRef<unsigned> axes) const;
  /// Two messages between neighbours along each axis, in which a device receives `bytes`.
  double exchangeHalo(double bytes, llvm::ArrayRef<unsigned> axes) const;

private:
  using Levels = llvm::SmallVector<LinkLevel>;

  /// The hierarchy of links along some axes, the fastest first; empty where they are of one device.
  const Levels &levels(llvm::ArrayRef<unsigned> axes) const;
  const LinkSpec &neighbours(unsigned axis) const;

  const Topology *topology;
  std::vector<unsigned> devices;
  llvm::SmallVector<int64_t, 3> sizes;
  /// By axis its bit in a set; 0 for axes of one device, so that there are no more sets than devices.
  llvm::SmallVector<size_t, 3> bits;
  /// By set of axes what has been asked.
  mutable std::vector<std::optional<Levels>> hierarchies;
  mutable llvm::SmallVector<std::optional<LinkSpec>, 3> links; ///< By axis, the slowest between neighbours.
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_MESHCOST_H
