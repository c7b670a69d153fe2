// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Placement by hand: groups of operators, chosen by name patterns or by the model itself, and the device of each.
//
//   groups:
//     front: ["conv*", "pool[12]"]    # names of model nodes; *, ?, [a-z]; the first pattern in the file that fits wins
//     back: ["fc*"]
//   devices: { front: 0, back: [1] }  # a group that `groups` lacks is one of the model's own (ctx_group)
//   default: 0                        # optional: everything else goes here, and nothing spreads from pins

#ifndef CLEAVE_PASSES_PLANNER_PLACEMENTFILE_H
#define CLEAVE_PASSES_PLANNER_PLACEMENTFILE_H

#include "passes/planner/YamlValue.h"

#include <optional>

namespace cleave {

/// A well-formed pattern of node names.
struct NamePattern {
  std::string text;
  FilePosition position;
};

/// Operators that go to one device.
struct PlacementGroup {
  std::string name;
  /// Empty: the group is the model's own.
  std::vector<NamePattern> patterns;
  unsigned device = 0;
  /// Where the device is given.
  FilePosition position;
};

/// What a placement file says. Groups stand in the order of `groups`, then of `devices`.
struct Placement {
  std::vector<PlacementGroup> groups;
  std::optional<unsigned> defaultDevice;
  FilePosition defaultPosition;

  /// Adds a pattern to a group, which is made where it is missing; fails on a malformed pattern.
  llvm::Error addPattern(llvm::StringRef group, llvm::StringRef pattern, FilePosition position = {});

  /// The group of that name; null where there is none.
  const PlacementGroup *find(llvm::StringRef name) const;
  PlacementGroup *find(llvm::StringRef name);
};

/// Parses a placement file. `file` is its name in messages. Device indices are not yet compared with a machine.
llvm::Expected<Placement> parsePlacement(llvm::StringRef text, llvm::StringRef file);

/// Reads and parses a placement file.
llvm::Expected<Placement> readPlacementFile(llvm::StringRef path);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_PLACEMENTFILE_H
