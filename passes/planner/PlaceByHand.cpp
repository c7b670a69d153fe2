// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pins, the model's groups, and propagation from them.

#include "passes/planner/PlaceByHand.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace llvm;

namespace cleave {

namespace {

class HandPlacer {
public:
  HandPlacer(ArrayRef<ModelNode> nodes, const Placement &placement)
      : nodes(nodes), placement(placement), origins(nodes.size(), unplaced) {
    result.places.resize(nodes.size());
    for (const PlacementGroup &group : placement.groups)
      for (const NamePattern &pattern : group.patterns)
        matchers.push_back({&group, &pattern, cantFail(GlobPattern::create(pattern.text))});
  }

  PlacedByHand run() {
    pinAll();
    if (!placement.defaultMesh)
      propagate();
    placeRest(placement.defaultMesh ? *placement.defaultMesh : firstDevice());
    return std::move(result);
  }

  PlacedByHand runPins() {
    pinAll();
    if (placement.defaultMesh)
      placeRest(*placement.defaultMesh);
    return std::move(result);
  }

private:
  static constexpr unsigned unplaced = ~0u;

  /// A pattern ready to match; it refers to the placement's text.
  struct Matcher {
    const PlacementGroup *group;
    const NamePattern *pattern;
    GlobPattern glob;
    bool used = false;
  };

  ArrayRef<ModelNode> nodes;
  const Placement &placement;
  PlacedByHand result;
  std::vector<Matcher> matchers;
  /// The pinned node that decided a node's place.
  std::vector<unsigned> origins;
  StringSet<> modelGroups;

  void pinAll() {
    for (size_t index = 0; index < nodes.size(); ++index)
      pin(index);
    reportUnused();
  }

  void placeRest(const MeshSpec &mesh) {
    for (size_t index = 0; index < nodes.size(); ++index)
      if (origins[index] == unplaced)
        result.places[index] = {&mesh, "default"};
  }

  void pin(unsigned index) {
    const ModelNode &node = nodes[index];
    bool decided = false;
    // All patterns are tried: one whose nodes an earlier pattern takes does fit operators of the model.
    for (Matcher &matcher : matchers) {
      if (node.name.empty() || !matcher.glob.match(node.name))
        continue;
      matcher.used = true;
      if (!decided)
        place(index, matcher.group->mesh, "pin " + matcher.pattern->text + " -> " + matcher.group->name);
      decided = true;
    }
    if (node.group.empty())
      return;
    const PlacementGroup *own = placement.find(node.group);
    if (modelGroups.insert(node.group).second && !own)
      result.unplacedGroups.push_back(node.group);
    if (!decided && own)
      place(index, own->mesh, "ctx_group " + own->name);
  }

  void place(unsigned index, const MeshSpec &mesh, std::string by) {
    result.places[index] = {&mesh, std::move(by)};
    origins[index] = index;
  }

  void reportUnused() {
    for (const Matcher &matcher : matchers)
      if (!matcher.used)
        result.unusedPatterns.emplace_back(matcher.group, matcher.pattern);
    for (const PlacementGroup &group : placement.groups)
      if (group.patterns.empty() && !modelGroups.contains(group.name) && group.name != placement.defaultGroup)
        result.unknownGroups.push_back(&group);
  }

  void propagate() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t index = 0; index < nodes.size(); ++index)
        changed |= follow(index, nodes[index].producers);
      for (size_t index = nodes.size(); index-- > 0;)
        changed |= follow(index, nodes[index].consumers);
    }
  }

  /// Puts an unplaced node where the first placed one of its neighbours is.
  bool follow(unsigned index, ArrayRef<unsigned> neighbours) {
    if (origins[index] != unplaced)
      return false;
    const unsigned *placed = find_if(neighbours, [&](unsigned other) { return origins[other] != unplaced; });
    if (placed == neighbours.end())
      return false;
    origins[index] = origins[*placed];
    result.places[index] = {result.places[*placed].mesh, ("propagation from " + nodeName(nodes[origins[index]])).str()};
    return true;
  }
};

} // namespace

const MeshSpec &firstDevice() {
  static const MeshSpec mesh = MeshSpec::ofDevice(0);
  return mesh;
}

PlacedByHand placeByHand(ArrayRef<ModelNode> nodes, const Placement &placement) {
  return HandPlacer(nodes, placement).run();
}

PlacedByHand pinByHand(ArrayRef<ModelNode> nodes, const Placement &placement) {
  return HandPlacer(nodes, placement).runPins();
}

} // namespace cleave
