// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the search keeps while it looks for the best plan: grids, settings, options of stages. Private to the search.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_SEARCHER_H
#define CLEAVE_PASSES_PLANNER_SEARCH_SEARCHER_H

#include "passes/cost/HostSharing.h"
#include "passes/planner/search/Intervals.h"
#include "passes/planner/search/Recomputing.h"
#include "passes/planner/search/Refine.h"
#include "passes/planner/search/Search.h"
#include "passes/planner/stages/StageSearch.h"

#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <variant>

namespace cleave::search {

/// Devices of one kind, on hosts with equally many of them.
struct Run {
  std::vector<unsigned> devices;
  unsigned hostSize = 1;
  unsigned pin = none; ///< It is for what is pinned there: an index into SearchRequest::pinned.
  /// Where in it a stage stands matters: one stage has all of it, unless degrees say how many.
  bool spansZones = false;

  unsigned count() const { return devices.size(); }
};
/// Devices of the machine as runs: what nothing is pinned to, or all where devices are shared, then a run for each mesh
/// of pinned operators. `devices`: ascending; those of the meshes count anyway.
/// `asOneKind`: all devices are one run, whatever their kinds.
std::vector<Run> findRuns(const Machine &machine, llvm::ArrayRef<unsigned> devices,
                          llvm::ArrayRef<MeshSpec> pinned = {}, bool sharesDevices = false, bool asOneKind = false);
/// The devices of each host of a run; 1 where its hosts have unlike numbers.
unsigned evenHostSize(const Machine &machine, const Run &run);
std::vector<unsigned> allDevices(const Machine &machine);
/// The devices of meshes.
std::vector<unsigned> devicesOf(llvm::ArrayRef<MeshSpec> meshes);
/// Devices that plans may have, ascending.
struct DevicesToTry {
  std::vector<unsigned> devices;
  /// Each takes as long as the slowest of them would: stages may have devices of several kinds, in equal parts.
  bool asOneKind = false;
};
/// Where devices share the cores of their host, first as many as there are cores for, and then all: a pipeline keeps
/// all of them busy, so that each number of them has its own seconds. Where there are several kinds of them, also the
/// fastest kinds together, as if they were one.
std::vector<DevicesToTry> devicesToTry(const Machine &machine, const SearchRequest &request, bool sharesDevices);
/// All of two lists of devices, each once, ascending.
std::vector<unsigned> joined(std::vector<unsigned> devices, llvm::ArrayRef<unsigned> others);
/// The numbers of devices that a stage may have on any grid: parts of a host and powers of two of hosts; every number
/// where there are few devices.
std::vector<unsigned> stageSizes(const Run &run);
/// The numbers of hosts, as devices, of stages that share a run evenly, for every number of stages up to `mostStages`.
std::vector<unsigned> evenSizes(const Run &run, unsigned mostStages);

/// An axis of a grid before it has a name.
struct Shape {
  llvm::SmallVector<int64_t, 3> sizes;
  llvm::SmallVector<AxisRole, 3> roles;
  llvm::SmallVector<std::string, 3> names;
};

/// A way to run layers, as an option's id remembers it: those from `first` to `last` on the ring (Intervals.h).
struct Choice {
  unsigned first, last, kind, devices, setting, shape;
  Weights weights;
  Recompute recompute;
  unsigned zero;
  /// By piece of the layers, where these differ: how they get activations, instead of `recompute`.
  std::shared_ptr<const std::vector<Recompute>> byPiece = nullptr;
};

/// What layers are pinned to.
struct PinsOfLayers {
  unsigned pin = none;     ///< The only mesh to which some of them are pinned.
  bool isWhole = true;     ///< All that is pinned to it is in these layers.
  bool areSeveral = false; ///< They are pinned to several meshes.
  auto operator<=>(const PinsOfLayers &) const = default;
};

/// Layers that repeat: from `first` on `count` groups of `size` layers, each group like the others.
struct RepeatedLayers {
  unsigned first = 0, size = 1, count = 0;
};

/// What layers [first, last) on the ring add to a sum, by what it is before each boundary.
double between(llvm::ArrayRef<double> sumBefore, unsigned first, unsigned last);

/// A schedule with the chunks of its stages.
struct ScheduleChoice {
  pipeline::Schedule schedule;
  unsigned chunks = 1;
};

class LeastCosts;
class Searcher;

/// What stages cost with one number of microbatches.
class Costs : public stages::StageCosts {
public:
  Costs(Searcher &searcher, int64_t microbatches);

