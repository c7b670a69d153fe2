// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elimination against enumeration.

#include "GeneratedProblem.h"

#include "passes/planner/solver/Elimination.h"
#include "passes/planner/solver/SharedLayouts.h"
#include "passes/planner/solver/Solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace cleave::solver {
namespace {

/// 400 problems of 1 to 8 variables, sparse to dense, with few and many forbidden pairs.
ProblemShape shapeOf(unsigned seed) {
  ProblemShape shape;
  shape.numVariables = 1 + seed % 8;
  shape.edgePercent = 20 + 20 * (seed % 5);
  shape.forbiddenPercent = seed % 3 * 15;
  shape.mostSeconds = seed % 4 == 0 ? 3 : 50;
  return shape;
}

constexpr unsigned numProblems = 400;

/// The least seconds + secondsPerByte * bytes where some variables are chosen.
double leastWith(const ChoiceProblem &problem, const std::vector<unsigned> &kept, const std::vector<unsigned> &chosen,
                 double secondsPerByte) {
  ChoiceProblem restricted = problem;
  for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
    std::vector<Choice> domain = problem.domainOf(variable);
    for (unsigned i = 0; i != domain.size(); ++i) {
      domain[i].seconds += secondsPerByte * domain[i].bytes;
      for (size_t k = 0; k != kept.size(); ++k)
        if (kept[k] == variable && chosen[k] != i)
          domain[i].seconds = forbidden;
    }
    restricted.variables[variable] = static_cast<unsigned>(restricted.domains.size());
    restricted.domains.push_back(domain);
  }
  return solve(restricted, {Method::Exhaustive}).seconds;
}

// The whole of elimination: value and choices are those of an enumeration, exactly, since costs are whole numbers.
TEST(Elimination, EqualsEnumeration) {
  unsigned numInfeasible = 0;
  for (unsigned seed = 0; seed != numProblems; ++seed) {
    ChoiceProblem problem = generateProblem(seed, shapeOf(seed));
    ASSERT_EQ(faultOf(problem), "");
    ChoiceSolution expected = solve(problem, {Method::Exhaustive});
    std::optional<Elimination> elimination = Elimination::run(problem);
    ASSERT_TRUE(elimination);
    ASSERT_EQ(elimination->values(), std::vector<double>{expected.seconds}) << "seed " << seed;
    std::vector<unsigned> choices = elimination->choicesAt({});
    ASSERT_EQ(choices.empty(), !expected.isFeasible());
    numInfeasible += choices.empty();
    if (!choices.empty()) {
      ASSERT_EQ(evaluate(problem, choices).seconds, expected.seconds) << "seed " << seed;
    }
  }
  EXPECT_GT(numInfeasible, 5u);
  EXPECT_LT(numInfeasible, numProblems / 4);
}

// One second pass over the tables says what an enumeration for every choice says, exactly, since costs are whole
// numbers.
TEST(Elimination, KnowsTheLeastOfEveryChoice) {
  unsigned numForbidden = 0, numDropped = 0;
  for (unsigned seed = 0; seed != numProblems; ++seed) {
    ChoiceProblem problem = generateProblem(seed, shapeOf(seed));
    auto least = leastByChoice(problem);
    ASSERT_TRUE(least);
    ASSERT_EQ(least->size(), problem.variables.size());
    for (unsigned variable = 0; variable != least->size(); ++variable)
      for (unsigned choice = 0; choice != problem.domainOf(variable).size(); ++choice) {
        double expected = leastWith(problem, {variable}, {choice}, 0);
        ASSERT_EQ((*least)[variable][choice], expected) << "seed " << seed;
        numForbidden += std::isinf(expected);
      }
    // Without room for all choices: of those that are left the same, and the best are among them.
    auto fewer = leastByChoice(problem, Elimination::run(problem)->numEntries());
    double best = solve(problem, {Method::Exhaustive}).seconds;
    for (unsigned variable = 0; fewer && variable != fewer->size(); ++variable) {
      ASSERT_EQ(*std::min_element((*fewer)[variable].begin(), (*fewer)[variable].end()), best) << "seed " << seed;
      for (unsigned choice = 0; choice != (*fewer)[variable].size(); ++choice)
        if (!std::isinf((*fewer)[variable][choice]))
          ASSERT_EQ((*fewer)[variable][choice], (*least)[variable][choice]) << "seed " << seed;
        else
          numDropped += !std::isinf((*least)[variable][choice]);
    }
  }
  EXPECT_GT(numForbidden, 50u);
  EXPECT_GT(numDropped, 50u);
}

