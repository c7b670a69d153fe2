// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For every number of microbatches: what stages cost on every grid, and the best stages.

#include "passes/planner/search/Search.h"

#include "passes/planner/search/Intervals.h"
#include "passes/planner/search/Refine.h"
#include "passes/planner/stages/StageSearch.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

namespace cleave::search {

using Factors = std::array<unsigned, mostAxes>;

/// Bytes of gradients that are joined at once: the buckets of PyTorch's DistributedDataParallel (Li et al., VLDB 2020).
static constexpr double largestBucket = 25e6;

//===-- names -------------------------------------------------------------------------------------------------===//

static constexpr std::pair<Recompute, llvm::StringLiteral> recomputeNames[] = {
    {Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}};

llvm::StringRef recomputeName(Recompute recompute) {
  return llvm::find_if(recomputeNames, [&](auto &entry) { return entry.first == recompute; })->second;
}

std::optional<Recompute> findRecompute(llvm::StringRef name) {
  auto found = llvm::find_if(recomputeNames, [&](auto &entry) { return entry.second == name; });
  return found == std::end(recomputeNames) ? std::nullopt : std::optional(found->first);
}

const OptimizerKind *findOptimizer(llvm::StringRef name) {
  static constexpr OptimizerKind kinds[] = {{"sgd", 0},     {"momentum", 1}, {"nesterov", 1},
                                            {"rmsprop", 1}, {"adam", 2},     {"adamw", 2}};
  auto found = llvm::find_if(kinds, [&](const OptimizerKind &kind) { return kind.name == name; });
  return found == std::end(kinds) ? nullptr : found;
}

double FoundPlan::peakBytes() const {
  double peak = 0;
  for (const FoundStage &stage : stages)
    peak = std::max(peak, stage.bytes());
  return peak;
}

//===-- devices -----------------------------------------------------------------------------------------------===//

namespace {

/// Devices in a row of one kind, on hosts with equally many of them.
struct Run {
  unsigned first = 0, count = 0, hostSize = 1;
};

bool alike(const DeviceSpec &left, const DeviceSpec &right) {
  return left.kind == right.kind && left.cores == right.cores && left.memoryLimit == right.memoryLimit &&
         left.driver == right.driver;
}

std::vector<Run> findRuns(const Machine &machine) {
  std::vector<Run> runs;
  unsigned onHost = 0;
  for (unsigned device = 0; device != machine.devices.size(); ++device) {
    const DeviceSpec &spec = machine.devices[device];
    bool sameHost = device != 0 && machine.devices[device - 1].host == spec.host;
    if (runs.empty() || !alike(machine.devices[device - 1], spec)) {
      runs.push_back({device, 0, 1});
      onHost = 0;
    } else if (!sameHost) {
      onHost = 0;
    }
    ++runs.back().count;
    runs.back().hostSize = std::max(runs.back().hostSize, ++onHost);
  }
  return runs;
}

/// Parts of a host and whole hosts; every number where there are few devices.
std::vector<unsigned> stageSizes(const Run &run) {
  std::set<unsigned> sizes = {run.count};
  for (unsigned size = 1; size <= run.count; ++size)
    if (run.count <= 16)
      sizes.insert(size);
  for (unsigned size = 1; size <= std::min(run.count, run.hostSize); ++size)
    if (run.hostSize % size == 0)
      sizes.insert(size);
  for (unsigned hosts = 1; hosts * run.hostSize <= run.count; hosts *= 2)
    sizes.insert(hosts * run.hostSize);
  return {sizes.begin(), sizes.end()};
}

/// An axis of a grid before it has a name.
struct Shape {
  llvm::SmallVector<int64_t, 3> sizes;
  llvm::SmallVector<AxisRole, 3> roles;
  llvm::SmallVector<std::string, 3> names;
};

/// A way to run layers, as an option's id remembers it.
struct Choice {
  unsigned first, last, kind, devices, setting, shape;
  Weights weights;
  Recompute recompute;
  unsigned zero;
};

class Searcher;

/// What stages cost with one number of microbatches.
class Costs : public stages::StageCosts {
public:
  Costs(Searcher &searcher, int64_t microbatches);

  const std::vector<stages::StageOption> &options(unsigned first, unsigned last, unsigned kind,
                                                  unsigned devices) override;
  uint64_t classOf(unsigned first, unsigned last) override;
  double transferSeconds(unsigned at, unsigned devices) override;
  /// True up to what layers at the ends of an interval cost for their free boundaries: taken for long models alone.
  bool growsWithLayers() const override;

private:
  Searcher &searcher;
  int64_t microbatches;
  std::vector<Weights> weights;
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::vector<stages::StageOption>> known;
};

class Searcher {
public:
  Searcher(const SearchGraph &graph, const Machine &machine, const SearchRequest &request)
      : graph(graph), machine(machine), request(request), topology(machine), intervals(graph), runs(findRuns(machine)) {
    for (const Run &run : runs)
      operatorCosts.push_back(std::make_unique<OperatorCost>(deviceKindOf(machine, run.first), request.elementType));
    begin = std::clock();
    hidden = deviceKindOf(machine, runs.front().first).overlapSlowdown - 1;
    memoryBinds = memoryMayBind();
    sumState();
  }

  /// What makes the request senseless; empty where it is not.
  std::string checkRequest() const;
  /// Searches with every number of microbatches of a share, and bounds what they can reach.
  void explore(unsigned share, unsigned shares);
  /// Finds out how much memory is missing, where nothing fits.
  void findLeastBytes();
  /// The best plan, with all that is said about it; no plan takes less than `least`. Expects one.
  std::variant<FoundPlan, SearchFailure> finish(double least);
  SearchFailure infeasible() const;

  std::optional<FoundPlan> best;
  double leastBytes = std::numeric_limits<double>::infinity(), bound = std::numeric_limits<double>::infinity();

private:
  friend class Costs;

