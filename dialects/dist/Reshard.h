// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cheapest way from one layout to another on the same mesh: a shortest path over layouts (Dijkstra 1959) whose
// edges are the collectives.

#ifndef CLEAVE_DIALECTS_DIST_RESHARD_H
#define CLEAVE_DIALECTS_DIST_RESHARD_H

#include "dialects/dist/Layout.h"

namespace cleave::dist {

enum class StepKind { AllReduce, ReduceScatter, AllGather, AllToAll, Slice, Permute, HaloExchange };

/// One collective, or a slice, that ends in layout `to`.
struct ReshardStep {
  StepKind kind;
  Layout to;
};

/// What steps take on a mesh, in seconds. `axes` are those along which the devices of a group differ; `bytes` are those
/// of a group's full tensor: what a device has before an all-reduce or a reduce-scatter and after an all-gather, and
/// what all devices of the group have together around an all-to-all.
class ReshardCost {
public:
  virtual ~ReshardCost() = default;
  virtual double allReduce(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const = 0;
  virtual double reduceScatter(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const = 0;
  virtual double allGather(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const = 0;
  virtual double allToAll(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const = 0;
  /// A device keeps `bytes` of what it has. More than nothing, so that no way has slices that lead nowhere.
  virtual double slice(double bytes) const = 0;
  /// Every device receives `bytes` from up to `peers` others.
  virtual double exchange(llvm::ArrayRef<mlir::StringAttr> axes, double bytes, int64_t peers) const = 0;
  /// Every device receives `bytes` from its neighbours along the axes.
  virtual double exchangeHalo(llvm::ArrayRef<mlir::StringAttr> axes, double bytes) const = 0;
};

/// The way from one layout to another and its estimated time.
struct ReshardPath {
  double seconds = 0;
  llvm::SmallVector<ReshardStep, 2> steps;
};

/// The cheapest path from `from` to `to`, both canonical, of a tensor of `type` (the whole tensor's). `to` may be
/// partial over axes over which `from` is, too. Parts with a reach can only be the end.
ReshardPath findReshard(const Layout &from, const Layout &to, mlir::RankedTensorType type, const MeshShape &mesh,
                        const ReshardCost &cost);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_RESHARD_H
