// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables by elimination, one for each weights; and what weights make of a choice.

#include "passes/planner/search/PieceTable.h"

namespace cleave::search {

PieceTable::PieceTable(std::unique_ptr<Piece> piece, solver::SharedLayouts &layouts)
    : piece(std::move(piece)), layouts(layouts) {
  const solver::ChoiceProblem &problem = this->piece->problem;
  if (this->piece->entryVariable != none)
    kept.push_back(this->piece->entryVariable);
  if (this->piece->exitVariable != none)
    kept.push_back(this->piece->exitVariable);
  entries = this->piece->entryVariable == none ? 1 : problem.domainOf(this->piece->entryVariable).size();
  exits = this->piece->exitVariable == none ? 1 : problem.domainOf(this->piece->exitVariable).size();
  for (unsigned entry = 0; entry != entries; ++entry)
    entrySeconds.push_back(entryAt(entry).seconds());
  for (unsigned exit = 0; exit != exits; ++exit)
    exitSeconds.push_back(exitAt(exit).seconds());
}

bool PieceTable::hasPlan() {
  if (!isPlanned)
    plan = solver::EliminationPlan::make(piece->problem, kept, mostPlannedEntries, layouts);
  isPlanned = true;
  return plan.has_value();
}

PieceTable::Solved &PieceTable::solve(const Weights &weights) {
  for (auto &known : solved)
    if (known->weights == weights)
      return *known;
  Solved &made = *solved.emplace_back(std::make_unique<Solved>());
  made.weights = weights;
  if (weights.byPiece) {
    solveWays(made);
    return made;
  }
  if (hasPlan()) {
    made.elimination = plan->run(secondsUnder(weights));
    return made;
  }
  // Without the choices that are worse in everything it may be small enough.
  made.elimination = solver::Elimination::run(weighted(weights), kept, {});
  return made;
}

void PieceTable::solveWays(Solved &made) {
  made.leastOfWays.assign(static_cast<size_t>(entries) * exits, solver::forbidden);
  made.bestWays.assign(made.leastOfWays.size(), Recompute::None);
  for (Recompute way : waysToKeep(piece->getOptions().offload > 0)) {
    Weights weights = made.weights;
    weights.byPiece = false;
    weights.relaxed->recompute = way;
    Solved &own = solve(weights);
    made.ways[static_cast<size_t>(way)] = &own;
    for (size_t entry = 0; own.values() && entry != made.leastOfWays.size(); ++entry)
      if ((*own.values())[entry] < made.leastOfWays[entry]) {
        made.leastOfWays[entry] = (*own.values())[entry];
        made.bestWays[entry] = way;
      }
  }
}

std::vector<std::vector<double>> PieceTable::secondsUnder(const Weights &weights) const {
  const solver::ChoiceProblem &problem = piece->problem;
  std::vector<std::vector<double>> seconds(problem.variables.size());
  for (unsigned variable = 0; variable != seconds.size(); ++variable)
    for (unsigned choice = 0; choice != problem.domainOf(variable).size(); ++choice)
      seconds[variable].push_back(secondsUnder(weights, pricedOf(variable, choice)));
  return seconds;
}

PieceTable::Priced PieceTable::pricedOf(unsigned variable, unsigned choice) const {
  const PieceOptions &options = piece->getOptions();
  const Sums &sums = piece->sumsOf(variable, choice);
  Priced priced;
  priced.cost = &piece->problem.domainOf(variable)[choice];
  priced.sums = &sums;
  priced.gathersKeys = piece->gathersKeys(variable, choice);
  priced.joining = piece->reductions[variable][choice];
  priced.update = sums.update / options.microbatches;
  // Moving it is a sum over parameters, which computing may not be.
  priced.updateShared = options.offloadOptimizer * sums.inHostShared / options.microbatches;
  priced.checkpoint = variable == piece->entryVariable ? piece->entryBytes[choice] : 0;
  double repeated = sums.forward - sums.forwardExchange;
  priced.againSelective = std::max(0.0, repeated - sums.contractions);
  priced.againFull = std::max(0.0, repeated - sums.unrepeated);
  for (unsigned zero = 0; zero <= 3; ++zero) {
    priced.stateBytes[zero] = sums.stateBytes(zero);
    priced.stateSeconds[zero] = sharingSeconds(sums, zero);
  }
  return priced;
}

double PieceTable::secondsUnder(const Weights &weights, const Priced &priced) const {
  if (weights.ringsOnly && priced.gathersKeys)
    return solver::forbidden;
  double memory = weights.relaxed ? cheapestKeeping(priced, weights) : weights.secondsPerByte * priced.cost->bytes;
  return priced.cost->seconds + weights.reduction * priced.joining - weights.delayed * priced.sums->backwardWeights +
         weights.forward * priced.sums->forward - (1 - weights.optimizer) * priced.update + memory;
}

std::vector<double> PieceTable::valuesUnder(const WeightBundle &bundle, std::vector<double> &memory) {
  const solver::ChoiceProblem &problem = piece->problem;
  if (hasPlan()) {
    std::vector<std::vector<double>> seconds(problem.variables.size());
    for (unsigned variable = 0; variable != seconds.size(); ++variable)
      for (unsigned choice = 0; choice != problem.domainOf(variable).size(); ++choice) {
        Priced priced = pricedOf(variable, choice);
        for (const Weights &weights : bundle)
          seconds[variable].push_back(secondsUnder(weights, priced));
      }
    return plan->valuesOf(seconds, memory);
  }
  std::vector<double> values(size_t(entries) * exits * solver::numLanes, solver::forbidden);
  for (unsigned lane = 0; lane != solver::numLanes; ++lane)
    if (const auto &elimination = solve(bundle[lane]).elimination)
      for (size_t entry = 0; entry != elimination->values().size(); ++entry)
        values[entry * solver::numLanes + lane] = elimination->values()[entry];
  return values;
}

solver::ChoiceProblem PieceTable::weighted(const Weights &weights) const {
  solver::ChoiceProblem problem = piece->problem;
  std::vector<std::vector<double>> seconds = secondsUnder(weights);
  for (unsigned variable = 0; variable != seconds.size(); ++variable)
    for (unsigned choice = 0; choice != seconds[variable].size(); ++choice)
      problem.domains[problem.variables[variable]][choice] = {seconds[variable][choice], 0};
  return problem;
}

double PieceTable::cheapestKeeping(const Priced &priced, const Weights &weights) const {
  const double price = weights.secondsPerByte, priceOfSaved = price * weights.inFlight,
               checkpoint = weights.checkpoints ? priced.checkpoint : 0;
  const PieceOptions &options = piece->getOptions();
  const Sums &sums = *priced.sums;
  auto mayBe = [](const auto &fixed, auto value) { return !fixed || *fixed == value; };
  double activations = solver::forbidden, state = solver::forbidden;
  if (!options.training)
    return price * sums.parameters;
  if (mayBe(weights.relaxed->recompute, Recompute::None))
    activations = priceOfSaved * sums.saved;
  if (mayBe(weights.relaxed->recompute, Recompute::Selective))
    activations = std::min(activations, priceOfSaved * (sums.savedProducts + checkpoint) + priced.againSelective);
  if (mayBe(weights.relaxed->recompute, Recompute::Full))
    activations = std::min(activations, priceOfSaved * checkpoint + priced.againFull);
  // What the way to the host's memory takes depends on all that moves.
  if (options.offload > 0 && mayBe(weights.relaxed->recompute, Recompute::Offload))
    activations = std::min(activations, priceOfSaved * sums.unmoved);
  for (unsigned zero = 0; zero <= 3; ++zero)
    if (mayBe(weights.relaxed->zero, zero))
      state = std::min(state, price * priced.stateBytes[zero] + priced.stateSeconds[zero] -
                                  (zero >= 1 ? weights.optimizer * (priced.update - priced.updateShared) : 0));
  return activations + state;
}

double PieceTable::sharingSeconds(const Sums &sums, unsigned zero) const {
  const PieceOptions &options = piece->getOptions();
  auto seen = [&](bool overlaps) { return overlaps ? options.hidden / (1 + options.hidden) : 1.0; };
  double gathering = zero >= 3 ? 2 * sums.gathering : 0, scattering = zero >= 2 ? sums.reduction / 2 : 0;
  return seen(options.executor.overlapsGathers) * gathering +
         seen(options.executor.overlapsGradients) * scattering * (1 - 1 / options.microbatches);
}

double PieceTable::leastTransient() {
  if (transient < 0) {
    transient = 0;
    for (unsigned variable = 0; variable != piece->problem.variables.size(); ++variable) {
      double least = solver::forbidden;
      for (unsigned choice = 0; choice != piece->problem.domainOf(variable).size(); ++choice)
        least = std::min(least, piece->sumsOf(variable, choice).transient);
      transient = std::max(transient, least);
    }
  }
  return transient;
}

std::vector<unsigned> PieceTable::choicesAt(const Weights &weights, unsigned entry, unsigned exit) {
  Solved &solved = solve(weights);
  if (solved.hasWays())
    return choicesAt(solved.ways[static_cast<size_t>(wayAt(solved, entry, exit))]->weights, entry, exit);
  return solved.elimination->choicesAt(keptChoices(entry, exit));
}

const Sums &PieceTable::sumsAt(Solved &solved, unsigned entry, unsigned exit) {
  auto [own, isNew] = solved.sums.try_emplace({entry, exit});
  if (isNew)
    own->second = piece->sumsOf(choicesAt(solved.weights, entry, exit));
  return own->second;
}

std::vector<unsigned> PieceTable::keptChoices(unsigned entry, unsigned exit) const {
  std::vector<unsigned> choices;
  if (piece->entryVariable != none)
    choices.push_back(entry);
  if (piece->exitVariable != none)
    choices.push_back(exit);
  return choices;
}

} // namespace cleave::search
