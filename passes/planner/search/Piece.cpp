// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enumerates choices and costs them.

#include "passes/planner/search/AxisFactors.h"
#include "passes/planner/search/PieceBuilder.h"

#include <cmath>
#include <numeric>

namespace cleave::search {

void Sums::add(const Sums &other) {
  if (reduction - backward + other.lateReduction - other.lateBackward > lateReduction - lateBackward) {
    lateReduction = reduction + other.lateReduction;
    lateBackward = backward + other.lateBackward;
  }
  forward += other.forward;
  backward += other.backward;
  forwardExchange += other.forwardExchange;
  backwardExchange += other.backwardExchange;
  backwardWeights += other.backwardWeights;
  forwardHost += other.forwardHost;
  backwardHost += other.backwardHost;
  unrepeated += other.unrepeated;
  contractions += other.contractions;
  update += other.update;
  reduction += other.reduction;
  gathering += other.gathering;
  regathering += other.regathering;
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  parametersShared += other.parametersShared;
  gradientsShared += other.gradientsShared;
  optimizerShared += other.optimizerShared;
  saved += other.saved;
  savedProducts += other.savedProducts;
  unmoved += other.unmoved;
  inHost += other.inHost;
  inHostShared += other.inHostShared;
  transient = std::max(transient, other.transient);
}

double Sums::joinedAfter(double seconds) const {
  double slowdown = backward > 0 ? std::max(1.0, seconds / backward) : 1;
  return std::max({0.0, reduction - seconds, lateReduction - slowdown * lateBackward});
}

double updateSeconds(double bytes, const OperatorCost &cost, const Precision &precision, const Executor &executor,
                     bool isFloat) {
  if (executor.updateBytes > 0)
    return cost.streamSeconds(bytes / sizeof(float) * executor.updateBytes);
  // Parameters and optimizer state are read and written, gradients read. On processors each value of the state is a
  // kernel of its own, which reads the gradient, and the parameter's reads them all.
  double held = isFloat ? precision.parameter : 1, states = precision.optimizer;
  bool isApart = cost.isOfProcessors() && states > 0;
  double reads = isApart ? states * precision.gradient + states : precision.gradient;
  double kernels = isApart ? states + 1 : 1;
  return cost.memorySeconds(bytes * (2 * held + 2 * states + reads)) + kernels * cost.launchSeconds();
}

namespace {

/// Where a factor stands in a tensor: the state of an axis that cuts it; whole where the tensor lacks it.
uint64_t placeOf(const SplitRule &rule, const TensorFactors &tensor, unsigned factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    int64_t offset = 1;
    for (unsigned known : factors) {
      if (known == factor)
        return AxisState::cut(dim, offset);
      offset *= rule.factors[known].size;
    }
  }
  return AxisState::whole;
}

/// The factor at a place of a tensor that may follow a cut there; none where there is none.
unsigned factorAt(const SplitRule &rule, const TensorFactors &tensor, uint64_t place) {
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    int64_t offset = 1;
    for (unsigned factor : factors) {
      if (AxisState::cut(dim, offset) == place && rule.factors[factor].size > 1)
        return rule.factors[factor].kind == FactorKind::Parallel ? factor : none;
      offset *= rule.factors[factor].size;
    }
  }
  return none;
}

} // namespace

void Piece::Builder::run() {
  work.setRepeatedEnd(findUnrepeated());
  for (unsigned index = piece.first; index != piece.last; ++index)
    if (isHere(index))
      assign(index);
  for (unsigned variable = 0; variable != piece.variables.size(); ++variable)
    enumerate(variable);
  addTensorVariables();
  addEdges();
}

unsigned Piece::Builder::findUnrepeated() {
  unsigned repeatedEnd = piece.last;
  if (!options.executor.stopsRecomputing)
    return repeatedEnd;
  while (repeatedEnd != piece.first && !isReadBackward(graph.operators[repeatedEnd - 1]))
    --repeatedEnd;
  return repeatedEnd;
}

bool Piece::Builder::isReadBackward(const Operator &op) const {
  return !op.use || op.use->masks ||
         llvm::any_of(op.results, [&](unsigned tensor) { return tensor != exit && graph.tensors[tensor].kept; });
}

void Piece::Builder::assign(unsigned index) {
  const Operator &op = graph.operators[index];
  auto leader = variableOf.find(op.leader);
  if (op.leader != index && leader != variableOf.end() && !fixed.count(index)) {
    // The entry may move when another one is added.
    unsigned variable = leader->second;
    variableOf[index] = variable;
    piece.variables[variable].operators.push_back(index);
    return;
  }
  variableOf[index] = piece.variables.size();
  piece.variables.emplace_back().operators.push_back(index);
}

