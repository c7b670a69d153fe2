// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages of a placed forward graph: which of its operators run together as one task of a microbatch.
//
// An operator's depth is the largest number of changes of mesh on a way that leads to it. The operators of one mesh and
// depth are a stage: in a pipeline of meshes a, b, c that gives three; where the layers return to a mesh (a, b, a, b),
// four, of which each mesh runs two; where branches lie side by side on meshes, one for each. A value that is computed
// early and used late does not make its users wait for more than it. Operators that depend on inputs alone or on
// parameters alone, as those that prepare labels, masks or a bias, are as deep as the first of their users needs them.

#ifndef CLEAVE_PASSES_TRAIN_STAGEGRAPH_H
#define CLEAVE_PASSES_TRAIN_STAGEGRAPH_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

#include "llvm/ADT/SetVector.h"

namespace cleave {

/// Operators of a stage in a row.
struct Segment {
  llvm::ArrayRef<mlir::Operation *> operators;
  /// What the backward pass computes again of them; null: as the mesh's options say.
  dist::RecomputeAttr recompute;
};

/// Operators that run one after the other on one mesh.
struct Stage {
  mlir::FlatSymbolRefAttr mesh;
  unsigned depth = 0;
  /// In the graph's order. Reads of parameters and constants that are copied to their users belong to none.
  llvm::SmallVector<mlir::Operation *> operators;
  /// Stages whose results it reads, ascending.
  llvm::SetVector<unsigned> inputs;

  /// Its operators by the segment with which their dist.recompute says that they are computed again; one without is in
  /// that of the operator before it. Valid while the stage is.
  llvm::SmallVector<Segment> getSegments() const;
};

/// The stages of a graph whose operators are placed, each behind those whose results it reads.
std::vector<Stage> findStages(dfg::GraphOp graph);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_STAGEGRAPH_H
