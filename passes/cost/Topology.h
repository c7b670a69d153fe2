// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the devices of a machine are connected: a graph of devices, switches and hosts, in which transfers take the
// widest path, and of the widest ones the shortest. Links are full duplex; devices pass nothing on for others.
//
//   device ── common switch        a host's `link`: half its latency each way
//   device ── switch ── host       a host's `switches`
//   device ── device               a host's `pairs`
//   device ── host                 two devices that have none of these: half the memory's bandwidth, as a copy reads
//                                  and writes, and 5 us from device to device; 10 GB/s where the memory is not known
//                                  either
//   host ── network                10 Gb/s and 50 us between hosts where nothing is said
//   network ── zone ── network     a machine's `links` between the hosts of two zones, or of one
//
// The common switch is the host where a host has no other switches.

#ifndef CLEAVE_PASSES_COST_TOPOLOGY_H
#define CLEAVE_PASSES_COST_TOPOLOGY_H

#include "passes/cost/CollectiveCost.h"
#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace cleave {

/// A machine's graph. Equal hosts are answered for once, so that machines of many thousand devices are cheap; answers
/// are kept. May be asked by several threads.
class Topology {
public:
  explicit Topology(const Machine &machine);
  Topology(Topology &&) noexcept;
  ~Topology();

  /// The way from one device to another while nothing else uses it. A device and itself: its memory, read and written.
  LinkSpec between(unsigned from, unsigned to) const;

  /// The slowest way between neighbours of rings along some axes of a grid of devices, while all rings are used at
  /// once: groups of devices differ in these axes only, and share the links that several of them cross. A ring goes
  /// host by host whatever the order of its devices. It may be several that share its work, so that it uses all ports
  /// of a network and all `pairs` of its devices. `sizes` are the axes' of the grid, the last one varying fastest;
  /// `axes` are ascending indices into it.
  LinkSpec along(llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<unsigned> axes) const;

  /// The same groups as a hierarchy, for CollectiveCost: devices on one switch, switches of one host, hosts,
  /// zones. Each level's link is that of a device while all devices of all groups use it at once. One level where
  /// groups are not spread evenly; none for groups of one device.
  llvm::SmallVector<LinkLevel> levels(llvm::ArrayRef<unsigned> devices, llvm::ArrayRef<int64_t> sizes,
                                      llvm::ArrayRef<unsigned> axes) const;

  /// The way from one device to another link by link: one direction of a link has the same number in all ways that
  /// cross it. Connections that nobody else uses have none.
  struct Way {
    LinkSpec link; ///< While nothing else uses it.
    struct Part {
      size_t number = 0;
      double bandwidth = 0;
    };
    llvm::SmallVector<Part, 6> parts;
  };
  Way way(unsigned from, unsigned to) const;
  /// Numbers of links of the ways so far are below this.
  size_t numLinks() const;

  /// The way from the devices of one mesh to those of another, each device of the larger one exchanging with its
  /// counterpart in the other, all at once; the bandwidth is that of one such pair.
  LinkSpec across(llvm::ArrayRef<unsigned> from, llvm::ArrayRef<unsigned> to) const;

private:
  struct Graph;
  std::unique_ptr<Graph> graph;
};

} // namespace cleave

#endif // CLEAVE_PASSES_COST_TOPOLOGY_H
