// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pins, the model's groups, and propagation from them.

#include "passes/planner/PlaceByHand.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace cleave {

namespace {

class HandPlacer {
public:
  HandPlacer(ArrayRef<ModelNode> nodes, const Placement &placement)
      : nodes(nodes), placement(placement), origins(nodes.size(), unplaced) {
    result.places.resize(nodes.size());
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

  ArrayRef<ModelNode> nodes;
  const Placement &placement;
  PlacedByHand result;
  /// The pinned node that decided a node's place.
  std::vector<unsigned> origins;

  void pinAll() {
    SmallVector<const PlacementGroup *> groups;
    SmallVector<const NamePattern *> patterns;
    for (const PlacementGroup &group : placement.groups)
      for (const NamePattern &pattern : group.patterns) {
        groups.push_back(&group);
        patterns.push_back(&pattern);
      }
    SmallVector<StringRef> names =
        llvm::map_to_vector(nodes, [](const ModelNode &node) { return StringRef(node.name); });
    PatternMatches matches = matchPatterns(patterns, names);
    for (auto [index, pattern] : enumerate(matches.patternOf))
      if (pattern)
        place(index, groups[*pattern]->mesh, "pin " + patterns[*pattern]->text + " -> " + groups[*pattern]->name);
      else
        placeByModel(index);
    for (const UnusedPattern &unused : matches.unused)
      result.unusedPatterns.push_back(
          {groups[unused.pattern], patterns[unused.pattern], unused.why("operator of the model", patterns)});
    findUnknownGroups();
  }

  void placeRest(const MeshSpec &mesh) {
    for (size_t index = 0; index < nodes.size(); ++index)
      if (origins[index] == unplaced)
        result.places[index] = {&mesh, "default"};
  }

  void placeByModel(unsigned index) {
    StringRef name = nodes[index].group;
    if (name.empty())
      return;
    if (const PlacementGroup *own = placement.find(name))
      place(index, own->mesh, "ctx_group " + own->name);
  }

  void place(unsigned index, const MeshSpec &mesh, std::string by) {
    result.places[index] = {&mesh, std::move(by)};
    origins[index] = index;
  }

  /// Groups of the file that the model lacks, and groups of the model that the file lacks.
  void findUnknownGroups() {
    StringSet<> modelGroups;
    for (const ModelNode &node : nodes)
      if (!node.group.empty() && modelGroups.insert(node.group).second && !placement.find(node.group))
        result.unplacedGroups.push_back(node.group);
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
