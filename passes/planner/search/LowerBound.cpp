// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no plan of the cost model can be faster than, fast enough to rule out numbers of microbatches before they are
// searched; the certificate of the plan that is found is tighter (LeastCosts.h). First whatever memory a plan needs;
// where that is less than the best plan takes, with a price of memory: by weak duality no plan that fits takes less
// than the least sum of seconds and of bytes at any price, minus the price of the bytes that there are.

#include "passes/planner/search/Searcher.h"

namespace cleave::search {

/// No plan with these microbatches takes less, whatever memory it needs. One stage by itself is bounded by the weights'
/// dual value. Of several stages i, with t_i seconds of a microbatch of which f_i fill the pipeline, the longest takes
/// no less than any mean of them. Weighted by the part p_i of the machine's speed that their devices have:
///
///   sum of f_i + max s_i (M t_i - f_i)  >=  sum of (f_i + p_i s_i (M t_i - f_i))
///
/// which is a sum over stages, and so at least the cheapest way to cut the layers into intervals, each on the grid
/// where its term is least.
double Searcher::lowerBoundOf(int64_t microbatches) {
  stages::StageProblem problem = problemOf(microbatches);
  double least = solver::forbidden;
  if (mayHaveSeveralStages(problem)) {
    KnownTerms terms;
    least = severalStagesBound(problem, terms, 0);
  }
  if (problem.numStages.value_or(1) == 1)
    forEachSingleStage(problem, [&](unsigned setting, unsigned) {
      least = std::min(least, singleStageBound(problem, setting, weightsAt(0), least));
    });
  return least;
}

/// The greatest value of a concave function of a price, nearly: prices grow while that helps, fast at first. Ends at
/// `enough`.
static double greatest(double atNothing, double memory, double enough, llvm::function_ref<double(double)> valueAt) {
  double best = atNothing, price = atNothing / memory / 16, bestPrice = 0;
  constexpr unsigned mostPrices = 6;
  for (unsigned tried = 0; tried != mostPrices && best < enough; ++tried, price *= 4) {
    double value = valueAt(price);
    if (value > best) {
      best = value;
      bestPrice = price;
    } else if (bestPrice > 0) {
      break;
    }
  }
  for (double between : {0.5, 2.0})
    if (bestPrice > 0 && best < enough)
      best = std::max(best, valueAt(between * bestPrice));
  return best;
}

/// As lowerBoundOf, of plans that fit into memory. No more than `enough` is proven.
double Searcher::memoryBoundOf(int64_t microbatches, double enough) {
  stages::StageProblem problem = problemOf(microbatches);
  double least = solver::forbidden, memory = 0;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    memory += memoryOf(kind) * partOf(kind, runs[kind].count());
  if (mayHaveSeveralStages(problem)) {
    KnownTerms terms;
    least = severalStagesBound(problem, terms, 0);
    if (std::isfinite(memory) && !sharesDevices)
      least = greatest(least, memory, enough,
                       [&](double price) { return severalStagesBound(problem, terms, price) - price * memory; });
  }
  if (problem.numStages.value_or(1) == 1)
    forEachSingleStage(problem, [&](unsigned setting, unsigned kind) {
      least = std::min(least, fittingStageBound(problem, setting, kind, std::min(least, enough)));
    });
  return least;
}

/// As singleStageBound, of a stage that fits into memory: the least over all ways to share state, where what each
/// operator would do for itself is not enough.
double Searcher::fittingStageBound(const stages::StageProblem &problem, unsigned setting, unsigned kind,
                                   double enough) {
  double bound = singleStageBound(problem, setting, weightsAt(0), enough), memory = memoryOf(kind);
  if (bound >= enough || !memoryBinds || !std::isfinite(memory))
    return bound;
  memory -= machine.executor.memory + intervals.leastTransient(0, intervals.numLayers(), setting);
  StageKeeping fixed = fixedKeepingOf(kind);
  double least = enough;
  for (unsigned zero = 0; zero <= 3; ++zero) {
    if (fixed.zero.value_or(zero) != zero || (!request.training && zero > 0))
      continue;
    Weights keeping;
    // Each piece by itself is no worse than any mixture, nor than one way for all.
    keeping.byPiece = request.training && !fixed.recompute;
    keeping.relaxed = {keeping.byPiece ? std::nullopt : std::optional(fixed.recompute.value_or(Recompute::None)), zero};
    // Who keeps less by keeping all computes nothing again, which is another way.
    keeping.checkpoints = !fixed.recompute;
    least = std::min(least, keptStageBound(problem, setting, memory, keeping, least));
  }
  return std::max(bound, least);
}

/// As fittingStageBound, of one way to share state. The bound is concave in the price of a byte: where
/// the lines at a price that is too low and at one that is too high cross, nothing is greater, and what is best there
/// takes the place of one of them.
double Searcher::keptStageBound(const stages::StageProblem &problem, unsigned setting, double memory, Weights keeping,
                                double enough) {
  if (memory <= 0)
    return solver::forbidden;
  struct Line {
    double price, bound, slope;
    double crossing(const Line &other) const {
      return (bound - slope * price - other.bound + other.slope * other.price) / (other.slope - slope);
    }
  };
  double best = 0, bestShown = 0;
  for (double shown : {0.0, 1.0}) {
    PricedStep step = pricedStep(problem, setting, keeping, shown, 0, enough);
    if (step.value > best) {
      best = step.value;
      bestShown = shown;
    }
  }
  auto lineAt = [&](double price) {
    PricedStep step = pricedStep(problem, setting, keeping, bestShown, price, enough + price * memory);
    best = std::max(best, step.value - price * memory);
    return Line{price, step.value - price * memory, step.bytes - memory};
  };
  if (best >= enough)
    return best;
  Line low = lineAt(0);
  if (low.slope <= 0)
    return best;
  constexpr double tolerance = 1e-4, steeper = 8;
  constexpr unsigned mostPrices = 16;
  Line high = low;
  for (unsigned tried = 0; tried != mostPrices && best < enough; ++tried) {
    bool isBracketed = high.slope < 0;
    double price = isBracketed ? low.crossing(high) : high.price == 0 ? best / memory / steeper : high.price * steeper;
    if (isBracketed && low.bound + low.slope * (price - low.price) <= best * (1 + tolerance))
      break;
    Line line = lineAt(price);
    if (line.slope > 0)
      low = line;
    if (line.slope <= 0 || !isBracketed)
      high = line;
    if (line.slope == 0)
      break;
  }
  return best;
}

/// Weights under which choices are best at a price of a byte, for any way of keeping that the search may choose.
Weights Searcher::weightsAt(double secondsPerByte) const {
  Weights weights;
  weights.secondsPerByte = secondsPerByte;
  FixedKeeping &relaxed = weights.relaxed.emplace();
  // Stages that say it themselves may keep anything.
  bool isOfAll = llvm::none_of(request.pinned, [](const MeshSpec &mesh) { return mesh.keeping.any(); });
  if (isOfAll)
    relaxed = {request.recompute, request.zero};
  // With memory for everything nothing is computed again or shared unasked.
  if (isOfAll && !memoryBinds)
    relaxed = {request.recompute.value_or(Recompute::None), request.zero.value_or(0)};
  return weights;
}

/// `price`: of a byte of the mean device, by the same weights, for a step.
double Searcher::severalStagesBound(const stages::StageProblem &problem, KnownTerms &known, double price) {
  std::map<uint64_t, double> leastOf;
  // Of many layers each by itself: what an interval pays is no less than what its layers add.
  bool isInside = price > 0 || !hasFewLayers();
  auto termOf = [&](unsigned first, unsigned last) {
    uint64_t classOf = this->classOf(first, last);
    auto [entry, isNew] = leastOf.try_emplace(classOf);
    if (isNew)
      entry->second = leastOfInterval(first, last, problem, known[{classOf, isInside}], isInside, price);
    return entry->second;
  };
  unsigned count = intervals.numLayers();
  if (isInside) {
    double sum = 0;
    for (unsigned layer = 0; layer != count; ++layer)
      sum += termOf(layer, layer + 1);
    return sum;
  }
  std::vector<double> until(count + 1, solver::forbidden);
  until[0] = 0;
  for (unsigned last = 1; last <= count; ++last)
    for (unsigned first = 0; first != last; ++first)
      if (last - first != count)
        until[last] = std::min(until[last], until[first] + termOf(first, last));
  return until[count];
}

/// Of the schedules to choose from those whose ramp no other one's is less than, whatever the gradients of weights
/// take: the least of them holds for all.
std::vector<Searcher::LeastRamp> Searcher::leastRamps(int64_t microbatches) const {
  std::vector<LeastRamp> all, least;
  for (ScheduleChoice choice : schedules(microbatches))
    all.push_back({choice.schedule->delayedWeights, choice.schedule.drains() ? 1.0 / choice.chunks : 0});
  for (auto [index, ramp] : llvm::enumerate(all)) {
    bool isNeeded = true;
    for (auto [otherIndex, other] : llvm::enumerate(all))
      if (other.delayed >= ramp.delayed && other.share <= ramp.share &&
          (otherIndex < index || other.delayed != ramp.delayed || other.share != ramp.share))
        isNeeded = false;
    if (isNeeded)
      least.push_back(ramp);
  }
  return least;
}

/// The part of all devices' speed that some devices have.
double Searcher::partOf(unsigned kind, unsigned devices) const {
  double all = 0;
  for (unsigned other = 0; other != runs.size(); ++other)
    all += runs[other].count() * operatorCosts[other]->mostFlops();
  return devices * operatorCosts[kind]->mostFlops() / all;
}

double Searcher::termOf(unsigned first, unsigned last, const stages::StageProblem &problem, const SettingOfLayers &in,
                        double price) {
  double least = solver::forbidden;
  for (LeastRamp ramp : leastRamps(problem.microbatches))
    least = std::min(least, termOf(first, last, problem, in, price, ramp));
  return least;
}

/// The term of an interval in the bound of several stages, in a setting, where f is a share r of t - k w, with w the
/// gradients of weights. With a = p s it is (r (1 - a) + a M) t, less r (1 - a) k w, and what else a stage takes,
/// of which the most counts in a step as well: the optimizer's seconds u, a u, and gradients that are joined in R
/// seconds, p h R where all of it is hidden. The weights are those under which choices are best for just that.
double Searcher::termOf(unsigned first, unsigned last, const stages::StageProblem &problem, const SettingOfLayers &in,
                        double price, LeastRamp ramp) {
  double count = problem.fullMicrobatches();
  double part = partOf(in.kind, in.devices), busyPart = part * slowdownsOf(in.kind, in.devices).steady;
  double alone = ramp.share * std::max(0.0, 1 - busyPart), times = alone + busyPart * count;
  Weights weights = weightsAt(price * part / times);
  weights.delayed = ramp.delayed * alone / times;
  weights.optimizer = busyPart * count / times;
  weights.reduction = part * (machine.executor.overlapsGradients ? std::min(hidden, 1.0) : 1) / times;
  double seconds = in.isInside ? intervals.leastInside(first, in.setting, weights)
                               : intervals.least(first, last, in.setting, weights);
  return seconds == solver::forbidden ? solver::forbidden : std::max(0.0, times * seconds);
}

/// The least term of an interval. `known`: by setting, at no price; at another price no term is less, so that those
/// that were greater before need not be computed.
double Searcher::leastOfInterval(unsigned first, unsigned last, const stages::StageProblem &problem,
                                 std::vector<SettingOfLayers> &known, bool isInside, double price) {
  if (known.empty()) {
    for (unsigned kind = 0; kind != runs.size(); ++kind)
      for (unsigned devices : problem.runs[kind].stageSizes)
        for (unsigned shape = 0; shape != shapesOf(kind, devices).size(); ++shape) {
          // A stage with all devices is alone.
          if ((devices == busy.size() && !sharesDevices) ||
              !bounds(kind, devices, shapesOf(kind, devices)[shape], problem.microbatches) ||
              !mayBeOn(kind, first, last, /*asPart=*/true))
            continue;
          SettingOfLayers in = {kind, devices, settingOf(kind, devices, shape, problem.microbatches), isInside};
          in.term = termOf(first, last, problem, in, 0);
          known.push_back(in);
        }
    llvm::stable_sort(known, [](auto &left, auto &right) { return left.term < right.term; });
  }
  if (known.empty() || price == 0)
    return known.empty() ? solver::forbidden : known.front().term;
  double least = solver::forbidden;
  for (const SettingOfLayers &in : known) {
    if (in.term >= least)
      break;
    least = std::min(least, termOf(first, last, problem, in, price));
  }
  return least;
}

void Searcher::forEachSingleStage(const stages::StageProblem &problem,
                                  llvm::function_ref<void(unsigned setting, unsigned kind)> visit) {
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    for (unsigned devices : problem.runs[kind].stageSizes)
      for (unsigned shape = 0; shape != shapesOf(kind, devices).size(); ++shape)
        if (bounds(kind, devices, shapesOf(kind, devices)[shape], problem.microbatches) &&
            mayBeOn(kind, 0, intervals.numLayers(), /*asPart=*/false))
          visit(settingOf(kind, devices, shape, problem.microbatches), kind);
}

/// The seconds of a step that one stage takes at least, whatever its gradients' joining hides behind; forbidden where
/// there are no choices.
double Searcher::singleStageBound(const stages::StageProblem &problem, unsigned setting, const Weights &keeping,
                                  double enough) {
  double bound = 0;
  for (double shown : {0.0, 1.0})
    if (bound < enough)
      bound = std::max(bound, pricedStep(problem, setting, keeping, shown, 0, enough).value);
  return bound;
}

/// Joining R seconds of gradients behind a backward pass of B costs max(hR, R - (1 - h)B), h for what is hidden: at
/// least any mixture of both, (h + s)R - sB with s at most 1 - h. With M microbatches of t seconds, of which the
/// forward pass takes F, a step takes (M - s)t + sF + (h + s)R, and what the optimizer takes. Half of M at most is
/// taken away, since everything is weighed against t.
Searcher::PricedStep Searcher::pricedStep(const stages::StageProblem &problem, unsigned setting, Weights keeping,
                                          double shown, double price, double enough) {
  double count = problem.fullMicrobatches(), hides = machine.executor.overlapsGradients ? std::min(hidden, 1.0) : 1;
  double seen = request.training ? std::min(shown * (1 - hides), count / 2) : 0, part = count - seen;
  keeping.secondsPerByte = price / part;
  keeping.reduction = request.training ? (hides + seen) / part : 0;
  keeping.forward = seen / part;
  keeping.optimizer = count / part;
  unsigned layers = intervals.numLayers();
  double apart = 0;
  for (unsigned layer = 0; layer != layers; ++layer)
    apart += intervals.leastInside(layer, setting, keeping);
  if (apart != solver::forbidden && part * apart >= enough)
    return {part * apart, 0};
  const IntervalSums *sums = intervals.best(0, layers, setting, keeping);
  if (!sums)
    return {};
  PricedStep step = {part * intervals.least(0, layers, setting, keeping), 0};
  if (auto [recompute, zero] = *keeping.relaxed; zero && (recompute || keeping.byPiece)) {
    double kept = keeping.byPiece ? sums->keptByPiece : keptBytes(*sums, *recompute, keeping.checkpoints);
    step.bytes = sums->stateBytes(*zero) + (request.training ? kept : 0);
  }
  return step;
}

} // namespace cleave::search