  double memoryOf(unsigned kind) const {
    double limit = static_cast<double>(machine.devices[runs[kind].first].memoryLimit);
    if (request.memoryLimit > 0)
      limit = limit > 0 ? std::min(limit, request.memoryLimit) : request.memoryLimit;
    return limit > 0 ? limit : std::numeric_limits<double>::infinity();
  }
  double batchScale(int64_t microbatches) const {
    return request.training
               ? static_cast<double>(batch()) / static_cast<double>(microbatches) / static_cast<double>(graph.batch)
               : 1;
  }
  int64_t batch() const { return request.batch ? request.batch : graph.batch; }

  const LinkSpec &linkOf(unsigned lanes);
  Precision precision() const;
  double trainedBytes() const;
  /// Bytes of parameters, gradients and optimizer state of layers, all devices together.
  double stateBytes(unsigned first, unsigned last) const { return stateBefore[last] - stateBefore[first]; }
  void sumState();
  bool fits(const IntervalSums &sums, unsigned kind, unsigned first, int64_t microbatches) const;
  const std::vector<Shape> &shapesOf(unsigned kind, unsigned devices);
  void addPlainShapes(std::vector<Shape> &list) const;
  /// One that is among the choices of another shape: it tells nothing about bounds.
  static bool isPlain(const Shape &shape) { return !shape.roles.empty() && shape.names.empty(); }
  unsigned settingOf(unsigned kind, unsigned devices, unsigned shape, int64_t microbatches);
  std::vector<Weights> weightsOf(int64_t microbatches) const;
  bool memoryMayBind() const;
  stages::StageOption optionOf(const IntervalSums &sums, Recompute recompute, unsigned zero) const;
  void addOptions(const Choice &choice, const IntervalSums &sums, std::vector<stages::StageOption> &options);
  std::vector<int64_t> microbatchNumbers() const;
  stages::StageProblem problemOf(int64_t microbatches, std::optional<stages::Schedule> schedule = std::nullopt) const;
  void tryMicrobatches(int64_t microbatches);
  void setSplits(FoundStage &stage, const stages::Stage &from, const Choice &choice, const IntervalSums &sums,
                 const PieceChoices &splits);
  FoundPlan describe(const stages::StagePlan &plan, int64_t microbatches, stages::Schedule schedule);
  std::vector<stages::Schedule> schedules(int64_t microbatches) const;
  void trySchedule(int64_t microbatches, stages::Schedule schedule, Costs &costs);
  RefineRequest refineRequestOf(unsigned stage);
  std::optional<SearchFailure> refineStages();
  double lowerBoundOf(int64_t microbatches);
  double unsplitUpdateSeconds(unsigned first, unsigned last) const;
  std::pair<double, double> leastOfLayers(unsigned first, unsigned last, int64_t microbatches);
  double singleStageBound(int64_t microbatches);
  void addExpectations();
  /// Seconds of processor time.
  double elapsed() const { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }
  bool outOfTime() const { return request.timeBudget > 0 && elapsed() > request.timeBudget; }

