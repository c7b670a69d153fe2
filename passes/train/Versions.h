// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training without barriers: replicas of a step that do not wait for each other, on versions of the parameters.
//
// A step is parted where its gradients are there. What is before is the replicas': a graph that takes a version of each
// parameter and gives its gradient. What is behind is the keeper's, who has the parameters and the optimizer's state: a
// graph that takes gradients and makes the next version. Which version a replica may take is a question of when, which
// the runtime answers (runtime/training/asynchronous).
//
//   graph train(%x, %labels, %w: version of @w)      graph apply(%g: what is to be added to @w)
//     …                                                %w = dfg.read @w
//     return %loss, %g                                 %w' = update(%w, %g, …)
//                                                      dfg.write @w, %w'
//                                                      return %w'
//
// Local steps (Stich, 2019: Local SGD converges fast and communicates little; Douillard et al., 2023: DiLoCo) leave the
// step whole: each replica has parameters and an optimizer of its own. What is exchanged now and then is by how much
// its parameters have moved, which the keeper averages and takes as a gradient:
//
//   graph fetch(%w)                 graph give()                   graph apply(%d0, %d1, …)
//     dfg.write @w, %w                return @w/anchor - @w          %w' = outer update(@w, mean(%d0, %d1, …))
//     dfg.write @w/anchor, %w                                        return %w'
//
// With an overlap a replica goes on while the version is made of what it gave, and adds what it has moved meanwhile to
// the version (Shen et al., 2019: Faster distributed deep net training: computation and communication decoupled
// stochastic gradient descent). The anchor is where the replica was when it gave, and then the version:
//
//   graph give()                    graph merge(%w)
//     return @w/anchor - @w           dfg.write @w, %w + (@w - @w/anchor)
//     dfg.write @w/anchor, @w         dfg.write @w/anchor, %w

#ifndef CLEAVE_PASSES_TRAIN_VERSIONS_H
#define CLEAVE_PASSES_TRAIN_VERSIONS_H

#include "passes/train/TrainingStep.h"

namespace cleave {

inline constexpr llvm::StringLiteral applyGraphName = "apply", fetchGraphName = "fetch", giveGraphName = "give",
                                     mergeGraphName = "merge";

/// The largest number of local steps that `local:auto` chooses. DiLoCo was shown to lose little with 500.
inline constexpr uint64_t mostChosenLocalSteps = 512;

/// What local steps changed of a parameter, as it is sent.
enum class MoveType {
  F32,
  BF16,
  /// Multiples of a scale, a float32 number for each parameter, from -127 to 127. What rounding takes away a replica
  /// adds to its next move (Karimireddy et al., 2019: Error feedback fixes SignSGD).
  I8,
};

/// How replicas of a training step keep together.
struct Synchronization {
  /// How many steps a replica may be ahead of the slowest when it begins one; nothing: any number. With 0 they step
  /// together, and the gradients of all make one version; else each makes one.
  /// Source: Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, 2013.
  std::optional<uint64_t> bound = 0;
  /// Steps that a replica does by itself from one exchange to the next; 0: it has no parameters of its own.
  uint64_t localSteps = 0;
  /// Somebody who knows the machine is to choose `localSteps`, which is the least that goes with `overlap` until then.
  bool choosesLocalSteps = false;
  /// Local steps that a replica does while the version is made of what it gave, fewer than `localSteps`; 0: it waits.
  uint64_t overlap = 0;
  /// With local steps: what the keeper does with the mean of the moves.
  OptimizerOptions outer;
  /// With local steps: what moves are on their way.
  MoveType moves = MoveType::F32;
};

/// "ssp:S", "ssp:inf", or "local:H" or "local:auto" with "[,outer-rate=R,outer-momentum=M,dtype=T,overlap=K]"; H is 1
/// at least, R and M are 0.7 and 0.9 by default, DiLoCo's; T is f32, bf16 or int8; K is less than H, 0 by default.
llvm::Expected<Synchronization> parseSynchronization(llvm::StringRef text);

/// Parts a step at its gradients: `step` becomes what a replica does, and a graph `apply` behind it what the keeper
/// does with the gradients of one replica, or, where the bound is 0, with those of all `replicas`, which are added in
/// their order. What the forward graph writes stays a replica's own. Fails, with a diagnostic, where a place does not
/// fit.
mlir::LogicalResult partAtGradients(dfg::GraphOp step, const ChangedParameters &changed, unsigned replicas,
                                    const Synchronization &sync);

/// Adds the graphs `fetch`, `give` and `apply`, and with an overlap `merge`, behind a step that replicas do by
/// themselves. Fails, with a diagnostic, where a place does not fit.
mlir::LogicalResult addLocalSteps(dfg::GraphOp step, llvm::ArrayRef<TrainedParameter> trained, unsigned replicas,
                                  const Synchronization &sync);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_VERSIONS_H
