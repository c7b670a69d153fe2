// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices of a process that load the same get it once.

#include "runtime/serve/StepParts.h"

#include "runtime/Site.h"
#include "runtime/TileLoad.h"

#include <algorithm>

namespace cleave::runtime::serve {

void TensorParts::add(uint32_t tensor, StridedCopy box) {
  Part part{tensor, std::move(box)};
  if (std::ranges::find(parts, part) != parts.end())
    return;
  all += part.box.bytes();
  parts.push_back(std::move(part));
}

void TensorParts::pack(const std::vector<HostTensor> &tensors, std::span<std::byte> packed) const {
  std::byte *target = packed.data();
  for (const Part &part : parts) {
    packBox(part.box, tensors[part.tensor].bytes().data(), target);
    target += part.box.bytes();
  }
}

void TensorParts::unpack(std::span<const std::byte> packed, const std::vector<HostTensor> &tensors) const {
  const std::byte *source = packed.data();
  for (const Part &part : parts) {
    unpackBox(part.box, source, tensors[part.tensor].bytes().data());
    source += part.box.bytes();
  }
}

StepParts stepPartsOf(const PlanContents &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
                      uint32_t rank) {
  StepParts parts;
  for (const Site &site : sitesOf(plan, entry)) {
    if (rankOfDevice[site.device] != rank)
      continue;
    for (const Instruction &instruction : site.program->body) {
      const auto *load = std::get_if<LoadInput>(&instruction.action);
      const auto *store = std::get_if<StoreOutput>(&instruction.action);
      if (!load && !store)
        continue;
      TileLoad tile = tileLoadOf(entry, *site.program, plan.meshes[site.mesh], site.member, instruction.action);
      for (StridedCopy &box : tile.boxes) {
        // The tensor's side of the box is the source's of a load, and the target's of a store.
        (load ? box.targetOffset : box.sourceOffset) = load ? box.sourceOffset : box.targetOffset;
        for (StridedCopy::Dim &dim : box.dims)
          (load ? dim.targetStride : dim.sourceStride) = load ? dim.sourceStride : dim.targetStride;
        load ? parts.inputs.add(load->input, std::move(box)) : parts.outputs.add(store->output, std::move(box));
      }
    }
  }
  return parts;
}

} // namespace cleave::runtime::serve
