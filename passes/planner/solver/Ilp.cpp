// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the programme column by column for CBC's C interface.

#include "passes/planner/solver/Ilp.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#ifdef CLEAVE_CBC
#include <coin/Cbc_C_Interface.h>
#endif

namespace cleave::solver {

#ifndef CLEAVE_CBC

bool hasIlp() { return false; }
ChoiceSolution solveByIlp(const ChoiceProblem &, const SolveOptions &) { std::abort(); }

#else

namespace {

/// By what share rows of CBC's solutions may miss their bounds.
constexpr double tolerance = 1e-6;

/// A programme in columns, as CBC wants it: minimise costs * x, rows between their bounds, columns between 0 and 1.
class Programme {
public:
  int addRow(double lower, double upper) {
    rowLower.push_back(lower);
    rowUpper.push_back(upper);
    return static_cast<int>(rowLower.size()) - 1;
  }

  /// Entries of the column follow by `addEntry`. A forbidden one is fixed at 0.
  int addColumn(double cost, bool isInteger) {
    starts.push_back(static_cast<int>(rows.size()));
    costs.push_back(std::isinf(cost) ? 0 : cost);
    upper.push_back(std::isinf(cost) ? 0 : 1);
    integers.push_back(isInteger);
    return static_cast<int>(costs.size()) - 1;
  }

  void addEntry(int row, double value) {
    rows.push_back(row);
    values.push_back(value);
  }

  std::vector<int> starts, rows;
  std::vector<double> values, costs, upper, rowLower, rowUpper;
  std::vector<bool> integers;
};

/// Rows of an edge: for each choice of either end, the pairs with it are chosen as often as the choice.
struct EdgeRows {
  std::vector<int> first, second;
};

class IlpModel {
public:
  explicit IlpModel(const ChoiceProblem &problem) : problem(problem) {
    addRows();
    findScale();
    addChoices();
    addPairs();
    programme.starts.push_back(static_cast<int>(programme.rows.size()));
  }

  ChoiceSolution solve(const SolveOptions &options) const {
    ChoiceSolution known = solutionOf(options.known);
    Cbc_Model *model = Cbc_newModel();
    load(model);
    Cbc_setParameter(model, "ratioGap", std::to_string(options.relativeGap).c_str());
    Cbc_setParameter(model, "allowableGap", "0");
    double worthwhile = known.seconds * (1 - options.relativeGap);
    if (known.isFeasible())
      Cbc_setCutoff(model, worthwhile / scale);
    if (options.timeBudget > 0)
      Cbc_setMaximumSeconds(model, options.timeBudget);
    Cbc_solve(model);
    ChoiceSolution solution = read(model, options.relativeGap);
    Cbc_deleteModel(model);
    if (solution.isFeasible() || !known.isFeasible())
      return solution;
    known.lowerBound = std::min(solution.lowerBound, worthwhile);
    return known;
  }

private:
  void addRows() {
    for (size_t variable = 0; variable != problem.variables.size(); ++variable)
      chooseOne.push_back(programme.addRow(1, 1));
    if (!std::isinf(problem.memoryLimit))
      memory = programme.addRow(-forbidden, 1);
    for (const Edge &edge : problem.edges) {
      EdgeRows &rows = edgeRows.emplace_back();
      for (size_t i = 0; i != problem.domainOf(edge.first).size(); ++i)
        rows.first.push_back(programme.addRow(0, 0));
      for (size_t i = 0; i != problem.domainOf(edge.second).size(); ++i)
        rows.second.push_back(programme.addRow(0, 0));
    }
  }

  /// The solver's tolerances are absolute: costs are brought to an order of 1.
  void findScale() {
    for (unsigned variable = 0; variable != problem.variables.size(); ++variable)
      for (const Choice &choice : problem.domainOf(variable))
        if (!std::isinf(choice.seconds))
          scale = std::max(scale, choice.seconds);
    for (const Edge &edge : problem.edges)
      for (double seconds : problem.pairs[edge.table].seconds)
        if (!std::isinf(seconds))
          scale = std::max(scale, seconds);
    if (scale == 0)
      scale = 1;
  }

