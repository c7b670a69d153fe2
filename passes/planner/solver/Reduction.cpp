// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Drops, joins and folds. Variables with equal choices and equal surroundings are looked at once.

#include "passes/planner/solver/Reduction.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cleave::solver {
namespace {

using Indices = std::vector<unsigned>;

bool rowsAreEqual(const PairTable &table) {
  for (unsigned row = 1; row < table.rows; ++row)
    for (unsigned column = 0; column != table.columns; ++column)
      if (table.at(row, column) != table.at(0, column))
        return false;
  return true;
}

bool columnsAreEqual(const PairTable &table) {
  for (unsigned row = 0; row != table.rows; ++row)
    for (unsigned column = 1; column < table.columns; ++column)
      if (table.at(row, column) != table.at(row, 0))
        return false;
  return true;
}

/// An edge as one of its ends sees it.
struct Side {
  unsigned table = 0, other = 0;
  bool isSecond = false;
};

double at(const PairTable &table, bool isSecond, unsigned own, unsigned other) {
  return isSecond ? table.at(other, own) : table.at(own, other);
}

/// Rounds over all variables after which choices that could still be dropped stay.
constexpr unsigned mostRounds = 4;

class Reducer {
public:
  Reducer(const ChoiceProblem &problem, const std::vector<unsigned> &kept, Drop drop)
      : problem(problem), drop(drop), isKept(problem.variables.size()), sides(problem.variables.size()),
        classOf(problem.variables.size()) {
    for (unsigned variable : kept)
      isKept[variable] = true;
    for (const Edge &edge : problem.edges) {
      sides[edge.first].push_back({edge.table, edge.second, false});
      if (edge.first != edge.second)
        sides[edge.second].push_back({edge.table, edge.first, true});
    }
    for (unsigned variable = 0; variable != classOf.size(); ++variable)
      classOf[variable] = classOfWhole(problem.variables[variable]);
  }

  Reduction run() {
    dropChoices();
    Reduction result;
    result.isFree.resize(classOf.size());
    for (unsigned variable = 0; variable != classOf.size(); ++variable) {
      result.alive.push_back(aliveOf(variable));
      result.isInfeasible |= aliveOf(variable).empty();
      result.isFree[variable] = isKept[variable] || aliveOf(variable).size() > 1;
    }
    if (result.isInfeasible)
      return result;
    takeOwnCosts(result);
    joinEdges(result);
    foldCosts(result);
    return result;
  }

private:
  /// The choices that are left of a domain; variables refer to them, so that equal ones are seen to be equal.
  struct AliveClass {
    unsigned domain = 0;
    Indices alive;
  };

  const Indices &aliveOf(unsigned variable) const { return classes[classOf[variable]].alive; }

  unsigned intern(unsigned domain, Indices alive) {
    auto [it, isNew] = classIndex.try_emplace({domain, alive}, static_cast<unsigned>(classes.size()));
    if (isNew)
      classes.push_back({domain, std::move(alive)});
    return it->second;
  }

  unsigned classOfWhole(unsigned domain) {
    auto [it, isNew] = wholeClass.try_emplace(domain, 0u);
    if (isNew) {
      Indices all(problem.domains[domain].size());
      for (unsigned i = 0; i != all.size(); ++i)
        all[i] = i;
      it->second = intern(domain, std::move(all));
    }
    return it->second;
  }

  void dropChoices() {
    for (unsigned round = 0; round != mostRounds; ++round) {
      bool changed = false;
      for (unsigned variable = 0; variable != classOf.size(); ++variable) {
        if (isKept[variable])
          continue;
        unsigned left = classAfterDrops(variable);
        changed |= left != classOf[variable];
        classOf[variable] = left;
      }
      if (!changed)
        return;
    }
  }

  unsigned classAfterDrops(unsigned variable) {
    Indices surroundings = {classOf[variable]};
    for (const Side &side : sides[variable])
      surroundings.insert(surroundings.end(), {side.table, static_cast<unsigned>(side.isSecond), classOf[side.other],
                                               static_cast<unsigned>(side.other == variable)});
    auto known = dropped.find(surroundings);
    if (known != dropped.end())
      return known->second;
    unsigned left = intern(problem.variables[variable], undominated(variable));
    dropped.emplace(std::move(surroundings), left);
    return left;
  }

