// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of `--degrees`: over how many devices each kind of split goes.

#ifndef CLEAVE_PASSES_PLANNER_DEGREES_H
#define CLEAVE_PASSES_PLANNER_DEGREES_H

#include "passes/cost/Machine.h"
#include "passes/planner/MeshSpec.h"

#include <optional>

namespace cleave {

/// Names of axes, and keys of `--degrees`.
inline constexpr llvm::StringLiteral dataAxis = "data", modelAxis = "model", pipelineDegree = "pipeline",
                                     sequenceAxis = "sequence", expertAxis = "expert";
/// The name of an axis that cuts rows and columns of images; no key of `--degrees`.
inline constexpr llvm::StringLiteral spaceAxis = "space";

/// How many parts the batch and the layers are split into, into how many stages the layers, into how many parts the
/// sequence and the experts; what is not said is open.
struct Degrees {
  std::optional<int64_t> data, model, pipeline, sequence, expert;
  /// What each part of the batch, or of the layers, is in proportion to the others; empty: they are equal. At most one
  /// of the two is said.
  std::vector<int64_t> dataShares, modelShares;

  /// Whether anything is said.
  bool any() const { return data || model || pipeline || sequence || expert; }
  /// Whether something is said that only the search can do.
  bool needSearch() const { return pipeline || sequence || expert; }
};

/// Reads "data=4,model=2,pipeline=2", in any order, where data or model may be in shares, as data=2:1; an empty text
/// says nothing. The error names what is wrong.
llvm::Expected<Degrees> parseDegrees(llvm::StringRef text);

/// The mesh of those degrees on the machine's first devices: the axis `data` outermost, then `model`. The strategy's
/// own axis, one of the two, takes all devices that the other leaves where its degree is open; the other is not split
/// where its is. Fails where the machine has too few devices.
llvm::Expected<MeshSpec> meshOfDegrees(const Degrees &degrees, llvm::StringRef ownAxis, const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PASSES_PLANNER_DEGREES_H
