// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers of microbatches: first a plan of equal stages for each; then, the most promising number first, a bound of all
// its plans, and a search only where that bound promises more than the best plan so far.

#include "passes/planner/search/LeastCosts.h"
#include "passes/planner/search/Searcher.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace cleave::search {

void Searcher::trySchedule(int64_t microbatches, ScheduleChoice schedule, Costs &costs, bool quickly) {
  stages::SearchOptions options;
  options.equalLayersOnly = quickly;
  if (mayEnd() && request.timeBudget > 0)
    options.timeBudget = std::max(request.timeBudget - elapsed(), 1e-3);
  options.explainInfeasible = explains;
  options.bytesToBeat = leastBytes;
  // Every number of microbatches is to show what it promises.
  options.secondsToBeat = quickly ? quickSeconds : toBeat();
  stages::StagePlan plan = stages::searchStages(problemOf(microbatches, schedule), costs, options);
  // Zero where no memory would do, as of a schedule that these layers do not go with, or no less.
  if (explains && plan.leastBytes > 0)
    leastBytes = std::min(leastBytes, plan.leastBytes);
  if (!plan.isFeasible())
    return;
  if (quickly)
    quickSeconds = plan.seconds;
  FoundPlan found = describe(plan, microbatches, schedule);
  if (toBeat() <= found.seconds || (sharesDevices && !hasMemory(found)))
    return;
  best = std::move(found);
  bestChoices = std::move(describedChoices);
  bestPlan = std::move(plan);
  if (request.progress)
    request.progress(llvm::formatv("{0} stages, {1} microbatches: {2:f3} ms", best->stages.size(), microbatches,
                                   best->seconds * 1e3));
}

std::vector<double> Searcher::exploreQuickly(llvm::ArrayRef<int64_t> numbers) {
  std::vector<double> promised;
  looksQuickly = true;
  for (int64_t number : numbers) {
    quickSeconds = solver::forbidden;
    if (!mustEnd()) {
      Costs costs(*this, number);
      for (ScheduleChoice choice : schedules(number))
        trySchedule(number, choice, costs, /*quickly=*/true);
    }
    promised.push_back(quickSeconds);
    forget();
  }
  looksQuickly = false;
  return promised;
}

void Searcher::chooseNumbersOnAllGrids() { onAllGrids = numbersOnAllGrids(microbatchNumbers()); }

void Searcher::explore(int64_t microbatches) {
  bool hadPlan = std::isfinite(toBeat()), isAtEnd = mustEnd();
  std::vector<Bounded> bounds;
  if (hadPlan && !isAtEnd)
    bounds = boundSchedules(microbatches, toBeat());
  else
    for (ScheduleChoice choice : schedules(microbatches))
      bounds.push_back({choice, 0});
  if (leastOf(bounds) < toBeat() && !isAtEnd) {
    Costs costs(*this, microbatches);
    for (const Bounded &bound : bounds)
      if (bound.seconds < toBeat())
        trySchedule(microbatches, bound.choice, costs);
  }
  // What is known of the costs makes it cheap to prove less than before.
  bool provesLess = certifies() && !wasBoundedFor(microbatches, toBeat()) && leastOf(bounds) < toBeat();
  if (std::isfinite(toBeat()) && (!hadPlan || provesLess) && !outOfTime())
    bounds = boundSchedules(microbatches, toBeat());
  double &least = leastSeconds[microbatches] = leastOf(bounds);
  if (best && best->microbatches == microbatches && least < toBeat() && !outOfTime())
    least = std::max(least, simpleBoundOf(microbatches));
  forget();
}

bool Searcher::wasBoundedFor(int64_t microbatches, double enough) const {
  auto before = boundedFor.find(microbatches);
  return before != boundedFor.end() && before->second <= enough;
}

double Searcher::simpleBoundOf(int64_t microbatches) {
  auto [known, isNew] = simpleBounds.try_emplace(microbatches);
  if (isNew)
    known->second = lowerBoundOf(microbatches);
  return known->second;
}

/// The schedules of which least may be expected first.
std::vector<Searcher::Bounded> Searcher::boundSchedules(int64_t microbatches, double enough) {
  std::vector<Bounded> bounds;
  boundedFor[microbatches] = enough;
  if (!certifies()) {
    double least = lowerBoundOf(microbatches);
    if (least < enough && memoryBinds)
      least = std::max(least, memoryBoundOf(microbatches, enough));
    for (ScheduleChoice choice : schedules(microbatches))
      bounds.push_back({choice, least});
    return bounds;
  }
  if (!leastCosts)
    leastCosts = std::make_unique<LeastCosts>(*this, microbatches);
  leastCosts->setEnough(enough);
  for (ScheduleChoice choice : schedules(microbatches))
    bounds.push_back({choice, leastCosts->boundOf(choice)});
  llvm::stable_sort(bounds, [](const Bounded &left, const Bounded &right) { return left.seconds < right.seconds; });
  return bounds;
}

double Searcher::leastOf(llvm::ArrayRef<Bounded> bounds) {
  double least = solver::forbidden;
  for (const Bounded &bound : bounds)
    least = std::min(least, bound.seconds);
  return least;
}

void Searcher::exploreBest() {
  if (best && !outOfTime() && onAllGrids.insert(best->microbatches).second)
    explore(best->microbatches);
}

void Searcher::certifyNumber(int64_t microbatches, double enough) {
  double &least = leastSeconds[microbatches];
  // Without certificates there is nothing tighter than what is known.
  if (least >= enough || (least > 0 && !certifies()))
    return;
  // With less to prove than before, the same work may prove it.
  if (certifies() && !wasBoundedFor(microbatches, enough) && !outOfTime())
    least = std::max(least, leastOf(boundSchedules(microbatches, enough)));
  if (least < enough)
    least = std::max(least, simpleBoundOf(microbatches));
  forget();
}

void Searcher::certify(double enough) {
  for (auto [number, least] : leastSeconds)
    certifyNumber(number, enough);
}

void Searcher::forget() {
  leastCosts.reset();
  intervals.forget();
  choices.clear();
}

double Searcher::lowerBound() const {
  double bound = solver::forbidden;
  for (auto [number, least] : leastSeconds)
    bound = std::min(bound, least);
  return bound;
}

void Searcher::findLeastBytes() {
  explains = true;
  // Most microbatches take least memory. Where parameters alone do not fit, what others take differs too little to say.
  double fewest = stateBytes(0, intervals.numLayers()) / static_cast<double>(busy.size()), limit = 0;
  constexpr double nearly = 1.02;
  for (unsigned kind = 0; kind != runs.size(); ++kind)
    limit = std::max(limit, memoryOf(kind));
  const std::map<int64_t, double> numbers = leastSeconds;
  for (auto [number, least] : llvm::reverse(numbers)) {
    if (fewest > limit && leastBytes < nearly * fewest)
      break;
    leastIsOfSome = std::isfinite(leastBytes) && outOfTime();
    if (leastIsOfSome)
      break;
    explore(number);
  }
}

} // namespace cleave::search
