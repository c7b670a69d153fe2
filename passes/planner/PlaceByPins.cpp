// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From places and splits by hand to what the search has to respect.

#include "passes/planner/PlaceByPins.h"

#include "llvm/ADT/StringExtras.h"

namespace cleave {

Pins findPins(llvm::ArrayRef<NodePlace> places) {
  Pins pins;
  for (const NodePlace &place : places) {
    if (!place.mesh) {
      pins.nodes.push_back(search::none);
      continue;
    }
    auto known = llvm::find_if(pins.meshes, [&](const MeshSpec &mesh) {
      return mesh.devices == place.mesh->devices && mesh.axes == place.mesh->axes &&
             mesh.axesAreDegrees == place.mesh->axesAreDegrees && mesh.keeping == place.mesh->keeping;
    });
    pins.nodes.push_back(known - pins.meshes.begin());
    if (known == pins.meshes.end())
      pins.meshes.push_back(*place.mesh);
  }
  return pins;
}

/// "device 2", "devices 0, 1"
static std::string devicesText(const MeshSpec &mesh) {
  auto numbers = llvm::map_range(mesh.devices, [](unsigned device) { return std::to_string(device); });
  return (mesh.devices.size() == 1 ? "device " : "devices ") + llvm::join(numbers, ", ");
}

/// A device that several pins have by themselves is in two stages at once.
static std::string sharedDevices(const Pins &pins) {
  for (auto [index, mesh] : llvm::enumerate(pins.meshes))
    for (const MeshSpec &other : llvm::ArrayRef(pins.meshes).take_front(index))
      for (unsigned device : mesh.devices)
        if (llvm::is_contained(other.devices, device))
          return devicesText(other) + " and " + devicesText(mesh) + " share device " + std::to_string(device);
  return "";
}

std::string whyNoStages(const search::SearchGraph &graph, const Pins &pins) {
  for (const MeshSpec &mesh : pins.meshes)
    if (mesh.axes.size() > search::mostAxes)
      return "mesh \"" + mesh.name + "\" has more than " + std::to_string(search::mostAxes) + " axes";
  if (std::string shared = sharedDevices(pins); !shared.empty())
    return shared;
  auto nameOf = [&](unsigned op) { return "\"" + nodeName(graph.nodes[graph.operators[op].node]).str() + "\""; };
  // By pin: the last operator so far.
  std::vector<unsigned> last(pins.meshes.size(), search::none);
  unsigned before = search::none;
  for (auto [index, op] : llvm::enumerate(graph.operators)) {
    if (op.pin == search::none)
      continue;
    if (last[op.pin] != search::none && last[op.pin] != before)
      return nameOf(before) + " on " + devicesText(pins.meshes[graph.operators[before].pin]) + " stands between " +
             nameOf(last[op.pin]) + " and " + nameOf(index) + " on " + devicesText(pins.meshes[op.pin]);
    last[op.pin] = before = index;
  }
  return "";
}

search::FixedFactors fixedFactors(const search::SearchGraph &graph, GraphSplits &splits) {
  search::FixedFactors fixed;
  for (auto [index, op] : llvm::enumerate(graph.operators)) {
    const OperatorSplit &split = *splits.find(op.op);
    search::FixedSplit known;
    known.closed = split.closed;
    for (unsigned factor = 0; factor != split.axes.size(); ++factor) {
      for (unsigned axis = 0; axis != split.mesh->axes.size(); ++axis)
        if (llvm::is_contained(split.axes[factor], split.mesh->axes[axis].name))
          known.axes.emplace_back(axis, factor);
      if (split.fixed[factor] && split.axes[factor].empty())
        known.whole.push_back(factor);
    }
    if (known.closed || !known.axes.empty() || !known.whole.empty())
      fixed[index] = std::move(known);
  }
  return fixed;
}

std::vector<std::pair<const NamePattern *, std::string>>
fixKeys(const search::SearchGraph &graph, const Placement &placement, search::FixedFactors &fixed) {
  llvm::SmallVector<const NamePattern *> patterns =
      llvm::map_to_vector(placement.keys, [](const KeysPattern &keys) { return &keys.pattern; });
  llvm::SmallVector<llvm::StringRef> names =
      llvm::map_to_vector(graph.attentions, [&](const search::AttentionRow &row) {
        return llvm::StringRef(graph.nodes[graph.operators[row.softmax].node].name);
      });
  PatternMatches matches = matchPatterns(patterns, names);
  for (auto [row, pattern] : llvm::zip_equal(graph.attentions, matches.patternOf))
    if (pattern)
      for (unsigned index : row.operators)
        if (std::optional<bool> &isRing = fixed[index].isRing; !isRing)
          isRing = placement.keys[*pattern].isRing;
  std::vector<std::pair<const NamePattern *, std::string>> unused;
  for (const UnusedPattern &pattern : matches.unused)
    unused.emplace_back(patterns[pattern.pattern], pattern.why("softmax of attention in the model", patterns));
  return unused;
}

} // namespace cleave
