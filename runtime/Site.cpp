// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enumerates sites, and counts in the mixed radix of a mesh's axes.

#include "runtime/Site.h"

#include <algorithm>

namespace cleave::runtime {

std::vector<std::vector<Site>> sitesOf(const PlanContents &plan, std::span<const Entry *const> entries) {
  std::vector<uint32_t> meshes;
  for (const Entry *entry : entries)
    for (const Program &program : entry->programs)
      if (std::ranges::find(meshes, program.mesh) == meshes.end())
        meshes.push_back(program.mesh);
  std::vector<std::vector<Site>> lists;
  for (const Entry *entry : entries) {
    std::vector<Site> &sites = lists.emplace_back();
    for (uint32_t mesh : meshes) {
      auto found = std::ranges::find(entry->programs, mesh, &Program::mesh);
      const Program *program = found == entry->programs.end() ? nullptr : &*found;
      auto index = static_cast<uint32_t>(found - entry->programs.begin());
      const std::vector<uint32_t> &devices = plan.meshes[mesh].devices;
      for (uint32_t member = 0; member != devices.size(); ++member)
        sites.push_back({devices[member], program, index, member, mesh});
    }
  }
  return lists;
}

std::vector<Site> sitesOf(const PlanContents &plan, const Entry &entry) {
  const Entry *const one = &entry;
  return sitesOf(plan, std::span(&one, 1)).front();
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
