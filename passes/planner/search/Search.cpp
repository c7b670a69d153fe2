// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a request means for the search across stages, the splits of the plan found once more, and what is said about it.

#include "passes/planner/search/Search.h"

#include "passes/planner/search/AxisFactors.h"
#include "passes/planner/search/LeastCosts.h"
#include "passes/planner/search/Searcher.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <set>

namespace cleave::search {

Searcher::Searcher(const SearchGraph &graph, const Machine &machine, const SearchRequest &request, bool sharesDevices,
                   const DevicesToTry &devices)
    : graph(graph), machine(machine), request(request), sharesDevices(sharesDevices), available(devices.devices),
      busy(joined(available, devicesOf(request.pinned))), topology(machine), sharing(machine),
      intervals(graph, request.fixed),
      runs(findRuns(machine, available, request.pinned, sharesDevices, devices.asOneKind)) {
  for (const Run &run : runs) {
    operatorCosts.push_back(std::make_unique<OperatorCost>(machine, run.devices, request.elementType));
    sizesOnAllGrids.push_back(stageSizes(run));
    memories.push_back(leastMemory(run));
    hostRooms.push_back(leastHostRoom(run));
    offloadsOfRuns.push_back(offloadOf(run, hostRooms.back()));
  }
  begin = std::clock();
  hidden = hiddenCost(runs.front());
  memoryBinds = memoryMayBind();
  sumState();
  findPinnedLayers();
  findRepeatedLayers();
}

Searcher::~Searcher() = default;

//===-- names -------------------------------------------------------------------------------------------------===//

std::vector<double> FoundPlan::deviceBytes() const {
  std::vector<double> kept, transient;
  for (const FoundStage &stage : stages)
    for (unsigned device : stage.devices) {
      kept.resize(std::max<size_t>(kept.size(), device + 1), 0.0);
      transient.resize(kept.size(), 0.0);
      kept[device] += stage.bytes() - stage.transient;
      transient[device] = std::max(transient[device], stage.transient);
    }
  for (auto [bytes, more] : llvm::zip_equal(kept, transient))
    bytes += more;
  return kept;
}

double FoundPlan::peakBytes() const {
  std::vector<double> bytes = deviceBytes();
  return bytes.empty() ? 0 : *llvm::max_element(bytes);
}

static constexpr std::pair<Keys, llvm::StringLiteral> keysNames[] = {
    {Keys::Auto, "auto"}, {Keys::Ring, "ring"}, {Keys::Gather, "gather"}};

std::optional<Keys> findKeys(llvm::StringRef name) {
  auto found = llvm::find_if(keysNames, [&](auto &entry) { return entry.second == name; });
  return found == std::end(keysNames) ? std::nullopt : std::optional(found->first);
}

//===-- the search --------------------------------------------------------------------------------------------===//

std::optional<SearchFailure> Searcher::checkRequest() const {
  auto refuse = [](std::string message) { return SearchFailure{false, std::move(message)}; };
  auto count = static_cast<int64_t>(machine.devices.size());
  const Degrees &degrees = request.degrees;
  int64_t product = request.pinned.empty() ? degrees.pipeline.value_or(1) : 1;
  for (std::optional<int64_t> degree : {degrees.data, degrees.model, degrees.sequence, degrees.expert})
    product *= degree.value_or(1);
  if (product > count)
    return SearchFailure{true, llvm::formatv("--degrees expects at most the {0} devices of machine \"{1}\", got {2}",
                                             count, machine.name, product)};
  auto needsPlaces = [&](llvm::StringRef who, int64_t parts) {
    return refuse(
        llvm::formatv("{0} expects a mixture whose experts have places for tokens, got expert={1} for a model "
                      "without; give --expert-capacity where it has experts",
                      who, parts));
  };
  if (degrees.expert.value_or(1) > 1 && !graph.hasExperts)
    return needsPlaces("--degrees", *degrees.expert);
  for (const MeshSpec &mesh : request.pinned)
    for (const MeshAxis &axis : mesh.axes)
      if (mesh.axesAreDegrees && axis.name == expertAxis && axis.size > 1 && !graph.hasExperts)
        return needsPlaces("mesh \"" + mesh.name + "\"", axis.size);
  if (request.training && !graph.singleSample.empty() && graph.batch == 1)
    return refuse(llvm::formatv("--train expects a batch of two samples or more to scale, got input \"{0}\" with a "
                                "single one; give --batch, or a module with more",
                                graph.singleSample.front()));
  if (request.training && request.microbatches && *request.microbatches > batch())
    return refuse(
        llvm::formatv("--microbatches expects at most the batch of {0}, got {1}", batch(), *request.microbatches));
  if (request.training && request.microbatches && !request.unequalMicrobatches && batch() % *request.microbatches != 0)
    return refuse(
        llvm::formatv("--microbatches expects a divisor of the batch of {0}, got {1}", batch(), *request.microbatches));
  if (request.solver.method == solver::Method::Ilp && !solver::hasIlp())
    return refuse("--solver ilp expects a build with CBC, which this one is not; take elimination");
  return std::nullopt;
}

stages::StageProblem Searcher::problemOf(int64_t microbatches) const {
  std::vector<ScheduleChoice> choices = schedules(microbatches);
  return problemOf(microbatches, choices.empty() ? ScheduleChoice() : choices.front());
}

stages::StageProblem Searcher::problemOf(int64_t microbatches, ScheduleChoice choice) const {
  stages::StageProblem problem;
  problem.numLayers = intervals.numLayers();
  problem.microbatches = microbatches;
  problem.lastMicrobatch = fullMicrobatches(microbatches) - static_cast<double>(microbatches - 1);
  problem.training = request.training;
  problem.schedule = choice.schedule;
  problem.chunks = choice.chunks;
  problem.cuts = cutsFor(choice);
  problem.sharesDevices = sharesDevices;
  const Degrees &degrees = request.degrees;
  if (degrees.pipeline)
    problem.numStages = *degrees.pipeline;
  for (unsigned kind = 0; kind != runs.size(); ++kind) {
    stages::DeviceRun run;
    run.count = runs[kind].count();
    run.reserved = runs[kind].pin != none;
    run.kind = kind;
    run.memory = memoryOf(kind);
    run.hostSize = evenHostSize(machine, runs[kind]);
    std::vector<unsigned> sizes = stageSizes(runs[kind]);
    if (request.training)
      for (unsigned size : evenSizes(runs[kind], intervals.numLayers()))
        sizes.push_back(size);
    llvm::sort(sizes);
    sizes.erase(llvm::unique(sizes), sizes.end());
    run.stageSizes = std::move(sizes);
    if (!run.reserved && (degrees.data || degrees.model || degrees.sequence || degrees.expert))
      run.stageSizes = {static_cast<unsigned>(degrees.data.value_or(1) * degrees.model.value_or(1) *
                                              degrees.sequence.value_or(1) * degrees.expert.value_or(1))};
    llvm::erase_if(run.stageSizes, [&](unsigned size) { return size > run.count; });
    if (degrees.any() && !degrees.pipeline && request.pinned.empty())
      problem.numStages = 1;
    problem.runs.push_back(std::move(run));
  }
  return problem;
}

/// What an axis is called that cuts this factor: of a product with weights by whether they have it or the data alone,
/// which other operators do not tell; none for these.
static llvm::StringRef axisNameOf(const Operator &op, unsigned factor) {
  if (factor == op.batch)
    return dataAxis;
  bool hasWeights = llvm::any_of(op.operands, [](const Operand &operand) { return operand.parameter != none; });
  FactorOwners owners = ownersOf(op, factor);
  if (op.cost.costClass != CostClass::Contraction || !hasWeights)
    return "";
  // Experts are several products, or a sum over matrices of which the data knows nothing. A convolution has a set of
  // weights for each of its groups, too, but these are channels.
  bool isParallel = op.rule.factors[factor].kind == FactorKind::Parallel;
  if (owners.weights)
    return owners.data == isParallel && !op.slides ? expertAxis : modelAxis;
  return op.slides ? spaceAxis : sequenceAxis;
}

/// Names of axes: those of the degrees, else by what most work is cut along.
static std::vector<MeshAxis> nameAxes(const Shape &shape, const SearchGraph &graph, const FoundPlan &plan,
                                      const FoundStage &stage) {
  std::vector<MeshAxis> axes;
  std::set<std::string> used;
  for (unsigned axis = 0; axis != shape.sizes.size(); ++axis) {
    std::map<llvm::StringRef, double> work;
    double others = 0;
    for (unsigned index = stage.first; index != stage.last; ++index) {
      unsigned factor = stage.factors[index - stage.first][axis];
      if (factor == none)
        continue;
      const Operator &op = graph.operators[plan.operatorAt(index)];
      llvm::StringRef name = axisNameOf(op, factor);
      (name.empty() ? others : work[name]) += op.cost.flops;
    }
    // Where no product with weights is cut but along the batch, what else is cut counts, too.
    if (work.size() == work.count(dataAxis))
      work[modelAxis] = others;
    llvm::StringRef most = dataAxis;
    for (auto [name, flops] : work)
      if (flops > work[most])
        most = name;
    std::string name = axis < shape.names.size() ? shape.names[axis] : most.str();
    if (!used.insert(name).second)
      name += "2";
    used.insert(name);
    axes.push_back({name, shape.sizes[axis]});
  }
  return axes;
}

/// Describes the splits of a plan's stage, and what they amount to.
void Searcher::setSplits(const FoundPlan &plan, FoundStage &stage, const stages::Stage &from, const Choice &choice,
                         const IntervalSums &sums, const Recomputation &again, const PieceChoices &splits) {
  stage.factors = intervals.factors(choice.first, choice.last, choice.setting, splits);
  stage.keys = intervals.keys(choice.first, choice.last, choice.setting, splits);
  stage.axes = nameAxes(shapesOf(choice.kind, choice.devices)[choice.shape], graph, plan, stage);
  stage.forward = from.option.forward;
  stage.backward = from.option.backward;
  stage.backwardWeights = from.option.backwardWeight;
  stage.exchange = sums.forwardExchange + sums.backwardExchange;
  stage.perStep = from.option.perStep;
  stage.inFlight = from.inFlight;
  stage.parameters = choice.zero >= 3 ? sums.parametersShared : sums.parameters;
  stage.gradients = choice.zero >= 2 ? sums.gradientsShared : sums.gradients;
  stage.optimizer = choice.zero >= 1 ? sums.optimizerShared : sums.optimizer;
  stage.activations = from.inFlight * from.option.microbatchBytes;
  stage.inHost = from.inFlight * again.offloaded + sums.hostBytes(choice.zero);
  stage.optimizerInHost = sums.inHost > 0;
  stage.transient = sums.transient + again.transient + machine.executor.memory;
}

FoundPlan Searcher::describe(const stages::StagePlan &plan, int64_t microbatches, ScheduleChoice schedule) {
  FoundPlan found;
  describedChoices.clear();
  found.microbatches = microbatches;
  found.schedule = schedule.schedule;
  found.chunks = schedule.chunks;
  found.order = orderOf(plan, schedule);
  found.seconds = plan.seconds;
  found.modelFlops = graph.flops() * batchScale() * (request.training ? 3 : 1);
  stages::StageProblem problem = problemOf(microbatches, schedule);
  auto positionOf = [&](unsigned layer) { return operatorsBefore(layer) - operatorsBefore(plan.stages.front().first); };
  for (unsigned index = 0; index != plan.stages.size(); ++index) {
    const stages::Stage &from = plan.stages[index];
    Choice choice = choices[from.option.id];
    // Options are shared by intervals of one class.
    choice.first = from.first;
    choice.last = from.last;
    describedChoices.push_back(choice);
    FoundStage &stage = found.stages.emplace_back();
    stage.first = positionOf(from.first);
    stage.last = positionOf(from.last);
    auto devices = llvm::ArrayRef(runs[from.run].devices).slice(from.firstDevice, from.devices);
    stage.devices.assign(devices.begin(), devices.end());
    stage.pin = runs[from.run].pin;
    stage.recompute = recomputeOf(choice);
    llvm::SmallVector<unsigned> cuts = intervals.cutsOf(choice.first, choice.last);
    for (unsigned cut : llvm::drop_begin(cuts))
      stage.segmentEnds.push_back(positionOf(cut));
    stage.zero = choice.zero;
    const IntervalSums &sums = *intervals.best(choice.first, choice.last, choice.setting, choice.weights);
    setSplits(found, stage, from, choice, sums, recomputationOf(sums, choice),
              intervals.choicesOf(choice.first, choice.last, choice.setting, choice.weights));
    auto sendSecondsTo = [&](unsigned at, size_t to) {
      const stages::Stage &stage = plan.stages[to];
      return Costs(*this, microbatches).transferSeconds(at, stage.run, stage.devices, problem.hopTo(plan.stages, to));
    };
    if (index + 1 != plan.stages.size())
      stage.send = sendSecondsTo(from.last, index + 1);
    else if (schedule.schedule->chunkOrder == pipeline::ChunkOrder::Turns && index != 0)
      stage.send = found.stages[index - 1].send;
    else if (schedule.schedule.numEntries(/*isFirstStage=*/true, schedule.chunks) > 0)
      stage.send = sendSecondsTo(plan.stages.front().last, 0);
  }
  return found;
}

static std::string bytesText(double bytes) {
  constexpr double kib = 1024, mib = kib * kib, gib = kib * mib;
  if (bytes < mib)
    return llvm::formatv("{0:f1} KiB", bytes / kib);
  if (bytes < gib)
    return llvm::formatv("{0:f2} MiB", bytes / mib);
  return llvm::formatv("{0:f2} GiB", bytes / gib);
}

/// A stage of the best plan with its splits so far.
RefineRequest Searcher::refineRequestOf(unsigned stage) {
  const Choice &choice = bestChoices[stage];
  RefineRequest refining;
  refining.pieces = intervals.piecesOf(choice.first, choice.last, choice.setting);
  refining.choices = bestSplits[stage];
  refining.optionOf = [this, choice](const IntervalSums &sums, const Recomputation &again) {
    return optionOf(sums, again, choice);
  };
  refining.recompute = recomputeOf(choice);
  refining.weights = choice.weights;
  refining.microbatches = fullMicrobatches(best->microbatches);
  refining.inFlight = bestPlan.stages[stage].inFlight;
  refining.memoryLimit = memoryOf(choice.kind);
  refining.solver = request.solver;
  return refining;
}

/// Whether the search across stages saw a stage's splits as they count in the end: memory for nothing, no activations
/// computed again, no state shared.
static bool isExact(const Choice &choice) {
  return choice.weights.secondsPerByte == 0 && !choice.weights.ringsOnly && !choice.byPiece &&
         choice.recompute == Recompute::None && choice.zero == 0;
}

/// Solves the splits of stages as one problem each, where that was asked for by a method, or where others may be better
/// than those that the search across stages saw.
std::optional<SearchFailure> Searcher::refineStages() {
  for (const Choice &choice : bestChoices)
    bestSplits.push_back(intervals.choicesOf(choice.first, choice.last, choice.setting, choice.weights));
  bool byMethod = request.solver.method != solver::Method::Elimination;
  Costs costs(*this, best->microbatches);
  stages::StageProblem problem = problemOf(best->microbatches, {best->schedule, best->chunks});
  for (unsigned index = 0; index != bestChoices.size(); ++index) {
    const Choice &choice = bestChoices[index];
    if (!byMethod && isExact(choice))
      continue;
    Refined refined = refine(refineRequestOf(index));
    if (refined.isTooLarge && byMethod)
      return SearchFailure{false,
                           llvm::formatv("--solver {0} expects stages of at most {1:e0} combinations of splits, got "
                                         "{2:e1} in stage {3}; take elimination or ilp",
                                         solver::methodName(request.solver.method).data(), mostCombinations,
                                         refined.combinations, index)};
    if (refined.choices.empty())
      continue;
    stages::StagePlan plan = bestPlan;
    stages::Stage &stage = plan.stages[index];
    uint32_t id = stage.option.id;
    stage.option = optionOf(refined.sums, refined.again, choice);
    stage.option.id = id;
    plan.seconds = stages::stepSeconds(problem, costs, plan.stages);
    if (plan.seconds > bestPlan.seconds)
      continue;
    bestPlan = std::move(plan);
    best->seconds = bestPlan.seconds;
    setSplits(*best, best->stages[index], bestPlan.stages[index], choice, refined.sums, refined.again, refined.choices);
    bestSplits[index] = std::move(refined.choices);
  }
  return std::nullopt;
}

/// What is expected of every operator of the best plan.
void Searcher::addExpectations() {
  double longest = 0;
  for (const FoundStage &stage : best->stages)
    longest = std::max(longest, stage.forward + stage.backward);
  for (auto [stage, from, choice, splits] : llvm::zip_equal(best->stages, bestPlan.stages, bestChoices, bestSplits)) {
    double own = stage.forward + stage.backward;
    for (const Intervals::OperatorFacts &facts :
         intervals.facts(choice.first, choice.last, choice.setting, choice.weights, splits)) {
      OperatorExpectation &made = stage.operators.emplace_back();
      made.seconds = facts.time.seconds;
      made.exchange = facts.time.exchange;
      made.alternative = facts.alternative;
      double later = std::max(0.0, own + facts.more - longest) * static_cast<double>(best->microbatches - 1) *
                     from.option.steadySlowdown;
      made.alternativeSeconds = best->seconds + facts.more + later;
    }
  }
}

SearchFailure Searcher::infeasible() const {
  double limit = 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    limit = std::max(limit, memoryOf(kind));
  if (request.schedule && request.schedule->hasChunks() && (!std::isfinite(leastBytes) || leastBytes <= limit))
    return {true, llvm::formatv("no plan has --schedule {0}: the search expects a model of equal layers, two stages or "
                                "more with as many of these as chunks, and as many microbatches as stages; {1} layers "
                                "repeat",
                                (**request.schedule).name, repeated.count)};
  if (!std::isfinite(leastBytes) || leastBytes <= limit) {
    for (auto [mesh, layers] : llvm::zip_equal(request.pinned, pinnedLayers)) {
      size_t stated = mesh.keeping.bySegment.size(),
             segments = intervals.cutsOf(layers.first, layers.second).size() - 1;
      if (stated != 0 && stated != segments)
        return {true,
                llvm::formatv("no plan keeps to the placement file: a \"recompute\" is for {0} segments, and what is "
                              "pinned to device {1}{2} has {3}",
                              stated, mesh.devices.front(), mesh.devices.size() > 1 ? " and others" : "", segments)};
    }
    return {
        true,
        request.pinned.empty()
            ? "no plan fits the degrees: stages, devices and layers do not go together; give fewer of --degrees"
        : request.degrees.any()
            ? "no plan keeps to the placement file and the degrees: free some of its groups or splits, or give fewer "
              "of --degrees"
            : "no plan keeps to the placement file: free some of its groups or splits"};
  }
  double all = limit / request.memoryShare, needed = leastBytes + all - limit;
  limit = all;
  if (request.isDecided)
    return {true, llvm::formatv("the plan does not fit into the memory of machine \"{0}\": it needs {1} on its fullest "
                                "device, {2} more than the limit of {3}; compile the model for that machine",
                                machine.name, bytesText(needed), bytesText(needed - limit), bytesText(limit))};
  std::string message = llvm::formatv(
      "no plan fits into the memory: the best{0} needs {1} on its fullest device, {2} more than the limit of {3}",
      leastIsOfSome ? " looked at in --search-seconds" : "", bytesText(needed), bytesText(needed - limit),
      bytesText(limit));
  if (!request.training) {
    message += "; take more devices or a larger --memory";
  } else {
    message += "; take more devices, a larger --memory";
    if (request.microbatches || request.recompute || request.zero || request.degrees.any())
      message += ", free what --microbatches, --recompute, --zero or --degrees fix";
    message += request.elementType == "f32" ? ", a smaller --batch, or --dtype bf16" : ", or a smaller --batch";
  }
  return {true, message};
}

std::variant<FoundPlan, SearchFailure> Searcher::finish(double least) {
  if (std::optional<SearchFailure> failure = refineStages())
    return *failure;
  // As it was computed: a plan below it shows that the bound is wrong, and must.
  best->lowerBound = least;
  // Of the fullest device, where kinds differ.
  std::vector<double> bytes = best->deviceBytes();
  unsigned fullest = llvm::max_element(bytes) - bytes.begin();
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    if (llvm::is_contained(runs[kind].devices, fullest) && std::isfinite(memoryOf(kind)))
      best->memoryLimit = memoryOf(kind) / request.memoryShare;
  addExpectations();
  return std::move(*best);
}

/// Whether stages that share devices fit there together.
bool Searcher::hasMemory(const FoundPlan &plan) const {
  std::vector<double> bytes = plan.deviceBytes();
  bytes.resize(machine.devices.size(), 0.0);
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    for (unsigned device : runs[kind].devices)
      if (bytes[device] > memoryOf(kind))
        return false;
  return true;
}

} // namespace cleave::search
