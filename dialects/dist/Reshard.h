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

/// What a message costs on a mesh: `latency` seconds and `bandwidth` bytes a second.
struct LinkCost {
  double latency = 5e-6, bandwidth = 1e10;
};

/// The way from one layout to another and its estimated time. Collectives are costed as rings: over n devices and S
/// bytes on each, an all-reduce takes 2(n-1) messages and 2(n-1)/n S bytes of each device, the others half of it
/// (Thakur, Rabenseifner, Gropp 2005).
struct ReshardPath {
  double seconds = 0;
  llvm::SmallVector<ReshardStep, 2> steps;
};

/// The cheapest path from `from` to `to`, both canonical, of a tensor of `type` (the whole tensor's). `to` may be
/// partial over axes over which `from` is, too. Parts with a reach can only be the end.
ReshardPath findReshard(const Layout &from, const Layout &to, mlir::RankedTensorType type, const MeshShape &mesh,
                        const LinkCost &link = {});

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_RESHARD_H
