// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a training step task by task. Private to the stage: StepWriter.cpp has the frame and forward tasks,
// StepShares.cpp what each microbatch's loss counts for, StepBackward.cpp backward tasks, StepGathers.cpp parameters
// that are there in parts, StepOffload.cpp activations in the host's memory, StepCarry.cpp what is in a pipeline
// between two steps, StepUpdate.cpp the optimizer and outputs.

#ifndef CLEAVE_PASSES_TRAIN_STEPWRITER_H
#define CLEAVE_PASSES_TRAIN_STEPWRITER_H

#include "dialects/dfg/Attention.h"
#include "passes/train/GradientPlaces.h"
#include "passes/train/ParameterHomes.h"
#include "passes/train/TaskOrder.h"
#include "passes/train/TrainingStep.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace cleave {

/// Remembers the operators that are created.
struct CreatedRecorder : mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override { operators.push_back(op); }
  llvm::SmallVector<mlir::Operation *> take() { return std::exchange(operators, {}); }
  llvm::SmallVector<mlir::Operation *> operators;
};

/// Declares a parameter that lasts from step to step, and is `first` before the first one. Gives its name.
mlir::FlatSymbolRefAttr declareState(mlir::ModuleOp module, llvm::StringRef name, mlir::RankedTensorType type,
                                     double first);

/// Removes a graph's operators without effects whose results are not used, and what is computed for them alone.
void removeUnused(dfg::GraphOp graph);

/// A part of the node that `location` is of: "conv1/gradient".
mlir::Location partOf(mlir::Location location, llvm::StringRef part);

/// What a graph does of a step.
enum class StepPart {
  Whole, ///< All of it.
  // Of a pipeline that does not drain, in which a step begins with the batch that the one before has begun:
  Fill,   ///< Begins the batch that it is given.
  Steady, ///< Does the step of the batch that is begun, and begins the one that it is given.
  Drain,  ///< Does the step of the batch that is begun.
};

/// What one step leaves in a pipeline for the next one, a parameter each: whole inputs, of which each step takes its
/// microbatches, and activations of the microbatches that are begun. By the forward graph's value, microbatch (nothing:
/// the whole input) and mesh where it is needed.
struct CarriedValue {
  std::string name;
  mlir::RankedTensorType type;
  dist::Layout layout;
  /// Whether a step reads it. Gradients need less than what they are written with.
  bool isRead = true;
};
using CarriedKey = std::tuple<const void *, std::optional<unsigned>, const void *>;
using CarriedValues = llvm::MapVector<CarriedKey, CarriedValue, std::map<CarriedKey, unsigned>>;

/// One step in the making.
class StepWriter {
public:
  /// `carried`: what the steady graph leaves to its next run, known once that is written. Other graphs keep to it.
  StepWriter(dfg::GraphOp forward, const TrainingOptions &options, StepPart part, CarriedValues &carried)
      : forward(forward), module(forward->getParentOfType<mlir::ModuleOp>()), options(options), part(part),
        carried(carried), stages(findStages(forward)), places(module), builder(forward.getContext(), &recorder) {}

  llvm::FailureOr<dfg::GraphOp> write();
  /// What the step changes, once it is written.
  ChangedParameters takeChanged() { return std::move(changed); }

private:
  /// The sum of gradients on a mesh, and how they lie, as far as that is known.
  struct GradientSum {
    mlir::Attribute mesh;
    std::optional<dist::Layout> layout;
    mlir::Value value;
  };
  using GradientSums = llvm::SmallVector<GradientSum, 1>;

  /// A parameter that the step reads, and writes if it is trained or the forward graph writes it.
  struct Parameter {
    dfg::ReadOp read; ///< In the step, placed at home.
    /// The version before it, with which a pipeline that does not drain has begun the batch; else the same one.
    dfg::ReadOp previous;
    dist::Layout home;    ///< Of it.
    dist::Layout updated; ///< As the optimizer works on it.
    /// Replicas have parts of it, and tasks gather the whole.
    bool isShared = false;
    /// Those of its gradients that lie alike, added up so far.
    GradientSums gradients;
  };