bool Piece::Builder::hasWeights(const Operator &op) {
  return op.cost.costClass == CostClass::Contraction &&
         llvm::any_of(op.operands, [](const Operand &operand) { return operand.parameter != none; });
}

bool Piece::Builder::mayPlay(const Operator &op, AxisRole role, unsigned factor) {
  if (!op.inner.empty() && factor != op.batch && factor != op.experts && op.cost.costClass != CostClass::Contraction &&
      !op.inner[factor])
    return false;
  switch (role) {
  case AxisRole::Any:
    return true;
  case AxisRole::Batch:
    return factor == op.batch;
  case AxisRole::NotBatch:
    return factor != op.batch && (!hasWeights(op) || ownersOf(op, factor).weights);
  case AxisRole::Sequence:
    return factor == op.sequence;
  case AxisRole::Experts:
    return factor == op.experts ||
           (factor == op.batch && (op.experts == none || op.cost.costClass != CostClass::Contraction));
  }
  llvm_unreachable("unknown role");
}

bool Piece::Builder::mayCut(const Operator &op, unsigned axis, unsigned factor, double ways) const {
  const Factor &known = op.rule.factors[factor];
  if (known.kind == FactorKind::Stepwise || known.kind == FactorKind::Unsplittable)
    return false;
  AxisRole role = axis < options.roles.size() ? options.roles[axis] : AxisRole::Any;
  if (!mayPlay(op, role, factor))
    return false;
  double size = work.sizeOf(op, factor);
  if (known.kind == FactorKind::Window &&
      size / ways * static_cast<double>(known.step) < static_cast<double>(known.haloBefore + known.haloAfter))
    return false;
  return size >= ways;
}

void Piece::Builder::enumerate(unsigned variable) {
  Variable &made = piece.variables[variable];
  const Operator &op = graph.operators[made.operators.front()];
  states.emplace_back();
  Factors factors;
  factors.fill(none);
  enumerate(variable, op, factors, 0);
  if (made.assignments.empty()) {
    factors.fill(none);
    addChoice(variable, factors);
  }
  piece.problem.variables.push_back(piece.problem.domains.size());
  std::vector<solver::Choice> &domain = piece.problem.domains.emplace_back();
  std::vector<double> &reductions = piece.reductions.emplace_back();
  for (const Sums &sums : made.sums) {
    domain.push_back({sums.forward + sums.backward + sums.update / options.microbatches,
                      sums.parameters + sums.gradients + sums.optimizer + (options.training ? sums.saved : 0)});
    reductions.push_back(sums.reduction);
  }
}

void Piece::Builder::enumerate(unsigned variable, const Operator &op, Factors &factors, unsigned axis) {
  if (axis == numAxes) {
    addChoices(variable, op, factors);
    return;
  }
  auto known = fixed.find(piece.variables[variable].operators.front());
  if (known != fixed.end()) {
    auto own = llvm::find_if(known->second.axes, [&](auto &entry) { return entry.first == axis; });
    if (own != known->second.axes.end() || known->second.closed) {
      factors[axis] = own == known->second.axes.end() ? none : own->second;
      enumerate(variable, op, factors, axis + 1);
      return;
    }
  }
  double before = 1;
  bool isBatchAxis = axis < options.roles.size() && cutsBatch(options.roles[axis]);
  bool hasBatch = false;
  for (unsigned factor = 0; grid.size(axis) > 1 && factor != op.rule.factors.size(); ++factor) {
    before = 1;
    for (unsigned other = 0; other != axis; ++other)
      if (factors[other] == factor)
        before *= static_cast<double>(grid.size(other));
    if (!mayCut(op, axis, factor, before * static_cast<double>(grid.size(axis))) ||
        (known != fixed.end() && llvm::is_contained(known->second.whole, factor)))
      continue;
    factors[axis] = factor;
    hasBatch = true;
    enumerate(variable, op, factors, axis + 1);
  }
  factors[axis] = none;
  if (!(isBatchAxis && hasBatch))
    enumerate(variable, op, factors, axis + 1);
}

void Piece::Builder::addChoices(unsigned variable, const Operator &op, const Factors &factors) {
  auto known = fixed.find(piece.variables[variable].operators.front());
  std::optional<bool> isRing = known == fixed.end() ? std::nullopt : known->second.isRing;
  if (!isRing && options.keys != Keys::Auto)
    isRing = options.keys == Keys::Ring;
  bool isLookedAt = isRing ? *isRing : op.scores && mayPayInRing(*op.scores, options.precision.activation < 1);
  bool mayBeRing = isLookedAt && this->mayBeRing(op, factors);
  if (!mayBeRing || !isRing)
    addChoice(variable, factors);
  if (mayBeRing)
    addChoice(variable, factors, /*isRing=*/true);
}

