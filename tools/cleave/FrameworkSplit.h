// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether another framework's words for splits say what the devices of a plan hold. Each function compares part by
// part, so that what it allows is exactly the plan's.

#ifndef CLEAVE_TOOLS_CLEAVE_FRAMEWORKSPLIT_H
#define CLEAVE_TOOLS_CLEAVE_FRAMEWORKSPLIT_H

#include "tools/cleave/PlacedTensors.h"

namespace cleave::tool {

/// Why JAX's PartitionSpec cannot say the placement; "" where it can. It names axes of each dimension, the outermost
/// first, and gives each device an equal part.
std::string whyNotPartitionSpec(const Placement &placement, const runtime::Mesh &mesh);

/// Why the placements of PyTorch's DTensor cannot; "" where they can. They name a dimension for each axis, of which the
/// first cuts first, and cut as torch.chunk does: a part has the part before divided by the ways, rounded up. Where an
/// axis cuts a dimension behind a later one it has a split factor, and the parts must be equal.
std::string whyNotShard(const Placement &placement, const runtime::Mesh &mesh);

/// The split factor of the cut of that place among the dimension's: into how many parts axes that come later in the
/// mesh have cut the dimension before. Shard says a cut with 1, _StridedShard others.
int64_t splitFactor(const runtime::TileDim &dim, size_t place, const runtime::Mesh &mesh);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_FRAMEWORKSPLIT_H
