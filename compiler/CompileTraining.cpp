// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What training adds to compilation: the loss before operators are placed, the size of microbatches, the step and the
// evaluation after it.

#include "compiler/ModelCompiler.h"
#include "compiler/PlanSettings.h"
#include "compiler/StageState.h"

#include "dialects/dist/Dist.h"
#include "dialects/dist/KeyExchange.h"
#include "dialects/interfaces/Interfaces.h"
#include "passes/distribute/Passes.h"
#include "passes/distribute/SharesExpander.h"
#include "passes/graph/Passes.h"
#include "passes/import/SamplePositions.h"
#include "passes/planner/search/Keeping.h"
#include "passes/train/Dropout.h"
#include "passes/train/Evaluation.h"
#include "passes/train/Loss.h"
#include "passes/train/MixedPrecision.h"
#include "passes/train/ParameterHomes.h"
#include "passes/train/TrainingOperators.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace cleave {

/// Options of training steps make sense with one alone.
Error ModelCompiler::checkTrainingOptions() const {
  const TargetOptions &target = request.target, defaults;
  if (!target.loss.empty() && !target.train)
    return makeError(Status::Usage, "--loss expects --train");
  if (auto microbatches = readMicrobatches(); !microbatches)
    return microbatches.error();
  if (target.optimizer != defaults.optimizer && !target.train)
    return makeError(Status::Usage, "--optimizer expects --train");
  if (!onlyPlans() && target.elementType == "f16")
    return makeError(Status::Unsupported, "--dtype f16 is for plans of training that do not run, with --train and "
                                          "without --loss; take bf16, whose range is that of f32");
  for (auto [flag, isGiven] : {std::pair("--optimizer-options", !target.optimizerOptions.empty()),
                               {"--learning-rate", target.learningRate != 0},
                               {"--lr-schedule", target.rateSchedule != defaults.rateSchedule},
                               {"--clip-norm", target.clipNorm != 0},
                               {"--buckets", !target.buckets.empty()},
                               {"--batch-norm", target.batchNorm != defaults.batchNorm},
                               {"--no-dropout", target.noDropout},
                               {"--sync", !target.sync.empty()},
                               {"--seed", target.seed != defaults.seed}})
    if (isGiven && !trains())
      return makeError(Status::Usage, flag, " expects --train and --loss");
  if (auto schedule = pipeline::findSchedule(target.schedule);
      schedule && !schedule->drains() && !target.buckets.empty())
    return makeError(Status::Usage, "--buckets expects a --schedule whose steps end before the next one begins, got ",
                     target.schedule);
  return Error::success();
}

/// The size of dimension 0; nothing of a tensor of rank 0.
static std::optional<int64_t> outermost(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return type.getRank() > 0 ? std::optional(type.getDimSize(0)) : std::nullopt;
}

/// The size of dimension 0 of the graph's first input; nothing where it has none.
static std::optional<int64_t> samplesOf(dfg::GraphOp graph) {
  return graph.getArgumentTypes().empty() ? std::nullopt : outermost(graph.getArgumentTypes().front());
}

dfg::GraphOp graphOf(ModuleOp module) { return cast<dfg::GraphOp>(findGraph(module)); }

Error ModelCompiler::addTrainedLoss() {
  const TargetOptions &target = request.target;
  if (!trains())
    return Error::success();
  auto loss = parseLoss(target.loss);
  if (!loss)
    return fromLlvm(Status::Usage, loss.takeError());
  if (buckets && loss->kind != LossKind::CrossEntropy)
    return makeError(Status::Usage, "--buckets expects --loss cross-entropy, whose labels say what is padding; got \"",
                     target.loss, "\"");
  if (buckets && !loss->ignoreIndex)
    loss->ignoreIndex = -1;
  if (Error error = readTraining())
    return error;
  std::optional<int64_t> samples = samplesOf(graphOf(*module));
  if (!samples)
    return makeError(Status::Failure,
                     "training expects a model whose inputs have their samples in dimension 0, got one "
                     "without such an input");
  // A loss of the model's own is a mean over samples.
  if (*samples > 1 && loss->kind != LossKind::Output)
    if (Operation *op = findMixing(graphOf(*module), *samples))
      mixingNode = ("\"" + dfg::getNodeName(op->getLoc()) + "\" (" + dfg::getNodeKind(op->getLoc()) + ")").str();
  if (failed(addLoss(graphOf(*module), *loss)))
    return alreadySaid(Status::Usage);
  return checkBucketLabels(graphOf(*module));
}