// The multiplier of bytes counts in what is least, and changing it is the same as beginning with it.
TEST(Elimination, CountsBytes) {
  for (unsigned seed = 0; seed != 100; ++seed) {
    ChoiceProblem problem = generateProblem(seed, shapeOf(seed));
    std::optional<Elimination> elimination = Elimination::run(problem, {}, {.secondsPerByte = 0.25});
    EXPECT_EQ(elimination->values()[0], leastWith(problem, {}, {}, 0.25)) << "seed " << seed;
    elimination->setSecondsPerByte(2);
    EXPECT_EQ(elimination->values(), Elimination::run(problem, {}, {.secondsPerByte = 2})->values());
  }
}

/// Two variables or none, in turn.
std::vector<unsigned> keptOf(const ChoiceProblem &problem, unsigned seed) {
  if (seed % 2 == 0 || problem.variables.size() < 2)
    return {};
  return {static_cast<unsigned>(problem.variables.size()) - 1, 0};
}

// Several costs of choices at once: in each lane the least values are those of an elimination with these costs alone.
TEST(EliminationPlan, ServesSeveralCostsAtOnce) {
  std::vector<double> memory;
  SharedLayouts layouts;
  for (unsigned seed = 0; seed != 200; ++seed) {
    ChoiceProblem problem = generateProblem(seed, shapeOf(seed));
    std::optional<EliminationPlan> plan = EliminationPlan::make(problem, keptOf(problem, seed), 1u << 20, layouts);
    ASSERT_TRUE(plan);
    Random random(seed);
    std::vector<std::vector<double>> together(problem.variables.size());
    std::vector<std::vector<std::vector<double>>> alone(numLanes, together);
    for (unsigned variable = 0; variable != together.size(); ++variable)
      for (unsigned choice = 0; choice != problem.domainOf(variable).size(); ++choice)
        for (unsigned lane = 0; lane != numLanes; ++lane) {
          bool isForbidden = problem.domainOf(variable)[choice].seconds == forbidden;
          double seconds = isForbidden ? forbidden : random.below(50);
          together[variable].push_back(seconds);
          alone[lane][variable].push_back(seconds);
        }
    std::vector<double> values = plan->valuesOf(together, memory);
    for (unsigned lane = 0; lane != numLanes; ++lane) {
      std::vector<double> expected = plan->run(alone[lane]).values();
      ASSERT_EQ(values.size(), expected.size() * numLanes);
      for (size_t entry = 0; entry != expected.size(); ++entry)
        ASSERT_EQ(values[entry * numLanes + lane], expected[entry]) << "seed " << seed << ", lane " << lane;
    }
  }
}