  /// What there is of a microbatch.
  struct Microbatch {
    mlir::IRMapping values; ///< From the forward graph's.
    /// Cotangents of values of the forward graph.
    llvm::DenseMap<mlir::Value, mlir::Value> cotangents;
    /// By stage: gradients of weights that are to be moved behind.
    std::map<unsigned, llvm::SmallVector<mlir::Operation *>> weightGradients;
    /// By parameter that the forward graph writes: its value for the next microbatch, and the write.
    llvm::MapVector<mlir::Attribute, std::pair<mlir::Value, mlir::Operation *>> nextValues;
    /// Its share of what the step's loss is a mean over, a scalar of the loss's type; null where shares are equal.
    mlir::Value share;
    /// The same of what all replicas' gradients are a mean over, where there are several: its loss's cotangent.
    mlir::Value gradientShare;
  };

  /// What there is of a batch.
  struct Batch {
    std::vector<Microbatch> microbatches;
    /// From the forward graph's reads and constants to the step's.
    mlir::IRMapping shared;
    /// By input of the forward graph, mesh and microbatch.
    std::map<std::tuple<unsigned, const void *, unsigned>, mlir::Value> slices;
  };

  //===-- the frame -------------------------------------------------------------------------------------------===//

  mlir::LogicalResult check();

  mlir::LogicalResult createGraph();

  /// Which values depend on parameters that are trained.
  void findActive();

  /// Constants and parameters come first. A parameter that is trained, or written by the graph, has its home with its
  /// first user, and lies as that takes it.
  mlir::LogicalResult readParameters();

  mlir::LogicalResult findHome(dfg::ReadOp read, Parameter &parameter);

  //===-- shares of microbatches (StepShares.cpp) -------------------------------------------------------------===//

  /// Where the loss is a mean over what a result counts (dfg::countsAttrName): counts it in all microbatches before the
  /// first task, since the gradients of each depend on the sum.
  mlir::LogicalResult shareLoss();

  /// The operators of the forward graph that compute a result.
  llvm::SetVector<mlir::Operation *> producersOf(mlir::Value result);

  //===-- forward ---------------------------------------------------------------------------------------------===//

  mlir::LogicalResult writeTask(const StageTask &task);

  mlir::LogicalResult writeForward(Batch &batch, unsigned number, unsigned stage);

  /// The parameter as an operator of a microbatch sees it: what the graph itself wrote in the one before, whichever
  /// task comes first, or the read. Fails, with a diagnostic, where the one before has not written it yet.
  llvm::FailureOr<mlir::Value> valueOf(Batch &batch, dfg::ReadOp read, unsigned number, mlir::Operation *user);

  /// Makes the operand known to the microbatch: what all share, its samples of an input, or what the step before left.
  mlir::LogicalResult provide(Batch &batch, unsigned number, mlir::OpOperand &operand);

  /// The samples of a microbatch: [M * b, …] as [M, b, …], of which the data axis cuts b, so that no sample moves.
  mlir::LogicalResult sliceInput(Batch &batch, unsigned number, mlir::OpOperand &user, mlir::Value &slice);

  //===-- pipelines that do not drain (StepCarry.cpp) ---------------------------------------------------------===//

  /// Fails, with a diagnostic, where the options do not go with a schedule that does not drain.
  mlir::LogicalResult checkDelay();

  /// Whether microbatches work with the version of a parameter before the newest.
  bool isDelayed(mlir::FlatSymbolRefAttr parameter);

  /// The version of a parameter that a microbatch's task of a stage works with.
  mlir::Value versionOf(Batch &batch, dfg::ReadOp read, unsigned number, unsigned stage);

  /// Reads the version of a parameter with which the step's batch was begun.
  mlir::LogicalResult readPrevious(Parameter &parameter);

  /// Whether the step before did the microbatch's forward of a stage.
  bool isCarried(const Batch &batch, unsigned number, unsigned stage) const {
    return part != StepPart::Whole && &batch == &batches[0] && number < numAhead[stage];
  }

