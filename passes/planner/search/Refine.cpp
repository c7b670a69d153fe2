// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins the pieces' problems at the tensors between them.

#include "passes/planner/search/Refine.h"

#include <set>

namespace cleave::search {

std::vector<IntervalSums> sumsByPiece(const std::vector<const Piece *> &pieces, const PieceChoices &choices) {
  std::vector<IntervalSums> all;
  for (auto [piece, own] : llvm::zip_equal(pieces, choices)) {
    IntervalSums &sums = all.emplace_back();
    static_cast<Sums &>(sums) = piece->sumsOf(own);
    sums.addPiece(sums, piece->entryVariable == none ? 0 : piece->entryBytes[own[piece->entryVariable]]);
  }
  return all;
}

/// Of pieces by themselves.
static IntervalSums totalOf(llvm::ArrayRef<IntervalSums> byPiece, const std::vector<const Piece *> &pieces,
                            const PieceChoices &choices) {
  IntervalSums total;
  if (const Piece &front = *pieces.front(); front.entryVariable != none)
    total.add(front.entryOf(choices.front()[front.entryVariable]));
  for (const IntervalSums &sums : byPiece) {
    total.add(sums);
    total.addPiece(sums, sums.checkpoints);
  }
  if (const Piece &back = *pieces.back(); back.exitVariable != none)
    total.add(back.exitOf(choices.back()[back.exitVariable]));
  return total;
}

IntervalSums sumsOf(const std::vector<const Piece *> &pieces, const PieceChoices &choices) {
  return totalOf(sumsByPiece(pieces, choices), pieces, choices);
}

namespace {

/// The pieces as one problem. Where one ends and the next begins is one variable.
class JoinedPieces {
public:
  explicit JoinedPieces(const RefineRequest &request) : request(request) {
    for (const Piece *piece : request.pieces)
      add(*piece);
    if (const Piece &front = *request.pieces.front(); front.entryVariable != none)
      for (auto [number, choice] : llvm::enumerate(ownDomain(variables.front()[front.entryVariable])))
        choice.seconds += front.entryOf(number).seconds();
    if (const Piece &back = *request.pieces.back(); back.exitVariable != none)
      for (auto [number, choice] : llvm::enumerate(ownDomain(variables.back()[back.exitVariable])))
        choice.seconds += back.exitOf(number).seconds();
  }

  solver::ChoiceProblem problem;

  /// Ascending: the transients of all choices, from the least on that the largest of them can be.
  std::vector<double> transientCaps() const {
    double least = 0;
    std::set<double> caps;
    for (unsigned domain : problem.variables) {
      least = std::max(least, *llvm::min_element(transients[domain]));
      caps.insert(transients[domain].begin(), transients[domain].end());
    }
    return {caps.lower_bound(least), caps.end()};
  }

  /// The problem without choices of larger transients.
  solver::ChoiceProblem capped(double transient) const {
    solver::ChoiceProblem result = problem;
    for (auto [domain, own] : llvm::zip_equal(result.domains, transients))
      for (auto [choice, bytes] : llvm::zip_equal(domain, own))
        if (bytes > transient)
          choice.seconds = solver::forbidden;
    return result;
  }

  /// By variable of the problem.
  std::vector<unsigned> byVariable(const PieceChoices &choices) const {
    std::vector<unsigned> result(problem.variables.size());
    for (auto [own, made] : llvm::zip_equal(choices, variables))
      for (auto [choice, variable] : llvm::zip_equal(own, made))
        result[variable] = choice;
    return result;
  }

