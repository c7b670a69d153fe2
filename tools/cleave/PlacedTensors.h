// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which part of every parameter, input and output each device of a plan holds, by the tensor's own dimensions.

#ifndef CLEAVE_TOOLS_CLEAVE_PLACEDTENSORS_H
#define CLEAVE_TOOLS_CLEAVE_PLACEDTENSORS_H

#include "runtime/Plan.h"

#include <optional>

namespace cleave::tool {

/// What the devices of one mesh hold of a tensor.
struct Placement {
  uint32_t mesh = 0;
  /// As the plan says it, perhaps in finer dimensions than the tensor's; null: every device holds the whole tensor.
  const runtime::Tile *tile = nullptr;
  /// Of an input or output of which the mesh has a part, `tile` being one of the part: where that lies. Null: all of
  /// it.
  const runtime::Tile *within = nullptr;
  /// The same as `tile` with a dimension for each of the tensor's. Nothing where devices hold what is no box of the
  /// tensor, windows that overlap, or a part with others on other meshes.
  std::optional<std::vector<runtime::TileDim>> dims;
  /// Above 1: dimension 0 is so many microbatches, one after the other, and `dims` are those of each.
  int64_t microbatches = 1;
  uint64_t bytes = 0; ///< of each device, padding included
};

/// Whose a tensor is.
enum class TensorRole {
  Model,
  Optimizer, ///< its state, or a number of its learning rate
  Constant,  ///< the compiler made it
};

/// A tensor with a name and where it lies. Refers to the plan, which must outlive it.
struct PlacedTensor {
  std::string name;
  const runtime::TensorType *type = nullptr;
  TensorRole role = TensorRole::Model;
  bool isTrained = false; ///< steps write it
  /// The first is where the tensor is at home; more where several meshes, or one in several ways, have copies of it.
  std::vector<Placement> placements;
};

/// The parameters that the entry loads, in the plan's order; of a decision about a training step those that the model
/// reads, and the optimizer's state. Such a one has no placements where its parts are unequal.
std::vector<PlacedTensor> placedParameters(const runtime::PlanContents &plan, const runtime::Entry &entry);
/// What each step takes and gives. A port that no device needs has no placements, and none has of a decision.
std::vector<PlacedTensor> placedInputs(const runtime::PlanContents &plan, const runtime::Entry &entry);
std::vector<PlacedTensor> placedOutputs(const runtime::PlanContents &plan, const runtime::Entry &entry);

/// Calls `visit` with the coordinates of every part into which the axes cut; those on other axes are 0.
template <typename Visitor>
void forEachPart(const runtime::Mesh &mesh, const std::vector<runtime::Cut> &cuts, Visitor visit) {
  std::vector<uint32_t> at(mesh.axes.size());
  while (true) {
    visit(at);
    size_t place = cuts.size();
    while (place != 0 && ++at[cuts[place - 1].axis] == mesh.axes[cuts[place - 1].axis].size)
      at[cuts[--place].axis] = 0;
    if (place == 0)
      return;
  }
}

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PLACEDTENSORS_H
