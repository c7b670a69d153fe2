// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What collectives cost on a link. S bytes are those of the full tensor; the seconds are those of the cheapest
// algorithm (Thakur, Rabenseifner, Gropp 2005), and LinkSpec::start for every collective that it makes on a link.

#ifndef CLEAVE_PASSES_COST_COLLECTIVECOST_H
#define CLEAVE_PASSES_COST_COLLECTIVECOST_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// A level of a hierarchy of links, the fastest first: `ways` groups are joined over `link`, which is that of a device
/// while all devices of the groups use it at once, each with its counterparts in the other groups.
struct LinkLevel {
  int64_t ways = 1;
  LinkSpec link;
  /// Bytes a second that a ring over this level and those after it passes on, where levels alone do not tell: where
  /// each two hosts have a link of their own, one ring crosses one of them, and counterparts all. 0: they do.
  double ring = 0;
};

/// What a path over one link and then another is: the narrower bandwidth, the slower combining, the larger latency.
LinkSpec slowerOf(const LinkSpec &a, const LinkSpec &b);

/// A ring over all levels: the largest latency, and the bandwidth of the narrowest level, or what `ring` says. Of a
/// group of g devices only one passes to the next group, so that it has what the g have together; but no more than a
/// device has inside.
LinkSpec ringLink(llvm::ArrayRef<LinkLevel> levels);

/// Over n devices and S bytes the cheapest of
///   ring           2(n-1) latency + 2(n-1)/n S/B
///   tree           2 ceil(log2 n) latency + 2 S/B
///   hierarchical   reduce-scatter inside, all-reduce across on S/g, all-gather inside; g devices inside
/// Combining takes (n-1)/n S/C more in a ring and S/C in a tree, which passes it on in pieces.
double allReduceSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// Ring: (n-1) latency + (n-1)/n S/B; over several levels the cheaper of the ring over all and one level after the
/// other.
double allGatherSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// The same and (n-1)/n S/C.
double reduceScatterSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// (n-1) latency + (n-1)/n^2 S/B. Over several levels the cheaper of each pair directly, the pairs of one level after
/// those of the other, and one exchange a level, in which what leaves a group goes through the counterparts.
double allToAllSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// Every device receives S bytes from some others, one after the other: peers latency + S/B on the slowest level; no
/// bytes from nobody take nothing.
double exchangeSeconds(double bytes, double peers, llvm::ArrayRef<LinkLevel> levels);
/// latency + S/B.
double sendSeconds(double bytes, const LinkSpec &link);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_COLLECTIVECOST_H
