// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The problem across stages, free of any IR: cut a chain of layers into stages, give each stage devices and one of the
// ways to run it there, so that a step takes the least time. With t_i the seconds of a microbatch in stage i, forward
// and backward, and f_i those of them that filling and draining the pipeline costs (the schedule's ramp), a step of M
// microbatches takes
//
//   sum of (f_i + h_i)  +  max (s_i (M t_i - f_i), M c_i - h_i)  +  max perStep_i
//
// c_i are the seconds in which a microbatch comes to stage i, one way (links are full duplex), and h_i those that its
// transfers add while the pipeline fills and drains; they are hidden else, until the link is busier than any stage.
// s_i is how many times as long stage i takes while the others compute as well (`steadySlowdown`), mostly 1: stages
// fill and drain the pipeline in turns, and between that all are busy. Under GPipe and 1F1B f_i is t_i, and the step
// takes the sum of all t_i and (M - 1) times the longest (Huang et al. 2019; Narayanan et al. 2019; Zheng et al. 2022).
// Under a schedule with v chunks a stage, layers repeat (`cuts`), and the layers of a stage stand for those of its
// chunks, a v-th of them each: f_i is that of a chunk, and a microbatch enters each stage v times (Narayanan et al.
// 2021).

#ifndef CLEAVE_PASSES_PLANNER_STAGES_STAGESEARCH_H
#define CLEAVE_PASSES_PLANNER_STAGES_STAGESEARCH_H

#include "passes/pipeline/Schedule.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cleave::stages {

/// Seconds or bytes of what is impossible, and a number of stages or devices of what cannot be reached.
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr unsigned unreachable = std::numeric_limits<unsigned>::max();

/// One way to run consecutive layers on some devices. Seconds are a microbatch's; bytes are those of each device.
struct StageOption {
  double forward = 0, backward = 0;
  /// Seconds a step besides its microbatches: reduction of gradients that nothing hides, the optimizer.
  double perStep = 0;
  double fixedBytes = 0;      ///< Whatever is in flight: parameters, gradients, optimizer state, transients.
  double microbatchBytes = 0; ///< For each microbatch in flight: activations.
  double backwardWeight = 0;  ///< Of the backward seconds, those of gradients of weights, which nothing waits for.
  /// The caller's, to find again what it meant.
  uint32_t id = 0;
  /// While all stages of a pipeline are busy, everything takes so many times as long.
  double steadySlowdown = 1;

  double seconds() const { return forward + backward; }
  /// Seconds of so many microbatches besides the `filling` seconds.
  double steadySeconds(double microbatches, double filling) const {
    return steadySlowdown * (microbatches * seconds() - filling);
  }
};

/// From where a stage gets activations. As stages of a run lie on its devices one after the other, the number of
/// devices before them tells.
enum class Hop : uint8_t {
  WithinHost,
  BetweenHosts, ///< It begins where a host of its run does.
  BetweenRuns,  ///< It is the first one on its run, or on a reserved run.
};
inline constexpr unsigned numHops = 3;

/// To a stage whose run, which is not reserved, has `devices` devices before it.
inline Hop hopAfter(unsigned devices, unsigned hostSize) {
  return devices == 0 ? Hop::BetweenRuns : devices % hostSize == 0 ? Hop::BetweenHosts : Hop::WithinHost;
}

/// What stages cost. Answers are asked for often, and kept by the one who gives them.
class StageCosts {
public:
  virtual ~StageCosts() = default;
  /// The ways to run layers [first, last) on `devices` devices of a kind; none where that is not possible.
  virtual const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned kind, unsigned devices) = 0;
  /// Intervals of one class have the same options: those of equal layers. Isomorphic intervals are solved once.
  virtual uint64_t classOf(unsigned first, unsigned last) = 0;
  /// Seconds that a microbatch takes from the stage that ends before layer `at` to the one on `devices` devices of a
  /// kind that begins there, one way.
  virtual double transferSeconds(unsigned at, unsigned kind, unsigned devices, Hop hop) = 0;
  /// Whether more layers on the same devices never take less: an interval's fastest option is no faster than that of an
  /// interval inside it, and where none of an interval's options fits into memory, none of a longer one does. The
  /// search then asks for fewer intervals. Of reserved runs it is not expected.
  virtual bool growsWithLayers() const { return false; }
  /// Whether neither these layers nor more have options on those devices. It is asked of intervals without any.
  virtual bool isTooLong(unsigned /*first*/, unsigned /*last*/, unsigned /*kind*/, unsigned /*devices*/) {
    return false;
  }
};

