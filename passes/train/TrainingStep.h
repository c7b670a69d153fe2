// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a placed forward graph with a loss to the graph of a training step.
//
// The step divides its batch into microbatches. Each stage of the graph (StageGraph.h) works on each microbatch forward
// and backward, in the order of the schedule (TaskOrder.h), in which the operators of the step then stand: what follows
// keeps that order. So the step is an ordinary graph; memory, transfers and their order come from the stages that serve
// inference, and skip connections and weights that several stages share need nothing of their own.
//
//   %w = dfg.read @w              {place}        a parameter has a home: where and in which parts it is kept
//   F0 F1 … B0 …                                 tasks; gradients of a parameter are added up over microbatches
//   %w' = update(%w, %g, …)       {place}        one a parameter, on its home
//   dfg.write @w, %w'             {place}

#ifndef CLEAVE_PASSES_TRAIN_TRAININGSTEP_H
#define CLEAVE_PASSES_TRAIN_TRAININGSTEP_H

#include "passes/pipeline/Schedule.h"
#include "passes/train/Optimizer.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Layout.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// What is computed again in the backward pass instead of being kept, or kept elsewhere.
enum class KeptActivations {
  All,         ///< Nothing is computed again.
  Products,    ///< Results of contractions and what enters a stage are kept.
  StageInputs, ///< What enters a stage is kept.
  InHost,      ///< Nothing is computed again. All are kept in the host's memory, but what enters a stage, and what
               ///< attention reads and makes whose kernels never have all scores in memory.
};

/// "none", "selective", "full", "offload", as `--recompute` calls them.
std::optional<KeptActivations> findKept(llvm::StringRef name);

/// What the stages on a mesh do.
struct StageOptions {
  KeptActivations kept = KeptActivations::All;
  /// What replicas of a parameter share instead of each having it: 1 the optimizer's state and work, 2 also gradients
  /// while they are added up, 3 also the parameter itself.
  unsigned zero = 0;
  /// The optimizer's state is kept in the host's memory, and comes to the device for the update.
  bool optimizerInHost = false;
};

struct TrainingOptions : StageOptions {
  unsigned microbatches = 1;
  pipeline::Schedule schedule;
  /// By the symbol of a mesh, where it differs.
  llvm::StringMap<StageOptions> byMesh;
  OptimizerOptions optimizer;
  /// The largest norm of all gradients together; 0: any.
  double clipNorm = 0;
  /// How many replicas of the step there are whose gradients are added up: each is of a mean over its own samples,
  /// divided by their number.
  unsigned replicas = 1;

  const StageOptions &of(mlir::FlatSymbolRefAttr mesh) const {
    auto found = byMesh.find(mesh.getValue());
    return found == byMesh.end() ? *this : found->second;
  }
};

inline constexpr llvm::StringLiteral trainGraphName = "train", evaluateGraphName = "evaluate";
/// What fills a pipeline that does not drain with its first batch, and what takes the last one out.
inline constexpr llvm::StringLiteral fillGraphName = "fill", drainGraphName = "drain";
/// The parameter that counts the steps done: an i64 scalar.
inline constexpr llvm::StringLiteral stepParameterName = "train/step";
/// What the names of all that is in a pipeline between two steps begin with (runtime/training/KeptParameters.h).
inline constexpr llvm::StringLiteral pipelinePrefix = "train/pipeline/";

/// A parameter that a step trains: its gradient, a value of the step's graph (before any limit to its norm), and its
/// home.
struct TrainedParameter {
  mlir::FlatSymbolRefAttr name;
  mlir::Value gradient;
  mlir::FlatSymbolRefAttr mesh;
  dist::Layout layout;
};

/// What a step changes.
struct ChangedParameters {
  std::vector<TrainedParameter> trained;
  /// State that the forward graph writes, as the counters of dropout.
  std::vector<mlir::FlatSymbolRefAttr> written;
};

/// Replaces `forward` by a graph `train` that does a step and has microbatches times as many samples in dimension 0 of
/// its inputs. The forward graph is placed; its first result is the loss, a mean over samples (a float scalar), its
/// others are sums over samples. The step returns the mean and the sums of its microbatches; where one of the results
/// is what the loss is a mean over (dfg::countsAttrName), the mean is over all that the step counts.
///
/// Under a schedule that does not drain (pipeline::ScheduleRow::weightDelay) there are two graphs more, and batches are
/// one graph late: `fill` takes the first batch and returns nothing, each `train` takes the next batch and does the
/// step of the one before, `drain` takes none and does that of the last.
///
/// Fails, with a diagnostic, where an operator on the way from a parameter to the loss has no gradient (it names the
/// model's node), where no parameter has a gradient, or an input has no samples. `changed` gets what the step changes.
llvm::FailureOr<dfg::GraphOp> buildTrainingStep(dfg::GraphOp forward, const TrainingOptions &options,
                                                ChangedParameters *changed = nullptr);

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_TRAININGSTEP_H