Error ModelCompiler::readTraining() {
  const TargetOptions &target = request.target;
  auto optimizer = parseOptimizer(target.optimizer, target.optimizerOptions);
  if (!optimizer)
    return fromLlvm(Status::Usage, optimizer.takeError());
  auto rate = RateSchedule::parse(target.rateSchedule,
                                  target.learningRate ? target.learningRate : optimizer->learningRate.rate);
  if (!rate)
    return rate.error();
  training = TrainingOptions();
  training.optimizer = *optimizer;
  training.optimizer.learningRate = *rate;
  training.clipNorm = target.clipNorm;
  if (target.schedule != "auto")
    training.schedule = *pipeline::findSchedule(target.schedule);
  if (target.recompute != "auto")
    training.kept = *findKept(target.recompute);
  if (target.zero != "auto")
    training.zero = static_cast<unsigned>(target.zero[0] - '0');
  training.optimizerInHost = target.optimizerMemory == "host";
  auto microbatches = readMicrobatches();
  if (!microbatches)
    return microbatches.error();
  training.microbatches = static_cast<unsigned>(microbatches->value_or(1));
  // The search was told what was given, and says the rest.
  return takeStageOptions();
}

/// Lets the import know of a batch that is given. The search scales what it costs from two samples; a step has
/// microbatches, whose number is not known yet.
Error ModelCompiler::readBatch() {
  const TargetOptions &target = request.target;
  if (target.batch == 0)
    return Error::success();
  if (!target.batches.empty() || target.maxBatch != 0)
    return makeError(Status::Usage, "--batch gives one batch, ", target.maxBatch ? "--max-batch" : "--batches",
                     " several; leave one out");
  constexpr int64_t scaled = 2;
  if (target.train)
    model.openSamples = scaled;
  else
    model.samples = target.batch;
  return Error::success();
}

/// Where a batch took the place of the model's, each sample is to be computed from itself alone.
Error ModelCompiler::checkBatch() {
  // Microbatches are checked as the batch was.
  bool isMicrobatch = trains() && model.samples;
  if (importReport.samples && !isMicrobatch && failed(checkSamples(graphOf(*module), *importReport.samples)))
    return alreadySaid(Status::Failure);
  return Error::success();
}

Error ModelCompiler::checkDims() const {
  // A training step is imported with its microbatches, whatever batch was given.
  if (!model.samples || request.target.train || importReport.samplesDim.empty())
    return Error::success();
  const TargetOptions &target = request.target;
  const char *flag = target.maxBatch ? "--max-batch" : target.batch ? "--batch" : "--batches";
  for (const std::string &dim : model.dims)
    if (StringRef(dim).starts_with(importReport.samplesDim + "="))
      return makeError(Status::Usage, flag, " gives dimension \"", importReport.samplesDim,
                       "\" its size, so does --dim ", dim, "; leave one out");
  return Error::success();
}

