// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The splits that elimination finds for whole models are within 0.1 % of what CBC proves to be least, with limits of
// memory that bind and that don't. CBC has no part in how elimination works: it sees an integer programme, and finds
// its own solution. For the largest models it starts from ours, and has to find a better one or prove that there is
// none. Either way the bound is its own.

#include "ModelGraph.h"

#include "passes/planner/search/Piece.h"
#include "passes/planner/solver/Solve.h"

#include <gtest/gtest.h>
#include <iostream>

using namespace cleave;

namespace {

struct Case {
  std::string name;
  std::function<ModelGraph()> build;
  std::string machine;
  std::vector<int64_t> sizes;
  bool startsFromOurs = false;
};

std::ostream &operator<<(std::ostream &out, const Case &it) { return out << it.name; }

/// A share of the best solution that is counted as equal to it.
constexpr double tolerance = 1e-3;
/// CBC goes on only for solutions that are better by 1e-5 of what the largest single cost is, and calls the rest
/// optimal.
constexpr double rounding = 1e-4;
/// Seconds of processor time that CBC gets for a problem. The hardest one takes about ten.
constexpr double ilpSeconds = 120;

class OptimalSplits : public testing::TestWithParam<Case> {
protected:
  void compare(const solver::ChoiceProblem &problem, const std::string &what) {
    solver::ChoiceSolution ours = solver::solve(problem, {.relativeGap = tolerance / 10});
    ASSERT_TRUE(ours.isFeasible()) << what;
    solver::SolveOptions byIlp = {
        .method = solver::Method::Ilp, .timeBudget = ilpSeconds, .relativeGap = tolerance / 2};
    if (GetParam().startsFromOurs)
      byIlp.known = ours.choices;
    solver::ChoiceSolution theirs = solver::solve(problem, byIlp);
    ASSERT_TRUE(theirs.isFeasible()) << what;
    EXPECT_LE(ours.bytes, problem.memoryLimit);
    solver::Choice cost = solver::evaluate(problem, ours.choices);
    EXPECT_DOUBLE_EQ(cost.seconds, ours.seconds);
    // Neither bound is above what the other has found.
    EXPECT_LE(theirs.lowerBound, ours.seconds * (1 + rounding)) << what;
    EXPECT_LE(ours.lowerBound, theirs.seconds * (1 + rounding)) << what;
    EXPECT_LE(ours.seconds, theirs.lowerBound * (1 + tolerance)) << what;
    std::cout << "  " << what << ": " << problem.variables.size() << " variables, " << ours.seconds * 1e3
              << " ms, bound " << ours.lowerBound * 1e3 << "; CBC " << theirs.seconds * 1e3 << ", bound "
              << theirs.lowerBound * 1e3 << "\n";
  }

  void compareAll(bool training) {
    const Case &it = GetParam();
    ModelGraph model = it.build();
    MachineGrid on(it.machine, it.sizes);
    search::PieceOptions options;
    options.training = training;
    if (training)
      options.precision.optimizer = 2;
    search::Piece piece(model.graph, 0, model.graph.operators.size(), search::none, search::none, on.grid, on.cost,
                        options, search::FixedFactors());
    std::string name = it.name + (training ? ", training" : ", inference");
    compare(piece.problem, name);
    solver::ChoiceSolution fastest = solver::solve(piece.problem);
    solver::ChoiceSolution smallest = solver::solve(solver::onlyBytes(piece.problem));
    ASSERT_TRUE(smallest.isFeasible());
    if (smallest.seconds >= fastest.bytes)
      return;
    solver::ChoiceProblem limited = piece.problem;
    for (double share : {0.5, 0.1}) {
      limited.memoryLimit = smallest.seconds + share * (fastest.bytes - smallest.seconds);
      compare(limited, name + ", memory limit at " + std::to_string(static_cast<int>(share * 100)) + " %");
    }
    limited.memoryLimit = smallest.seconds * 0.99;
    solver::ChoiceSolution none = solver::solve(limited);
    EXPECT_FALSE(none.isFeasible());
    EXPECT_NEAR(none.leastBytes, smallest.seconds, smallest.seconds * 1e-9);
  }
};

TEST_P(OptimalSplits, OfInferenceEqualAnIntegerProgramme) {
  if (!solver::hasIlp())
    GTEST_SKIP() << "this build has no solver of integer programmes";
  compareAll(/*training=*/false);
}

TEST_P(OptimalSplits, OfTrainingEqualAnIntegerProgramme) {
  if (!solver::hasIlp())
    GTEST_SKIP() << "this build has no solver of integer programmes";
  compareAll(/*training=*/true);
}

std::function<ModelGraph()> zoo(const std::string &name, const std::map<std::string, int64_t> &numbers) {
  return [=] { return ModelGraph(name, numbers); };
}

INSTANTIATE_TEST_SUITE_P(
    Models, OptimalSplits,
    testing::Values(Case{"lenet_2", zoo("lenet", {{"batch", 32}}), "k20x8:2", {2}},
                    Case{"lenet_2x2", zoo("lenet", {{"batch", 32}}), "k20x8:4", {2, 2}},
                    Case{"alexnet_2", zoo("alexnet", {{"batch", 128}}), "k20x8:2", {2}},
                    Case{"alexnet_2x2", zoo("alexnet", {{"batch", 16}}), "k20x8:4", {2, 2}},
                    Case{"inception_2", zoo("inception", {{"batch", 16}}), "v100-16g:2", {2}},
                    Case{"inception_4", zoo("inception", {{"batch", 16}}), "v100-16g:4", {4}, true},
                    Case{"resnet50_2", zoo("resnet50", {{"batch", 16}}), "v100-16g:2", {2}},
                    Case{"dense_blocks_2", [] { return ModelGraph(buildDenseBlocks(8, 2, 5, 32)); }, "v100-16g:2", {2}},
                    Case{"dense_blocks_4", [] { return ModelGraph(buildDenseBlocks(64, 2, 4, 32)); }, "k20x8:4", {4}},
                    Case{"gpt_2",
                         zoo("gpt", {{"batch", 4}, {"layers", 4}, {"hidden", 512}, {"heads", 8}, {"sequence", 256}}),
                         "a100-80g:2",
                         {2}},
                    Case{"gpt_2x2",
                         zoo("gpt", {{"batch", 8}, {"layers", 1}, {"hidden", 1024}, {"heads", 16}, {"sequence", 512}}),
                         "v100-16g:4",
                         {2, 2}},
                    Case{"moe_4",
                         zoo("moe", {{"batch", 8}, {"layers", 2}, {"hidden", 256}, {"heads", 8}, {"sequence", 128}}),
                         "v100-16g:4",
                         {4}},
                    Case{"resnet50_4", zoo("resnet50", {{"batch", 16}}), "v100-16g:4", {4}, true},
                    Case{"moe_2x2",
                         zoo("moe", {{"batch", 8}, {"layers", 2}, {"hidden", 256}, {"heads", 8}, {"sequence", 128}}),
                         "v100-16g:4",
                         {2, 2},
                         true}),
    [](const testing::TestParamInfo<Case> &info) { return info.param.name; });

} // namespace
