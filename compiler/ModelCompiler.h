// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What compileModel and the passes of its stages do. Private to them: CompileModel.cpp has the stages,
// CompilePlace.cpp how operators are placed, CompileSearch.cpp what is asked of the search, CompileTraining.cpp what
// training adds to them, CompileBuckets.cpp entries for several sizes.

#ifndef CLEAVE_COMPILER_MODELCOMPILER_H
#define CLEAVE_COMPILER_MODELCOMPILER_H

#include "compiler/CompileModel.h"

#include "compiler/EntryTimes.h"
#include "compiler/Messages.h"
#include "dialects/dfg/Dfg.h"
#include "passes/train/Versions.h"

#include "mlir/Pass/PassManager.h"

namespace cleave {

/// The module's first graph, which is the model's. Expects one.
dfg::GraphOp graphOf(mlir::ModuleOp module);

/// Sizes, increasing, of which each gets entries of its own, on one set of parameters: of a symbolic dimension, for a
/// training step and an evaluation each, or of the batch, where `dim` is empty.
struct Buckets {
  std::string dim;
  std::vector<int64_t> sizes;

  bool areBatches() const { return dim.empty(); }
};

/// A device whose arenas are larger than they may be.
struct MissingMemory {
  std::string device;
  double bytes = 0, limit = 0; ///< limit: above zero
  double searched = 0;         ///< What the search expected of the bytes, where there was one.
  bool transforms = false;     ///< Some are for convolutions by Winograd's algorithm.

  /// "the plan needs 9.00 GiB on device "gpu0", more than the limit of 8.00 GiB".
  std::string text() const;
};

/// Compiles one model.
class ModelCompiler {
public:
  /// A search may take `memoryShare` of each device's memory (search::SearchRequest::memoryShare).
  ModelCompiler(const CompileRequest &request, Messages &messages, double memoryShare = 1)
      : request(request), messages(messages), memoryShare(memoryShare), model(request.model) {
    model.training = trains();
    model.keepsDropout = onlyPlans() && !request.target.noDropout;
    result.context = createContext();
    context = result.context.get();
    diagnostics.emplace(result.context.get(), [&messages](mlir::Diagnostic &diagnostic) {
      messages.diagnostic(diagnostic);
      return mlir::success();
    });
  }

  /// Does single stages of a module that somebody else has, which have what stages before left in it (StageState.h),
  /// and nothing else. The module's diagnostics go where those of its context go.
  ModelCompiler(const CompileRequest &request, Messages &messages, mlir::ModuleOp borrowed)
      : request(request), messages(messages), model(request.model), context(borrowed.getContext()), module(borrowed),
        isBorrowed(true) {}
  ModelCompiler(const ModelCompiler &) = delete;
  ModelCompiler &operator=(const ModelCompiler &) = delete;
  ~ModelCompiler() {
    if (isBorrowed)
      module.release();
  }

  Expected<CompiledModel> run();

  /// Of a plan that takes more memory than a device has or than --memory allows, for which run() returns
  /// Status::Infeasible: how much more, on the device where that is most.
  const std::optional<MissingMemory> &missingMemory() const { return missing; }
  /// Whether a search found the plan.
  bool hasSearched() const { return result.report.has_value(); }