/// Imports the model again, with so many samples.
Error ModelCompiler::resample(int64_t samples) {
  if (samplesOf(graphOf(*module)) == samples)
    return Error::success();
  if (!mixingNode.empty())
    result.mixing = "node " + mixingNode + " takes the samples of a batch together; in training it takes those of a " +
                    "microbatch, of which there are " + std::to_string(samples);
  if (isBorrowed)
    return makeError(Status::Unsupported, "the model has to be imported with ", samples,
                     " samples, those of a microbatch; go on from a dump after place");
  dfg::GraphOp whole = graphOf(*module);
  int64_t declared = *samplesOf(whole);
  unsigned numInputs = whole.getNumArguments();
  bool haveSamples = numInputs != 0 && outermost(whole.getArgumentTypes().back()) == declared;
  std::string remedy = "the model was read for the " + std::to_string(samples) +
                       " samples of a microbatch in place of its batch of " + std::to_string(declared) +
                       "; export it with a symbolic batch or a single sample, or give --microbatches 1";
  model.samples = samples;
  Error error = import();
  if (!error)
    error = simplify();
  if (!error)
    error = addTrainedLoss();
  if (error) {
    messages.note(remedy);
    return error;
  }
  // Labels are as many as the results that the loss is of: too many where the model holds values for each place in its
  // batch, which are broadcast to all of them.
  dfg::GraphOp graph = graphOf(*module);
  if (haveSamples && graph.getNumArguments() == numInputs && outermost(graph.getArgumentTypes().back()) == declared)
    return makeError(Status::Unsupported, "input \"", graph.getInputName(numInputs - 1).str(), "\" has ", declared,
                     " samples for any batch, for the model holds values of its own for each of them; ", remedy);
  return Error::success();
}

/// The microbatches of the step, unless the search chooses them.
Error ModelCompiler::chooseMicrobatches(bool searches) {
  auto given = readMicrobatches();
  if (!given)
    return given.error();
  batch = request.target.batch ? request.target.batch : *samplesOf(graphOf(*module));
  if (batch % replicas != 0)
    return makeError(Status::Usage, "--batch expects a multiple of the ", replicas, " replicas, got ", batch);
  batch /= replicas;
  int64_t microbatches = given->value_or(1);
  if (batch % microbatches != 0 && !(searches && onlyPlans()))
    return makeError(Status::Usage, "--microbatches expects a divisor of the batch of ", batch, " samples, got ",
                     microbatches);
  // The search says how many, and knows what smaller ones cost.
  if (searches)
    return Error::success();
  return resample(batch / microbatches);
}

/// The names of an operator's factors; none of one that has no rule.
static SmallVector<std::string> factorNames(Operation *op) {
  auto splittable = dyn_cast<SplitInterface>(op);
  return splittable ? llvm::map_to_vector(splittable.getSplitRule().factors, [](const Factor &f) { return f.name; })
                    : SmallVector<std::string>();
}

/// Gives a graph the places of one of the same model with another number of samples. Most operators are the same; a
/// node may be of others, as a dimension of one sample need not be broadcast, and is no batch of a product: they are
/// where the node's others are, or else with what they read, and not split.
static void copyPlaces(ModuleOp from, ModuleOp to) {
  std::map<std::pair<StringRef, StringRef>, SmallVector<Operation *>> placed; // by node and kind, the first one last
  std::map<StringRef, dist::PlaceAttr> ofNode;
  auto keyOf = [](Operation &op) { return std::pair(dfg::getNodeName(op.getLoc()), op.getName().getStringRef()); };
  for (Operation &op : llvm::reverse(graphOf(from).getBody().front())) {
    placed[keyOf(op)].push_back(&op);
    if (dist::PlaceAttr place = dist::getPlace(&op))
      ofNode[dfg::getNodeName(op.getLoc())] = place;
  }
  for (Operation &op : graphOf(to).getBody().front()) {
    SmallVector<Operation *> &alike = placed[keyOf(op)];
    Operation *same = alike.empty() ? nullptr : alike.pop_back_val();
    dist::PlaceAttr place = same ? dist::getPlace(same) : ofNode[dfg::getNodeName(op.getLoc())];
    if (!same && !place)
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && !place)
          place = dist::getPlace(producer);
    if (place && (!same || factorNames(same) != factorNames(&op)))
      place = dist::PlaceAttr::get(op.getContext(), place.getMesh(), place.getBy(), dist::SplitAttr());
    if (place)
      op.setAttr(dist::placeAttrName, place);
    if (dist::RecomputeAttr again = same ? dist::getRecompute(same) : dist::RecomputeAttr())
      op.setAttr(dist::recomputeAttrName, again);
    if (auto keys = same ? dist::getKeyExchange(same) : std::nullopt)
      dist::setKeyExchange(&op, *keys);
  }
  dist::copyTarget(from, to);
}

