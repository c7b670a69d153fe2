// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets of devices one after the other, numbers of microbatches in two threads; then what people would choose without a
// search, for comparison.

#include "passes/planner/search/CheapestPlan.h"
#include "passes/planner/search/Search.h"
#include "passes/planner/search/Searcher.h"
#include "passes/planner/search/Shares.h"

#include <mutex>
#include <thread>

namespace cleave::search {

/// Numbers of microbatches, the most promising first, by what a quick look at them finds. `look` returns the seconds
/// for some numbers. Of many numbers first some are looked at, every third of those on all grids, and then those around
/// the best; what the others promise lies between their neighbours.
static std::vector<int64_t> mostPromisingFirst(llvm::ArrayRef<int64_t> numbers,
                                               llvm::function_ref<bool(int64_t)> isOnAllGrids,
                                               llvm::function_ref<std::vector<double>(llvm::ArrayRef<int64_t>)> look) {
  constexpr size_t few = 8, stride = 3, reach = 3;
  size_t count = numbers.size();
  std::vector<std::optional<double>> seconds(count);
  auto lookAt = [&](llvm::ArrayRef<size_t> places) {
    std::vector<int64_t> some;
    for (size_t place : places)
      some.push_back(numbers[place]);
    for (auto [place, taken] : llvm::zip_equal(places, look(some)))
      seconds[place] = taken;
  };
  std::vector<size_t> places;
  size_t onAllGrids = 0;
  for (size_t place = 0; place != count; ++place)
    if (count <= few || (isOnAllGrids(numbers[place]) && onAllGrids++ % stride == 0))
      places.push_back(place);
  lookAt(places);
  size_t best = *llvm::min_element(places, [&](size_t left, size_t right) { return seconds[left] < seconds[right]; });
  std::vector<size_t> around;
  for (size_t place = best - std::min(best, reach); place < std::min(count, best + reach + 1); ++place)
    if (!seconds[place])
      around.push_back(place);
  lookAt(around);
  std::vector<std::pair<double, int64_t>> promised;
  for (size_t place = 0; place != count; ++place) {
    double before = -1, after = -1;
    for (size_t other = place + 1; other-- != 0 && before < 0;)
      before = seconds[other].value_or(-1);
    for (size_t other = place; other != count && after < 0; ++other)
      after = seconds[other].value_or(-1);
    before = before < 0 ? after : before;
    after = after < 0 ? before : after;
    promised.push_back({(before + after) / 2, numbers[place]});
  }
  llvm::sort(promised);
  std::vector<int64_t> ordered;
  for (auto [taken, number] : promised)
    ordered.push_back(number);
  return ordered;
}

/// Numbers in parts that take about as long: one after the other by turns, those on all grids by themselves, as they
/// take longer than the others, and fewer microbatches longer than more. In each part they keep their order.
static std::vector<std::vector<int64_t>> evenly(llvm::ArrayRef<int64_t> numbers, unsigned count,
                                                llvm::function_ref<bool(int64_t)> isOnAllGrids) {
  std::vector<std::pair<bool, int64_t>> sorted;
  for (int64_t number : numbers)
    sorted.push_back({!isOnAllGrids(number), number});
  llvm::sort(sorted);
  std::map<int64_t, unsigned> partOf;
  for (auto [index, entry] : llvm::enumerate(sorted))
    partOf[entry.second] = index % count;
  std::vector<std::vector<int64_t>> parts(count);
  for (int64_t number : numbers)
    parts[partOf[number]].push_back(number);
  return parts;
}

/// Explores numbers of microbatches in two threads, each for itself: the same two on every machine, so that the plan
/// does not depend on how many cores there are.
static std::variant<FoundPlan, SearchFailure> search(const SearchGraph &graph, const Machine &machine,
                                                     const SearchRequest &request, bool sharesDevices = false) {
  constexpr unsigned shares = 2;
  std::vector<std::unique_ptr<Searcher>> searchers;
  std::vector<DevicesToTry> sets = devicesToTry(machine, request, sharesDevices);
  for (const DevicesToTry &devices : sets)
    for (unsigned share = 0; share != shares; ++share)
      searchers.push_back(std::make_unique<Searcher>(graph, machine, request, sharesDevices, devices));
  if (std::optional<SearchFailure> problem = searchers.front()->checkRequest())
    return std::move(*problem);
  auto together = [&](llvm::ArrayRef<std::unique_ptr<Searcher>> some, auto work) {
    auto workOf = [&](unsigned share) {
      for (size_t index = share; index < some.size(); index += shares)
        work(*some[index], share);
    };
    std::vector<std::thread> threads;
    for (unsigned share = 1; share < shares; ++share)
      threads.emplace_back(workOf, share);
    workOf(0);
    for (std::thread &thread : threads)
      thread.join();
  };
  Searcher *winner = nullptr;
  auto findWinner = [&] {
    for (auto &searcher : searchers)
      if (searcher->best && (!winner || searcher->best->seconds < winner->best->seconds))
        winner = searcher.get();
    for (auto &searcher : searchers)
      if (winner)
        searcher->secondsToBeat = winner->best->seconds;
  };
  // One set of devices after the other: what is found on one rules out much on the next.
  for (size_t set = 0; set != sets.size(); ++set) {
    auto own = llvm::ArrayRef(searchers).slice(set * shares, shares);
    std::set<int64_t> all = own.front()->microbatchNumbers();
    std::vector<int64_t> numbers(all.begin(), all.end());
    for (auto &searcher : own)
      searcher->chooseNumbersOnAllGrids();
    auto isOnAllGrids = [&](int64_t number) { return own.front()->isForAllGrids(number); };
    // A search for a single number needs no order, but a plan before the time is over.
    if (request.training && (numbers.size() > 1 || request.timeBudget > 0))
      numbers = mostPromisingFirst(numbers, isOnAllGrids, [&](llvm::ArrayRef<int64_t> some) {
        std::vector<double> seconds(some.size());
        together(own, [&](Searcher &searcher, unsigned share) {
          std::vector<int64_t> part;
          for (size_t index = share; index < some.size(); index += shares)
            part.push_back(some[index]);
          for (auto [index, taken] : llvm::enumerate(searcher.exploreQuickly(part)))
            seconds[share + index * shares] = taken;
        });
        return seconds;
      });
    // The most promising number is likely to stay the best one, which is searched on all grids.
    if (!numbers.empty())
      own.front()->searchOnAllGrids(numbers.front());
    // It and the next one give a plan that rules out most others. Beside it there is time for two that are not on all
    // grids.
    std::vector<std::vector<int64_t>> first(shares);
    size_t begin = std::min<size_t>(shares, numbers.size());
    if (begin == shares && numbers.size() > shares && !isOnAllGrids(numbers[1]))
      ++begin;
    for (size_t index = 0; index != begin; ++index)
      first[std::min<size_t>(index, 1)].push_back(numbers[index]);
    auto rest = evenly(llvm::ArrayRef(numbers).drop_front(begin), shares, isOnAllGrids);
    for (const std::vector<std::vector<int64_t>> &parts : {first, rest}) {
      findWinner();
      together(own, [&](Searcher &searcher, unsigned share) {
        for (int64_t number : parts[share])
          searcher.explore(number);
      });
    }
    findWinner();
  }
  double bound = solver::forbidden;
  if (winner) {
    winner->exploreBest();
    // No other number of microbatches has to be bounded by more than the best one's is.
    winner->certifyNumber(winner->best->microbatches, winner->best->seconds);
    double enough = winner->leastOf(winner->best->microbatches);
    together(searchers, [&](Searcher &searcher, unsigned) { searcher.certify(enough); });
  }
  for (auto &searcher : searchers)
    bound = std::min(bound, searcher->lowerBound());
  if (winner)
    return winner->finish(bound);
  if (sharesDevices)
    return search(graph, machine, request);
  if (request.mayFindNothing && searchers.front()->outOfTime())
    return SearchFailure{true, "no plan was found within --search-seconds"};
  // How much memory is missing takes longer to find out than that it is.
  together(searchers, [](Searcher &searcher, unsigned) { searcher.findLeastBytes(); });
  for (auto &searcher : searchers) {
    searchers.front()->leastBytes = std::min(searchers.front()->leastBytes, searcher->leastBytes);
    searchers.front()->leastIsOfSome |= searcher->leastIsOfSome;
  }
  findWinner();
  return winner ? winner->finish(bound) : searchers.front()->infeasible();
}

/// What people would choose without a search, for comparison.
static void considerBaselines(const SearchGraph &graph, const Machine &machine, const SearchRequest &request,
                              FoundPlan &plan) {
  auto count = static_cast<int64_t>(machine.devices.size());
  std::vector<std::pair<std::string, Degrees>> baselines;
  if (!request.pinned.empty())
    baselines.push_back({"without the pins", {}});
  baselines.push_back({"single", {}});
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
    fixed.pinned.clear();
    fixed.fixed.clear();
    fixed.progress = nullptr;
    fixed.certifies = false;
    fixed.mayFindNothing = true;
    // All of them together take no longer than the search itself.
    fixed.timeBudget = request.timeBudget / static_cast<double>(baselines.size());
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

/// Whether that is open: where a machine says of all its hosts how much memory they have, but for plans that are
/// decided.
static bool mayKeepOptimizerInHost(const Machine &machine, const SearchRequest &request) {
  bool delaysWeights = request.schedule && (*request.schedule)->weightDelay > 0;
  return request.training && !request.optimizerInHost && request.optimizerStates > 0 && !request.isDecided &&
         !delaysWeights && llvm::all_of(hostMemory(machine), [](uint64_t bytes) { return bytes > 0; });
}

/// Searches once more with the optimizer's state in the host's memory, and takes the better plan: `found` is the best
/// with it on the devices.
static void keepOptimizerWhereBest(const SearchGraph &graph, const Machine &machine, const SearchRequest &request,
                                   std::variant<FoundPlan, SearchFailure> &found) {
  auto *onDevice = std::get_if<FoundPlan>(&found);
  // Nothing is gained by more memory.
  if (onDevice && onDevice->seconds <= onDevice->lowerBound)
    return;
  SearchRequest asking = request;
  asking.optimizerInHost = true;
  auto other = search(graph, machine, asking);
  auto *inHost = std::get_if<FoundPlan>(&other);
  if (!inHost)
    return;
  if (!onDevice) {
    found = std::move(*inHost);
    return;
  }
  double bound = std::min(onDevice->lowerBound, inHost->lowerBound);
  if (inHost->seconds < onDevice->seconds) {
    inHost->considered.push_back({"optimizer on devices", onDevice->seconds, onDevice->peakBytes(), ""});
    found = std::move(*inHost);
  } else {
    onDevice->considered.push_back({"optimizer in the host's memory", inHost->seconds, inHost->peakBytes(), ""});
  }
  std::get<FoundPlan>(found).lowerBound = bound;
}

std::variant<FoundPlan, SearchFailure> findPlan(const SearchGraph &graph, const Machine &machine,
                                                const SearchRequest &request) {
  if (request.leastCost)
    return findCheapestPlan(graph, machine, request);
  SearchRequest guarded = request;
  std::mutex mutex;
  if (request.progress)
    guarded.progress = [&](const std::string &line) {
      std::lock_guard lock(mutex);
      request.progress(line);
    };
  // Devices that only wait for what is pinned to them would be lost to all else.
  bool sharesDevices = !request.training && !request.pinned.empty();
  bool triesHost = mayKeepOptimizerInHost(machine, request);
  if (triesHost)
    guarded.timeBudget /= 2;
  auto found = search(graph, machine, guarded, sharesDevices);
  if (triesHost)
    keepOptimizerWhereBest(graph, machine, guarded, found);
  if (auto shared = findShares(graph, machine, guarded)) {
    auto *equal = std::get_if<FoundPlan>(&found);
    if (equal && equal->seconds <= shared->seconds) {
      equal->considered.push_back({"in shares", shared->seconds, shared->peakBytes(), ""});
    } else {
      if (equal) {
        shared->lowerBound = std::min(shared->lowerBound, equal->lowerBound);
        shared->considered.push_back({"in equal parts", equal->seconds, equal->peakBytes(), ""});
      }
      found = std::move(*shared);
    }
  }
  if (auto *plan = std::get_if<FoundPlan>(&found); plan && !request.degrees.any() && request.considersOthers)
    considerBaselines(graph, machine, request, *plan);
  return found;
}

} // namespace cleave::search