  const SearchGraph &graph;
  const Machine &machine;
  const SearchRequest &request;
  Topology topology;
  Intervals intervals;
  std::vector<Run> runs;
  std::vector<std::unique_ptr<OperatorCost>> operatorCosts;
  std::map<std::pair<unsigned, unsigned>, std::vector<Shape>> shapes;
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::unique_ptr<Grid>> grids;
  /// By the number of pairs of devices that send at once.
  std::map<unsigned, LinkSpec> links;
  std::map<std::tuple<unsigned, unsigned, unsigned, int64_t>, unsigned> settingNumbers;
  std::vector<Choice> choices;
  /// Numbers of microbatches with their bounds.
  std::vector<std::pair<double, int64_t>> numbers;
  std::vector<Choice> bestChoices, describedChoices;
  stages::StagePlan bestPlan;
  /// By stage of the best plan.
  std::vector<PieceChoices> bestSplits;
  std::clock_t begin;
  /// What a second of hidden communication costs, and whether some plan may need more memory than there is.
  double hidden = 0;
  bool memoryBinds = false;
  /// Whether a search without a plan says how many bytes would do.
  bool explains = false;
  /// By boundary: the bytes of parameters, gradients and optimizer state before it.
  std::vector<double> stateBefore;
};

//===-- memory ------------------------------------------------------------------------------------------------===//

/// Bytes of a device besides its microbatches' activations.
static double fixedBytes(const IntervalSums &sums, unsigned zero) {
  return (zero >= 3 ? sums.parametersShared : sums.parameters) + (zero >= 2 ? sums.gradientsShared : sums.gradients) +
         (zero >= 1 ? sums.optimizerShared : sums.optimizer);
}

//===-- grids and settings ------------------------------------------------------------------------------------===//

Precision Searcher::precision() const {
  Precision precision;
  if (request.elementType != "f32")
    precision = {0.5, 0.5, 0.5, request.training ? 1.0 : 0.0};
  if (request.training)
    precision.optimizer += findOptimizer(request.optimizer)->states;
  return precision;
}

void Searcher::sumState() {
  Precision stored = precision();
  std::vector<double> bytes(graph.operators.size() + 1, 0.0);
  for (const Parameter &parameter : graph.parameters)
    if (parameter.firstUse != none)
      bytes[parameter.firstUse] +=
          parameter.bytes *
          (stored.parameter + (request.training && parameter.trained ? stored.gradient + stored.optimizer : 0));
  double sum = 0;
  unsigned next = 0;
  for (const Boundary &boundary : graph.boundaries) {
    for (; next != boundary.at; ++next)
      sum += bytes[next];
    stateBefore.push_back(sum);
  }
}

/// Whether choices fit as they are, with nothing computed again or shared, with as many microbatches in flight as there
/// can be.
bool Searcher::fits(const IntervalSums &sums, unsigned kind, unsigned first, int64_t microbatches) const {
  double inFlight = static_cast<double>(std::min<int64_t>(
      microbatches, request.schedule == stages::Schedule::GPipe ? microbatches : intervals.numLayers() - first));
  return fixedBytes(sums, 0) + sums.transient + (request.training ? inFlight * sums.saved : 0) <= memoryOf(kind);
}

const std::vector<Shape> &Searcher::shapesOf(unsigned kind, unsigned devices) {
  auto [entry, isNew] = shapes.try_emplace({kind, devices});
  std::vector<Shape> &list = entry->second;
  if (!isNew)
    return list;
  const Degrees &degrees = request.degrees;
  if (degrees.data || degrees.model || degrees.sequence || degrees.expert) {
    Shape shape;
    auto add = [&](std::optional<int64_t> size, AxisRole role, llvm::StringRef name) {
      if (size.value_or(1) == 1)
        return;
      shape.sizes.push_back(*size);
      shape.roles.push_back(role);
      shape.names.push_back(name.str());
    };
    add(degrees.data, AxisRole::Batch, dataAxis);
    add(degrees.sequence, AxisRole::Sequence, sequenceAxis);
    add(degrees.expert, AxisRole::Expert, expertAxis);
    add(degrees.model, AxisRole::NotBatch, modelAxis);
    int64_t product = std::accumulate(shape.sizes.begin(), shape.sizes.end(), int64_t(1), std::multiplies<>());
    if (product == devices)
      list.push_back(std::move(shape));
    return list;
  }
  if (devices == 1) {
    list.emplace_back();
    return list;
  }
  unsigned hostSize = runs[kind].hostSize;
  for (unsigned inner = 1; inner < devices; ++inner) {
    if (devices % inner != 0 || (devices > hostSize && hostSize % inner != 0))
      continue;
    Shape &shape = list.emplace_back();
    if (inner > 1)
      shape.sizes = {devices / inner, inner};
    else
      shape.sizes = {devices};
  }
  addPlainShapes(list);
  return list;
}

/// The batch along one axis, weights along the other, or one of them alone. What is best for a weighted sum need not be
/// best where the longer of two things counts: these are what people would do, and no plan that is found is worse. Only
/// for a stage that holds the whole model: in pipelines little of a step is spent on gradients.
void Searcher::addPlainShapes(std::vector<Shape> &list) const {
  if (!request.training)
    return;
  for (unsigned index = 0, count = list.size(); index != count; ++index) {
    Shape shape = list[index];
    shape.roles.assign(shape.sizes.size(), AxisRole::NotBatch);
    if (shape.sizes.size() == 1)
      list.push_back(shape);
    shape.roles.front() = AxisRole::Batch;
    list.push_back(std::move(shape));
  }
}

double Searcher::trainedBytes() const {
  double bytes = 0;
  for (const Parameter &parameter : graph.parameters)
    if (parameter.trained)
      bytes += parameter.bytes;
  return bytes;
}

unsigned Searcher::settingOf(unsigned kind, unsigned devices, unsigned shape, int64_t microbatches) {
  auto [entry, isNew] = settingNumbers.try_emplace({kind, devices, shape, microbatches}, 0);
  if (!isNew)
    return entry->second;
  std::unique_ptr<Grid> &grid = grids[{kind, devices, shape}];
  const Shape &known = shapesOf(kind, devices)[shape];
  if (!grid) {
    std::vector<unsigned> members(devices);
    std::iota(members.begin(), members.end(), runs[kind].first);
    grid = std::make_unique<Grid>(topology, members, known.sizes);
  }
  Setting setting;
  setting.grid = grid.get();
  setting.cost = operatorCosts[kind].get();
  setting.options.training = request.training;
  setting.options.batchScale = batchScale(microbatches);
  setting.options.microbatches = static_cast<double>(microbatches);
  setting.options.precision = precision();
  setting.options.bucketBytes = std::min(largestBucket, trainedBytes() * setting.options.precision.gradient);
  setting.options.roles = known.roles;
  return entry->second = intervals.addSetting(std::move(setting));
}

bool Searcher::memoryMayBind() const {
  double limit = std::numeric_limits<double>::infinity();
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    limit = std::min(limit, memoryOf(kind));
  Precision stored = precision();
  double bytes =
      graph.parameterBytes() * (stored.parameter + (request.training ? stored.gradient + stored.optimizer : 0));
  double activations = 0;
  for (const Tensor &tensor : graph.tensors)
    activations += tensor.bytes * (tensor.batched ? batchScale(1) : 1) * stored.activation;
  if (request.training)
    bytes += activations;
  return bytes > limit / 2;
}

/// The weights under which intervals are solved: joining gradients hidden, or not; memory free, or worth more and more.
std::vector<Weights> Searcher::weightsOf(int64_t microbatches) const {
  double shown = 1.0 / static_cast<double>(microbatches);
  std::vector<Weights> list = {{request.training ? hidden * shown : 0, 0}};
  if (request.training)
    list.push_back({shown, 0});
  if (!memoryBinds)
    return list;
  double peak = 0, limit = 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind) {
    peak += operatorCosts[kind]->peakFlops() * runs[kind].count;
    limit += std::isfinite(memoryOf(kind)) ? memoryOf(kind) * runs[kind].count : 0;
  }
  double seconds = graph.flops() * batchScale(microbatches) * (request.training ? 3 : 1) / peak;
  double perByte = limit > 0 ? seconds * static_cast<double>(machine.devices.size()) / limit : 0;
  for (double factor : {0.3, 3.0, 30.0})
    if (perByte > 0)
      list.push_back({request.training ? shown : 0, factor * perByte});
  return list;
}

//===-- options of stages -------------------------------------------------------------------------------------===//

static double savedBytes(const IntervalSums &sums, Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return sums.saved;
  case Recompute::Selective:
    return std::min(sums.saved, sums.savedProducts + sums.checkpoints);
  case Recompute::Full:
    return std::min(sums.saved, sums.checkpoints);
  }
  return sums.saved;
}