  /// What the step before left of a value, or of a whole input, on a mesh; `layout` is how it lies there if it was not
  /// asked for before.
  llvm::FailureOr<mlir::Value> readCarried(mlir::Value of, std::optional<unsigned> number, mlir::FlatSymbolRefAttr mesh,
                                           mlir::RankedTensorType type, const dist::Layout &layout);

  /// A read, in front of all tasks, of a parameter that is there only while a pipeline runs.
  llvm::FailureOr<dfg::ReadOp> readInFlight(llvm::StringRef name, mlir::RankedTensorType type,
                                            mlir::FlatSymbolRefAttr mesh, const dist::Layout &layout);

  /// That of a result, as it lies where it is made.
  llvm::FailureOr<mlir::Value> readResult(mlir::OpResult result, unsigned number);

  /// Computes for a microbatch, once, what depends on parameters alone.
  mlir::LogicalResult computeAgain(Batch &batch, unsigned number, mlir::Operation *op);

  /// Makes an operand known that an operator of a carried task makes.
  mlir::LogicalResult provideCarried(Batch &batch, unsigned number, mlir::OpOperand &operand);

  /// Copies the operators of a carried task, for gradients to be computed from, on what the step before left of their
  /// operands. Nobody may use their results.
  mlir::LogicalResult copyCarried(Batch &batch, unsigned number, unsigned stage);

  /// Lets gradients use what the step before left of the results, and removes the copies.
  mlir::LogicalResult useCarried(Batch &batch, unsigned number, unsigned stage);

  /// Leaves the batch that is begun to the next step, and the version of the parameters with which it was begun.
  mlir::LogicalResult carry();

  /// Of what is left to the next step, what no step reads.
  void removeUncarried();

  //===-- backward --------------------------------------------------------------------------------------------===//

  /// Finds the operators from which the microbatch's gradients are computed: those of its forward task, or new ones
  /// that compute again what is not kept. Of an operator whose results are kept there is a copy on the operands that
  /// are computed again, whose results nobody may use.
  mlir::LogicalResult recompute(Batch &batch, unsigned number, unsigned stage, const Segment &segment);

  /// The segments of a stage whose backward passes follow each other, each behind what it computes again. The batch of
  /// a pipeline that does not drain is carried stage by stage: there it is one.
  llvm::SmallVector<Segment> segmentsOf(unsigned stage) const;
  KeptActivations keptOf(unsigned stage, const Segment &segment) const;
  bool computesAgain(unsigned stage) const;

  static bool isKept(mlir::Operation *op, KeptActivations kept);

  //===-- activations in the host's memory (StepOffload.cpp) --------------------------------------------------===//

  /// Finds what stays on the device: what attention reads and makes whose kernels never have all scores in memory.
  /// Their gradients read it as the forward pass left it.
  mlir::LogicalResult findUnmoved();

  /// Whether kernels compute attention of the forward graph so.
  llvm::FailureOr<bool> streamsScores(dfg::Attention &attention);

  /// Lets the backward task's operators use, of what operators of such segments made, what is fetched from the host's
  /// memory.
  mlir::LogicalResult fetchActivations(Microbatch &microbatch, unsigned stage);

  /// What is fetched of a result of the step, for an operator that stands before the others that read it.
  llvm::FailureOr<mlir::Value> fetch(mlir::OpResult kept, mlir::Operation *user);

  /// What is kept is seen through a barrier, so that it is not joined with the first computation.
  mlir::LogicalResult seeAgain(mlir::OpOperand &operand, mlir::Value kept, mlir::IRMapping &values);

  /// Lets those that use what a copy of an operator makes use what the operator itself made.
  mlir::LogicalResult useFirst(Batch &batch, unsigned number, mlir::Operation *op);

  static mlir::Attribute nameOf(mlir::Operation *producer);

  mlir::LogicalResult writeBackward(Batch &batch, unsigned number, unsigned stage);

  /// The loss's own cotangent: the microbatch's share of the step's loss.
  void seedLoss(Microbatch &microbatch, unsigned stage);

