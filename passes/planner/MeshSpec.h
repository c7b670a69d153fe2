// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A grid of devices that somebody asked for, before it is a `dist.mesh`.

#ifndef CLEAVE_PASSES_PLANNER_MESHSPEC_H
#define CLEAVE_PASSES_PLANNER_MESHSPEC_H

#include "passes/planner/search/Keeping.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// The largest share that people may give: those of the largest machine together are no more than dist::mostShares.
inline constexpr int64_t largestShare = 10'000;

/// A named axis of a mesh.
struct MeshAxis {
  std::string name;
  int64_t size = 1;
  /// What each coordinate gets of what the axis cuts, in proportion; empty: all the same. At most one axis of a mesh
  /// has them.
  std::vector<int64_t> shares = {};
  bool operator==(const MeshAxis &other) const = default;
};

/// Devices, and the axes of the grid that they form; the last axis varies fastest. A single device has no axes.
struct MeshSpec {
  /// What the mesh would like to be called; a device by itself is called by its index.
  std::string name;
  /// Empty before it is known how many the machine has: all of them.
  std::vector<unsigned> devices;
  std::vector<MeshAxis> axes;
  /// Whether the search cuts along an axis only what the degree of its name cuts (Degrees.h).
  bool axesAreDegrees = false;
  /// What a stage on the mesh keeps in training, as far as somebody fixed it.
  search::StageKeeping keeping = {};

  /// A device by itself.
  static MeshSpec ofDevice(unsigned device) { return {"d" + std::to_string(device), {device}, {}, false, {}}; }

  /// Makes several devices one axis "x"; a single one is known by its index.
  void nameAxes() {
    if (devices.size() == 1) {
      name = ofDevice(devices.front()).name;
      axes.clear();
    } else {
      axes = {{"x", static_cast<int64_t>(devices.size())}};
    }
  }

  /// The axis's size; 0 where there is no such axis.
  int64_t sizeOf(llvm::StringRef axis) const {
    auto found = llvm::find_if(axes, [&](const MeshAxis &known) { return known.name == axis; });
    return found == axes.end() ? 0 : found->size;
  }
};

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_MESHSPEC_H