Error ModelCompiler::takeStageOptions() {
  auto report = getReport(*module);
  if (failed(report))
    return alreadySaid(Status::Rejected);
  if (!*report)
    return Error::success();
  const runtime::Prediction &found = (*report)->prediction;
  training.microbatches = std::max(found.microbatches, 1u);
  if (auto schedule = pipeline::findSchedule(found.schedule))
    training.schedule = *schedule;
  for (auto [stage, mesh] : llvm::zip(found.stages, (*report)->stageMeshes)) {
    auto segments = search::parseRecompute(stage.recompute);
    if (!segments)
      return makeError(Status::Rejected, "the module's attribute ", reportAttrName.str(),
                       " has a stage that recomputes \"", stage.recompute, "\"");
    // Where segments differ, their operators say what they do.
    auto ofAll = segments->size() == 1 ? findKept(stage.recompute) : std::nullopt;
    training.byMesh[mesh] = {ofAll.value_or(KeptActivations::All), stage.zero, stage.optimizerInHost};
  }
  return Error::success();
}

Error ModelCompiler::placeDecidedHomes() {
  auto optimizer = parseOptimizer(request.target.optimizer, request.target.optimizerOptions);
  if (!optimizer)
    return fromLlvm(Status::Usage, optimizer.takeError());
  training.optimizer = *optimizer;
  if (Error error = takeStageOptions())
    return error;
  return succeeded(placeHomes(graphOf(*module), training)) ? Error::success() : alreadySaid(Status::Failure);
}

/// Takes over what the search decided about the step.
Error ModelCompiler::followSearch() {
  int64_t samples = batch / result.report->prediction.microbatches;
  if (samplesOf(graphOf(*module)) == samples)
    return Error::success();
  OwningOpRef<ModuleOp> placed = module->clone();
  if (Error error = resample(samples))
    return error;
  copyPlaces(*placed, *module);
  return Error::success();
}

/// Says of what the step adds to the model's nodes in which stage it is.
void ModelCompiler::reportStages(dfg::GraphOp step) {
  if (!result.report)
    return;
  for (Operation &op : step.getBody().front())
    if (dist::PlaceAttr place = dist::getPlace(&op)) {
      auto mesh = llvm::find(result.report->stageMeshes, place.getMesh().getValue());
      auto [node, isNew] = result.report->operators.try_emplace(dfg::getNodeName(op.getLoc()));
      if (isNew && mesh != result.report->stageMeshes.end())
        node->second.stage = static_cast<uint32_t>(mesh - result.report->stageMeshes.begin());
    }
}

/// Lets the graph compute in bfloat16, if that was asked for.
Error ModelCompiler::narrow(dfg::GraphOp graph) {
  if (onlyPlans() || request.target.elementType == "f32")
    return Error::success();
  return succeeded(narrowArithmetic(graph)) ? Error::success() : alreadySaid(Status::Internal);
}

/// Lets sums of a graph that computes in bfloat16 be f32 where they are read so.
Error ModelCompiler::widen(dfg::GraphOp graph) {
  if (onlyPlans() || request.target.elementType == "f32")
    return Error::success();
  return succeeded(widenSums(graph)) ? Error::success() : alreadySaid(Status::Internal);
}