  mlir::LogicalResult differentiate(Microbatch &microbatch, mlir::Operation *original);
  /// Differentiates an operator whose result depends on parameters alone, for the cotangents of all microbatches.
  mlir::LogicalResult differentiateOnce(Microbatch &microbatch, mlir::Operation *original);
  /// Whether the cotangents of a value of the forward graph are added up over the step's microbatches: those of a
  /// weight that is transposed before it is multiplied, say.
  bool addsUp(mlir::Value of);

  /// Adds what was set apart of the cotangent of a value of the forward graph, joined where that is cheaper.
  mlir::LogicalResult joinCotangents(Microbatch &microbatch, mlir::Value of);
  mlir::LogicalResult joinCotangents(Microbatch &microbatch, mlir::Value of, llvm::ArrayRef<mlir::Value> terms);

  /// Adds to the cotangent of a value of the forward graph; that of a parameter, or of what addsUp(), is the whole
  /// step's.
  mlir::LogicalResult addCotangent(Microbatch &microbatch, mlir::Value of, mlir::Value cotangent);
  /// The sum of the gradients that lie so; none yet where the first is to come.
  static mlir::Value &sumOf(GradientSums &sums, mlir::Attribute mesh, const std::optional<dist::Layout> &layout);

  /// Of a value of the step; that of a constant is the one of the operator at hand.
  dist::PlaceAttr placeOf(mlir::Value value);
  mlir::FlatSymbolRefAttr currentMesh(mlir::Value value) { return placeOf(value).getMesh(); }

  /// Of the operators that a backward task made, those that no earlier stage needs are to run later.
  void setAsideWeights(Microbatch &microbatch, unsigned stage);

  //===-- parameters that replicas share (StepGathers.cpp) ----------------------------------------------------===//

  /// What tasks on a mesh have of parameters that its devices keep in parts.
  struct Gathered {
    unsigned stage = 0;
    bool isForward = false;
    /// Of the last task: the reads that it used, the one whose last use was the last at the end.
    llvm::SetVector<mlir::Value> used;
    /// By read: what the task at hand uses instead, which is gathered for it.
    llvm::DenseMap<mlir::Value, mlir::Value> current;
  };

  /// Nothing is kept from the task before, but what it used last if the task uses that first: in the backward pass
  /// behind the forward pass of the same stage, or the other way round. Of that as much as a bucket of gathers holds:
  /// it is full at the bytes of the largest parameter, which is there as a whole at some time in any case.
  void beginGathers(unsigned stage, bool isForward);

  /// Lets a task's operators use what is gathered for the task.
  mlir::LogicalResult gatherFor(llvm::ArrayRef<mlir::Operation *> operators, unsigned stage);

  /// What the task uses instead of a value: the parameter that it shows, gathered anew, or what an elementwise operator
  /// of another task makes of that, computed anew. `operators` are the task's own.
  llvm::FailureOr<mlir::Value> inTask(mlir::Value value, Gathered &gathered,
                                      const llvm::DenseSet<mlir::Operation *> &operators,
                                      llvm::DenseMap<mlir::Value, mlir::Value> &known);

  //===-- the end of the step ---------------------------------------------------------------------------------===//

  /// Places what was created since take(), with `values` lying so.
  mlir::LogicalResult placeCreated(mlir::FlatSymbolRefAttr mesh, llvm::StringRef by,
                                   llvm::ArrayRef<std::pair<mlir::Value, dist::Layout>> values);

  static dist::Layout wholeOf(mlir::Value value) {
    return dist::Layout::whole(llvm::cast<mlir::ShapedType>(value.getType()));
  }

  /// The sum of a parameter's gradients on all meshes, at home.
  llvm::FailureOr<mlir::Value> sumAtHome(Parameter &parameter);

  /// A new parameter that lasts from step to step, read where `like` is and in that layout.
  llvm::FailureOr<dfg::ReadOp> addState(llvm::StringRef name, mlir::RankedTensorType type, double first,
                                        mlir::FlatSymbolRefAttr mesh, const dist::Layout &layout);

