// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins the pieces' problems at the tensors between them.

#include "passes/planner/search/Refine.h"

namespace cleave::search {

IntervalSums sumsOf(const std::vector<const Piece *> &pieces, const PieceChoices &choices) {
  IntervalSums total;
  for (auto [piece, own] : llvm::zip_equal(pieces, choices)) {
    Sums sums = piece->sumsOf(own);
    total.add(sums);
    total.largestPiece = std::max(total.largestPiece, sums.saved);
    if (piece->entryVariable != none)
      total.checkpoints += piece->entryBytes[own[piece->entryVariable]];
  }
  if (unsigned entry = pieces.front()->entryVariable; entry != none) {
    double joining = pieces.front()->entrySeconds[choices.front()[entry]];
    total.backward += joining;
    total.backwardExchange += joining;
  }
  return total;
}

namespace {

/// The pieces as one problem. Where one ends and the next begins is one variable.
class JoinedPieces {
public:
  explicit JoinedPieces(const RefineRequest &request) : request(request) {
    for (const Piece *piece : request.pieces)
      add(*piece);
    const Piece &front = *request.pieces.front();
    if (front.entryVariable == none)
      return;
    std::vector<solver::Choice> &domain = ownDomain(variables.front()[front.entryVariable]);
    for (auto [choice, seconds] : llvm::zip_equal(domain, front.entrySeconds))
      choice.seconds += seconds;
  }

  solver::ChoiceProblem problem;

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
  /// By piece and its variable: the variable of the problem.
  std::vector<std::vector<unsigned>> variables;
  /// Equal pieces share domains and tables: where those of a piece begin.
  struct Shared {
    std::vector<unsigned> domains, tables;
  };
  std::map<const Piece *, Shared> shared;

  /// What a microbatch in flight keeps of a choice; `checkpoint`: of the tensor with which a piece begins.
  double savedBytes(const Sums &sums, double checkpoint) const {
    switch (request.recompute) {
    case Recompute::None:
      return sums.saved;
    case Recompute::Selective:
      return sums.savedProducts + checkpoint;
    case Recompute::Full:
      return checkpoint;
    }
    return sums.saved;
  }

  /// What a choice adds to a stage. Transients and what is hidden of the reduction of gradients are no sums: the former
  /// are left out, the latter has its price.
  solver::Choice costOf(const Sums &sums, double checkpoint) const {
    IntervalSums linear;
    static_cast<Sums &>(linear) = sums;
    linear.reduction = linear.transient = 0;
    stages::StageOption option = request.optionOf(linear);
    return {option.seconds() + option.perStep / request.microbatches + request.reduction * sums.reduction,
            option.fixedBytes + request.inFlight * savedBytes(sums, checkpoint)};
  }

  Shared &sharedOf(const Piece &piece) {
    auto [entry, isNew] = shared.try_emplace(&piece);
    Shared &made = entry->second;
    if (!isNew)
      return made;
    for (unsigned variable = 0; variable != piece.problem.variables.size(); ++variable) {
      made.domains.push_back(problem.domains.size());
      std::vector<solver::Choice> &domain = problem.domains.emplace_back();
      for (unsigned choice = 0; choice != piece.problem.domainOf(variable).size(); ++choice)
        domain.push_back(
            costOf(piece.sumsOf(variable, choice), variable == piece.entryVariable ? piece.entryBytes[choice] : 0));
    }
    for (unsigned edge = 0; edge != piece.problem.edges.size(); ++edge) {
      made.tables.push_back(problem.pairs.size());
      problem.pairs.push_back(tableOf(piece, edge));
    }
    return made;
  }

  solver::PairTable tableOf(const Piece &piece, unsigned edge) const {
    const solver::PairTable &from = piece.problem.pairs[piece.problem.edges[edge].table];
    solver::PairTable table{from.rows, from.columns, {}};
    for (unsigned a = 0; a != from.rows; ++a)
      for (unsigned b = 0; b != from.columns; ++b)
        table.seconds.push_back(from.at(a, b) == solver::forbidden
                                    ? solver::forbidden
                                    : costOf(piece.exchangeOf(edge, a, b), /*checkpoint=*/0).seconds);
    return table;
  }

  void add(const Piece &piece) {
    const Shared &own = sharedOf(piece);
    // The tensor between two pieces has nothing to it but what the second piece keeps of it.
    unsigned joined = variables.empty() ? none : variables.back()[request.pieces[variables.size() - 1]->exitVariable];
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
    problem.variables[variable] = problem.domains.size();
    return problem.domains.emplace_back(std::move(domain));
  }
};

/// Bytes that are no sum over choices.
double transientOf(const RefineRequest &request, const IntervalSums &sums) {
  IntervalSums without = sums;
  without.transient = without.largestPiece = 0;
  return request.optionOf(sums).fixedBytes - request.optionOf(without).fixedBytes;
}

double bytesOf(const RefineRequest &request, const IntervalSums &sums) {
  stages::StageOption option = request.optionOf(sums);
  return option.fixedBytes + request.inFlight * option.microbatchBytes;
}

} // namespace

Refined refine(const RefineRequest &request) {
  JoinedPieces joined(request);
  Refined refined;
  refined.combinations = solver::numCombinations(joined.problem);
  if (request.solver.method == solver::Method::Exhaustive && refined.combinations > mostCombinations) {
    refined.isTooLarge = true;
    return refined;
  }
  // Transients are a maximum, not a sum: those of the splits so far are set aside, and where others turn out to have
  // larger ones, as much more.
  double limit = request.memoryLimit - transientOf(request, sumsOf(request.pieces, request.choices));
  constexpr unsigned mostRounds = 4;
  for (unsigned round = 0; round != mostRounds; ++round) {
    joined.problem.memoryLimit = limit;
    solver::ChoiceSolution solution = solver::solve(joined.problem, request.solver);
    if (!solution.isFeasible())
      return refined;
    PieceChoices choices = joined.byPiece(solution.choices);
    IntervalSums sums = sumsOf(request.pieces, choices);
    double excess = bytesOf(request, sums) - request.memoryLimit;
    if (excess <= 0) {
      refined.choices = std::move(choices);
      refined.sums = sums;
      return refined;
    }
    limit -= excess;
  }
  return refined;
}

} // namespace cleave::search
