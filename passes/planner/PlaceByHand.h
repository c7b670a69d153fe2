// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the device or mesh of every model node from pins.
//
// In order, the first that applies decides:
//
//   1. pin          a pattern of the placement file fits the node's name      by = "pin conv* -> front"
//   2. ctx_group    the model's own group of the node has a device            by = "ctx_group front"
//   3. default      the file says `default: N`                                by = "default"
//   4. propagation  the node reads or feeds a placed one                      by = "propagation from conv1"
//   5. default      nothing that is placed is connected to it: device 0       by = "default"
//
// Propagation walks the nodes forward (a node goes where its first placed producer is), then backward (to its first
// placed consumer), until nothing changes. A pin on `conv1` and one on `fc` place this graph so:
//
//   reshape ──▶ conv1 ──▶ relu ──▶ pool ──▶ fc ──▶ softmax
//      0    ◀──   0   ──▶   0  ──▶   0      1  ──▶    1

#ifndef CLEAVE_PASSES_PLANNER_PLACEBYHAND_H
#define CLEAVE_PASSES_PLANNER_PLACEBYHAND_H

#include "passes/planner/ModelNode.h"
#include "passes/planner/PlacementFile.h"

namespace cleave {

/// The device or mesh of a model node, and who decided it.
struct NodePlace {
  /// Belongs to who decided.
  const MeshSpec *mesh = nullptr;
  std::string by;
};

/// The mesh of device 0.
const MeshSpec &firstDevice();

/// What came of a placement, entry by entry.
struct PlacedByHand {
  /// One a node.
  std::vector<NodePlace> places;
  /// A pattern of a group, and why it decides about nothing.
  struct Unused {
    const PlacementGroup *group;
    const NamePattern *pattern;
    std::string why;
  };
  std::vector<Unused> unusedPatterns;
  /// Groups without patterns to which no node of the model belongs.
  std::vector<const PlacementGroup *> unknownGroups;
  /// Groups of the model for which the placement has no device, in the graph's order.
  std::vector<llvm::StringRef> unplacedGroups;
};

/// Decides the mesh of every node. The result refers to the placement.
PlacedByHand placeByHand(llvm::ArrayRef<ModelNode> nodes, const Placement &placement);

/// The same without propagation: the mesh of what neither a pin nor the model's group nor `default` places is null.
PlacedByHand pinByHand(llvm::ArrayRef<ModelNode> nodes, const Placement &placement);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEBYHAND_H