  mlir::LogicalResult writeState(mlir::FlatSymbolRefAttr name, mlir::Location location, mlir::Value value,
                                 mlir::FlatSymbolRefAttr mesh, const dist::Layout &layout);

  mlir::LogicalResult update();

  /// Writes what the forward graph writes, as the last microbatch has it whose forward the graph does.
  mlir::LogicalResult writeForwardState();

  /// The learning rate of the step behind `count` others, an f64 scalar, from numbers that a run can change.
  llvm::FailureOr<mlir::Value> addLearningRate(mlir::Value count, mlir::FlatSymbolRefAttr mesh);

  /// The number of steps done, and what the optimizer derives from it.
  llvm::FailureOr<StepScalars> countStep(mlir::FlatSymbolRefAttr mesh);

  /// Scales the gradients down where they are too large together. Each operator stands where its first operand does.
  mlir::LogicalResult clip(llvm::ArrayRef<Parameter *> trained, llvm::SmallVector<mlir::Value> &gradients);

  mlir::LogicalResult updateParameter(Parameter &parameter, mlir::Value gradient, const StepScalars &scalars);

  /// Gives out the mean of the losses, and the sums of all else.
  mlir::LogicalResult finish();

  dfg::GraphOp forward;
  mlir::ModuleOp module;
  const TrainingOptions &options;
  const StepPart part;
  CarriedValues &carried;
  std::vector<Stage> stages;
  GradientPlaces places;
  CreatedRecorder recorder;
  mlir::OpBuilder builder;
  dfg::GraphOp step;
  mlir::Block *body = nullptr;
  /// Values of the forward graph that depend on what is trained.
  llvm::DenseSet<mlir::Value> active;
  llvm::MapVector<mlir::Attribute, Parameter> parameters;
  ChangedParameters changed;
  /// The step's, and the one that a pipeline which does not drain begins.
  Batch batches[2];
  /// By stage: the microbatches of a batch whose forward the step before does.
  std::vector<unsigned> numAhead;
  /// By stage: the microbatch whose backward task is the last one.
  std::vector<unsigned> lastBackward;
  /// Of values of the forward graph that addsUp(): their cotangents so far.
  llvm::DenseMap<mlir::Value, GradientSums> wholeCotangents;
  /// By operator of the forward graph.
  llvm::DenseMap<mlir::Operation *, unsigned> stageOf;
  /// By name: the reads of what the step before left.
  llvm::StringMap<mlir::Value> carriedReads;
  /// Values of the forward graph that depend on inputs or on what it writes: each batch has its own.
  llvm::DenseSet<mlir::Value> ofBatch;
  /// Operators of the forward graph that shareLoss has written for all microbatches.
  llvm::SetVector<mlir::Operation *> counted;
  /// The writes of the forward graph, by parameter.
  llvm::DenseMap<mlir::Attribute, mlir::Operation *> writers;
  /// By operator of the forward graph: the one from which the backward task at hand computes its gradient.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> used;
  /// Operators of the forward graph whose results are kept in no host's memory.
  llvm::DenseSet<mlir::Operation *> unmoved;
  /// Of the backward task at hand: the operators of the step whose results are kept in the host's memory, and what is
  /// fetched of these.
  llvm::DenseSet<mlir::Operation *> makers;
  llvm::DenseMap<mlir::Value, mlir::Value> fetched;
  /// By value of the forward graph: terms of its cotangent that the backward task at hand has not added yet.
  llvm::MapVector<mlir::Value, llvm::SmallVector<mlir::Value>> apart;
  /// What the backward task at hand made.
  llvm::SmallVector<mlir::Operation *> taskOperators;
  dist::PlaceAttr lastPlace;
  int64_t barriers = 0;
  /// By mesh.
  llvm::DenseMap<mlir::Attribute, Gathered> gathers;
  /// From what shows a shared parameter, the read or a barrier in front of it, to the read.
  llvm::DenseMap<mlir::Value, mlir::Value> shownReads;
};

} // namespace cleave

#endif // CLEAVE_PASSES_TRAIN_STEPWRITER_H