/// What is there while a microbatch is worked on.
static double transientBytes(const IntervalSums &sums, Recompute recompute) {
  return sums.transient + (recompute == Recompute::Full ? sums.largestPiece : 0);
}

/// Seconds that are computed again in the backward pass.
static double repeatedSeconds(const IntervalSums &sums, Recompute recompute) {
  switch (recompute) {
  case Recompute::None:
    return 0;
  case Recompute::Selective:
    return std::max(0.0, sums.forward - sums.forwardExchange - sums.contractions);
  case Recompute::Full:
    return sums.forward;
  }
  return 0;
}

stages::StageOption Searcher::optionOf(const IntervalSums &sums, Recompute recompute, unsigned zero) const {
  stages::StageOption option;
  option.forward = sums.forward;
  option.backward = request.training ? sums.backward + repeatedSeconds(sums, recompute) : 0;
  if (zero == 3) {
    option.forward += sums.gathering;
    option.backward += sums.gathering;
  }
  double update = zero >= 1 && sums.optimizer > 0 ? sums.update * sums.optimizerShared / sums.optimizer : sums.update;
  // Gradients are joined while the last microbatch's backward pass still runs; what sticks out is seen.
  option.perStep = request.training ? std::max(0.0, sums.reduction - option.backward) +
                                          hidden * std::min(sums.reduction, option.backward) + update
                                    : 0;
  option.fixedBytes = fixedBytes(sums, zero) + transientBytes(sums, recompute);
  option.microbatchBytes = request.training ? savedBytes(sums, recompute) : 0;
  option.backwardWeight = request.training ? std::min(sums.backwardWeights, option.backward) : 0;
  return option;
}

void Searcher::addOptions(const Choice &choice, const IntervalSums &sums, std::vector<stages::StageOption> &options) {
  for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    if ((!request.training && recompute != Recompute::None) || (request.recompute && recompute != *request.recompute))
      continue;
    if (!request.recompute && recompute != Recompute::None && !memoryBinds)
      continue;
    for (unsigned zero = 0; zero <= 3; ++zero) {
      if ((!request.training && zero > 0) || (request.zero && zero != *request.zero))
        continue;
      if (!request.zero && zero > 0 && fixedBytes(sums, zero) >= fixedBytes(sums, zero - 1))
        continue;
      if (!request.zero && zero > 0 && !memoryBinds)
        continue;
      stages::StageOption option = optionOf(sums, recompute, zero);
      option.id = choices.size();
      bool dominated = llvm::any_of(options, [&](const stages::StageOption &other) {
        return other.seconds() <= option.seconds() && other.perStep <= option.perStep &&
               other.fixedBytes <= option.fixedBytes && other.microbatchBytes <= option.microbatchBytes;
      });
      if (dominated)
        continue;
      llvm::erase_if(options, [&](const stages::StageOption &other) {
        return option.seconds() <= other.seconds() && option.perStep <= other.perStep &&
               option.fixedBytes <= other.fixedBytes && option.microbatchBytes <= other.microbatchBytes;
      });
      choices.push_back(choice);
      choices.back().recompute = recompute;
      choices.back().zero = zero;
      options.push_back(option);
    }
  }
}

Costs::Costs(Searcher &searcher, int64_t microbatches)
    : searcher(searcher), microbatches(microbatches), weights(searcher.weightsOf(microbatches)) {}

bool Costs::growsWithLayers() const {
  constexpr unsigned manyLayers = 48;
  return searcher.intervals.numLayers() > manyLayers;
}

uint64_t Costs::classOf(unsigned first, unsigned last) { return searcher.intervals.classOf(first, last); }

const std::vector<stages::StageOption> &Costs::options(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  auto key = std::tuple(static_cast<unsigned>(classOf(first, last)), kind, devices);
  auto [entry, isNew] = known.try_emplace(key);
  if (!isNew)
    return entry->second;
  // What is divided by all devices without rest is still too much: nothing here is worth a search.
  double least = searcher.stateBytes(first, last) / devices;
  if (least > searcher.memoryOf(kind)) {
    if (!searcher.shapesOf(kind, devices).empty())
      entry->second.push_back({0, 0, 0, least, 0, 0});
    return entry->second;
  }
  const std::vector<Shape> &shapes = searcher.shapesOf(kind, devices);
  bool isWhole = last - first == searcher.intervals.numLayers();
  for (unsigned shape = 0; shape != shapes.size(); ++shape) {
    if (Searcher::isPlain(shapes[shape]) && !isWhole)
      continue;
    unsigned setting = searcher.settingOf(kind, devices, shape, microbatches);
    bool fits = false;
    for (const Weights &weight : weights) {
      // Choices that save memory are for those that lack it.
      if (weight.secondsPerByte > 0 && fits)
        break;
      const IntervalSums *sums = searcher.intervals.best(first, last, setting, weight);
      if (!sums)
        continue;
      fits |= searcher.fits(*sums, kind, first, microbatches);
      searcher.addOptions({first, last, kind, devices, setting, shape, weight, Recompute::None, 0}, *sums,
                          entry->second);
    }
  }
  return entry->second;
}

/// The receiving devices get a part each, all at once.
double Costs::transferSeconds(unsigned at, unsigned devices) {
  const Boundary &boundary = searcher.graph.boundaries[at];
  double bytes = (boundary.batchedBytes * searcher.batchScale(microbatches) + boundary.otherBytes) *
                 searcher.precision().activation;
  unsigned lanes = std::min<unsigned>(devices, searcher.machine.devices.size() / 2);
  return lanes == 0 ? 0 : sendSeconds(bytes / lanes, searcher.linkOf(lanes));
}

