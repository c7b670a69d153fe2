// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of pieces are worth what a single piece over all their operators is worth, and equal layers are solved once.

#include "ModelGraph.h"

#include "passes/planner/search/Intervals.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::search;

namespace {

/// The least cost of layers [first, last) by eliminating all of them at once, with their tensors at the ends kept.
double leastAtOnce(const SearchGraph &graph, unsigned first, unsigned last, const Setting &setting,
                   const Weights &weights) {
  const Boundary &from = graph.boundaries[first], &to = graph.boundaries[last];
  Piece piece(graph, from.at, to.at, from.single, to.single, *setting.grid, *setting.cost, setting.options,
              FixedFactors());
  for (unsigned variable = 0; variable != piece.problem.variables.size(); ++variable)
    for (unsigned choice = 0; choice != piece.problem.domainOf(variable).size(); ++choice)
      piece.problem.domains[piece.problem.variables[variable]][choice].seconds +=
          weights.reduction * piece.reductions[variable][choice];
  // Nothing shares the domain of a tensor at an end.
  if (piece.exitVariable != none)
    for (auto [number, choice] : llvm::enumerate(piece.problem.domains[piece.problem.variables[piece.exitVariable]]))
      choice.seconds += piece.exitOf(number).seconds();
  std::vector<unsigned> kept;
  if (piece.entryVariable != none)
    kept.push_back(piece.entryVariable);
  solver::EliminationOptions options;
  options.secondsPerByte = weights.secondsPerByte;
  auto elimination = solver::Elimination::run(piece.problem, kept, options);
  double least = solver::forbidden;
  for (size_t entry = 0; elimination && entry != elimination->values().size(); ++entry)
    least = std::min(least,
                     elimination->values()[entry] + (piece.entryVariable == none ? 0 : piece.entryOf(entry).seconds()));
  return least;
}

double costOf(const IntervalSums &sums, const Setting &setting, const Weights &weights) {
  double bytes = sums.parameters + sums.gradients + sums.optimizer + (setting.options.training ? sums.saved : 0);
  return sums.forward + sums.backward + sums.update / setting.options.microbatches +
         weights.reduction * sums.reduction + weights.secondsPerByte * bytes;
}

/// All intervals up to a length, under some weights.
void expectEqual(const SearchGraph &graph, const MachineGrid &on, unsigned mostLayers) {
  for (bool training : {false, true}) {
    Setting setting;
    setting.grid = &on.grid;
    setting.cost = &on.cost;
    setting.options.training = training;
    setting.options.microbatches = 2;
    setting.options.precision.optimizer = 2;
    Intervals intervals(graph);
    unsigned number = intervals.addSetting(setting);
    for (const Weights &weights : {Weights{0, 0}, Weights{0.5, 0}, Weights{0.5, 1e-12}}) {
      for (unsigned first = 0; first != intervals.numLayers(); ++first)
        for (unsigned last = first + 1; last <= std::min(intervals.numLayers(), first + mostLayers); ++last) {
          const IntervalSums *sums = intervals.best(first, last, number, weights);
          double expected = leastAtOnce(graph, first, last, setting, weights);
          ASSERT_NE(sums, nullptr);
          double found = costOf(*sums, setting, weights);
          EXPECT_NEAR(found, expected, expected * 1e-9)
              << "layers " << first << " to " << last << (training ? ", training" : "");
        }
      // Past the end there is nothing but both parts.
      unsigned layers = intervals.numLayers();
      double ends =
          leastAtOnce(graph, layers - 1, layers, setting, weights) + leastAtOnce(graph, 0, 1, setting, weights);
      EXPECT_NEAR(intervals.least(layers - 1, layers + 1, number, weights), ends, ends * 1e-9);
      EXPECT_NEAR(costOf(*intervals.best(layers - 1, layers + 1, number, weights), setting, weights), ends,
                  ends * 1e-9);
      EXPECT_EQ(intervals.classOf(layers, layers + 1), intervals.classOf(0, 1));
    }
  }
}

const std::map<std::string, int64_t> smallGpt = {{"batch", 4}, {"layers", 4},    {"hidden", 256},
                                                 {"heads", 8}, {"sequence", 64}, {"vocabulary", 1000}};

TEST(Intervals, OfGptAreWorthWhatOnePieceIs) {
  ModelGraph model("gpt", smallGpt);
  expectEqual(model.graph, MachineGrid("v100-16g:4", {4}), 6);
}

TEST(Intervals, OfGptOnTwoAxesAreWorthWhatOnePieceIs) {
  std::map<std::string, int64_t> numbers = smallGpt;
  numbers["layers"] = 1;
  ModelGraph model("gpt", numbers);
  expectEqual(model.graph, MachineGrid("v100-16g:4", {2, 2}), 3);
}

// The table of tokens is read again by the head, transposed: two copies of it, but one gradient.
TEST(Intervals, CountGradientsOfTiedWeightsOnceAStage) {
  ModelGraph model("gpt", smallGpt);
  double trained = 0, constants = 0, table = 4.0 * 1000 * 256;
  for (const Parameter &parameter : model.graph.parameters)
    (parameter.trained ? trained : constants) += parameter.bytes;
  for (int64_t devices : {1, 2}) {
    MachineGrid on("v100-16g:" + std::to_string(devices), {devices});
    Setting setting;
    setting.grid = &on.grid;
    setting.cost = &on.cost;
    setting.options.training = true;
    setting.options.precision.optimizer = 2;
    Intervals intervals(model.graph);
    unsigned number = intervals.addSetting(setting), layers = intervals.numLayers();
    for (const Weights &weights : {Weights{1, 0}, Weights{1, 1e-12}}) {
      const IntervalSums *whole = intervals.best(0, layers, number, weights);
      double expected = leastAtOnce(model.graph, 0, layers, setting, weights);
      EXPECT_NEAR(costOf(*whole, setting, weights), expected, expected * 1e-9);
      if (devices != 1)
        continue;
      EXPECT_EQ(whole->gradients, trained);
      EXPECT_EQ(whole->optimizer, 2 * trained);
      EXPECT_EQ(whole->parameters, trained + constants + table);
      // In two stages each has one, and the optimizer's state with it.
      EXPECT_EQ(intervals.best(0, layers - 1, number, weights)->gradients +
                    intervals.best(layers - 1, layers, number, weights)->gradients,
                trained + table);
    }
  }
}

TEST(Intervals, OfAlexnetAreWorthWhatOnePieceIs) {
  ModelGraph model("alexnet", {{"batch", 32}});
  expectEqual(model.graph, MachineGrid("k20x8:2", {2}), 30);
}

TEST(Intervals, OfEqualLayersAreOneClass) {
  ModelGraph model("gpt", smallGpt);
  Intervals intervals(model.graph);
  // The layers of the model between its embedding and its head repeat with some period; intervals that are a period
  // apart are of one class, others are not.
  unsigned count = intervals.numLayers(), first = none, period = 0;
  for (unsigned candidate = 1; candidate <= count / 3 && !period; ++candidate)
    for (unsigned from = 0; from + 3 * candidate <= count && !period; ++from)
      if (intervals.classOf(from, from + candidate) == intervals.classOf(from + candidate, from + 2 * candidate) &&
          intervals.classOf(from, from + candidate) == intervals.classOf(from + 2 * candidate, from + 3 * candidate)) {
        first = from;
        period = candidate;
      }
  ASSERT_NE(period, 0u);
  EXPECT_EQ(intervals.classOf(first, first + 2 * period), intervals.classOf(first + period, first + 3 * period));
  EXPECT_NE(intervals.classOf(first, first + period), intervals.classOf(first, first + 2 * period));
  EXPECT_NE(intervals.classOf(0, 1), intervals.classOf(count - 1, count));
}

} // namespace