  void addChoices() {
    for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
      firstColumn.push_back(static_cast<int>(programme.costs.size()));
      const std::vector<Choice> &domain = problem.domainOf(variable);
      for (unsigned choice = 0; choice != domain.size(); ++choice) {
        programme.addColumn(domain[choice].seconds / scale, /*isInteger=*/true);
        programme.addEntry(chooseOne[variable], 1);
        if (memory >= 0 && domain[choice].bytes != 0)
          programme.addEntry(memory, problem.memoryLimit > 0 ? domain[choice].bytes / problem.memoryLimit : 2);
        for (size_t edge = 0; edge != problem.edges.size(); ++edge) {
          if (problem.edges[edge].first == variable)
            programme.addEntry(edgeRows[edge].first[choice], -1);
          if (problem.edges[edge].second == variable)
            programme.addEntry(edgeRows[edge].second[choice], -1);
        }
      }
    }
  }

  void addPairs() {
    for (size_t edge = 0; edge != problem.edges.size(); ++edge) {
      const PairTable &table = problem.pairs[problem.edges[edge].table];
      for (unsigned row = 0; row != table.rows; ++row)
        for (unsigned column = 0; column != table.columns; ++column) {
          programme.addColumn(table.at(row, column) / scale, /*isInteger=*/false);
          programme.addEntry(edgeRows[edge].first[row], 1);
          programme.addEntry(edgeRows[edge].second[column], 1);
        }
    }
  }

  void load(Cbc_Model *model) const {
    std::vector<double> lower(programme.costs.size(), 0.0);
    Cbc_loadProblem(model, static_cast<int>(programme.costs.size()), static_cast<int>(programme.rowLower.size()),
                    programme.starts.data(), programme.rows.data(), programme.values.data(), lower.data(),
                    programme.upper.data(), programme.costs.data(), programme.rowLower.data(),
                    programme.rowUpper.data());
    for (size_t column = 0; column != programme.integers.size(); ++column)
      if (programme.integers[column])
        Cbc_setInteger(model, static_cast<int>(column));
    Cbc_setLogLevel(model, 0);
  }

  ChoiceSolution read(Cbc_Model *model, double relativeGap) const {
    bool isProven = Cbc_isProvenOptimal(model), isInfeasible = Cbc_isProvenInfeasible(model);
    if (isInfeasible || Cbc_numberSavedSolutions(model) == 0) {
      ChoiceSolution none;
      none.lowerBound = isInfeasible ? forbidden : boundOf(model);
      return none;
    }
    const double *values = Cbc_getColSolution(model);
    std::vector<unsigned> choices;
    for (unsigned variable = 0; variable != problem.variables.size(); ++variable) {
      const double *own = values + firstColumn[variable];
      choices.push_back(static_cast<unsigned>(std::max_element(own, own + problem.domainOf(variable).size()) - own));
    }
    ChoiceSolution solution = solutionOf(choices);
    solution.lowerBound = std::min(solution.seconds, isProven ? solution.seconds * (1 - relativeGap) : boundOf(model));
    return solution;
  }

  /// What CBC has proven so far; nothing where it did not come as far as a first bound.
  double boundOf(Cbc_Model *model) const { return std::max(0.0, Cbc_getBestPossibleObjValue(model) * scale); }

  /// Choices with what they cost; none where they are not within the limit.
  ChoiceSolution solutionOf(const std::vector<unsigned> &choices) const {
    ChoiceSolution solution;
    if (choices.size() != problem.variables.size())
      return solution;
    Choice cost = evaluate(problem, choices);
    if (std::isinf(cost.seconds) || cost.bytes > problem.memoryLimit * (1 + tolerance))
      return solution;
    solution.choices = choices;
    solution.seconds = cost.seconds;
    solution.bytes = cost.bytes;
    return solution;
  }

  const ChoiceProblem &problem;
  Programme programme;
  double scale = 0;
  int memory = -1;
  std::vector<int> chooseOne, firstColumn; // by variable
  std::vector<EdgeRows> edgeRows;          // by edge
};

} // namespace

bool hasIlp() { return true; }

ChoiceSolution solveByIlp(const ChoiceProblem &problem, const SolveOptions &options) {
  ChoiceSolution solution = IlpModel(problem).solve(options);
  if (solution.isFeasible())
    return solution;
  // Which limit is missed, and by how much: the same programme with bytes for seconds.
  SolveOptions ofBytes;
  ofBytes.timeBudget = options.timeBudget;
  ChoiceSolution smallest = IlpModel(onlyBytes(problem)).solve(ofBytes);
  solution.leastBytes = smallest.isFeasible() ? smallest.seconds : forbidden;
  return solution;
}

#endif

} // namespace cleave::solver