  Indices undominated(unsigned variable) const {
    Indices left;
    for (unsigned choice : aliveOf(variable))
      if (isPossible(variable, choice))
        left.push_back(choice);
    std::vector<bool> isDropped(left.size());
    for (unsigned i = 0; i != left.size() && drop == Drop::Dominated; ++i)
      for (unsigned j = 0; j != left.size() && !isDropped[i]; ++j)
        isDropped[i] = i != j && !isDropped[j] && dominates(variable, left[j], left[i]);
    Indices result;
    for (unsigned i = 0; i != left.size(); ++i)
      if (!isDropped[i])
        result.push_back(left[i]);
    return result;
  }

  bool isPossible(unsigned variable, unsigned choice) const {
    if (std::isinf(problem.domainOf(variable)[choice].seconds))
      return false;
    for (const Side &side : sides[variable]) {
      const PairTable &table = problem.pairs[side.table];
      if (side.other == variable) {
        if (std::isinf(table.at(choice, choice)))
          return false;
        continue;
      }
      const Indices &others = aliveOf(side.other);
      if (std::all_of(others.begin(), others.end(),
                      [&](unsigned other) { return std::isinf(at(table, side.isSecond, choice, other)); }))
        return false;
    }
    return true;
  }

  /// Whether `better` costs no more than `choice` in everything; of two equal ones the first does.
  bool dominates(unsigned variable, unsigned better, unsigned choice) const {
    const Choice &a = problem.domainOf(variable)[better], &b = problem.domainOf(variable)[choice];
    if (a.seconds > b.seconds || a.bytes > b.bytes)
      return false;
    bool isEqual = a.seconds == b.seconds && a.bytes == b.bytes;
    for (const Side &side : sides[variable]) {
      const PairTable &table = problem.pairs[side.table];
      if (side.other == variable) {
        if (table.at(better, better) > table.at(choice, choice))
          return false;
        isEqual &= table.at(better, better) == table.at(choice, choice);
        continue;
      }
      for (unsigned other : aliveOf(side.other)) {
        double left = at(table, side.isSecond, better, other), right = at(table, side.isSecond, choice, other);
        if (left > right)
          return false;
        isEqual &= left == right;
      }
    }
    return !isEqual || better < choice;
  }

  void takeOwnCosts(Reduction &result) const {
    for (unsigned variable = 0; variable != classOf.size(); ++variable) {
      std::vector<Choice> &costs = result.costs.emplace_back();
      std::vector<double> &folded = result.folded.emplace_back();
      for (unsigned choice : aliveOf(variable)) {
        Choice cost = problem.domainOf(variable)[choice];
        double edges = 0;
        for (const Side &side : sides[variable])
          if (side.other == variable)
            edges += problem.pairs[side.table].at(choice, choice);
        cost.seconds += edges;
        costs.push_back(cost);
        folded.push_back(edges);
      }
    }
  }

  /// Edges between the same two variables as one, oriented from the lower to the higher index.
  void joinEdges(Reduction &result) {
    struct Oriented {
      unsigned first, second, table, isFlipped;
      auto operator<=>(const Oriented &) const = default;
    };
    std::vector<Oriented> all;
    for (const Edge &edge : problem.edges) {
      if (edge.first < edge.second)
        all.push_back({edge.first, edge.second, edge.table, 0});
      else if (edge.first > edge.second)
        all.push_back({edge.second, edge.first, edge.table, 1});
    }
    std::sort(all.begin(), all.end());
    std::map<Indices, unsigned> known;
    for (size_t begin = 0, end = 0; begin != all.size(); begin = end) {
      unsigned first = all[begin].first, second = all[begin].second;
      Indices key = {classOf[first], classOf[second]};
      for (; end != all.size() && all[end].first == first && all[end].second == second; ++end)
        key.insert(key.end(), {all[end].table, all[end].isFlipped});
      Reduction::PairSource source = {first, second, {}};
      for (size_t entry = 2; entry != key.size(); entry += 2)
        source.tables.emplace_back(key[entry], key[entry + 1] != 0);
      auto [it, isNew] = known.try_emplace(std::move(key), static_cast<unsigned>(result.pairs.size()));
      if (isNew) {
        result.pairs.push_back(joinedPair(problem, result, source));
        result.sources.push_back(std::move(source));
      }
      result.edges.push_back({first, second, it->second});
    }
  }

