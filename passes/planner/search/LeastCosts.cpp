// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options that no stage is better than, from the least of weighted sums.

#include "passes/planner/search/LeastCosts.h"

#include <cmath>

namespace cleave::search {

/// Where ranges of a stage's seconds begin, by its fastest choices'. A bound is loose by no more than a range is wide.
static constexpr double rangeStarts[] = {1, 1.002, 1.006, 1.02, 1.06, 1.2};
/// At which bytes are priced, in seconds of all devices for all of their memory, and seconds a step, in microbatches'.
static constexpr double pricesOfBytes[] = {0.3, 3}, pricesOfSteps[] = {1, 16};
/// At which gradients of weights are priced: as many as schedules delay.
static constexpr double pricesOfWeights[] = {2, 3};

LeastCosts::LeastCosts(Searcher &searcher, int64_t microbatches, double enough)
    : searcher(searcher), costs(searcher, microbatches), microbatches(microbatches), enough(enough),
      count(searcher.fullMicrobatches(microbatches)), mostSeconds(enough / count),
      byteUnit(searcher.memoryBinds ? searcher.secondsPerByte(microbatches) : 0) {
  // Interleaved ones keep less than two for each stage, the others most with the most stages.
  auto mostStages = static_cast<unsigned>(std::min<size_t>(searcher.busy.size(), searcher.intervals.numLayers()));
  auto number = static_cast<unsigned>(microbatches);
  mostInFlight = std::min(number, 2 * mostStages);
  for (ScheduleChoice choice : searcher.schedules(microbatches))
    mostInFlight = std::max(mostInFlight, choice.schedule.microbatchesInFlight({mostStages, number, choice.chunks}, 0));
}

double LeastCosts::boundOf(ScheduleChoice choice) {
  delayed = choice.schedule->delayedWeights;
  stages::SearchOptions options;
  options.explainInfeasible = false;
  options.boundsOnly = true;
  options.secondsToBeat = enough;
  return stages::searchStages(searcher.problemOf(microbatches, choice), *this, options).lowerBound;
}

const LeastCosts::Ranges &LeastCosts::rangesOf(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  auto [entry, isNew] = ranges.try_emplace({classOf(first, last), kind, devices});
  if (!isNew || !searcher.mayBeOn(kind, first, last, /*asPart=*/false))
    return entry->second;
  bool isWhole = last - first == searcher.intervals.numLayers();
  const std::vector<Shape> &shapes = searcher.shapesOf(kind, devices);
  for (unsigned shape = 0; shape != shapes.size(); ++shape) {
    if (!searcher.bounds(kind, devices, shapes[shape], microbatches))
      continue;
    unsigned setting = searcher.settingOf(kind, devices, shape, microbatches);
    if (isWhole)
      addWhole(setting, kind, entry->second);
    else
      addPart(first, last, setting, searcher.memoryOf(kind), entry->second);
    for (Range &range : entry->second)
      range.slowdown = isWhole ? 1 : searcher.slowdownsOf(kind, devices).steady;
  }
  return entry->second;
}

/// A step of a single stage is all that it takes: it is as if it had nothing but microbatches.
void LeastCosts::addWhole(unsigned setting, unsigned kind, Ranges &ranges) {
  double bound = searcher.fittingStageBound(searcher.problemOf(microbatches), setting, kind, enough);
  // As if it had no gradients of weights: then its ramp and its load are M t under every schedule.
  if (double seconds = bound / count; bound < enough)
    ranges.push_back({.seconds = seconds, .most = seconds, .without = {seconds, seconds}, .with = seconds});
}

void LeastCosts::addPart(unsigned first, unsigned last, unsigned setting, double memory, Ranges &ranges) {
  Weights weights = searcher.weightsAt(0);
  for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
    if (!weights.relaxed->recompute || *weights.relaxed->recompute == recompute) {
      bool alwaysFits = addPart(first, last, setting, memory, recompute, ranges);
      // What asks for no memory holds for stages that compute more again as well: they take longer.
      if (alwaysFits)
        break;
    }
}

/// What every choice of a stage trades for seconds t of a microbatch: t + price x is no less than `least`.
struct LeastCosts::Priced {
  double price, least;
  /// The least x where t is at most `seconds`.
  double at(double seconds) const { return (least - seconds) / price; }
};

/// Whether the fastest choices may fit with the most microbatches in flight, and slower ones as well: memory is not
/// counted then.
bool LeastCosts::addPart(unsigned first, unsigned last, unsigned setting, double memory, Recompute recompute,
                         Ranges &ranges) {
  Weights plain = searcher.weightsAt(0);
  plain.relaxed->recompute = recompute;
  plain.optimizer = 0;
  auto leastOf = [&](const Weights &weights) { return searcher.intervals.least(first, last, setting, weights); };
  double fastest = leastOf(plain);
  if (fastest >= mostSeconds)
    return false;
  bool overlaps = searcher.machine.executor.overlapsGradients;
  double hidden = overlaps ? std::min(searcher.hidden, 1.0) : 1;

  // Joining R seconds of gradients behind a backward pass of B costs max(hR, R - (1 - h)B). B is t without the forward
  // pass, whose part is priced as R is.
  auto pricedStep = [&](double price, double forward) {
    Weights weights = plain;
    weights.reduction = price;
    weights.optimizer = price * count;
    weights.forward = price * forward;
    return Priced{price, leastOf(weights)};
  };
  auto pricedBytes = [&](double price, double inFlight) {
    Weights weights = plain;
    weights.secondsPerByte = price;
    weights.inFlight = inFlight;
    return Priced{price, leastOf(weights)};
  };
  auto leastWith = [&](double priceOfWeights) {
    Weights weights = plain;
    weights.delayed = -priceOfWeights;
    return leastOf(weights);
  };
  double without[] = {leastWith(-pricesOfWeights[0]), leastWith(-pricesOfWeights[1])};
  double with = leastWith(pricesOfWeights[1]);
  Priced joined = pricedStep(pricesOfSteps[1] / count, 0);
  std::vector<Priced> shown;
  for (double price : pricesOfSteps)
    shown.push_back(pricedStep(price / count, 1 - hidden));
  std::vector<std::pair<Priced, Priced>> bytes;
  for (double price : pricesOfBytes)
    if (byteUnit > 0)
      bytes.emplace_back(pricedBytes(price * byteUnit, 1), pricedBytes(price * byteUnit, mostInFlight));

  bool alwaysFits = false;
  for (const double *start = std::begin(rangeStarts); start != std::end(rangeStarts); ++start) {
    bool isLast = std::next(start) == std::end(rangeStarts);
    double low = fastest * *start, high = isLast ? mostSeconds : std::min(mostSeconds, fastest * *std::next(start));
    if (low >= mostSeconds)
      break;
    Range range;
    range.seconds = low;
    range.most = high;
    llvm::copy(without, range.without);
    range.with = with;
    range.perStep = std::max(0.0, hidden * joined.at(high));
    for (const Priced &step : shown)
      range.perStep = std::max(range.perStep, step.at(high) - (1 - hidden) * high);
    // The least bytes are concave in the microbatches in flight: no less than a line through two numbers of them.
    double ofOneBest = 0, ofMostBest = 0;
    for (auto [ofOne, ofMost] : bytes)
      if (double one = ofOne.at(high), most = ofMost.at(high); one + most > ofOneBest + ofMostBest) {
        ofOneBest = one;
        ofMostBest = most;
      }
    double fixed = searcher.machine.executor.memory;
    if (fixed + ofOneBest > memory)
      continue;
    bool fits = fixed + ofMostBest <= memory;
    if (!fits) {
      range.microbatchBytes = mostInFlight > 1 ? (ofMostBest - ofOneBest) / (mostInFlight - 1) : 0;
      range.fixedBytes = fixed + ofOneBest - range.microbatchBytes;
    }
    alwaysFits |= fits && start == std::begin(rangeStarts);
    ranges.push_back(range);
    // Slower ones would have no less of anything.
    if (fits && range.perStep == 0)
      break;
  }
  return alwaysFits;
}

/// The option with the least ramp and the least load. A ramp is t - k w, or nothing, and a load the rest of M t. Where
/// all choices' t - q w and t + q w are no less than some D and S, with a = k / q:
///
///   t - k w            =  (1 - a) t + a (t - q w)          >=  (1 - a) t + a D
///   (M - 1) t + k w    =  (M - 1 - a) t + a (t + q w)      >=  (M - 1 - a) t + a S
stages::StageOption LeastCosts::optionOf(const Range &range) const {
  stages::StageOption option;
  double ramp = 0, rest = (count - 1) * range.seconds, load = rest;
  for (auto [price, least] : llvm::zip_equal(pricesOfWeights, range.without)) {
    double part = delayed / price;
    ramp = std::max(ramp, (1 - part) * (part <= 1 ? range.seconds : range.most) + part * least);
  }
  if (double part = delayed / pricesOfWeights[1]; part <= count - 1)
    load = std::max(load, std::min(rest + range.seconds, rest + part * (range.with - range.seconds)));
  option.backward = delayed == 0 ? range.seconds : (ramp + load) / count;
  option.backwardWeight = delayed == 0 ? 0 : (option.backward - ramp) / delayed;
  option.perStep = range.perStep;
  option.fixedBytes = range.fixedBytes;
  option.microbatchBytes = range.microbatchBytes;
  option.steadySlowdown = range.slowdown;
  return option;
}

const std::vector<stages::StageOption> &LeastCosts::options(unsigned first, unsigned last, unsigned kind,
                                                            unsigned devices) {
  auto [entry, isNew] = known.try_emplace({classOf(first, last), kind, devices, delayed});
  std::vector<stages::StageOption> &options = entry->second;
  if (!isNew)
    return options;
  auto rampOf = [&](const stages::StageOption &option) { return option.seconds() - delayed * option.backwardWeight; };
  auto loadOf = [&](const stages::StageOption &option) { return count * option.seconds() - rampOf(option); };
  // With several chunks, whose schedules delay nothing, both grow with the seconds.
  auto isNoBetter = [&](const stages::StageOption &left, const stages::StageOption &right) {
    return left.seconds() >= right.seconds() && rampOf(left) >= rampOf(right) && loadOf(left) >= loadOf(right) &&
           left.perStep >= right.perStep && left.fixedBytes >= right.fixedBytes &&
           left.microbatchBytes >= right.microbatchBytes;
  };
  for (const Range &range : rangesOf(first, last, kind, devices)) {
    stages::StageOption option = optionOf(range);
    if (llvm::any_of(options, [&](const stages::StageOption &other) { return isNoBetter(option, other); }))
      continue;
    llvm::erase_if(options, [&](const stages::StageOption &other) { return isNoBetter(other, option); });
    options.push_back(option);
  }
  return options;
}

} // namespace cleave::search
