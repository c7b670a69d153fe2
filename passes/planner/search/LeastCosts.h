// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A certificate for the search across stages: each stage's costs are replaced by such as no way to run it can beat, and
// the same exact search finds the best plan under these. No plan takes less.

#ifndef CLEAVE_PASSES_PLANNER_SEARCH_LEASTCOSTS_H
#define CLEAVE_PASSES_PLANNER_SEARCH_LEASTCOSTS_H

#include "passes/planner/search/Searcher.h"

namespace cleave::search {

/// What no stage is better than, with one number of microbatches. A stage on a grid takes t seconds of a microbatch, w
/// of them for gradients of weights, P other seconds a step, and b bytes. Its choices trade one for another: for any
/// prices, t + (what is priced) is no less than the least of it over all choices, which is exact. The seconds t are cut
/// into ranges. Within a range [low, high] it follows from t + price x >= least that x >= (least - high) / price. Each
/// range is an option that takes `low`, with the greatest such x of each kind.
class LeastCosts : public stages::StageCosts {
public:
  LeastCosts(Searcher &searcher, int64_t microbatches);

  /// No bound has to be more than that many seconds: stages that are too slow for a plan of less are left out. Expected
  /// before the first bound. After another one, what the least sums are is still known.
  void setEnough(double seconds);
  /// No plan with that schedule takes less; no more than enough.
  double boundOf(ScheduleChoice choice);

  const std::vector<stages::StageOption> &options(unsigned first, unsigned last, unsigned kind,
                                                  unsigned devices) override;
  uint64_t classOf(unsigned first, unsigned last) override { return searcher.classOf(first, last); }
  double transferSeconds(unsigned at, unsigned kind, unsigned devices, stages::Hop hop) override {
    return costs.transferSeconds(at, kind, devices, hop);
  }
  bool isTooLong(unsigned first, unsigned last, unsigned kind, unsigned devices) override;

private:
  /// Of a stage whose microbatches take at least `seconds` and at most `most`: what no such stage has less of.
  struct Range {
    double seconds = 0, most = 0;
    double without[2] = {0, 0}, with = 0; ///< t - q w at two prices q of gradients of weights, t + q w at the second.
    double perStep = 0, fixedBytes = 0, microbatchBytes = 0;
    double slowdown = 1;
  };
  using Ranges = std::vector<Range>;
  struct Priced;

  /// What a stage's choices are priced by, all of which is asked for in bundles: the seconds t by themselves, t - q w
  /// at two prices and t + q w at one, seconds a step, and bytes.
  enum Price : unsigned { Plain, WithoutWeights, WithWeights = 3, Joined, Shown, Bytes = 7 };
  Weights weightsOf(Recompute recompute, unsigned price) const;
  /// Whether that is asked of stages that keep activations so.
  bool isAsked(unsigned mode, unsigned price) const;
  bool isFirst(unsigned price) const;
  void makeBundles();
  double leastOf(unsigned first, unsigned last, unsigned setting, unsigned mode, unsigned price);
  /// What the layers before each boundary, and at the end all of them, take at least.
  using SumsOfLayers = std::vector<double>;
  const SumsOfLayers &secondsBefore(unsigned kind, unsigned devices);
  bool leavesTooMuch(unsigned first, unsigned last, unsigned kind, unsigned devices);
  const std::vector<unsigned> &settingsOf(unsigned kind, unsigned devices);
  unsigned bundleOf(unsigned setting, unsigned index);
  const Ranges &rangesOf(unsigned first, unsigned last, unsigned kind, unsigned devices);
  void addWhole(unsigned setting, unsigned kind, Ranges &ranges);
  void addPart(unsigned first, unsigned last, unsigned setting, double memory, Ranges &ranges);
  bool addPart(unsigned first, unsigned last, unsigned setting, double memory, unsigned mode, Ranges &ranges);
  stages::StageOption optionOf(const Range &range) const;

  Searcher &searcher;
  Costs costs;
  int64_t microbatches;
  double enough = 0, count, mostSeconds = 0, mostInFlight, byteUnit;
  double hidden = 1;    ///< What a second of joining costs while it is hidden.
  unsigned delayed = 0; ///< Of the schedule,
  double share = 1;     ///< and the part of a stage's seconds that its ramp is.
  /// Ways to keep activations, from the one that computes nothing again; for each of them the prices.
  std::vector<Recompute> modes;
  unsigned numPrices = 0;
  std::vector<unsigned> lanes; ///< By mode and price, which varies faster.
  bool isRough = false;        ///< Whether the first prices alone are looked at.
  std::vector<Intervals::Bundle> bundles;
  std::map<unsigned, std::vector<unsigned>> bundlesOf; ///< By setting: their numbers.
  /// By kind and number of devices: the settings that a stage may be in.
  std::map<std::pair<unsigned, unsigned>, std::vector<unsigned>> knownSettings;
  /// By kind and number of devices: seconds of a microbatch; and of a step on all of the machine.
  std::map<std::pair<unsigned, unsigned>, SumsOfLayers> layerSeconds;
  SumsOfLayers machineSeconds;
  /// The first number says whether they are rough.
  std::map<std::tuple<bool, uint64_t, unsigned, unsigned>, Ranges> ranges;
  std::map<std::tuple<bool, uint64_t, unsigned, unsigned, unsigned, double>, std::vector<stages::StageOption>> known;
};

} // namespace cleave::search

#endif // CLEAVE_PASSES_PLANNER_SEARCH_LEASTCOSTS_H
