// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options that no stage is better than, from the least of weighted sums.

#include "passes/planner/search/LeastCosts.h"

#include <cmath>

namespace cleave::search {

/// Where ranges of a stage's seconds begin, by its fastest choices'. A bound is loose by no more than a range is wide.
static constexpr double rangeStarts[] = {1, 1.002, 1.006, 1.02, 1.06, 1.2};
/// At which bytes are priced, in seconds of all devices for all of their memory, and seconds a step, in microbatches'.
static constexpr double pricesOfBytes[] = {0.3, 1, 3}, pricesOfSteps[] = {1, 16};
/// At which gradients of weights are priced: as many as schedules delay.
static constexpr double pricesOfWeights[] = {2, 3};

LeastCosts::LeastCosts(Searcher &searcher, int64_t microbatches)
    : searcher(searcher), costs(searcher, microbatches), microbatches(microbatches),
      count(searcher.fullMicrobatches(microbatches)),
      byteUnit(searcher.memoryBinds ? searcher.secondsPerByte(microbatches) : 0) {
  // Interleaved ones keep less than two for each stage, the others most with the most stages.
  auto mostStages = static_cast<unsigned>(std::min<size_t>(searcher.busy.size(), searcher.intervals.numLayers()));
  auto number = static_cast<unsigned>(microbatches);
  mostInFlight = std::min(number, 2 * mostStages);
  for (ScheduleChoice choice : searcher.schedules(microbatches))
    mostInFlight = std::max(mostInFlight, choice.schedule.microbatchesInFlight({mostStages, number, choice.chunks}, 0));
  if (searcher.machine.executor.overlapsGradients)
    hidden = std::min(searcher.hidden, 1.0);
  makeBundles();
}

void LeastCosts::setEnough(double seconds) {
  enough = seconds;
  mostSeconds = enough / count;
  ranges.clear();
  known.clear();
}

Weights LeastCosts::weightsOf(Recompute recompute, unsigned price) const {
  Weights weights = searcher.weightsAt(0);
  // Who keeps less by keeping all computes nothing again, which is another mode.
  weights.checkpoints = !weights.relaxed->recompute;
  weights.relaxed->recompute = recompute;
  weights.optimizer = 0;
  // Joining R seconds of gradients behind a backward pass of B costs max(hR, R - (1 - h)B). B is t without the forward
  // pass, whose part is priced as R is.
  auto priceStep = [&](double seconds, double forward) {
    weights.reduction = seconds / count;
    weights.optimizer = seconds;
    weights.forward = seconds / count * forward;
  };
  if (price >= Bytes) {
    weights.secondsPerByte = pricesOfBytes[(price - Bytes) / 2] * byteUnit;
    weights.inFlight = (price - Bytes) % 2 == 0 ? 1 : mostInFlight;
  } else if (price >= Shown) {
    priceStep(pricesOfSteps[price - Shown], 1 - hidden);
  } else if (price == Joined) {
    priceStep(pricesOfSteps[1], 0);
  } else if (price == WithWeights) {
    weights.delayed = -pricesOfWeights[1];
  } else if (price >= WithoutWeights) {
    weights.delayed = pricesOfWeights[price - WithoutWeights];
  }
  return weights;
}

/// Gradients of weights wait only where nothing is computed again.
bool LeastCosts::isAsked(unsigned mode, unsigned price) const {
  bool isOfWeights = price >= WithoutWeights && price <= WithWeights;
  return !isOfWeights || modes[mode] == Recompute::None;
}

/// Those that rule out most numbers of microbatches.
bool LeastCosts::isFirst(unsigned price) const {
  constexpr unsigned middle = Bytes + 2 * (std::size(pricesOfBytes) / 2);
  return price <= Joined || price == middle || price == middle + 1;
}

/// The seconds by themselves are in the first bundle, for all ways to keep activations: most stages are too slow.
void LeastCosts::makeBundles() {
  FixedKeeping keeping = *searcher.weightsAt(0).relaxed;
  for (Recompute recompute : waysToKeep(searcher.mayOffload()))
    if (!keeping.recompute || *keeping.recompute == recompute)
      modes.push_back(recompute);
  numPrices = Bytes + (byteUnit > 0 ? 2 * std::size(pricesOfBytes) : 0);
  lanes.resize(modes.size() * numPrices);
  std::vector<Weights> all;
  auto addAll = [&](llvm::function_ref<bool(unsigned)> isOne) {
    for (unsigned price = Plain; price != numPrices; ++price)
      for (unsigned mode = 0; mode != modes.size(); ++mode)
        if (isAsked(mode, price) && isOne(price)) {
          lanes[mode * numPrices + price] = all.size();
          all.push_back(weightsOf(modes[mode], price));
        }
  };
  addAll([&](unsigned price) { return isFirst(price); });
  addAll([&](unsigned price) { return !isFirst(price); });
  all.resize(llvm::alignTo<solver::numLanes>(all.size()), all.front());
  for (size_t index = 0; index != all.size(); ++index) {
    if (index % solver::numLanes == 0)
      bundles.emplace_back();
    bundles.back()[index % solver::numLanes] = all[index];
  }
}

unsigned LeastCosts::bundleOf(unsigned setting, unsigned index) {
  std::vector<unsigned> &own = bundlesOf[setting];
  if (own.empty())
    for (const Intervals::Bundle &bundle : bundles)
      own.push_back(searcher.intervals.addBundle(setting, bundle));
  return own[index];
}

double LeastCosts::leastOf(unsigned first, unsigned last, unsigned setting, unsigned mode, unsigned price) {
  unsigned lane = lanes[mode * numPrices + price];
  unsigned bundle = bundleOf(setting, lane / solver::numLanes);
  return searcher.intervals.leastOf(first, last, bundle)[lane % solver::numLanes];
}

const std::vector<unsigned> &LeastCosts::settingsOf(unsigned kind, unsigned devices) {
  auto [entry, isNew] = knownSettings.try_emplace({kind, devices});
  std::vector<unsigned> &settings = entry->second;
  if (!isNew)
    return settings;
  const std::vector<Shape> &shapes = searcher.shapesOf(kind, devices);
  for (unsigned shape = 0; shape != shapes.size(); ++shape)
    if (searcher.bounds(kind, devices, shapes[shape], microbatches))
      settings.push_back(searcher.settingOf(kind, devices, shape, microbatches));
  return settings;
}

const LeastCosts::SumsOfLayers &LeastCosts::secondsBefore(unsigned kind, unsigned devices) {
  auto [entry, isNew] = layerSeconds.try_emplace({kind, devices});
  SumsOfLayers &sums = entry->second;
  if (!isNew)
    return sums;
  const std::vector<unsigned> &settings = settingsOf(kind, devices);
  std::map<uint64_t, double> leastOf;
  sums.push_back(0);
  for (unsigned layer = 0; layer != searcher.intervals.numLayers(); ++layer) {
    auto [known, isNewLayer] = leastOf.try_emplace(classOf(layer, layer + 1), solver::forbidden);
    if (isNewLayer)
      for (unsigned setting : settings)
        for (unsigned mode = 0; mode != modes.size(); ++mode)
          known->second = std::min(known->second, searcher.intervals.leastInsideOf(layer, bundleOf(setting, 0))[mode]);
    // What a layer takes that has no choices here is of no use: no interval with it has options.
    sums.push_back(sums.back() + (known->second == solver::forbidden ? 0 : known->second));
  }
  return sums;
}

/// Layers by themselves take no more than in a row, and more of them no less.
bool LeastCosts::isTooLong(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  const SumsOfLayers &before = secondsBefore(kind, devices);
  return between(before, first, last) >= mostSeconds * (1 + 1e-9);
}

/// Whether what other stages have to do is too much for the other devices. The longest of them takes no less than their
/// mean, weighted by the part of the machine that each has: with parts p_i of which a stage has p, the others' loads
/// and ramps are no less than the sum of p_i M t_i / (1 - p).
bool LeastCosts::leavesTooMuch(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  unsigned layers = searcher.intervals.numLayers();
  if (machineSeconds.empty()) {
    stages::StageProblem problem = searcher.problemOf(microbatches);
    machineSeconds.push_back(0);
    for (unsigned layer = 0; layer != layers; ++layer) {
      double least = solver::forbidden;
      for (unsigned other = 0; other != problem.runs.size(); ++other)
        for (unsigned size : problem.runs[other].stageSizes) {
          const SumsOfLayers &before = secondsBefore(other, size);
          least = std::min(least, searcher.partOf(other, size) * count * (before[layer + 1] - before[layer]));
        }
      machineSeconds.push_back(machineSeconds.back() + (least == solver::forbidden ? 0 : least));
    }
  }
  double others = machineSeconds[layers] - between(machineSeconds, first, last);
  double left = 1 - searcher.partOf(kind, devices);
  return left > 0 && others * (1 - 1e-9) >= enough * left;
}

double LeastCosts::boundOf(ScheduleChoice choice) {
  delayed = choice.schedule->delayedWeights;
  share = choice.schedule.leastRampShare(choice.chunks);
  stages::SearchOptions options;
  options.explainInfeasible = false;
  options.boundsOnly = true;
  options.secondsToBeat = enough;
  stages::StageProblem problem = searcher.problemOf(microbatches, choice);
  problem.hasLeastRamps = true;
  double bound = 0;
  for (bool rough : {true, false}) {
    isRough = rough;
    if (bound < enough)
      bound = std::max(bound, stages::searchStages(problem, *this, options).lowerBound);
  }
  return bound;
}

const LeastCosts::Ranges &LeastCosts::rangesOf(unsigned first, unsigned last, unsigned kind, unsigned devices) {
  auto [entry, isNew] = ranges.try_emplace({isRough, classOf(first, last), kind, devices});
  if (!isNew || !searcher.mayBeOn(kind, first, last, /*asPart=*/false))
    return entry->second;
  bool isWhole = last - first == searcher.intervals.numLayers();
  if (!isWhole && (isTooLong(first, last, kind, devices) || leavesTooMuch(first, last, kind, devices)))
    return entry->second;
  for (unsigned setting : settingsOf(kind, devices)) {
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
  for (unsigned mode = 0; mode != modes.size(); ++mode) {
    bool alwaysFits = addPart(first, last, setting, memory, mode, ranges);
    // What asks for no memory holds for stages that compute more again as well: they take longer. But gradients of
    // weights wait only where nothing is computed again, and what is kept in the host's memory comes back without.
    if (alwaysFits && modes[mode] != Recompute::None && modes[mode] != Recompute::Offload)
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
bool LeastCosts::addPart(unsigned first, unsigned last, unsigned setting, double memory, unsigned mode,
                         Ranges &ranges) {
  auto leastOf = [&](unsigned price) { return this->leastOf(first, last, setting, mode, price); };
  double fastest = leastOf(Plain);
  if (fastest >= mostSeconds)
    return false;
  double without[] = {0, 0}, with = 0;
  if (modes[mode] == Recompute::None) {
    for (unsigned index = 0; index != std::size(pricesOfWeights); ++index)
      without[index] = leastOf(WithoutWeights + index);
    with = leastOf(WithWeights);
  }
  Priced joined = {pricesOfSteps[1] / count, leastOf(Joined)};
  std::vector<Priced> shown;
  for (unsigned index = 0; index != std::size(pricesOfSteps) && !isRough; ++index)
    shown.push_back({pricesOfSteps[index] / count, leastOf(Shown + index)});
  std::vector<std::pair<Priced, Priced>> bytes;
  for (unsigned price = Bytes; price < numPrices; price += 2) {
    double ofByte = pricesOfBytes[(price - Bytes) / 2] * byteUnit;
    if (!isRough || isFirst(price))
      bytes.push_back({{ofByte, leastOf(price)}, {ofByte, leastOf(price + 1)}});
  }

  bool alwaysFits = false;
  double fixed = searcher.machine.executor.memory + searcher.intervals.leastTransient(first, last, setting);
  for (const double *start = std::begin(rangeStarts); start != std::end(rangeStarts); ++start) {
    bool isLast = std::next(start) == std::end(rangeStarts);
    double low = fastest * *start, high = isLast ? mostSeconds : std::min(mostSeconds, fastest * *std::next(start));
    if (low >= mostSeconds)
      break;
    Range range;
    range.seconds = low;
    range.most = high;
    if (modes[mode] == Recompute::None) {
      llvm::copy(without, range.without);
      range.with = with;
    } else {
      // As if it had no gradients of weights: none of them waits.
      llvm::fill(range.without, low);
      range.with = low;
    }
    range.perStep = std::max(0.0, hidden * joined.at(high));
    for (const Priced &step : shown)
      range.perStep = std::max(range.perStep, step.at(high) - (1 - hidden) * high);
    // The least bytes are concave in the microbatches in flight: no less than a line through two numbers of them.
    double ofOneBest = 0, ofMostBest = 0;
    for (auto [ofOne, ofMost] : bytes) {
      ofOneBest = std::max(ofOneBest, ofOne.at(high));
      ofMostBest = std::max({ofMostBest, ofOneBest, ofMost.at(high)});
    }
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

/// The option with the least ramp and the least load. A ramp is no less than a share r of t - k w, or nothing, and a
/// load the rest of M t. Where all choices' t - q w and t + q w are no less than some D and S, with a = k / q:
///
///   t - k w              =  (1 - a) t + a (t - q w)            >=  (1 - a) t + a D
///   (M - r) t + r k w    =  (M - r - r a) t + r a (t + q w)    >=  (M - r - r a) t + r a S
///
/// A ramp that is more than that takes no more from the load than it adds to the step, unless stages are slower while
/// others are busy: then the load is what is left by the most that a ramp can be, t.
stages::StageOption LeastCosts::optionOf(const Range &range) const {
  stages::StageOption option;
  double ramp = 0, rest = (count - share) * range.seconds, load = rest;
  for (auto [price, least] : llvm::zip_equal(pricesOfWeights, range.without)) {
    double part = delayed / price;
    ramp = std::max(ramp, (1 - part) * (part <= 1 ? range.seconds : range.most) + part * least);
  }
  bool mayBeLess = range.slowdown > 1 && delayed > 0 && share < 1;
  if (mayBeLess)
    load = (count - 1) * range.seconds;
  else if (double part = share * delayed / pricesOfWeights[1]; part <= count - share)
    load = std::max(load, rest + std::min(share * range.seconds, part * (range.with - range.seconds)));
  option.backward = delayed == 0 ? range.seconds : (share * ramp + load) / count;
  option.backwardWeight = delayed == 0 ? 0 : (option.backward - ramp) / delayed;
  option.perStep = range.perStep;
  option.fixedBytes = range.fixedBytes;
  option.microbatchBytes = range.microbatchBytes;
  option.steadySlowdown = range.slowdown;
  return option;
}

const std::vector<stages::StageOption> &LeastCosts::options(unsigned first, unsigned last, unsigned kind,
                                                            unsigned devices) {
  auto [entry, isNew] = known.try_emplace({isRough, classOf(first, last), kind, devices, delayed, delayed ? share : 1});
  std::vector<stages::StageOption> &options = entry->second;
  if (!isNew)
    return options;
  auto rampOf = [&](const stages::StageOption &option) { return option.seconds() - delayed * option.backwardWeight; };
  auto loadOf = [&](const stages::StageOption &option) { return count * option.seconds() - share * rampOf(option); };
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
