// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enumerates sites, and counts in the mixed radix of a mesh's axes.

#include "runtime/Site.h"

namespace cleave::runtime {

std::vector<Site> sitesOf(const PlanContents &plan, const Entry &entry) {
  std::vector<Site> sites;
  for (uint32_t index = 0; index != entry.programs.size(); ++index) {
    const Program &program = entry.programs[index];
    const std::vector<uint32_t> &devices = plan.meshes[program.mesh].devices;
    for (uint32_t member = 0; member != devices.size(); ++member)
      sites.push_back({devices[member], &program, index, member});
  }
  return sites;
}

Coordinates coordinatesOf(const Mesh &mesh, uint32_t member) {
  Coordinates coordinates(mesh.axes.size());
  for (size_t axis = mesh.axes.size(); axis-- != 0;) {
    coordinates[axis] = member % mesh.axes[axis].size;
    member /= mesh.axes[axis].size;
  }
  return coordinates;
}

uint32_t memberAt(const Mesh &mesh, const Coordinates &coordinates) {
  uint32_t member = 0;
  for (size_t axis = 0; axis != mesh.axes.size(); ++axis)
    member = member * mesh.axes[axis].size + coordinates[axis];
  return member;
}

} // namespace cleave::runtime