OperatorStates Piece::Builder::statesOf(const Operator &op, const Factors &factors) const {
  OperatorStates made;
  for (const TensorFactors &tensor : op.rule.operands) {
    TensorState &to = made.operands.emplace_back();
    for (unsigned axis = 0; axis != numAxes; ++axis) {
      if (factors[axis] == none)
        continue;
      to.state[axis] = to.gradient[axis] = placeOf(op.rule, tensor, factors[axis]);
      if (to.state[axis] == AxisState::whole)
        to.gradient[axis] = AxisState::partial;
    }
  }
  for (const TensorFactors &tensor : op.rule.results) {
    State &to = made.results.emplace_back();
    to.fill(AxisState::whole);
    for (unsigned axis = 0; axis != numAxes; ++axis) {
      if (factors[axis] == none)
        continue;
      to[axis] = placeOf(op.rule, tensor, factors[axis]);
      if (to[axis] == AxisState::whole && op.rule.factors[factors[axis]].kind == FactorKind::Reduction)
        to[axis] = AxisState::partial;
    }
  }
  return made;
}

void Piece::Builder::addChoice(unsigned variable, const Factors &factors, bool isRing) {
  Variable &made = piece.variables[variable];
  Assignment assignment;
  Sums sums;
  std::vector<OperatorStates> chosen;
  for (unsigned position = 0; position != made.operators.size(); ++position) {
    const Operator &op = graph.operators[made.operators[position]];
    Sums before = sums, ofOperator;
    Factors own = position == 0 ? factors : follow(made, op, chosen, sums);
    chosen.push_back(statesOf(op, own));
    if (isRing)
      letGoAround(op, chosen.back());
    assignment.factors.push_back(own);
    work.add(made.operators[position], own, chosen.back(), ofOperator);
    sums.add(ofOperator);
    assignment.times.push_back(
        {sums.forward + sums.backward - before.forward - before.backward,
         sums.forwardExchange + sums.backwardExchange - before.forwardExchange - before.backwardExchange});
  }
  // What stands in the ring and cannot be cut along the queries.
  if (isRing && !std::isfinite(sums.forward))
    return;
  unsigned first = made.operators.front();
  const Operator &op = graph.operators[first];
  assignment.gathersKeys = !isRing && mayBeRing(op, factors);
  if (assignment.gathersKeys)
    work.addGathered(op, chosen.front(), sums);
  if (op.scores && (isRing || assignment.gathersKeys) && graph.attentions[op.scores->attention].scores() == first)
    assignment.keys = work.decisionOf(op, factors, chosen.front(), isRing);
  made.assignments.push_back(std::move(assignment));
  made.sums.push_back(sums);
  states[variable].push_back(std::move(chosen));
}

bool Piece::Builder::mayBeRing(const Operator &op, const Factors &factors) const {
  // Software of others gathers.
  if (!op.scores || op.use)
    return false;
  const AttentionRow &row = graph.attentions[op.scores->attention];
  if (!row.mayBeRing || (options.training && !op.scores->streamsGradient) ||
      !llvm::all_of(row.operators, [&](unsigned member) { return variableOf.count(member); }))
    return false;
  const TensorFactors &scores =
      op.scores->operand == none ? op.rule.results.front() : op.rule.operands[op.scores->operand];
  int64_t ways = 1;
  for (unsigned axis = 0; axis != numAxes; ++axis) {
    if (factors[axis] == none)
      continue;
    if (!mentions(scores, factors[axis]) || llvm::is_contained(scores[op.scores->keysDim], factors[axis]))
      return false;
    if (llvm::is_contained(scores[op.scores->queriesDim()], factors[axis]))
      ways *= grid.size(axis);
  }
  return ways > 1 && op.scores->keys % ways == 0;
}

void Piece::Builder::letGoAround(const Operator &op, OperatorStates &made) const {
  if (!op.scores)
    return;
  bool isFirst = op.scores->operand == none, isLast = !op.scores->isResult;
  const TensorFactors &scores = isFirst ? op.rule.results.front() : op.rule.operands[op.scores->operand];
  const State at = isFirst ? made.results.front() : made.operands[op.scores->operand].state;
  for (unsigned axis = 0; axis != numAxes; ++axis) {
    if (!AxisState::isCut(at[axis]) || AxisState::dimOf(at[axis]) != op.scores->queriesDim())
      continue;
    if (!isFirst) {
      TensorState &own = made.operands[op.scores->operand];
      own.state[axis] = own.gradient[axis] = AxisState::byChunks(at[axis]);
    }
    if (!isLast)
      made.results.front()[axis] = AxisState::byChunks(made.results.front()[axis]);
    if (isFirst || isLast) {
      TensorState &keys = made.operands[1];
      uint64_t cut = placeOf(op.rule, op.rule.operands[1], scores[op.scores->keysDim].front());
      keys.state[axis] = keys.gradient[axis] = AxisState::goingAround(cut);
    }
  }
}

