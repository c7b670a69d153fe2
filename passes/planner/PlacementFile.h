// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placement by hand: groups of operators, chosen by name patterns or by the model itself, the devices of each, and how
// operators are split over them.
//
//   groups:
//     front: ["conv*", "pool[12]"]    # names of model nodes; *, ?, [a-z]; the first pattern in the file that fits wins
//     back: ["fc*"]
//   devices: { front: 0, back: [1, 2] }  # a list, a range 0..3 or `all` is a mesh, whose one axis is "x"; a group that
//                                        # `groups` lacks is one of the model's own (ctx_group)
//   meshes:                              # instead of `devices`, where axes have names
//     middle: { devices: 0..3, axes: { data: 2, model: 2 } }
//     last: { devices: 4..7, degrees: { data: 2, model: 2 }, recompute: full, zero: 1 }   # of a stage that is stated
//   default: 0                           # optional: everything else goes here, and nothing spreads from pins
//   splits:                              # an axis or several for a factor; the first pattern that fits wins
//     "fc*": { out_channel: x }
//   keys:                                # of attention whose queries are cut: ring or gather
//     "layer0/*": ring                   # the first pattern that fits the node of its softmax wins

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENTFILE_H
#define CLEAVE_PASSES_PLANNER_PLACEMENTFILE_H

#include "passes/planner/MeshSpec.h"
#include "passes/planner/NamePatterns.h"

#include <optional>

namespace cleave {

/// Operators that go to one device, or to one mesh.
struct PlacementGroup {
  std::string name;
  /// Empty: the group is the model's own, or a mesh that only `default` names.
  std::vector<NamePattern> patterns;
  MeshSpec mesh;
  /// Where the devices are given.
  FilePosition position;
};

/// A factor that is to be cut, or kept whole where there are no axes.
struct FactorSplit {
  /// As SplitRule::findWord reads it.
  std::string factor;
  FilePosition position;
  /// The outermost first.
  std::vector<std::string> axes;
};

/// How the operators are split that a pattern fits. Without factors they stay whole.
struct SplitPattern {
  NamePattern pattern;
  std::vector<FactorSplit> factors;
};

/// How keys and values come to attention whose softmax is of a node that a pattern fits.
struct KeysPattern {
  NamePattern pattern;
  bool isRing = false;
};

/// What a placement file says. Groups stand in the order of `groups`, then of `devices`, then of `meshes`.
struct Placement {
  std::vector<PlacementGroup> groups;
  std::vector<SplitPattern> splits;
  std::vector<KeysPattern> keys;
  std::optional<MeshSpec> defaultMesh;
  /// The group whose mesh is the default's, if it is one's.
  std::string defaultGroup;
  FilePosition defaultPosition;

  /// Adds a pattern to a group, which is made where it is missing; fails on a malformed pattern.
  llvm::Error addPattern(llvm::StringRef group, llvm::StringRef pattern, FilePosition position = {});

  /// The group of that name; null where there is none.
  const PlacementGroup *find(llvm::StringRef name) const;
  PlacementGroup *find(llvm::StringRef name);
};

/// Parses a placement file. `file` is its name in messages. Device indices are not yet compared with a machine, nor
/// factors with operators.
llvm::Expected<Placement> parsePlacement(llvm::StringRef text, llvm::StringRef file);

/// Reads and parses a placement file.
llvm::Expected<Placement> readPlacementFile(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEMENTFILE_H