/// Between as many devices and the same number of their neighbours, of another host where there are several.
const LinkSpec &Searcher::linkOf(unsigned lanes) {
  auto [entry, isNew] = links.try_emplace(lanes);
  if (!isNew)
    return entry->second;
  unsigned count = machine.devices.size(), apart = lanes;
  if (runs.front().count > runs.front().hostSize)
    apart = std::min(std::max(lanes, runs.front().hostSize), count - lanes);
  std::vector<unsigned> members(2 * static_cast<size_t>(lanes));
  std::iota(members.begin(), members.begin() + lanes, 0u);
  std::iota(members.begin() + lanes, members.end(), apart);
  return entry->second = lanes == 1 ? topology.between(members.front(), members.back())
                                    : topology.along(members, {2, static_cast<int64_t>(lanes)}, {0});
}

//===-- the search --------------------------------------------------------------------------------------------===//

std::vector<int64_t> Searcher::microbatchNumbers() const {
  if (!request.training)
    return {1};
  if (request.microbatches)
    return {*request.microbatches};
  std::vector<int64_t> numbers;
  for (int64_t number = 1; number <= batch(); number *= 2)
    if (batch() % number == 0)
      numbers.push_back(number);
  return numbers;
}

std::string Searcher::checkRequest() const {
  auto count = static_cast<int64_t>(machine.devices.size());
  const Degrees &degrees = request.degrees;
  int64_t product = 1;
  for (std::optional<int64_t> degree :
       {degrees.data, degrees.model, degrees.pipeline, degrees.sequence, degrees.expert})
    product *= degree.value_or(1);
  if (product > count)
    return llvm::formatv("--degrees expects at most the {0} devices of machine \"{1}\", got {2}", count, machine.name,
                         product);
  if (request.training && !graph.singleSample.empty() && graph.batch == 1)
    return llvm::formatv("--train expects a model whose batch can be told, got input \"{0}\" with a batch of one "
                         "sample; build or bind the model with two samples or more (--dim), --batch scales it",
                         graph.singleSample.front());
  if (request.training && request.microbatches && batch() % *request.microbatches != 0)
    return llvm::formatv("--microbatches expects a divisor of the batch of {0}, got {1}", batch(),
                         *request.microbatches);
  if (request.solver.method == solver::Method::Ilp && !solver::hasIlp())
    return "--solver ilp expects a build with CBC, which this one is not; take elimination";
  return "";
}

/// The schedules to choose from. Interleaving needs several chunks a device, which stages here are not.
std::vector<stages::Schedule> Searcher::schedules(int64_t microbatches) const {
  if (request.schedule)
    return {*request.schedule};
  if (!request.training || microbatches == 1)
    return {stages::Schedule::OneForwardOneBackward};
  return {stages::Schedule::OneForwardOneBackward, stages::Schedule::ZeroBubbleH1};
}

stages::StageProblem Searcher::problemOf(int64_t microbatches, std::optional<stages::Schedule> schedule) const {
  stages::StageProblem problem;
  problem.numLayers = intervals.numLayers();
  problem.microbatches = microbatches;
  problem.schedule = schedule.value_or(schedules(microbatches).front());
  const Degrees &degrees = request.degrees;
  if (degrees.pipeline)
    problem.numStages = *degrees.pipeline;
  for (unsigned kind = 0; kind != runs.size(); ++kind) {
    stages::DeviceRun run;
    run.count = runs[kind].count;
    run.kind = kind;
    run.memory = memoryOf(kind);
    run.stageSizes = stageSizes(runs[kind]);
    if (degrees.data || degrees.model || degrees.sequence || degrees.expert)
      run.stageSizes = {static_cast<unsigned>(degrees.data.value_or(1) * degrees.model.value_or(1) *
                                              degrees.sequence.value_or(1) * degrees.expert.value_or(1))};
    llvm::erase_if(run.stageSizes, [&](unsigned size) { return size > run.count; });
    if (degrees.any() && !degrees.pipeline)
      problem.numStages = 1;
    problem.runs.push_back(std::move(run));
  }
  return problem;
}

void Searcher::tryMicrobatches(int64_t microbatches) {
  Costs costs(*this, microbatches);
  for (stages::Schedule schedule : schedules(microbatches))
    trySchedule(microbatches, schedule, costs);
}

void Searcher::trySchedule(int64_t microbatches, stages::Schedule schedule, Costs &costs) {
  stages::SearchOptions options;
  // Without a plan there is nothing to take when the time is over: the first one is waited for.
  if (best && request.timeBudget > 0)
    options.timeBudget = std::max(request.timeBudget - elapsed(), 1e-3);
  options.explainInfeasible = explains;
  if (best)
    options.secondsToBeat = best->seconds;
  stages::StagePlan plan = stages::searchStages(problemOf(microbatches, schedule), costs, options);
  if (explains && !plan.isFeasible())
    leastBytes = std::min(leastBytes, plan.leastBytes);
  if (!plan.isFeasible())
    return;
  FoundPlan found = describe(plan, microbatches, schedule);
  if (best && best->seconds <= found.seconds)
    return;
  best = std::move(found);
  bestChoices = std::move(describedChoices);
  bestPlan = std::move(plan);
  if (request.progress)
    request.progress(llvm::formatv("{0} stages, {1} microbatches: {2:f3} ms", best->stages.size(), microbatches,
                                   best->seconds * 1e3));
}