// One plan for several costs of choices: each time the least values, and choices that attain them, are those of an
// elimination of the problem with just these costs.
TEST(EliminationPlan, ServesAnyCosts) {
  SharedLayouts layouts;
  for (unsigned seed = 0; seed != 200; ++seed) {
    ChoiceProblem problem = generateProblem(seed, shapeOf(seed));
    std::vector<unsigned> kept = keptOf(problem, seed);
    std::optional<EliminationPlan> plan = EliminationPlan::make(problem, kept, 1u << 20, layouts);
    ASSERT_TRUE(plan);
    Random random(seed);
    for (unsigned round = 0; round != 3; ++round) {
      ChoiceProblem changed = problem;
      std::vector<std::vector<double>> seconds;
      changed.domains.clear();
      for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
        std::vector<Choice> domain = problem.domainOf(variable);
        seconds.emplace_back();
        for (Choice &choice : domain) {
          choice = {choice.seconds + random.below(20), 0};
          seconds.back().push_back(choice.seconds);
        }
        changed.variables[variable] = static_cast<unsigned>(changed.domains.size());
        changed.domains.push_back(std::move(domain));
      }
      Elimination found = plan->run(seconds), expected = *Elimination::run(changed, kept);
      ASSERT_EQ(found.values(), expected.values()) << "seed " << seed;
      std::vector<unsigned> first(kept.size(), 0);
      if (std::vector<unsigned> choices = found.choicesAt(first); !choices.empty()) {
        ASSERT_EQ(evaluate(changed, choices).seconds, found.values().front()) << "seed " << seed;
      }
    }
  }
}

/// The problem with other seconds; `isFlat`: pairs take what their first choice says, whatever the second one is.
ChoiceProblem withOtherNumbers(ChoiceProblem problem, unsigned seed, bool isFlat) {
  Random random(seed);
  for (std::vector<Choice> &domain : problem.domains)
    for (Choice &choice : domain)
      choice.seconds += random.below(20);
  for (PairTable &table : problem.pairs)
    for (unsigned row = 0; row != table.rows; ++row) {
      double ofRow = random.below(20);
      for (unsigned column = 0; column != table.columns; ++column)
        if (double &seconds = table.seconds[size_t(row) * table.columns + column]; seconds != forbidden)
          seconds = isFlat ? ofRow : seconds + random.below(20);
    }
  return problem;
}

