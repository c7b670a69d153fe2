// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a model to a plan: the stages in order, for every command that needs a plan.

#ifndef CLEAVE_TOOLS_CLEAVE_COMPILEMODEL_H
#define CLEAVE_TOOLS_CLEAVE_COMPILEMODEL_H

#include "passes/planner/PlaceOperators.h"
#include "runtime/Plan.h"
#include "tools/cleave/ModelReader.h"

namespace cleave::tool {

/// What the command line says about where and how a model is to run.
struct TargetOptions {
  std::string machine = "host", strategy, placementFile, degrees;
  std::string executor; ///< what runs training; empty: as the machine says
  std::string cpu;      ///< the processor of devices of the driver cpu; empty: what the machine says, else CLEAVE_CPU
  bool reference = false, noLibraries = false, noCombine = false;
  bool tf32 = false; ///< libraries of GPUs may round products of float32
  /// What the search takes.
  bool train = false;
  int64_t batch = 0;
  unsigned chunks = 0;
  std::vector<int64_t> batches; ///< an entry for each of these batches, all on one set of parameters
  int64_t maxBatch = 0;         ///< the same for powers of two up to this, and this; 0: not so
  std::string microbatches = "auto", schedule = "auto", recompute = "auto", zero = "auto", elementType = "f32",
              optimizer = "adam", memory, solver = "elimination";
  /// What a training step computes besides; without a loss a plan for training holds decisions alone.
  std::string loss, optimizerOptions, rateSchedule = "constant";
  std::string buckets; ///< "DIM=N,N,...": a step for each size of a dimension, all on one set of parameters
  double learningRate = 0, clipNorm = 0; ///< 0: the optimizer's own rate; no clipping
  std::string batchNorm = "device";
  /// Of how many parts of a microbatch each batch normalization takes its statistics, in the graph's order, instead of
  /// those that devices have; no option of the command line.
  std::vector<int64_t> batchNormGroups;
  bool noDropout = false;
  double expertCapacity = 0; ///< places at an expert, of an equal share of a sample's tokens; 0: as many as come
  /// Replicas of the step that do not wait for each other (passes/train/Versions.h), and how many; 0: one a device.
  std::string sync;
  unsigned replicas = 0;
  uint64_t seed = 0; ///< of what is random in training
  double timeBudget = 0;
  std::string objective = "throughput", mostStep; ///< "cost": by the machine's prices; the longest step, "1.2 s"
  unsigned threads = 0;                           ///< that compile; 0: as many as the machine has cores

  /// Adds --machine, --strategy, --place, --degrees and the others to a command.
  void addTo(CLI::App &command);
  /// The first of these options, or of `others`, that the command line has; null where it has none. A plan takes none.
  static const char *findGiven(const CLI::App &command, std::initializer_list<const char *> others = {});
};

/// Seconds that a stage took.
struct StageTime {
  std::string stage;
  double seconds = 0;
};

/// The stages after which the module can be shown, in order.
inline constexpr const char *irStages[] = {"import", "graph", "place", "train", "distribute", "codegen", "schedule"};

struct CompileRequest {
  ModelOptions model;
  TargetOptions target;
  /// Binds inputs that need it; may be null.
  InputFiles *inputs = nullptr;
  /// Where the plan will be written; empty: it stays in memory.
  std::string planFile;
  /// One of irStages: stop after it.
  std::string lastStage;
  /// Names of model nodes whose results are to be outputs, too (addOutputs).
  std::vector<std::string> extraOutputs = {};
  /// With --strategy auto: how the model was placed before, which the search is to take as it is; null: it chooses.
  const Decision *decision = nullptr;
  /// It is tried beside another plan: nothing is said of what goes wrong, nor warned of.
  bool isTrial = false;
};

/// A plan and where its parameters are.
struct CompiledModel {
  std::unique_ptr<mlir::MLIRContext> context; ///< outlives what is below
  WeightsStore imported;                      ///< the bytes
  WeightsStore weights;                       ///< the weights file of a plan that is written
  std::vector<char> plan;
  std::string ir;                   ///< the module, when a last stage was asked for
  std::optional<PlanReport> report; ///< what the search expects, where there was one
  std::string strategy;
  std::vector<StageTime> times;
  std::vector<std::string> machineNotes; ///< Machine::notes
  std::string mixing;                    ///< a warning of what microbatches change; empty where they change nothing

  double totalSeconds() const;
  /// The seconds of a stage; 0 if it did not run.
  double secondsOf(llvm::StringRef stage) const;
};

/// Compiles. Diagnostics have been printed when the error has no message. Status::Internal when a stage fails that
/// accepts every placed model: the reproducer has been written then.
Expected<CompiledModel> compileModel(const CompileRequest &request);

/// A verified view of the compiled plan.
Expected<runtime::Plan> openPlan(const CompiledModel &compiled);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COMPILEMODEL_H