/// Names of axes: those of the degrees, else by what most work is cut along.
static std::vector<MeshAxis> nameAxes(const Shape &shape, const SearchGraph &graph, const FoundStage &stage) {
  std::vector<MeshAxis> axes;
  std::set<std::string> used;
  for (unsigned axis = 0; axis != shape.sizes.size(); ++axis) {
    double batched = 0, others = 0;
    for (unsigned index = stage.first; index != stage.last; ++index) {
      unsigned factor = stage.factors[index - stage.first][axis];
      if (factor != none)
        (factor == graph.operators[index].batch ? batched : others) += graph.operators[index].cost.flops;
    }
    std::string name = axis < shape.names.size() ? shape.names[axis] : (batched >= others ? dataAxis : modelAxis).str();
    if (!used.insert(name).second)
      name += "2";
    used.insert(name);
    axes.push_back({name, shape.sizes[axis]});
  }
  return axes;
}

/// Describes the splits of a stage, and what they amount to.
void Searcher::setSplits(FoundStage &stage, const stages::Stage &from, const Choice &choice, const IntervalSums &sums,
                         const PieceChoices &splits) {
  stage.factors = intervals.factors(choice.first, choice.last, choice.setting, splits);
  stage.axes = nameAxes(shapesOf(choice.kind, choice.devices)[choice.shape], graph, stage);
  stage.forward = from.option.forward;
  stage.backward = from.option.backward;
  stage.backwardWeights = request.training ? sums.backwardWeights : 0;
  stage.exchange = sums.forwardExchange + sums.backwardExchange;
  stage.perStep = from.option.perStep;
  stage.inFlight = from.inFlight;
  stage.parameters = choice.zero >= 3 ? sums.parametersShared : sums.parameters;
  stage.gradients = choice.zero >= 2 ? sums.gradientsShared : sums.gradients;
  stage.optimizer = choice.zero >= 1 ? sums.optimizerShared : sums.optimizer;
  stage.activations = from.inFlight * from.option.microbatchBytes;
  stage.transient = transientBytes(sums, choice.recompute);
}

FoundPlan Searcher::describe(const stages::StagePlan &plan, int64_t microbatches, stages::Schedule schedule) {
  FoundPlan found;
  describedChoices.clear();
  found.microbatches = microbatches;
  found.schedule = schedule;
  found.seconds = plan.seconds;
  found.modelFlops = graph.flops() * batchScale(1) * (request.training ? 3 : 1);
  for (unsigned index = 0; index != plan.stages.size(); ++index) {
    const stages::Stage &from = plan.stages[index];
    Choice choice = choices[from.option.id];
    // Options are shared by intervals of one class.
    choice.first = from.first;
    choice.last = from.last;
    describedChoices.push_back(choice);
    FoundStage &stage = found.stages.emplace_back();
    stage.first = graph.boundaries[from.first].at;
    stage.last = graph.boundaries[from.last].at;
    for (unsigned device = 0; device != from.devices; ++device)
      stage.devices.push_back(runs[from.run].first + from.firstDevice + device);
    stage.recompute = choice.recompute;
    stage.zero = choice.zero;
    setSplits(stage, from, choice, *intervals.best(choice.first, choice.last, choice.setting, choice.weights),
              intervals.choicesOf(choice.first, choice.last, choice.setting, choice.weights));
    if (index + 1 != plan.stages.size())
      stage.send = Costs(*this, microbatches).transferSeconds(from.last, plan.stages[index + 1].devices);
  }
  double limit = 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    if (std::isfinite(memoryOf(kind)))
      limit = limit > 0 ? std::min(limit, memoryOf(kind)) : memoryOf(kind);
  found.memoryLimit = limit;
  return found;
}

/// No plan with these microbatches takes less, whatever memory it needs. One stage by itself is bounded by the weights'
/// dual value. Several stages do work: the longest takes at least what all take together, times their devices, over all
/// devices; layer by layer that is at least what the layer takes on the number of devices on which it wastes least.
double Searcher::lowerBoundOf(int64_t microbatches) {
  stages::StageProblem problem = problemOf(microbatches);
  double single = problem.numStages.value_or(1) == 1 ? singleStageBound(microbatches) : solver::forbidden;
  if (problem.numStages.value_or(2) == 1)
    return single;
  std::map<unsigned, std::pair<double, double>> known;
  auto leastOf = [&](unsigned first, unsigned last) {
    auto [entry, isNew] = known.try_emplace(intervals.classOf(first, last));
    if (isNew)
      entry->second = leastOfLayers(first, last, microbatches);
    return entry->second;
  };
  unsigned count = intervals.numLayers();
  double work = 0, latency = 0;
  for (unsigned layer = 0; layer != count; ++layer) {
    auto [ofWork, seconds] = leastOf(layer, layer + 1);
    work += ofWork;
    latency += seconds;
  }
  // Few layers: the stages in a row, each on its fastest grid, exactly.
  constexpr unsigned fewLayers = 40;
  if (count <= fewLayers) {
    std::vector<double> until(count + 1, solver::forbidden);
    until[0] = 0;
    for (unsigned last = 1; last <= count; ++last)
      for (unsigned first = 0; first != last; ++first)
        if (last - first != count)
          until[last] = std::min(until[last], until[first] + leastOf(first, last).second);
    latency = std::max(latency, until[count]);
  }
  double longest = work / static_cast<double>(machine.devices.size());
  // Schedules that put off the weights' gradients hide a part of the first microbatch's way.
  bool fills = llvm::any_of(schedules(microbatches), [](stages::Schedule schedule) {
    return schedule != stages::Schedule::GPipe && schedule != stages::Schedule::OneForwardOneBackward;
  });
  // The gradients of weights take no longer than the forward pass: the rest is at least half of the way.
  if (fills)
    return std::min(single, std::max(static_cast<double>(microbatches) * longest, latency / 2));
  return std::min(single, latency + static_cast<double>(microbatches - 1) * longest);
}