  /// The stages of a borrowed module. Status::Unsupported where the model would have to be imported again.
  Error placeBorrowed();
  Error trainBorrowed();
  /// Takes the bytes of parameters in files below `folder`. Writes no file.
  Expected<CompiledModel> emitBorrowed(llvm::StringRef folder);

private:
  Error import();
  Error simplify();
  Error checkTrainingOptions() const;
  Error readBorrowed();
  Error checkRounding() const;
  Error chooseChips();
  Expected<bool> keepsRoundedParameters() const;
  Error place();
  /// Adds the loss where there is to be a step.
  Error addTrainedLoss();
  /// What the options, and the search where there was one, say about the step.
  Error readTraining();
  Error readBatch();
  Error checkBatch();
  /// An error where --dim gives the batch that another option gives, too.
  Error checkDims() const;
  Error chooseMicrobatches(bool searches);
  /// What --sync says, and that nothing else contradicts it.
  Error readReplicas();
  /// With --sync local:auto: how often replicas of the emitted plan exchange parameters.
  Error chooseLocalSteps(llvm::ArrayRef<runtime::Setting> settings);
  /// How many devices --keeper names, which run no replica. Status::Usage, Status::Unsupported.
  Expected<unsigned> findKeeperDevices() const;
  /// Divides what the keeper does as --keeper says.
  void placeKeeper(const ChangedParameters &changed);
  /// Leaves the machine the devices of the first replica, for placing; `everything` gets the whole.
  Error takeFirstReplica();
  /// Has the placed module the whole machine again.
  void showEverything();
  /// Parts the step where replicas exchange what they have.
  Error partStep(dfg::GraphOp step, const ChangedParameters &changed);
  Error resample(int64_t samples);
  Error followSearch();
  /// Has each mesh the options that the search found for its stage.
  Error takeStageOptions();
  /// Says where a step that is only decided about keeps parameters and the optimizer's state.
  Error placeDecidedHomes();
  Error train();
  /// The graphs of the plan's entries, of the placed graph in the module.
  Error makeEntries();
  /// Adds the step and the evaluation of the placed forward graph in the module, with these names.
  Error makeStep(llvm::StringRef stepName, llvm::StringRef evaluationName);

  Error readBuckets();
  Error readBatches();
  /// Makes a size that at hand: the next import has it.
  void chooseBucket(int64_t size);
  Error checkBucketLabels(dfg::GraphOp graph);
  /// Imports and places the model for another size, as it was placed for the largest.
  Error importBucket(int64_t size, mlir::ModuleOp placed);
  /// Entries for all sizes in one module, the largest first.
  Error makeBuckets();
  /// Makes the placed graph in the module the entry of the batch at hand.
  Error makeBatchEntry();

  Error narrow(dfg::GraphOp graph);
  Error widen(dfg::GraphOp graph);
  /// Takes meshes with shares apart.
  Error expandShares();
  void reportStages(dfg::GraphOp step);
  /// Whether the plan is to hold a training step that runs.
  bool trains() const { return request.target.train && !request.target.loss.empty(); }
  /// Whether the plan is to hold decisions about a training step alone.
  bool onlyPlans() const { return request.target.train && request.target.loss.empty(); }
  const char *findSearchOption() const;
  Expected<std::optional<int64_t>> readMicrobatches() const;
  Error readSearchRequest(PlaceOptions &options) const;
  Error distribute();
  Error generate();
  Error schedule();
  Error emit();
  /// Notes where the plan takes too much memory. Status::Infeasible where it does.
  Error checkMemory(const runtime::Plan &plan);
  /// What emission found wrong.
  Error emissionError(llvm::Error error);
  /// The options with what was chosen for them.
  TargetOptions chosenOptions() const;
  Expected<std::vector<EntryTimes>> simulateSteps();
  /// What a dump after a stage says about how to go on with it; empty where nothing but the model would do.
  std::string continuation(llvm::StringRef stage) const;
  /// The module in text form, with all locations.
  std::string dump(llvm::StringRef stage, bool localLocations) const;

  /// Runs passes that are to succeed on every module that got this far.
  Error runStage(llvm::StringRef stage, llvm::function_ref<void(mlir::OpPassManager &)> build);

  const CompileRequest &request;
  Messages &messages;
  double memoryShare = 1;
  ModelOptions model;
  CompiledModel result;
  mlir::MLIRContext *context = nullptr;
  std::optional<mlir::ScopedDiagnosticHandler> diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  bool isBorrowed = false;
  TrainingOptions training;
  int64_t batch = 0; ///< while operators are placed: the samples of a replica's step
  /// A node of the trained model that takes several samples together, and its operator; empty where there is none.
  std::string mixingNode;
  /// By batch normalization, the parts of a microbatch that its statistics are of.
  std::vector<int64_t> normGroups;
  /// With --buckets or --batches; the model is read, placed and searched for in the largest size.
  std::optional<Buckets> buckets;
  int64_t bucket = 0; ///< the size at hand
  /// How the model was placed.
  PlaceOptions placing;
  ImportReport importReport;
  std::optional<MissingMemory> missing;
  Machine machine;
  /// With --sync: how replicas keep together, how many there are, and the machine of all of them.
  std::optional<Synchronization> sync;
  unsigned replicas = 1;
  std::optional<Machine> everything;
};

} // namespace cleave

#endif // CLEAVE_COMPILER_MODELCOMPILER_H
