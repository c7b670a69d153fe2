// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What collectives cost on a link. S bytes are those of the full tensor; the seconds are those of the cheapest
// algorithm (Thakur, Rabenseifner, Gropp 2005).

#ifndef CLEAVE_PASSES_COST_COLLECTIVECOST_H
#define CLEAVE_PASSES_COST_COLLECTIVECOST_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// A level of a hierarchy of links, the fastest first: `ways` groups are joined over `link`.
struct LinkLevel {
  int64_t ways = 1;
  LinkSpec link;
};

/// Over n devices and S bytes the cheapest of
///   ring           2(n-1) latency + 2(n-1)/n S/B
///   tree           2 ceil(log2 n) latency + 2 S/B
///   hierarchical   reduce-scatter inside, all-reduce across on S/g, all-gather inside; g devices inside
double allReduceSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// Ring: (n-1) latency + (n-1)/n S/B; over several levels the cheaper of the ring over all and one level after the
/// other.
double allGatherSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
double reduceScatterSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// (n-1) latency + (n-1)/n^2 S/B.
double allToAllSeconds(double bytes, llvm::ArrayRef<LinkLevel> levels);
/// latency + S/B.
double sendSeconds(double bytes, const LinkSpec &link);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_COLLECTIVECOST_H