/// Neighbouring devices of one kind.
struct DeviceRun {
  unsigned count = 0;
  unsigned kind = 0;
  double memory = std::numeric_limits<double>::infinity(); ///< Bytes of each.
  /// The numbers of devices that a stage may have, ascending: parts of a host, or whole hosts.
  std::vector<unsigned> stageSizes;
  /// The devices of each of its hosts, or 1 where these differ.
  unsigned hostSize = 1;
  /// All its devices belong to one stage, wherever in the pipeline that is: `stageSizes` is their number, and no other
  /// run has this kind. Options see to it that every plan has exactly one such stage: intervals have them that hold
  /// all the layers that belong there, and no other kind has options for any of these layers.
  bool reserved = false;
};

/// Transfers to a stage: seconds that they add to the sum of stages, and those for which they keep a link busy beyond
/// that in a step, as a stage's ramp and steady seconds.
struct Transfers {
  double ramp = 0, load = 0;
};

struct Stage;

struct StageProblem {
  unsigned numLayers = 0;
  /// In the order of the pipeline where it is fixed; else `anyOrder` lets the search order them. Reserved ones stand
  /// anywhere.
  std::vector<DeviceRun> runs;
  bool anyOrder = true;
  unsigned microbatches = 1;
  /// The size of the last microbatch as a part of the others', which it takes as much less time.
  double lastMicrobatch = 1;
  /// What crosses between stages comes back as a gradient: its transfers count twice.
  bool training = true;
  pipeline::Schedule schedule;
  /// The chunks of each stage.
  unsigned chunks = 1;
  /// Where layers may be cut, ascending from the first layer of the first stage to where the last stage ends; empty:
  /// everywhere. With several chunks there are equal layers between cuts, as many as chunks or a multiple, but for
  /// those that the first and the last interval have besides. Where the first stage has both ends of the model, layers
  /// lie on a ring: the first cut is in front of what ends the model, and the others go on behind it by `numLayers`.
  std::vector<unsigned> cuts = {};
  /// Every device belongs to a stage; else devices may stay idle.
  bool useAllDevices = false;
  /// A device may belong to several stages, each of which begins with the first device of its run: where a step is one
  /// microbatch, stages take turns. Memory is compared stage by stage. Not with `useAllDevices`.
  bool sharesDevices = false;
  /// Somebody fixed it.
  std::optional<unsigned> numStages;
  /// No plan has more stages. Where what stages keep depends on how many there are before them
  /// (`dependsOnEarlierStages`), they keep as much as those of a plan of so many.
  std::optional<unsigned> mostStages;
  /// For a bound of plans of this many stages up to `mostStages`: stages keep what those of a plan of so few do.
  std::optional<unsigned> fewestStages = std::nullopt;
  /// For a bound: stages have the least ramp that the schedule may have, whatever part of their seconds is forward.
  bool hasLeastRamps = false;

  /// The first layer of the first stage.
  unsigned begin() const { return cuts.empty() ? 0 : cuts.front(); }

  /// M of the formula: the step's samples in microbatches of full size.
  double fullMicrobatches() const { return microbatches - 1 + lastMicrobatch; }

  /// Microbatches that a stage keeps in flight with `stagesLeft` stages from it to the end: where that depends on the
  /// stages before it and nothing says how many these are, no more than it will.
  double inFlight(unsigned stagesLeft) const {
    unsigned stages = stagesLeft;
    if (schedule->dependsOnEarlierStages)
      stages = std::max(stages, numStages.value_or(fewestStages.value_or(mostStages.value_or(stagesLeft))));
    return schedule.microbatchesInFlight({stages, microbatches, chunks}, stages - stagesLeft);
  }

  /// What a stage adds to a step besides its part of the longest one, while the pipeline fills and drains.
  double ramp(const StageOption &option) const {
    if (hasLeastRamps)
      return schedule.leastRampShare(chunks) *
             std::max(option.seconds() - schedule->delayedWeights * option.backwardWeight, 0.0);
    return schedule.rampOfStep({option.forward, option.backward - option.backwardWeight, option.backwardWeight},
                               chunks);
  }