// A layout of one problem serves others of its form, but for those in which other edges depend on one side alone.
TEST(EliminationPlan, SharesLayoutsOfProblemsOfOneForm) {
  unsigned shared = 0;
  for (unsigned seed = 0; seed != 200; ++seed) {
    ChoiceProblem first = generateProblem(seed, shapeOf(seed));
    std::vector<unsigned> kept = keptOf(first, seed);
    SharedLayouts layouts;
    std::optional<SharedLayouts::Match> known = layouts.find(first, kept, 1u << 20);
    ASSERT_TRUE(known);
    for (bool isFlat : {false, true, false}) {
      ChoiceProblem other = withOtherNumbers(first, seed, isFlat);
      shared += layouts.find(other, kept, 1u << 20)->lanes == known->lanes;
      std::vector<std::vector<double>> seconds;
      for (unsigned variable = 0; variable != other.variables.size(); ++variable) {
        seconds.emplace_back();
        for (const Choice &choice : other.domainOf(variable))
          seconds.back().push_back(choice.seconds);
      }
      Elimination found = EliminationPlan::make(other, kept, 1u << 20, layouts)->run(seconds);
      ASSERT_EQ(found.values(), Elimination::run(other, kept)->values()) << "seed " << seed;
      if (std::vector<unsigned> choices = found.choicesAt(std::vector<unsigned>(kept.size(), 0)); !choices.empty()) {
        ASSERT_EQ(evaluate(other, choices).seconds, found.values().front()) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(shared, 300u);
  EXPECT_LT(shared, 600u);
}

// Variables that are kept, up to three, adjacent or not: every entry is the least with them chosen so.
TEST(Elimination, KeepsVariables) {
  for (unsigned seed = 0; seed != 200; ++seed) {
    ProblemShape shape = shapeOf(seed);
    shape.numVariables = 3 + seed % 4;
    ChoiceProblem problem = generateProblem(seed, shape);
    std::vector<unsigned> kept = {shape.numVariables - 1};
    if (seed % 3 >= 1)
      kept.push_back(0);
    if (seed % 3 == 2)
      kept.push_back(1);
    std::optional<Elimination> elimination = Elimination::run(problem, kept, {.secondsPerByte = 0.5});
    std::vector<unsigned> chosen(kept.size());
    for (double value : elimination->values()) {
      ASSERT_EQ(value, leastWith(problem, kept, chosen, 0.5)) << "seed " << seed;
      std::vector<unsigned> choices = elimination->choicesAt(chosen);
      ASSERT_EQ(choices.empty(), std::isinf(value));
      if (!choices.empty()) {
        for (size_t k = 0; k != kept.size(); ++k)
          ASSERT_EQ(choices[kept[k]], chosen[k]);
        Choice cost = evaluate(problem, choices);
        ASSERT_EQ(cost.seconds + 0.5 * cost.bytes, value);
      }
      for (size_t k = kept.size(); k-- != 0;) {
        if (++chosen[k] != problem.domainOf(kept[k]).size())
          break;
        chosen[k] = 0;
      }
    }
  }
}

// An edge between a variable and itself counts at equal choices.
TEST(Elimination, TakesEdgesToItself) {
  ChoiceProblem problem;
  problem.domains = {{{1, 0}, {2, 0}}};
  problem.variables = {0};
  problem.pairs = {{2, 2, {5, 0, 0, 1}}};
  problem.edges = {{0, 0, 0}};
  std::optional<Elimination> elimination = Elimination::run(problem);
  EXPECT_EQ(elimination->values()[0], 3);
  EXPECT_EQ(elimination->choicesAt({}), std::vector<unsigned>{1});
}

// A problem without variables costs nothing.
TEST(Elimination, TakesTheEmptyProblem) {
  std::optional<Elimination> elimination = Elimination::run({});
  EXPECT_EQ(elimination->values(), std::vector<double>{0});
  EXPECT_TRUE(solve({}).lowerBound == 0);
}

// A clique needs a table over all of its variables but one; that is refused beforehand.
TEST(Elimination, RefusesLargeTables) {
  ProblemShape shape{.numVariables = 12, .mostChoices = 1, .edgePercent = 100, .forbiddenPercent = 0};
  ChoiceProblem problem = generateProblem(1, shape);
  Random random(1);
  problem.domains = {std::vector<Choice>(8)};
  problem.variables.assign(shape.numVariables, 0);
  for (PairTable &table : problem.pairs)
    do
      table = randomTable(random, 8, 8, shape);
    while (table.at(0, 0) == table.at(1, 0));
  EXPECT_FALSE(Elimination::run(problem, {}, {.mostEntries = 1u << 20}));
}

// Width of textbook graphs: a chain 1, a ring 2, a grid of 3 x n 3.
TEST(Elimination, FindsTheWidth) {
  ChoiceProblem problem = generateChain(3, 10, 4);
  EXPECT_EQ(Elimination::run(problem)->width(), 1u);
  problem.edges.push_back({9, 0, 0});
  EXPECT_EQ(Elimination::run(problem)->width(), 2u);
  problem = generateChain(3, 30, 4);
  problem.edges.clear();
  for (unsigned i = 0; i != 30; ++i) {
    if (i % 3 != 2)
      problem.edges.push_back({i, i + 1, 0});
    if (i + 3 < 30)
      problem.edges.push_back({i, i + 3, 0});
  }
  EXPECT_EQ(Elimination::run(problem)->width(), 3u);
}

// 2,000 variables of 25 choices are a matter of milliseconds; the bound leaves room for a slow and busy machine.
TEST(Elimination, IsFastOnLongChains) {
  ChoiceProblem problem = generateChain(5, 2000, 25);
  std::clock_t start = std::clock();
  std::optional<Elimination> elimination = Elimination::run(problem);
  std::vector<unsigned> choices = elimination->choicesAt({});
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.5);
  EXPECT_EQ(evaluate(problem, choices).seconds, elimination->values()[0]);
}

} // namespace
} // namespace cleave::solver