  PieceChoices byPiece(const std::vector<unsigned> &choices) const {
    PieceChoices result;
    for (const std::vector<unsigned> &own : variables) {
      std::vector<unsigned> &made = result.emplace_back();
      for (unsigned variable : own)
        made.push_back(choices[variable]);
    }
    return result;
  }

private:
  const RefineRequest &request;
  /// In the form of the problem's domains.
  std::vector<std::vector<double>> transients;
  /// By piece and its variable: the variable of the problem.
  std::vector<std::vector<unsigned>> variables;
  /// Equal pieces share domains and tables: where those of a piece begin.
  struct Shared {
    std::vector<unsigned> domains, tables;
  };
  /// How a piece gets activations, and how the one before it does; whether there is none.
  struct Way {
    Recompute own, before;
    bool isFirst;
    auto operator<=>(const Way &) const = default;
  };
  std::map<std::pair<const Piece *, Way>, Shared> shared;

  /// What a choice adds to a stage. Transients and what is hidden of the reduction of gradients are no sums: the former
  /// are left out, the latter has its price.
  solver::Choice costOf(const Sums &sums, double checkpoint, Way way) const {
    IntervalSums linear;
    static_cast<Sums &>(linear) = sums;
    linear.reduction = linear.lateReduction = linear.lateBackward = linear.transient = 0;
    linear.checkpoints = checkpoint;
    Recomputation again = recomputationOf(linear, way.own);
    again.bytes += bytesBehind(linear, way.own, way.before);
    stages::StageOption option = request.optionOf(linear, again);
    return {option.seconds() + option.perStep / request.microbatches +
                request.weights.ofPiece(way.isFirst).reduction * sums.reduction,
            option.fixedBytes + request.inFlight * again.bytes};
  }

  Shared &sharedOf(const Piece &piece, Way way) {
    auto [entry, isNew] = shared.try_emplace({&piece, way});
    Shared &made = entry->second;
    if (!isNew)
      return made;
    for (unsigned variable = 0; variable != piece.problem.variables.size(); ++variable) {
      made.domains.push_back(problem.domains.size());
      std::vector<solver::Choice> &domain = problem.domains.emplace_back();
      std::vector<double> &transient = transients.emplace_back();
      for (unsigned choice = 0; choice != piece.problem.domainOf(variable).size(); ++choice) {
        const Sums &sums = piece.sumsOf(variable, choice);
        domain.push_back(costOf(sums, variable == piece.entryVariable ? piece.entryBytes[choice] : 0, way));
        transient.push_back(sums.transient);
      }
    }
    for (unsigned edge = 0; edge != piece.problem.edges.size(); ++edge) {
      made.tables.push_back(problem.pairs.size());
      problem.pairs.push_back(tableOf(piece, edge, way));
    }
    return made;
  }

  solver::PairTable tableOf(const Piece &piece, unsigned edge, Way way) const {
    const solver::PairTable &from = piece.problem.pairs[piece.problem.edges[edge].table];
    solver::PairTable table{from.rows, from.columns, {}};
    for (unsigned a = 0; a != from.rows; ++a)
      for (unsigned b = 0; b != from.columns; ++b)
        table.seconds.push_back(from.at(a, b) == solver::forbidden
                                    ? solver::forbidden
                                    : costOf(piece.exchangeOf(edge, a, b), /*checkpoint=*/0, way).seconds);
    return table;
  }

  void add(const Piece &piece) {
    size_t number = variables.size();
    const Shared &own = sharedOf(
        piece, {request.recompute[number], number == 0 ? Recompute::None : request.recompute[number - 1], number == 0});
    // The tensor between two pieces has nothing to it but what the second piece keeps of it.
    unsigned joined = none;
    if (!variables.empty())
      if (unsigned exit = request.pieces[variables.size() - 1]->exitVariable; exit != none)
        joined = variables.back()[exit];
    std::vector<unsigned> &made = variables.emplace_back();
    for (unsigned variable = 0; variable != piece.problem.variables.size(); ++variable) {
      if (variable == piece.entryVariable && joined != none) {
        made.push_back(joined);
        problem.variables[joined] = own.domains[variable];
        continue;
      }
      made.push_back(problem.variables.size());
      problem.variables.push_back(own.domains[variable]);
    }
    for (auto [edge, table] : llvm::zip_equal(piece.problem.edges, own.tables))
      problem.edges.push_back({made[edge.first], made[edge.second], table});
  }