/// Seconds of a step that the optimizer takes for the parameters of layers where nothing is split: the most that it may
/// take.
double Searcher::unsplitUpdateSeconds(unsigned first, unsigned last) const {
  if (!request.training)
    return 0;
  Precision stored = precision();
  double bytes = 0;
  for (const Parameter &parameter : graph.parameters)
    if (parameter.trained && parameter.firstUse != none && parameter.firstUse >= graph.boundaries[first].at &&
        parameter.firstUse < graph.boundaries[last].at)
      bytes += parameter.bytes;
  return operatorCosts.front()->memorySeconds(bytes * (2 * stored.parameter + stored.gradient + 2 * stored.optimizer));
}

/// The least device seconds and the least seconds that a microbatch of layers takes on any grid, forward and backward.
/// The choices that are best with their part of the optimizer take, without it, at most what all of it takes more.
std::pair<double, double> Searcher::leastOfLayers(unsigned first, unsigned last, int64_t microbatches) {
  double once = unsplitUpdateSeconds(first, last);
  std::pair<double, double> least = {solver::forbidden, solver::forbidden};
  stages::StageProblem problem = problemOf(microbatches);
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    for (unsigned devices : problem.runs[kind].stageSizes)
      for (unsigned shape = 0; shape != shapesOf(kind, devices).size(); ++shape) {
        if (isPlain(shapesOf(kind, devices)[shape]))
          continue;
        const IntervalSums *sums =
            intervals.best(first, last, settingOf(kind, devices, shape, microbatches), Weights());
        if (!sums)
          continue;
        double seconds = std::max(0.0, sums->forward + sums->backward +
                                           std::min(0.0, (sums->update - once) / static_cast<double>(microbatches)));
        least.first = std::min(least.first, seconds * devices);
        least.second = std::min(least.second, seconds);
      }
  return least;
}

double Searcher::singleStageBound(int64_t microbatches) {
  double least = solver::forbidden;
  auto count = static_cast<double>(microbatches);
  stages::StageProblem problem = problemOf(microbatches);
  // Replicas that share the optimizer's state save time that the weights do not know of: at most all of it.
  bool mayShare = memoryBinds || request.zero.value_or(0) > 0;
  double shared = mayShare ? unsplitUpdateSeconds(0, intervals.numLayers()) : 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    for (unsigned devices : problem.runs[kind].stageSizes)
      for (unsigned shape = 0; shape != shapesOf(kind, devices).size(); ++shape) {
        if (isPlain(shapesOf(kind, devices)[shape]))
          continue;
        unsigned setting = settingOf(kind, devices, shape, microbatches);
        double bound = 0;
        for (const Weights &weights : weightsOf(microbatches)) {
          const IntervalSums *sums = intervals.best(0, intervals.numLayers(), setting, weights);
          if (!sums || weights.secondsPerByte != 0)
            continue;
          double value =
              sums->forward + sums->backward + weights.reduction * sums->reduction + (sums->update - shared) / count;
          // Joining R seconds of gradients behind a backward pass of B costs max(hR, R - (1 - h)B), h for what is
          // hidden: at least any mixture of both. The mixture whose weights these are leaves `part` of the step's time.
          double part = count - std::max(0.0, (weights.reduction * count - hidden) / (1 + weights.reduction));
          bound = std::max(bound, part * value);
        }
        if (bound > 0)
          least = std::min(least, bound);
      }
  return least;
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
  refining.optionOf = [this, choice](const IntervalSums &sums) {
    return optionOf(sums, choice.recompute, choice.zero);
  };
  refining.recompute = choice.recompute;
  refining.reduction = choice.weights.reduction;
  refining.microbatches = static_cast<double>(best->microbatches);
  refining.inFlight = bestPlan.stages[stage].inFlight;
  refining.memoryLimit = memoryOf(choice.kind);
  refining.solver = request.solver;
  return refining;
}

/// Whether the search across stages saw a stage's splits as they count in the end: memory for nothing, no activations
/// computed again, no state shared.
static bool isExact(const Choice &choice) {
  return choice.weights.secondsPerByte == 0 && choice.recompute == Recompute::None && choice.zero == 0;
}

/// Solves the splits of stages as one problem each, where that was asked for by a method, or where others may be better
/// than those that the search across stages saw.
std::optional<SearchFailure> Searcher::refineStages() {
  for (const Choice &choice : bestChoices)
    bestSplits.push_back(intervals.choicesOf(choice.first, choice.last, choice.setting, choice.weights));
  bool byMethod = request.solver.method != solver::Method::Elimination;
  Costs costs(*this, best->microbatches);
  stages::StageProblem problem = problemOf(best->microbatches, best->schedule);
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
    stage.option = optionOf(refined.sums, choice.recompute, choice.zero);
    stage.option.id = id;
    plan.seconds = stages::stepSeconds(problem, costs, plan.stages);
    if (plan.seconds > bestPlan.seconds)
      continue;
    bestPlan = std::move(plan);
    best->seconds = bestPlan.seconds;
    setSplits(best->stages[index], bestPlan.stages[index], choice, refined.sums, refined.choices);
    bestSplits[index] = std::move(refined.choices);
  }
  return std::nullopt;
}

/// What is expected of every operator of the best plan.
void Searcher::addExpectations() {
  double longest = 0;
  for (const FoundStage &stage : best->stages)
    longest = std::max(longest, stage.forward + stage.backward);
  for (auto [stage, choice, splits] : llvm::zip_equal(best->stages, bestChoices, bestSplits)) {
    double own = stage.forward + stage.backward;
    for (const Intervals::OperatorFacts &facts :
         intervals.facts(choice.first, choice.last, choice.setting, choice.weights, splits)) {
      OperatorExpectation &made = stage.operators.emplace_back();
      made.seconds = facts.time.seconds;
      made.exchange = facts.time.exchange;
      made.alternative = facts.alternative;
      double later = std::max(0.0, own + facts.more - longest) * static_cast<double>(best->microbatches - 1);
      made.alternativeSeconds = best->seconds + facts.more + later;
    }
  }
}

