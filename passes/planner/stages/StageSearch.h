// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The problem across stages, free of any IR: cut a chain of layers into stages, give each stage devices and one of the
// ways to run it there, so that a step takes the least time. With t_i the seconds of a microbatch in stage i, forward
// and backward, a step of M microbatches takes
//
//   sum of (t_i + transfers of i)  +  (M - 1) * max t_i  +  max perStep_i
//
// under GPipe and 1F1B (Huang et al. 2019; Narayanan et al. 2019; Zheng et al. 2022).

#ifndef CLEAVE_PASSES_PLANNER_STAGES_STAGESEARCH_H
#define CLEAVE_PASSES_PLANNER_STAGES_STAGESEARCH_H

#include "passes/planner/stages/Schedule.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cleave::stages {

/// One way to run consecutive layers on some devices. Seconds are a microbatch's; bytes are those of each device.
struct StageOption {
  double forward = 0, backward = 0;
  /// Seconds a step besides its microbatches: reduction of gradients that nothing hides, the optimizer.
  double perStep = 0;
  double fixedBytes = 0;      ///< Whatever is in flight: parameters, gradients, optimizer state, transients.
  double microbatchBytes = 0; ///< For each microbatch in flight: activations.
  /// The caller's, to find again what it meant.
  uint32_t id = 0;

  double seconds() const { return forward + backward; }
};

/// What stages cost. Answers are asked for often, and kept by the one who gives them.
class StageCosts {
public:
  virtual ~StageCosts() = default;
  /// The ways to run layers [first, last) on `devices` devices of a kind; none where that is not possible.
  virtual const std::vector<StageOption> &options(unsigned first, unsigned last, unsigned kind, unsigned devices) = 0;
  /// Intervals of one class have the same options: those of equal layers. Isomorphic intervals are solved once.
  virtual uint64_t classOf(unsigned first, unsigned last) = 0;
  /// Seconds that a microbatch takes from the stage that ends before layer `at` to the one that begins there, one way.
  virtual double transferSeconds(unsigned at) = 0;
};

/// Neighbouring devices of one kind.
struct DeviceRun {
  unsigned count = 0;
  unsigned kind = 0;
  double memory = std::numeric_limits<double>::infinity(); ///< Bytes of each.
  /// The numbers of devices that a stage may have, ascending: parts of a host, or whole hosts.
  std::vector<unsigned> stageSizes;
};

struct StageProblem {
  unsigned numLayers = 0;
  /// In the order of the pipeline where it is fixed; else `anyOrder` lets the search order them.
  std::vector<DeviceRun> runs;
  bool anyOrder = true;
  unsigned microbatches = 1;
  Schedule schedule = Schedule::OneForwardOneBackward;
  /// Every device belongs to a stage; else devices may stay idle.
  bool useAllDevices = false;
  /// Somebody fixed it.
  std::optional<unsigned> numStages;
};

/// Layers [first, last) on devices [firstDevice, firstDevice + devices) of the run.
struct Stage {
  unsigned first = 0, last = 0, run = 0, firstDevice = 0, devices = 0;
  StageOption option;
  /// Microbatches whose activations the schedule keeps here.
  unsigned inFlight = 1;
  double bytes() const { return option.fixedBytes + inFlight * option.microbatchBytes; }
};

struct StagePlan {
  /// Empty where nothing fits.
  std::vector<Stage> stages;
  double seconds = std::numeric_limits<double>::infinity();
  /// No plan of the problem takes less; equal to `seconds` where the search was exact.
  double lowerBound = 0;
  /// Where nothing fits: the smallest number of bytes a device, over all plans, that the fullest device would need.
  double leastBytes = 0;
  bool isFeasible() const { return !stages.empty(); }
};

struct SearchOptions {
  /// Seconds of processor time after which the best so far is taken; 0: no limit.
  double timeBudget = 0;
  /// Called with the best seconds so far.
  std::function<void(double)> progress;
};

/// The formula above for given stages; their `inFlight` is set by the schedule.
double stepSeconds(const StageProblem &problem, StageCosts &costs, std::vector<Stage> &stages);

/// Finds the best stages: a dynamic programme over (stages left, first layer, devices left) for one bound of the
/// longest stage after the other, in increasing order, until microbatches times the bound exceeds the best step.
StagePlan searchStages(const StageProblem &problem, StageCosts &costs, const SearchOptions &options = {});

} // namespace cleave::stages

#endif // CLEAVE_PASSES_PLANNER_STAGES_STAGESEARCH_H
