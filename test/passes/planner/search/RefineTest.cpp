// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The splits of a stage as one problem of its pieces, against one piece over all of its operators.

#include "ModelGraph.h"

#include "passes/planner/search/Refine.h"

#include <gtest/gtest.h>
#include <set>

using namespace cleave;
using namespace cleave::search;

namespace {

class RefinedStage {
public:
  RefinedStage(const std::string &name, const std::map<std::string, int64_t> &numbers, const std::string &machine,
               llvm::ArrayRef<int64_t> sizes, bool training)
      : model(name, numbers), on(machine, sizes), intervals(model.graph) {
    setting.grid = &on.grid;
    setting.cost = &on.cost;
    setting.options.training = training;
    setting.options.precision.optimizer = training ? 2 : 0;
    number = intervals.addSetting(setting);
  }

  double bytesOf(const Sums &sums) const {
    return sums.parameters + sums.gradients + sums.optimizer + (setting.options.training ? sums.saved : 0);
  }

  /// All layers, with the splits that are best at a price of memory.
  RefineRequest request(const Weights &weights) {
    RefineRequest request;
    request.pieces = intervals.piecesOf(0, intervals.numLayers(), number);
    request.choices = intervals.choicesOf(0, intervals.numLayers(), number, weights);
    request.recompute.assign(request.pieces.size(), Recompute::None);
    request.optionOf = [this](const IntervalSums &sums, const Recomputation &) {
      stages::StageOption option;
      option.forward = sums.forward;
      option.backward = sums.backward;
      option.perStep = sums.update;
      option.fixedBytes = sums.parameters + sums.gradients + sums.optimizer + sums.transient;
      option.microbatchBytes = setting.options.training ? sums.saved : 0;
      return option;
    };
    return request;
  }

  Piece whole() const {
    return Piece(model.graph, 0, model.graph.operators.size(), none, none, on.grid, on.cost, setting.options,
                 FixedFactors());
  }

  ModelGraph model;
  MachineGrid on;
  Intervals intervals;
  Setting setting;
  unsigned number = 0;
};

const std::map<std::string, int64_t> shallowGpt = {{"batch", 4}, {"layers", 2},    {"hidden", 256},
                                                   {"heads", 8}, {"sequence", 64}, {"vocabulary", 1000}};

double secondsOf(const Sums &sums) { return sums.forward + sums.backward + sums.update; }

/// The fastest splits of all layers under a limit that counts the largest transient: for every transient that some
/// choice has, the best splits without larger ones.
double leastSeconds(const Piece &whole, double memoryLimit) {
  std::set<double> caps;
  for (unsigned variable = 0; variable != whole.problem.variables.size(); ++variable)
    for (unsigned choice = 0; choice != whole.problem.domainOf(variable).size(); ++choice)
      caps.insert(whole.sumsOf(variable, choice).transient);
  double least = solver::forbidden;
  for (double cap : caps) {
    solver::ChoiceProblem problem = whole.problem;
    problem.memoryLimit = memoryLimit - cap;
    if (problem.memoryLimit < 0)
      continue;
    for (unsigned variable = 0; variable != problem.variables.size(); ++variable)
      for (unsigned choice = 0; choice != problem.domainOf(variable).size(); ++choice)
        if (whole.sumsOf(variable, choice).transient > cap)
          problem.domains[problem.variables[variable]][choice].seconds = solver::forbidden;
    least = std::min(least, solver::solve(problem).seconds);
  }
  return least;
}

/// From splits that save as much memory as they can, under limits between those and what the fastest ones need.
void expectOptimal(RefinedStage &stage) {
  Weights saving{0, 1e-3};
  RefineRequest request = stage.request(saving);
  IntervalSums least = sumsOf(request.pieces, request.choices);
  Piece whole = stage.whole();
  solver::ChoiceSolution fastest = solver::solve(whole.problem);
  for (double share : {0.0, 0.2, 0.5, 1.0}) {
    double limit = stage.bytesOf(least) + share * (fastest.bytes - stage.bytesOf(least));
    request.memoryLimit = limit + least.transient;
    Refined refined = refine(request);
    ASSERT_FALSE(refined.choices.empty()) << share;
    EXPECT_LE(stage.bytesOf(refined.sums) + refined.sums.transient, request.memoryLimit);
    EXPECT_LE(secondsOf(refined.sums), secondsOf(least) * (1 + 1e-9));
    double expected = leastSeconds(whole, request.memoryLimit);
    EXPECT_GE(secondsOf(refined.sums), expected * (1 - 1e-9)) << share;
    EXPECT_LE(secondsOf(refined.sums), expected * (1 + 1e-6)) << share;
  }
}

TEST(Refine, FindsTheBestSplitsOfGptWithinMemory) {
  RefinedStage training("gpt", shallowGpt, "v100-16g:4", {4}, /*training=*/true);
  expectOptimal(training);
  RefinedStage inference("gpt", shallowGpt, "v100-16g:4", {2, 2}, /*training=*/false);
  expectOptimal(inference);
}

TEST(Refine, FindsTheBestSplitsOfAlexnetWithinMemory) {
  RefinedStage training("alexnet", {{"batch", 32}}, "k20x8:2", {2}, /*training=*/true);
  expectOptimal(training);
  RefinedStage inference("alexnet", {{"batch", 32}}, "k20x8:2", {2}, /*training=*/false);
  expectOptimal(inference);
}

TEST(Refine, KeepsTheSplitsWhereNothingFits) {
  RefinedStage stage("alexnet", {{"batch", 32}}, "k20x8:2", {2}, /*training=*/false);
  RefineRequest request = stage.request({});
  request.memoryLimit = 1;
  EXPECT_TRUE(refine(request).choices.empty());
}

TEST(Refine, SaysWhatIsTooLargeToBeTriedOut) {
  RefinedStage stage("alexnet", {{"batch", 32}}, "k20x8:2", {2}, /*training=*/false);
  RefineRequest request = stage.request({});
  request.memoryLimit = 1e12;
  request.solver.method = solver::Method::Exhaustive;
  Refined refined = refine(request);
  EXPECT_TRUE(refined.isTooLarge);
  EXPECT_GT(refined.combinations, mostCombinations);
  EXPECT_TRUE(refined.choices.empty());
}

TEST(Refine, AgreesWithTryingAll) {
  RefinedStage stage("mlp", {{"batch", 32}, {"layers", 2}}, "k20x8:2", {2}, /*training=*/true);
  RefineRequest request = stage.request({});
  request.memoryLimit = 1e12;
  Refined byElimination = refine(request);
  request.solver.method = solver::Method::Exhaustive;
  Refined byTryingAll = refine(request);
  ASSERT_FALSE(byTryingAll.isTooLarge);
  EXPECT_NEAR(secondsOf(byElimination.sums), secondsOf(byTryingAll.sums), 1e-12);
}

} // namespace
