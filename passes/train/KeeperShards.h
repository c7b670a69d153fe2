// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters in shards on servers (Li et al., 2014: Scaling distributed machine learning with the parameter server):
// what the keeper of a training step with replicas does is divided over devices, each of which has some of the
// parameters, whole, with the optimizer's state of them, and updates them beside the others.
//
//   graph apply(%g0: of @w, %g1: of @b)                    graph apply(…)
//     dfg.write @w, update(@w, %g0)   {place on @d0}  ──▶    … {place on @keeper0}
//     dfg.write @b, update(@b, %g1)   {place on @d0}         … {place on @keeper1}
//
// What needs all gradients, as a limit to their norm, is on one of the devices, and is sent. One run of the graph
// still makes one version: it has ended where all shards have.

#ifndef CLEAVE_PASSES_TRAIN_KEEPERSHARDS_H
#define CLEAVE_PASSES_TRAIN_KEEPERSHARDS_H

#include "passes/train/TrainingStep.h"

namespace cleave {

/// By parameter the shard, of `shards` (1 at least), that has it, so that shards have about the same bytes: the largest
/// parameter first, each to the shard with the least so far (Graham, 1969: longest processing time first, which is at
/// most a third above the best). Ties go to the first.
std::vector<unsigned> balanceShards(llvm::ArrayRef<uint64_t> bytes, unsigned shards);

/// Moves the operators of `apply`, a placed graph of the keeper, to meshes of their own of single devices, and has
/// `evaluation`, a placed forward graph, read the parameters there. `devices` are numbers of the module's devices, one
/// at least.
void shardKeeper(dfg::GraphOp apply, dfg::GraphOp evaluation, llvm::ArrayRef<TrainedParameter> trained,
                 llvm::ArrayRef<int64_t> devices);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_KEEPERSHARDS_H
