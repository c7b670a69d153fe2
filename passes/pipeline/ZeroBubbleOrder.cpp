// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes orders with split backward passes, and chooses among them.

#include "passes/pipeline/ZeroBubbleOrder.h"

#include "passes/pipeline/PipelineOrder.h"
#include "passes/pipeline/PipelineSimulator.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace cleave::pipeline {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// What a stage does when there is a choice.
struct Policy {
  /// A gap is filled with W even where it makes the next input wait.
  bool fillsEveryGap = false;
  /// B goes before F whenever both could run; else they take turns.
  bool prefersBackward = false;
  /// Forwards before the first B: as many as 1F1B would do times this, and one.
  double steepness = 1;
};

/// Stages that decide at each moment what to do next, knowing what has arrived and what is on its way.
class GreedyOrder {
public:
  GreedyOrder(const std::vector<StageTimes> &stages, unsigned microbatches, const std::vector<unsigned> &limits,
              Policy policy)
      : stages(stages), microbatches(microbatches), limits(limits), policy(policy), states(stages.size()),
        order(stages.size()) {
    for (State &state : states) {
      state.forwardArrival.assign(microbatches, never);
      state.backwardArrival.assign(microbatches, never);
    }
    states.front().forwardArrival.assign(microbatches, 0);
  }

  PipelineOrder make() {
    for (unsigned stage = 0; stage < stages.size(); ++stage)
      wakeUps.push({0, stage});
    while (!wakeUps.empty()) {
      auto [time, stage] = wakeUps.top();
      wakeUps.pop();
      if (time >= states[stage].freeAt)
        decide(stage, time);
    }
    return std::move(order);
  }

private:
  struct State {
    unsigned forwards = 0, backwards = 0, weights = 0; ///< Begun.
    bool lastWasForward = false;
    double freeAt = 0;
    std::vector<double> forwardArrival, backwardArrival; ///< By microbatch; `never` while not known.
  };
  using WakeUp = std::pair<double, unsigned>;

  unsigned mostAhead(unsigned stage) const {
    double wanted = 1 + (stages.size() - 1 - stage) * policy.steepness;
    return std::clamp(static_cast<unsigned>(wanted), 1u, limits[stage]);
  }

  /// When the next forward could begin, as far as is known.
  double forwardAt(unsigned stage) const {
    const State &state = states[stage];
    bool mayBegin = state.forwards < microbatches && state.forwards - state.weights < limits[stage] &&
                    (state.backwards > 0 || state.forwards < mostAhead(stage));
    return mayBegin ? state.forwardArrival[state.forwards] : never;
  }

  double backwardAt(unsigned stage) const {
    const State &state = states[stage];
    return state.backwards < microbatches ? state.backwardArrival[state.backwards] : never;
  }

  void decide(unsigned stage, double time) {
    State &state = states[stage];
    double forward = forwardAt(stage), backward = backwardAt(stage);
    bool hasWeight = state.weights < state.backwards;
    bool prefersForward = !policy.prefersBackward && !state.lastWasForward;
    if (backward <= time && !(prefersForward && forward <= time))
      begin(stage, time, TaskKind::BackwardInput);
    else if (forward <= time)
      begin(stage, time, TaskKind::Forward);
    else if (hasWeight && fits(stage, time, std::min(forward, backward)))
      begin(stage, time, TaskKind::BackwardWeight);
  }

  bool fits(unsigned stage, double time, double nextInput) const {
    return policy.fillsEveryGap || time + stages[stage].backwardWeight <= nextInput;
  }

  void begin(unsigned stage, double time, TaskKind kind) {
    State &state = states[stage];
    const StageTimes &times = stages[stage];
    if (kind == TaskKind::Forward) {
      order[stage].push_back({kind, state.forwards});
      state.freeAt = time + times.forward;
      bool isLast = stage + 1 == stages.size();
      if (isLast)
        state.backwardArrival[state.forwards] = state.freeAt;
      else
        arrive(stage + 1, states[stage + 1].forwardArrival[state.forwards], state.freeAt + times.send);
      ++state.forwards;
    } else if (kind == TaskKind::BackwardInput) {
      order[stage].push_back({kind, state.backwards});
      state.freeAt = time + times.backwardInput;
      if (stage > 0)
        arrive(stage - 1, states[stage - 1].backwardArrival[state.backwards], state.freeAt + times.send);
      ++state.backwards;
    } else {
      order[stage].push_back({kind, state.weights++});
      state.freeAt = time + times.backwardWeight;
    }
    if (kind != TaskKind::BackwardWeight)
      state.lastWasForward = kind == TaskKind::Forward;
    wakeUps.push({state.freeAt, stage});
  }

  void arrive(unsigned stage, double &arrival, double time) {
    arrival = time;
    wakeUps.push({time, stage});
  }

  const std::vector<StageTimes> &stages;
  unsigned microbatches;
  const std::vector<unsigned> &limits;
  Policy policy;
  std::vector<State> states;
  PipelineOrder order;
  std::priority_queue<WakeUp, std::vector<WakeUp>, std::greater<>> wakeUps;
};

/// ZB-H1, ZB-H2 and the like, as far as the limits allow.
PipelineOrder steepOrder(unsigned microbatches, const std::vector<unsigned> &limits, double steepness) {
  std::vector<unsigned> forwards, delays;
  for (unsigned stage = 0; stage < limits.size(); ++stage) {
    double wanted = 1 + (limits.size() - 1 - stage) * steepness;
    forwards.push_back(std::clamp(static_cast<unsigned>(wanted), 1u, limits[stage]));
    double kept = 1 + (limits.size() - 1) * steepness;
    delays.push_back(std::min<unsigned>(kept, limits[stage]) - forwards.back());
  }
  return orderWithDelays(forwards, delays, microbatches);
}

} // namespace

PipelineOrder orderZeroBubbleAutomatically(const std::vector<StageTimes> &stages, const PipelineShape &shape,
                                           const std::vector<unsigned> &limits) {
  PipelineOrder best;
  double least = never;
  auto consider = [&](PipelineOrder order) {
    PipelineTimeline timeline = simulateOrder(stages, {}, order);
    if (!timeline.stages.empty() && timeline.longestSpan() < least) {
      least = timeline.longestSpan();
      best = std::move(order);
    }
  };
  unsigned most = *std::max_element(limits.begin(), limits.end());
  double steepest = stages.size() > 1 ? (most - 1.0) / (stages.size() - 1.0) : 1;
  for (double steepness : {1.0, 1.5, 2.0, steepest}) {
    consider(steepOrder(shape.microbatches, limits, steepness));
    for (bool fillsEveryGap : {false, true})
      for (bool prefersBackward : {false, true})
        consider(GreedyOrder(stages, shape.microbatches, limits, {fillsEveryGap, prefersBackward, steepness}).make());
  }
  return best;
}

} // namespace cleave::pipeline