  /// A copy of a variable's domain, shared with no other.
  std::vector<solver::Choice> &ownDomain(unsigned variable) {
    std::vector<solver::Choice> domain = problem.domainOf(variable);
    transients.push_back(std::vector<double>(transients[problem.variables[variable]]));
    problem.variables[variable] = problem.domains.size();
    return problem.domains.emplace_back(std::move(domain));
  }
};

double bytesOf(const RefineRequest &request, const IntervalSums &sums, const Recomputation &again) {
  stages::StageOption option = request.optionOf(sums, again);
  return option.fixedBytes + request.inFlight * option.microbatchBytes;
}

/// Transients are a maximum, not a sum: what is left for the sums depends on how large they may be. Branch and bound
/// over ranges of the largest one: without larger transients, and with what the range's smallest one leaves to the
/// sums, nothing is faster than any splits of the range.
class Refiner {
public:
  explicit Refiner(const RefineRequest &request)
      : request(request), joined(request), caps(joined.transientCaps()), before(amountOf(request.choices)),
        options(request.solver) {
    options.known = joined.byVariable(request.choices);
  }

  Refined run() {
    refined.combinations = solver::numCombinations(joined.problem);
    refined.isTooLarge = request.solver.method == solver::Method::Exhaustive && refined.combinations > mostCombinations;
    if (!refined.isTooLarge)
      search(0, caps.size() - 1);
    return refined;
  }

private:
  /// Ranges that are looked at: few are needed, and problems may be large.
  static constexpr unsigned mostSolved = 12;

  void search(size_t low, size_t high) {
    if (numSolved++ == mostSolved)
      return;
    solver::ChoiceProblem problem = joined.capped(caps[high]);
    problem.memoryLimit = limitAt(caps[low]);
    if (problem.memoryLimit < 0)
      return;
    solver::ChoiceSolution solution = solver::solve(problem, options);
    if (!solution.isFeasible() || solution.lowerBound >= bestSeconds)
      return;
    PieceChoices choices = joined.byPiece(solution.choices);
    auto [sums, again] = amountOf(choices);
    size_t own = llvm::lower_bound(caps, sums.transient) - caps.begin();
    if (bytesOf(request, sums, again) <= request.memoryLimit) {
      if (solution.seconds < bestSeconds) {
        bestSeconds = solution.seconds;
        refined.choices = std::move(choices);
        refined.sums = sums;
        refined.again = again;
      }
      return;
    }
    // Both parts leave these splits out: one their transient, the other what it takes from the sums.
    if (own > low)
      search(low, own - 1);
    if (own > low || low < high)
      search(std::max(own, low + 1), high);
  }

  struct Amount {
    IntervalSums sums;
    Recomputation again;
  };
  Amount amountOf(const PieceChoices &choices) const {
    std::vector<IntervalSums> byPiece = sumsByPiece(request.pieces, choices);
    IntervalSums sums = totalOf(byPiece, request.pieces, choices);
    return {sums, recomputationOf(sums, byPiece, request.recompute)};
  }

  /// What is left for sums over choices.
  double limitAt(double transient) const {
    Amount without = before, with = before;
    without.sums.transient = without.again.transient = 0;
    with.sums.transient = transient;
    return request.memoryLimit - request.optionOf(with.sums, with.again).fixedBytes +
           request.optionOf(without.sums, without.again).fixedBytes;
  }

  const RefineRequest &request;
  JoinedPieces joined;
  std::vector<double> caps;
  Amount before;
  solver::SolveOptions options;
  double bestSeconds = solver::forbidden;
  unsigned numSolved = 0;
  Refined refined;
};

} // namespace

Refined refine(const RefineRequest &request) { return Refiner(request).run(); }

} // namespace cleave::search