SearchFailure Searcher::infeasible() const {
  double limit = 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    limit = std::max(limit, memoryOf(kind));
  if (!std::isfinite(leastBytes) || leastBytes <= limit)
    return {true, "no plan fits the degrees: stages, devices and layers do not go together; give fewer of --degrees"};
  std::string message = llvm::formatv(
      "no plan fits into the memory: the best needs {0} on its fullest device, {1} more than the limit of {2}",
      bytesText(leastBytes), bytesText(leastBytes - limit), bytesText(limit));
  message += "; take more devices, a larger --memory";
  if (request.training) {
    if (request.microbatches || request.recompute || request.zero || request.degrees.any())
      message += ", free what --microbatches, --recompute, --zero or --degrees fix";
    message += request.elementType == "f32" ? ", a smaller --batch, or --dtype bf16" : ", or a smaller --batch";
  }
  return {true, message};
}

void Searcher::explore(unsigned share, unsigned shares) {
  // The numbers whose bound is least first: they promise most, and rule others out.
  std::vector<int64_t> all = microbatchNumbers();
  for (size_t index = share; index < all.size(); index += shares)
    numbers.emplace_back(lowerBoundOf(all[index]), all[index]);
  intervals.forget();
  llvm::stable_sort(numbers, [](auto &left, auto &right) { return left.first < right.first; });
  for (auto [least, microbatches] : numbers) {
    bound = std::min(bound, least);
    if (best && (outOfTime() || best->seconds <= least))
      break;
    tryMicrobatches(microbatches);
    intervals.forget();
    choices.clear();
  }
}

void Searcher::findLeastBytes() {
  explains = true;
  for (size_t index = 0; explains && index != numbers.size(); ++index) {
    tryMicrobatches(numbers[index].second);
    intervals.forget();
    choices.clear();
  }
}

std::variant<FoundPlan, SearchFailure> Searcher::finish(double least) {
  if (std::optional<SearchFailure> failure = refineStages())
    return *failure;
  best->lowerBound = std::min(least, best->seconds);
  addExpectations();
  return std::move(*best);
}

/// Explores numbers of microbatches in two threads, each for itself: the same two on every machine, so that the plan
/// does not depend on how many cores there are.
std::variant<FoundPlan, SearchFailure> search(const SearchGraph &graph, const Machine &machine,
                                              const SearchRequest &request) {
  constexpr unsigned shares = 2;
  std::vector<std::unique_ptr<Searcher>> searchers;
  for (unsigned share = 0; share != shares; ++share)
    searchers.push_back(std::make_unique<Searcher>(graph, machine, request));
  if (std::string problem = searchers.front()->checkRequest(); !problem.empty())
    return SearchFailure{false, problem};
  auto together = [&](auto work) {
    std::vector<std::thread> threads;
    for (unsigned share = 1; share < shares; ++share)
      threads.emplace_back([&, share] { work(share); });
    work(0u);
    for (std::thread &thread : threads)
      thread.join();
  };
  together([&](unsigned share) { searchers[share]->explore(share, shares); });
  Searcher *winner = nullptr;
  double bound = solver::forbidden;
  for (auto &searcher : searchers) {
    bound = std::min(bound, searcher->bound);
    if (searcher->best && (!winner || searcher->best->seconds < winner->best->seconds))
      winner = searcher.get();
  }
  if (winner)
    return winner->finish(bound);
  // How much memory is missing takes longer to find out than that it is.
  together([&](unsigned share) { searchers[share]->findLeastBytes(); });
  for (auto &searcher : searchers) {
    searchers.front()->leastBytes = std::min(searchers.front()->leastBytes, searcher->leastBytes);
    if (searcher->best && (!winner || searcher->best->seconds < winner->best->seconds))
      winner = searcher.get();
  }
  return winner ? winner->finish(bound) : searchers.front()->infeasible();
}

} // namespace

/// What people would choose without a search, for comparison.
static void considerBaselines(const SearchGraph &graph, const Machine &machine, const SearchRequest &request,
                              FoundPlan &plan) {
  auto count = static_cast<int64_t>(machine.devices.size());
  std::vector<std::pair<std::string, Degrees>> baselines = {{"single", {}}};
  baselines.back().second.data = 1;
  if (count > 1) {
    std::string devices = std::to_string(count);
    Degrees data, model, pipeline;
    data.data = model.model = pipeline.pipeline = count;
    pipeline.data = 1;
    baselines.push_back({"data " + devices, data});
    baselines.push_back({"model " + devices, model});
    baselines.push_back({"pipeline " + devices, pipeline});
  }
  for (auto &[name, degrees] : baselines) {
    SearchRequest fixed = request;
    fixed.degrees = degrees;
    fixed.progress = nullptr;
    auto found = search(graph, machine, fixed);
    Considered &made = plan.considered.emplace_back();
    made.name = name;
    if (auto *other = std::get_if<FoundPlan>(&found)) {
      made.seconds = other->seconds;
      made.bytes = other->peakBytes();
    } else {
      made.whyNot = std::get<SearchFailure>(found).message;
    }
  }
}

std::variant<FoundPlan, SearchFailure> findPlan(const SearchGraph &graph, const Machine &machine,
                                                const SearchRequest &request) {
  SearchRequest guarded = request;
  std::mutex mutex;
  if (request.progress)
    guarded.progress = [&](const std::string &line) {
      std::lock_guard lock(mutex);
      request.progress(line);
    };
  auto found = search(graph, machine, guarded);
  if (auto *plan = std::get_if<FoundPlan>(&found); plan && !request.degrees.any())
    considerBaselines(graph, machine, request, *plan);
  return found;
}

} // namespace cleave::search
