// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the devices of a machine are connected: a graph of devices, switches and hosts, in which transfers take the
// widest path, and of the widest ones the shortest.

#ifndef CLEAVE_PASSES_COST_TOPOLOGY_H
#define CLEAVE_PASSES_COST_TOPOLOGY_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace cleave {

/// A machine's graph. Equal hosts are answered for once, so that machines of many thousand devices are cheap.
class Topology {
public:
  explicit Topology(const Machine &machine);
  Topology(Topology &&) noexcept;
  ~Topology();

  /// The way from one device to another while nothing else uses it. A device and itself: its memory.
  LinkSpec between(unsigned from, unsigned to) const;

  /// The slowest way between neighbours of rings along some axes of a grid of devices, while all rings are used at
  /// once: groups of devices differ in these axes only, and share the links that several of them cross. `sizes` are the
  /// axes' of the grid, the last one varying fastest; `axes` are ascending indices into it.
  LinkSpec along(llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<unsigned> axes) const;

  /// The way from the devices of one mesh to those of another, each device sending to its counterpart at once; the
  /// bandwidth is a device's.
  LinkSpec across(llvm::ArrayRef<unsigned> from, llvm::ArrayRef<unsigned> to) const;

private:
  struct Graph;
  std::unique_ptr<Graph> graph;
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_TOPOLOGY_H