  const std::vector<stages::StageOption> &options(unsigned first, unsigned last, unsigned kind,
                                                  unsigned devices) override;
  uint64_t classOf(unsigned first, unsigned last) override;
  double transferSeconds(unsigned at, unsigned kind, unsigned devices, stages::Hop hop) override;
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
  /// Searches for plans of some of the machine's devices, ascending; pipelines keep them all busy.
  /// `sharesDevices`: a device may belong to several stages.
  Searcher(const SearchGraph &graph, const Machine &machine, const SearchRequest &request, bool sharesDevices,
           const DevicesToTry &devices);
  ~Searcher();

  /// What makes the request senseless; nothing where it makes sense.
  std::optional<SearchFailure> checkRequest() const;
  /// All numbers of microbatches to try; where there are too many, such as lie evenly among them.
  std::set<int64_t> microbatchNumbers() const;
  /// Looks for plans of equal stages on plain grids, whose axes cut the batch, weights, and, with numbers that are
  /// searched on all grids, positions, with some numbers of microbatches. Returns the seconds of the best plan for
  /// each.
  std::vector<double> exploreQuickly(llvm::ArrayRef<int64_t> numbers);
  /// Bounds the plans with a number of microbatches, schedule by schedule, and searches where the bound promises more
  /// than the best plan so far. Numbers near powers of two are searched on all grids; the others, and more sizes of
  /// stages, on plain ones.
  void explore(int64_t microbatches);
  /// From now on numbers near powers of two are searched on all grids; or one more number.
  void chooseNumbersOnAllGrids();
  void searchOnAllGrids(int64_t microbatches) { onAllGrids.insert(microbatches); }
  bool isForAllGrids(int64_t microbatches) const { return onAllGrids.count(microbatches); }
  /// Explores the number of the best plan on all grids, if it was not.
  void exploreBest();
  /// Bounds all numbers of microbatches again whose bound is less than `enough`, which is all that has to be proven; or
  /// one of them.
  void certify(double enough);
  void certifyNumber(int64_t microbatches, double enough);
  /// Infinity for a number that this searcher did not explore.
  double leastOf(int64_t microbatches) const {
    auto known = leastSeconds.find(microbatches);
    return known == leastSeconds.end() ? solver::forbidden : known->second;
  }
  /// What is known of all numbers of microbatches so far: no plan takes less.
  double lowerBound() const;
  /// Finds out how much memory is missing, where nothing fits.
  void findLeastBytes();
  /// The best plan, with all that is said about it; no plan takes less than `least`. Expects one.
  std::variant<FoundPlan, SearchFailure> finish(double least);
  SearchFailure infeasible() const;
  bool outOfTime() const { return request.timeBudget > 0 && elapsed() > request.timeBudget; }
  /// Without a plan there is nothing to take when the time is over: the first one is waited for.
  bool mayEnd() const { return std::isfinite(toBeat()) || request.mayFindNothing; }
  bool mustEnd() const { return mayEnd() && outOfTime(); }

  std::optional<FoundPlan> best;
  double leastBytes = std::numeric_limits<double>::infinity();
  bool leastIsOfSome = false; ///< The time was over before all plans were looked at for that.
  /// Somebody else's plan takes so long: one that takes no less is of no use.
  double secondsToBeat = std::numeric_limits<double>::infinity();

private:
  friend class Costs;
  friend class LeastCosts;
  friend class EveryWay; // The brute force of tests.

  /// Bytes that plans may take of each device of a run.
  double memoryOf(unsigned kind) const { return memories[kind]; }
  double leastMemory(const Run &run) const;
  /// Bytes of its host's memory that each device of a run may take.
  double leastHostRoom(const Run &run) const;
  /// PieceOptions::offload on the devices of a run with so much room.
  double offloadOf(const Run &run, double room) const;
  /// Seconds of a byte's way between a run's devices and their hosts.
  double secondsToHost(const Run &run) const;
  /// Whether somebody fixed that activations are kept in the host's memory.
  bool asksToOffload() const;
  bool mayOffload() const;
  /// What a second of hidden communication costs.
  double hiddenCost(const Run &run) const;
  /// Samples of a microbatch, the last one's may be fewer.
  int64_t samplesOf(int64_t microbatches) const { return (batch() + microbatches - 1) / microbatches; }
  /// The samples of a step in microbatches of full size.
  double fullMicrobatches(int64_t microbatches) const {
    return request.training ? static_cast<double>(batch()) / static_cast<double>(samplesOf(microbatches)) : 1;
  }
  double batchScale(int64_t microbatches) const {
    return request.training ? static_cast<double>(samplesOf(microbatches)) / static_cast<double>(graph.batch) : 1;
  }
  /// The same where a step is one microbatch.
  double batchScale() const { return batchScale(1); }
  /// A plan takes less, or is of no use.
  double toBeat() const { return std::min(secondsToBeat, best ? best->seconds : secondsToBeat); }
  int64_t batch() const { return request.batch ? request.batch : graph.batch; }

