// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no plan of the cost model can be faster than.

#include "passes/planner/search/Searcher.h"

namespace cleave::search {

/// No plan with these microbatches takes less, whatever memory it needs. One stage by itself is bounded by the weights'
/// dual value. Several stages do work: the longest takes at least what all take together, times their devices, over all
/// devices; layer by layer that is at least what the layer takes on the number of devices on which it wastes least.
double Searcher::lowerBoundOf(int64_t microbatches) {
  stages::StageProblem problem = problemOf(microbatches);
  double single = problem.numStages.value_or(1) == 1 ? singleStageBound(microbatches) : solver::forbidden;
  if (problem.numStages.value_or(2) == 1)
    return single;
  std::map<uint64_t, std::pair<double, double>> known;
  auto leastOf = [&](unsigned first, unsigned last) {
    auto [entry, isNew] = known.try_emplace(classOf(first, last));
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
  double longest = work / static_cast<double>(busy.size());
  // Schedules that put off the weights' gradients hide a part of the first microbatch's way.
  bool fills = llvm::any_of(schedules(microbatches), [](stages::Schedule schedule) {
    return schedule != stages::Schedule::GPipe && schedule != stages::Schedule::OneForwardOneBackward;
  });
  // The gradients of weights take no longer than the forward pass: the rest is at least half of the way.
  // What it fills it does not slow down: of M t seconds as they are in the steady state, up to (1 - 1/s) t less.
  if (fills)
    return std::min(
        single, std::max((static_cast<double>(microbatches) - 1 + 1 / mostSlowdowns().steady) * longest, latency / 2));
  return std::min(single, latency + static_cast<double>(microbatches - 1) * longest);
}

/// Seconds of a step that the optimizer takes for the parameters of layers where nothing is split: the most that it may
/// take.
double Searcher::unsplitUpdateSeconds(unsigned first, unsigned last) {
  if (!request.training)
    return 0;
  Precision stored = precision();
  double bytes = 0;
  for (const Parameter &parameter : graph.parameters)
    if (parameter.trained && parameter.firstUse != none && parameter.firstUse >= graph.boundaries[first].at &&
        parameter.firstUse < graph.boundaries[last].at)
      bytes += parameter.bytes;
  return mostSlowdowns().own * updateSeconds(bytes, *operatorCosts.front(), stored, machine.executor);
}

/// The least device seconds, as slow as in the steady state of a pipeline, and the least seconds that a microbatch of
/// layers takes on any grid, forward and backward.
/// The choices that are best with their part of the optimizer take, without it, at most what all of it takes more.
std::pair<double, double> Searcher::leastOfLayers(unsigned first, unsigned last, int64_t microbatches) {
  double once = unsplitUpdateSeconds(first, last);
  std::pair<double, double> least = {solver::forbidden, solver::forbidden};
  stages::StageProblem problem = problemOf(microbatches);
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    for (unsigned devices : problem.runs[kind].stageSizes)
      for (unsigned shape = 0; shape != shapesOf(kind, devices).size(); ++shape) {
        if (isPlain(shapesOf(kind, devices)[shape]) || !mayBeOn(kind, first, last, /*asPart=*/true))
          continue;
        const IntervalSums *sums =
            intervals.best(first, last, settingOf(kind, devices, shape, microbatches), Weights());
        if (!sums)
          continue;
        double seconds = std::max(0.0, sums->forward + sums->backward +
                                           std::min(0.0, (sums->update - once) / static_cast<double>(microbatches)));
        least.first = std::min(least.first, seconds * slowdownsOf(kind, devices).steady * devices);
        least.second = std::min(least.second, seconds);
      }
  return least;
}

double Searcher::singleStageBound(int64_t microbatches) {
  double least = solver::forbidden;
  auto count = static_cast<double>(microbatches);
  stages::StageProblem problem = problemOf(microbatches);
  // Replicas that share the optimizer's state save time that the weights do not know of: at most all of it.
  bool mayShare = request.zero ? *request.zero > 0 : memoryBinds;
  double shared = mayShare ? unsplitUpdateSeconds(0, intervals.numLayers()) : 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    for (unsigned devices : problem.runs[kind].stageSizes)
      for (unsigned shape = 0; shape != shapesOf(kind, devices).size(); ++shape) {
        if (isPlain(shapesOf(kind, devices)[shape]) || !mayBeOn(kind, 0, intervals.numLayers(), /*asPart=*/false))
          continue;
        unsigned setting = settingOf(kind, devices, shape, microbatches);
        double bound = 0;
        bool any = false;
        for (const Weights &weights : weightsOf(microbatches)) {
          if (weights.secondsPerByte != 0)
            continue;
          const IntervalSums *sums = intervals.best(0, intervals.numLayers(), setting, weights);
          if (!sums)
            continue;
          any = true;
          double value =
              sums->forward + sums->backward + weights.reduction * sums->reduction + (sums->update - shared) / count;
          // Joining R seconds of gradients behind a backward pass of B costs max(hR, R - (1 - h)B), h for what is
          // hidden: at least any mixture of both. The mixture whose weights these are leaves `part` of the step's time.
          double part = count - std::max(0.0, (weights.reduction * count - hidden) / (1 + weights.reduction));
          bound = std::max(bound, part * value);
        }
        if (any)
          least = std::min(least, bound);
      }
  return least;
}

} // namespace cleave::search
