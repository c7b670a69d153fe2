// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sites: where the programs of entries run. A program stands in the plan once; each device of its mesh runs it.

#ifndef CLEAVE_RUNTIME_SITE_H
#define CLEAVE_RUNTIME_SITE_H

#include "runtime/Plan.h"

namespace cleave::runtime {

/// A device that runs a program. A device in several meshes is several sites, each with an arena and queues of its own.
struct Site {
  uint32_t device = 0;
  /// Null where an entry has no program on a mesh on which others have one.
  const Program *program = nullptr;
  /// The program's index in its entry, and the device's place in the program's mesh.
  uint32_t programIndex = 0, member = 0;
  uint32_t mesh = 0;
};

/// Every device of every program of the entry, in the order of programs and meshes.
std::vector<Site> sitesOf(const PlanContents &plan, const Entry &entry);

/// The same for entries that run together on the same arenas: a list of sites for each, in which equal places stand for
/// equal devices and meshes.
std::vector<std::vector<Site>> sitesOf(const PlanContents &plan, std::span<const Entry *const> entries);

/// A device's coordinates on the axes of a mesh, the last varying fastest.
using Coordinates = std::vector<uint32_t>;

/// The coordinates of the mesh's device number `member`.
Coordinates coordinatesOf(const Mesh &mesh, uint32_t member);

/// The opposite: the place in the mesh of the device with these coordinates.
uint32_t memberAt(const Mesh &mesh, const Coordinates &coordinates);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SITE_H