Factors Piece::Builder::follow(const Variable &made, const Operator &op, const std::vector<OperatorStates> &chosen,
                               Sums &sums) const {
  Factors factors;
  factors.fill(none);
  for (auto [operand, tensorFactors] : llvm::zip_equal(op.operands, op.rule.operands)) {
    if (operand.tensor == none)
      continue;
    const Tensor &tensor = graph.tensors[operand.tensor];
    size_t producer = llvm::find(made.operators, tensor.producer) - made.operators.begin();
    if (producer >= chosen.size())
      continue;
    const State &from = chosen[producer].results[tensor.result];
    State to = from;
    for (unsigned axis = 0; axis != numAxes; ++axis) {
      if (!AxisState::isCut(from[axis]))
        continue;
      factors[axis] = factorAt(op.rule, tensorFactors, AxisState::withoutRing(from[axis]));
      if (factors[axis] == none)
        to[axis] = AxisState::whole;
    }
    double seconds = grid.convert(work.bytesOf(tensor), from, to);
    sums.forward += seconds;
    sums.forwardExchange += seconds;
    break;
  }
  return factors;
}

Piece::Piece(const SearchGraph &graph, unsigned first, unsigned last, unsigned entry, unsigned exit, const Grid &grid,
             const OperatorCost &cost, const PieceOptions &options, const FixedFactors &fixed)
    : first(first), last(last), options(options) {
  if (this->options.stageStart == none)
    this->options.stageStart = first;
  Builder(*this, graph, entry, exit, grid, cost, this->options, fixed).run();
}

Sums Piece::exchangeOf(unsigned edge, unsigned a, unsigned b) const {
  const solver::PairTable &table = problem.pairs[problem.edges[edge].table];
  Sums sums;
  sums.forward = sums.forwardExchange =
      forwardTables[problem.edges[edge].table][static_cast<size_t>(a) * table.columns + b];
  sums.backward = sums.backwardExchange = table.at(a, b) - sums.forward;
  // Nobody waits for a host to find out that there is nothing to send.
  sums.forwardHost = sums.forward > 0 ? options.executor.dispatch : 0;
  sums.backwardHost = sums.backward > 0 ? options.executor.backwardDispatch : 0;
  return sums;
}

Sums Piece::sumsOf(const std::vector<unsigned> &choices) const {
  // What is exchanged for an operator goes before it.
  std::vector<Sums> exchanges(last - first);
  for (auto [index, edge] : llvm::enumerate(problem.edges))
    exchanges[edgeOperators[index]].add(exchangeOf(index, choices[edge.first], choices[edge.second]));
  std::vector<unsigned> order(variables.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](unsigned left, unsigned right) {
    // A tensor's variable has nothing that is joined.
    auto positionOf = [&](unsigned variable) { return operatorOf(variable) == none ? 0 : operatorOf(variable); };
    return positionOf(left) < positionOf(right);
  });
  Sums total;
  unsigned next = 0;
  for (unsigned variable : order) {
    for (; operatorOf(variable) != none && next <= operatorOf(variable); ++next)
      total.add(exchanges[next]);
    total.add(variables[variable].sums[choices[variable]]);
  }
  for (; next != exchanges.size(); ++next)
    total.add(exchanges[next]);
  return total;
}

std::vector<Factors> Piece::factorsOf(const std::vector<unsigned> &choices) const {
  Factors unsplit;
  unsplit.fill(none);
  std::vector<Factors> factors(last - first, unsplit);
  for (auto [variable, choice] : llvm::zip_equal(variables, choices))
    if (!variable.operators.empty())
      for (auto [index, own] : llvm::zip_equal(variable.operators, variable.assignments[choice].factors))
        factors[index - first] = own;
  return factors;
}

std::vector<std::optional<dist::KeyExchange>> Piece::keysOf(const std::vector<unsigned> &choices) const {
  std::vector<std::optional<dist::KeyExchange>> keys(last - first);
  for (auto [variable, choice] : llvm::zip_equal(variables, choices))
    if (!variable.operators.empty())
      keys[variable.operators.front() - first] = variable.assignments[choice].keys;
  return keys;
}

std::vector<OperatorTime> Piece::timesOf(const std::vector<unsigned> &choices) const {
  std::vector<OperatorTime> times(last - first);
  for (auto [variable, choice] : llvm::zip_equal(variables, choices))
    if (!variable.operators.empty())
      for (auto [index, own] : llvm::zip_equal(variable.operators, variable.assignments[choice].times))
        times[index - first] = own;
  for (auto [edge, op] : llvm::zip_equal(problem.edges, edgeOperators)) {
    double seconds = problem.pairs[edge.table].at(choices[edge.first], choices[edge.second]);
    times[op].seconds += seconds;
    times[op].exchange += seconds;
  }
  return times;
}

} // namespace cleave::search