  /// To a stage that begins before layer `first`; of the others StageCosts tells. A step pays for the way there and, in
  /// training, back while the pipeline fills and drains.
  Transfers transfers(StageCosts &costs, unsigned first, unsigned kind, unsigned devices, Hop hop) const {
    bool isFirst = first == begin();
    unsigned entries = schedule.numEntries(isFirst, chunks);
    if (entries == 0)
      return {};
    // To the first stage microbatches come from the last one, at the end of a round of chunks.
    double seconds = entries * costs.transferSeconds(isFirst && cuts.size() > 1 ? cuts[1] : first, kind, devices,
                                                     isFirst ? Hop::BetweenRuns : hop);
    double ramp = schedule.drains() ? seconds * (training ? 2 : 1) : 0;
    return {ramp, std::max(0.0, fullMicrobatches() * seconds - ramp)};
  }
  /// To a stage of a plan.
  Hop hopTo(const std::vector<Stage> &stages, size_t index) const;
};

/// Layers [first, last) on devices [firstDevice, firstDevice + devices) of the run.
struct Stage {
  unsigned first = 0, last = 0, run = 0, firstDevice = 0, devices = 0;
  StageOption option;
  /// Microbatches whose activations the schedule keeps here; a chunk's are a part of them.
  double inFlight = 1;
  double bytes() const { return option.fixedBytes + inFlight * option.microbatchBytes; }
};

struct StagePlan {
  /// Empty where nothing fits.
  std::vector<Stage> stages;
  double seconds = std::numeric_limits<double>::infinity();
  /// No plan of the problem takes less; equal to `seconds` where the search was exact.
  double lowerBound = 0;
  /// Where nothing fits: the smallest number of bytes, over all plans (which may leave devices idle), that the fullest
  /// device would need.
  double leastBytes = 0;
  bool isFeasible() const { return !stages.empty(); }
};

struct SearchOptions {
  /// Seconds of processor time after which the best so far is taken; 0: no limit.
  double timeBudget = 0;
  /// Called with the best seconds so far.
  std::function<void(double)> progress;
  /// Whether an answer without a plan says how many bytes would do (unless there are seconds to beat). It needs the
  /// options of all intervals.
  bool explainInfeasible = true;
  /// As many bytes are known to do already: only fewer are looked for, and 0 is the answer where there are none.
  double bytesToBeat = std::numeric_limits<double>::infinity();
  /// Only pipelines whose stages have equal numbers of devices and, on each run of devices, of layers, in proportion to
  /// how fast it is: a plan in little time, and no bound. Of several runs none where some are shared or reserved.
  bool equalLayersOnly = false;
  /// Only the lower bound is of use: there is no search for good plans first.
  bool boundsOnly = false;
  /// With more layers than that, equal ones are cut between groups only. Time grows with its square.
  unsigned mostGroups = 128;
  /// A plan that takes no less than this is of no use: the search may end without one. Its lower bound holds.
  double secondsToBeat = std::numeric_limits<double>::infinity();
};

/// The formula above for given stages; their `inFlight` is set by the schedule.
double stepSeconds(const StageProblem &problem, StageCosts &costs, std::vector<Stage> &stages);

/// Finds the best stages. For one bound of the longest stage (M t - f) and one of the seconds a step besides, a dynamic
/// programme over (stages left, first layer, devices left) finds the least sum (StageProgram.h); pairs of bounds are
/// searched best first, and a range of them is left out when microbatches times its smallest bound, and the sum at its
/// largest, exceed the best step. Pipelines whose stages have equal numbers of devices come first, to have a good step
/// early.
///
/// Where all stages keep activations of as many microbatches, the number of stages left says too little: plans of at
/// most P stages that keep what P stages do are searched for each P, unless the best plan of less memory has enough.
///
/// Exact, unless the problem is so large that the work is cut off: more than 128 layers are cut between groups of equal
/// layers only, the search ends after a fixed amount of work (the same on every machine), and with more than 16 stages
/// P is a power of two or three times one. `lowerBound` then says
/// how far from the optimum the plan can be.
StagePlan searchStages(const StageProblem &problem, StageCosts &costs, const SearchOptions &options = {});

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_STAGESEARCH_H