  bool hasMemory(const FoundPlan &plan) const;
  void findPinnedLayers();
  PinsOfLayers pinsOf(unsigned first, unsigned last) const;
  /// Whether layers [first, last) may be a stage on a run, or part of one.
  bool mayBeOn(unsigned kind, unsigned first, unsigned last, bool asPart) const;
  uint64_t classOf(unsigned first, unsigned last);
  LinkSpec linkBetweenHosts(const Run &run, unsigned lanes) const;
  LinkSpec linkBetweenRuns(unsigned kind, unsigned lanes) const;
  /// The slowest link of this hop to `lanes` devices of a run from as many others.
  const LinkSpec &linkOf(unsigned kind, unsigned lanes, stages::Hop hop);
  /// Of a boundary's tensors for microbatches of this size, each of a stage's devices sending a part.
  double sendSecondsAt(unsigned at, unsigned kind, unsigned devices, stages::Hop hop, double batchScale);
  /// Bytes of parameters that operators of these layers read in training, and others, too: with those of their
  /// gradients.
  double sharedBytes(unsigned first, unsigned last) const;
  /// Seconds a step to send these to and from other stages.
  double sharedSeconds(unsigned first, unsigned last, unsigned kind, unsigned devices);
  /// How long a stage waits in each microbatch for what it sends over one of its ends.
  double waitsAt(unsigned at, const Choice &choice);
  llvm::ArrayRef<unsigned> membersOf(const Run &run, unsigned count) const;
  Precision precision() const;
  double trainedBytes() const;
  /// Whether keys of some attention may go around, or not.
  bool mayHaveRings() const;
  /// Bytes of parameters, gradients and optimizer state of layers, all devices together.
  double stateBytes(unsigned first, unsigned last) const { return between(stateBefore, first, last); }
  void sumState();
  bool fits(const IntervalSums &sums, unsigned kind, unsigned first, int64_t microbatches) const;
  /// The most microbatches that a stage which begins at a layer has in flight.
  double mostInFlight(unsigned first, int64_t microbatches) const;
  /// Whether the host's memory has room for `bytes` of each microbatch in flight, and for the optimizer's state where
  /// it is kept there.
  bool fitsInHost(double bytes, const IntervalSums &sums, const Choice &choice, int64_t microbatches) const;
  const std::vector<Shape> &shapesOf(unsigned kind, unsigned devices);
  void addPlainShapes(std::vector<Shape> &list) const;
  /// Whether stages of that size may be on any grid, with that number of microbatches.
  bool isOnAllGrids(unsigned kind, unsigned devices, int64_t microbatches) const;
  /// Whether a stage may be on a grid; `isWhole`: one that holds the whole model.
  bool mayBeOnGrid(unsigned kind, unsigned devices, const Shape &shape, int64_t microbatches, bool isWhole) const;
  /// The same, of the grids that no other one includes.
  bool bounds(unsigned kind, unsigned devices, const Shape &shape, int64_t microbatches) const;
  bool needsSequences(unsigned kind) const;
  void addSequenceShapes(std::vector<Shape> &list, unsigned kind, unsigned devices) const;
  /// Whether one of its axes cuts positions in sequences, and nothing else.
  static bool cutsSequence(const Shape &shape);
  /// Whether the grid of a shape is one of all grids, on which axes cut anything.
  static bool isOfAllGrids(const Shape &shape, unsigned hostSize);
  /// Whether the batch axis of a shape is as long as samples of a microbatch allow, but for less than half.
  bool runsOutOfSamples(const Shape &shape, int64_t microbatches) const;
  /// One whose axes have roles: it may be among the choices of another shape, and then tells nothing about bounds.
  static bool isPlain(const Shape &shape) { return !shape.roles.empty() && shape.names.empty(); }
  unsigned settingOf(unsigned kind, unsigned devices, unsigned shape, int64_t microbatches);
  /// How many times as long a stage computes because its own devices all do, and how many times as long as that while
  /// those of all stages do.
  struct Slowdowns {
    double own = 1, steady = 1;
  };
  const Slowdowns &slowdownsOf(unsigned kind, unsigned devices);
  std::vector<Weights> weightsOf(int64_t microbatches) const;
  double secondsPerByte(int64_t microbatches) const;
  bool memoryMayBind() const;
  /// What somebody fixed about stages on a run.
  StageKeeping fixedKeepingOf(unsigned kind) const;
  /// By piece of a choice's layers.
  std::vector<Recompute> recomputeOf(const Choice &choice) const;
  /// What that amounts to; `sums`: what the choice's layers do.
  Recomputation recomputationOf(const IntervalSums &sums, const Choice &choice);
  stages::StageOption optionOf(const IntervalSums &sums, const Choice &choice) {
    return optionOf(sums, recomputationOf(sums, choice), choice);
  }
  stages::StageOption optionOf(const IntervalSums &sums, const Recomputation &again, const Choice &choice);
  void addOptions(Choice choice, int64_t microbatches, const IntervalSums &sums,
                  std::vector<stages::StageOption> &options);
  void addOption(Choice choice, const stages::StageOption &option, std::vector<stages::StageOption> &options);
  /// The microbatches whose activations a stage with the whole model keeps, and that can compute again by piece;
  /// nothing where no schedule lets it.
  std::optional<double> inFlightByPiece(int64_t microbatches) const;
  /// A choice of the whole model in one stage, its pieces computing again what they have to so that it fits; nothing
  /// where nothing fits, one way for all pieces is as good, or no plan could be faster than the best so far.
  std::optional<Choice> choiceToFit(Choice choice, int64_t microbatches, const IntervalSums &sums);
  std::set<int64_t> possibleMicrobatches() const;
  std::set<int64_t> numbersOnAllGrids(const std::set<int64_t> &all) const;
  /// A schedule, and what no plan with it takes less than.
  struct Bounded {
    ScheduleChoice choice;
    double seconds = 0;
  };
  static double leastOf(llvm::ArrayRef<Bounded> bounds);
  std::vector<Bounded> boundSchedules(int64_t microbatches, double enough);
  /// Whether its schedules' bounds were asked to prove no more than `enough` before.
  bool wasBoundedFor(int64_t microbatches, double enough) const;
  /// lowerBoundOf, once for each number.
  double simpleBoundOf(int64_t microbatches);
  bool certifies() const { return request.certifies && !sharesDevices; }
  /// Gives back the memory of what one number of microbatches needed.
  void forget();
  stages::StageProblem problemOf(int64_t microbatches, ScheduleChoice choice) const;
  stages::StageProblem problemOf(int64_t microbatches) const;
  void setSplits(const FoundPlan &plan, FoundStage &stage, const stages::Stage &from, const Choice &choice,
                 const IntervalSums &sums, const Recomputation &again, const PieceChoices &splits);
  FoundPlan describe(const stages::StagePlan &plan, int64_t microbatches, ScheduleChoice schedule);
  /// The schedules to choose from.
  std::vector<ScheduleChoice> schedules(int64_t microbatches) const;
  void trySchedule(int64_t microbatches, ScheduleChoice schedule, Costs &costs, bool quickly = false);
  void findRepeatedLayers();
  std::vector<unsigned> chunksOf(const pipeline::ScheduleRow &row) const;
  std::vector<unsigned> cutsFor(const ScheduleChoice &choice) const;
  unsigned operatorsBefore(unsigned layer) const;
  std::vector<unsigned> orderOf(const stages::StagePlan &plan, const ScheduleChoice &choice) const;
  RefineRequest refineRequestOf(unsigned stage);
  std::optional<SearchFailure> refineStages();
  double lowerBoundOf(int64_t microbatches);
  double memoryBoundOf(int64_t microbatches, double enough);
  Weights weightsAt(double secondsPerByte) const;
  /// Whether all intervals of layers may be bounded as stages.
  bool hasFewLayers() const { return intervals.numLayers() <= 40; }
  double partOf(unsigned kind, unsigned devices) const;
  /// The least that a stage's ramp may be: `share` of its seconds without `delayed` times its gradients of weights.
  struct LeastRamp {
    unsigned delayed = 0;
    double share = 1;
  };
  std::vector<LeastRamp> leastRamps(int64_t microbatches) const;
  /// A setting in which layers may be, and their term in the bound of several stages at no price of memory.
  struct SettingOfLayers {
    unsigned kind, devices, setting;
    bool isInside; ///< A layer of a stage that may have others, instead of layers that are a stage.
    double term = 0;
  };
  /// By class of layers and whether they are inside of a stage.
  using KnownTerms = std::map<std::pair<uint64_t, bool>, std::vector<SettingOfLayers>>;
  /// Whether there may be more than one stage: a device alone has but one.
  bool mayHaveSeveralStages(const stages::StageProblem &problem) const {
    return problem.numStages.value_or(sharesDevices ? 2 : static_cast<unsigned>(busy.size())) > 1;
  }
  double severalStagesBound(const stages::StageProblem &problem, KnownTerms &known, double price);
  double termOf(unsigned first, unsigned last, const stages::StageProblem &problem, const SettingOfLayers &in,
                double price);
  double termOf(unsigned first, unsigned last, const stages::StageProblem &problem, const SettingOfLayers &in,
                double price, LeastRamp ramp);
  double leastOfInterval(unsigned first, unsigned last, const stages::StageProblem &problem,
                         std::vector<SettingOfLayers> &known, bool isInside, double price);
  /// Of the settings in which one stage may hold the whole model.
  void forEachSingleStage(const stages::StageProblem &problem,
                          llvm::function_ref<void(unsigned setting, unsigned kind)> visit);
  double singleStageBound(const stages::StageProblem &problem, unsigned setting, const Weights &keeping, double enough);
  double fittingStageBound(const stages::StageProblem &problem, unsigned setting, unsigned kind, double enough);
  double keptStageBound(const stages::StageProblem &problem, unsigned setting, double memory, Weights keeping,
                        double enough);
  /// A step of one stage at a price of a byte: the least sum of its seconds and of its priced bytes, and the bytes.
  struct PricedStep {
    double value = solver::forbidden, bytes = 0;
  };
  /// `shown`: the part of gradients' joining that counts as if it could be seen.
  PricedStep pricedStep(const stages::StageProblem &problem, unsigned setting, Weights keeping, double shown,
                        double price, double enough);
  void addExpectations();
  /// Seconds of processor time.
  double elapsed() const { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }

  const SearchGraph &graph;
  const Machine &machine;
  const SearchRequest &request;
  bool sharesDevices;
  std::vector<unsigned> available;
  std::vector<unsigned> busy; ///< Those, and what something is pinned to.
  Topology topology;
  HostSharing sharing;
  Intervals intervals;
  std::vector<Run> runs;
  /// By mesh of pinned operators: the layers [first, last) from the first such operator to the last one.
  std::vector<std::pair<unsigned, unsigned>> pinnedLayers;
  std::map<std::tuple<unsigned, PinsOfLayers, double>, uint64_t> classes;
  /// Of which chunks can be made.
  RepeatedLayers repeated;
  /// By kind, while nothing else computes; and as settings have them.
  std::vector<std::unique_ptr<OperatorCost>> operatorCosts;
  /// By kind: the numbers of devices of stages on any grid, and the bytes of a device.
  std::vector<std::vector<unsigned>> sizesOnAllGrids;
  std::vector<double> memories, hostRooms, offloadsOfRuns;
  std::map<std::pair<unsigned, unsigned>, OperatorCost> busyCosts;
  std::map<std::pair<unsigned, unsigned>, Slowdowns> slowdowns;
  std::map<std::pair<unsigned, unsigned>, std::vector<Shape>> shapes;
  std::map<std::tuple<unsigned, unsigned, unsigned>, std::unique_ptr<Grid>> grids;
  /// By run, the number of pairs of devices that send at once, and which these are.
  std::map<std::tuple<unsigned, unsigned, stages::Hop>, LinkSpec> links;
  std::map<std::tuple<unsigned, unsigned, unsigned, int64_t>, unsigned> settingNumbers;
  /// By setting: the size of its microbatches in terms of the model's batch.
  std::vector<double> batchScales, offloads;
  std::vector<Choice> choices;
  /// Numbers of microbatches that were looked at, with what no plan takes less than.
  std::map<int64_t, double> leastSeconds;
  /// What their bounds were asked to prove last.
  std::map<int64_t, double> boundedFor;
  std::map<int64_t, double> simpleBounds;
  /// Of the number of microbatches that is looked at.
  std::unique_ptr<LeastCosts> leastCosts;
  /// Numbers of microbatches with which stages may be on any grid.
  std::set<int64_t> onAllGrids;
  bool looksQuickly = false;
  double quickSeconds = 0; ///< Of the best plan of equal stages with one number of microbatches.
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

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_SEARCHER_H