  /// Edges whose cost depends on one side become that side's own cost; variables with one choice become constant.
  void foldCosts(Reduction &result) {
    for (size_t pair = 0; pair != result.pairs.size(); ++pair)
      result.sources[pair].fold = foldOf(result.pairs[pair]);
    std::vector<Edge> left;
    // What a variable's costs are made of: its class and the tables folded into it.
    std::vector<Indices> key(classOf.size());
    for (unsigned variable = 0; variable != classOf.size(); ++variable) {
      key[variable] = {classOf[variable]};
      for (const Side &side : sides[variable])
        if (side.other == variable)
          key[variable].push_back(side.table);
    }
    for (const Edge &edge : result.edges) {
      Fold fold = result.sources[edge.table].fold;
      if (fold == Fold::None) {
        left.push_back(edge);
        continue;
      }
      unsigned target = fold == Fold::Second ? edge.second : edge.first;
      std::vector<double> seconds(result.costs[target].size(), 0.0);
      addFolded(result.pairs[edge.table], fold, seconds);
      for (unsigned i = 0; i != seconds.size(); ++i)
        result.costs[target][i].seconds += seconds[i];
      addFolded(result.pairs[edge.table], fold, result.folded[target]);
      result.foldings.emplace_back(target, edge.table);
      key[target].insert(key[target].end(), {~0u, edge.table});
    }
    result.edges = std::move(left);
    std::map<Indices, unsigned> known;
    for (unsigned variable = 0; variable != classOf.size(); ++variable) {
      result.sameCosts.push_back(
          drop == Drop::Forbidden ? variable : known.try_emplace(std::move(key[variable]), variable).first->second);
      if (result.isFree[variable])
        continue;
      result.constant.seconds += result.costs[variable][0].seconds;
      result.constant.bytes += result.costs[variable][0].bytes;
    }
  }

  const ChoiceProblem &problem;
  const Drop drop;
  std::vector<bool> isKept;
  std::vector<std::vector<Side>> sides;
  std::vector<unsigned> classOf;
  std::vector<AliveClass> classes;
  std::map<std::pair<unsigned, Indices>, unsigned> classIndex;
  std::map<unsigned, unsigned> wholeClass;
  std::map<Indices, unsigned> dropped;
};

} // namespace

PairTable joinedPair(const ChoiceProblem &problem, const Reduction &reduction, const Reduction::PairSource &source) {
  const Indices &rows = reduction.alive[source.first], &columns = reduction.alive[source.second];
  PairTable sum{static_cast<unsigned>(rows.size()), static_cast<unsigned>(columns.size()), {}};
  sum.seconds.resize(rows.size() * columns.size());
  for (auto [index, isFlipped] : source.tables) {
    const PairTable &table = problem.pairs[index];
    double *to = sum.seconds.data();
    for (unsigned row : rows)
      for (unsigned column : columns)
        *to++ += at(table, isFlipped, row, column);
  }
  return sum;
}

Fold foldOf(const PairTable &table) {
  return rowsAreEqual(table) ? Fold::Second : columnsAreEqual(table) ? Fold::First : Fold::None;
}

void addFolded(const PairTable &table, Fold fold, std::vector<double> &costs) {
  for (unsigned i = 0; i != costs.size(); ++i)
    costs[i] += fold == Fold::Second ? table.at(0, i) : table.at(i, 0);
}

Reduction reduce(const ChoiceProblem &problem, const std::vector<unsigned> &kept, Drop drop) {
  return Reducer(problem, kept, drop).run();
}

} // namespace cleave::solver