Error ModelCompiler::makeStep(StringRef stepName, StringRef evaluationName) {
  const TargetOptions &target = request.target;
  dfg::GraphOp forward = graphOf(*module);
  dfg::GraphOp evaluated = forward.clone();
  evaluated.setSymName(evaluateGraphName);
  removeDropout(evaluated);
  module->push_back(evaluated);
  evaluated->setAttr(dfg::samplesAttrName, Builder(context).getI64IntegerAttr(*samplesOf(evaluated)));
  // Before batch normalization and dropout are taken apart: they know what of them is a sum.
  for (dfg::GraphOp graph : {forward, evaluated})
    if (Error error = narrow(graph))
      return error;
  TrainingOperatorOptions operators{*findStatistics(target.batchNorm), !target.noDropout, target.seed,
                                    target.batchNormGroups};
  normGroups.clear();
  if (failed(replaceTrainingOperators(forward, operators, &normGroups)))
    return alreadySaid(Status::Unsupported);
  // Behind what computes statistics over a batch: they are of all its shares.
  if (Error error = expandShares())
    return error;
  // Local steps are whole; else the gradients of all replicas are one step's.
  training.replicas = sync && sync->localSteps == 0 ? replicas : 1;
  // A version for each replica's gradients makes as many steps of the optimizer.
  if (training.replicas > 1 && sync->bound != 0u)
    training.optimizer.learningRate = training.optimizer.learningRate.stretched(replicas);
  ChangedParameters changed;
  auto step = buildTrainingStep(forward, training, &changed);
  if (failed(step))
    return alreadySaid(Status::Unsupported);
  shareParameters(evaluated, *step);
  if (Error error = partStep(*step, changed))
    return error;
  for (dfg::GraphOp graph : module->getOps<dfg::GraphOp>())
    if (Error error = widen(graph))
      return error;
  step->setSymName(stepName);
  evaluated.setSymName(evaluationName);
  reportStages(*step);
  return Error::success();
}

Error ModelCompiler::expandShares() {
  if (llvm::none_of(module->getOps<dist::MeshOp>(), [](dist::MeshOp mesh) { return mesh.getAxisSharesAttr(); }))
    return Error::success();
  // First what can be cut only once it is taken apart.
  PassManager manager(context, ModuleOp::getOperationName());
  manager.addPass(createDecomposeSplitPass());
  // What was chosen for a mesh, its parts do.
  auto onIsland = [&](FlatSymbolRefAttr mesh, FlatSymbolRefAttr island) {
    if (auto chosen = training.byMesh.find(mesh.getValue()); chosen != training.byMesh.end())
      training.byMesh[island.getValue()] = StageOptions(chosen->second);
  };
  SharedPorts ports = trains() ? SharedPorts::Whole : SharedPorts::InParts;
  if (failed(manager.run(*module)) || failed(cleave::expandShares(*module, ports, onIsland)))
    return alreadySaid(Status::Unsupported);
  return Error::success();
}

TargetOptions ModelCompiler::chosenOptions() const {
  TargetOptions chosen = request.target;
  if (!trains())
    return chosen;
  // Steps have their whole batch, evaluations a microbatch.
  for (dfg::GraphOp graph : module.get().getOps<dfg::GraphOp>())
    if (graph.getSymName().starts_with(evaluateGraphName)) {
      chosen.batch = *samplesOf(graph) * training.microbatches * replicas;
      break;
    }
  chosen.replicas = sync ? replicas : 0;
  chosen.microbatches = std::to_string(training.microbatches);
  chosen.batchNormGroups = normGroups;
  return chosen;
}

Error ModelCompiler::train() {
  // Stages after this one show the model as it was placed.
  bool isLast = request.lastStage.empty() || request.lastStage == "train";
  Error failed = onlyPlans() && isLast ? placeDecidedHomes() : makeEntries();
  if (failed)
    return failed;
  setSettings(*module, settingsOf(request.model, chosenOptions()));
  return Error::success();
}

Error ModelCompiler::makeEntries() {
  if (buckets && buckets->areBatches())
    return makeBuckets();
  if (!trains()) {
    if (Error error = narrow(graphOf(*module)))
      return error;
    if (Error error = widen(graphOf(*module)))
      return error;
    return expandShares();
  }
  if (Error error = readTraining())
    return error;
  if (Error error = buckets ? makeBuckets() : makeStep(trainGraphName, evaluateGraphName))
    return error;
  setStep(*module, {training.microbatches, std::string(training.schedule->name)});
  if (result.report)
    setReport(*module, *result.report);
  // What has a place is not folded: new operators would have none.
  return runStage("train", [](OpPassManager &manager) {
    manager.nest<dfg::GraphOp>().addPass(createCSEPass());
    manager.addPass(createRemoveUnusedParametersPass());
  });
}

} // namespace cleave
