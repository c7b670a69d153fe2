// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensors of a piece that are variables themselves, and what it takes to bring tensors from one choice to another.

#include "passes/planner/search/PieceBuilder.h"

namespace cleave::search {

const State *Piece::Builder::resultState(unsigned tensor, unsigned choice) const {
  const Tensor &known = graph.tensors[tensor];
  auto variable = variableOf.find(known.producer);
  if (known.producer == none || variable == variableOf.end())
    return nullptr;
  size_t position = llvm::find(piece.variables[variable->second].operators, known.producer) -
                    piece.variables[variable->second].operators.begin();
  return &states[variable->second][choice][position].results[known.result];
}

const TensorState &Piece::Builder::operandState(unsigned index, unsigned operand, unsigned choice) const {
  unsigned variable = variableOf.lookup(index);
  size_t position =
      llvm::find(piece.variables[variable].operators, index) - piece.variables[variable].operators.begin();
  return states[variable][choice][position].operands[operand];
}

llvm::SmallVector<std::pair<unsigned, unsigned>, 4> Piece::Builder::usesOf(unsigned tensor) const {
  llvm::SmallVector<std::pair<unsigned, unsigned>, 4> uses;
  const Tensor &known = graph.tensors[tensor];
  auto producer = variableOf.find(known.producer);
  for (auto [user, operand] : known.uses) {
    auto variable = variableOf.find(user);
    if (variable == variableOf.end() ||
        (known.producer != none && producer != variableOf.end() && producer->second == variable->second))
      continue;
    uses.emplace_back(user, operand);
  }
  return uses;
}

std::vector<TensorState> Piece::Builder::allStates(const Tensor &tensor) const {
  auto shape = mlir::cast<mlir::RankedTensorType>(tensor.value.getType()).getShape();
  std::vector<TensorState> all(1);
  for (unsigned axis = 0; axis != numAxes; ++axis) {
    std::vector<TensorState> more;
    for (const TensorState &known : all) {
      more.push_back(known);
      if (grid.size(axis) == 1)
        continue;
      if (options.training && tensor.learns) {
        more.push_back(known);
        more.back().gradient[axis] = AxisState::partial;
      }
      for (auto [dim, size] : llvm::enumerate(shape)) {
        if (size < 2)
          continue;
        more.push_back(known);
        more.back().state[axis] = more.back().gradient[axis] = AxisState::cut(dim, 1);
      }
    }
    all = std::move(more);
  }
  return all;
}

void Piece::Builder::addTensorVariable(unsigned tensor, bool isBoundary) {
  if (tensorVariable.count(tensor))
    return;
  std::vector<TensorState> all;
  if (isBoundary) {
    all = allStates(graph.tensors[tensor]);
  } else {
    std::map<TensorState, unsigned> distinct;
    for (auto [user, operand] : usesOf(tensor))
      for (unsigned choice = 0; choice != states[variableOf.lookup(user)].size(); ++choice)
        distinct.try_emplace(operandState(user, operand, choice), distinct.size());
    for (auto &[state, index] : distinct)
      all.push_back(state);
  }
  tensorVariable[tensor] = piece.problem.variables.size();
  piece.problem.variables.push_back(piece.problem.domains.size());
  piece.problem.domains.emplace_back(all.size());
  piece.reductions.emplace_back(all.size(), 0.0);
  piece.variables.emplace_back().sums.resize(all.size());
  tensorStates[tensor] = std::move(all);
}

double Piece::Builder::gatherSeconds(double bytes, const State &state) const {
  llvm::SmallVector<unsigned, mostAxes> repeated;
  for (unsigned axis = 0; axis != numAxes; ++axis)
    if (!AxisState::isCut(state[axis]) && grid.size(axis) > 1)
      repeated.push_back(axis);
  return repeated.empty() ? 0 : grid.allGather(grid.localBytes(bytes, state), repeated);
}

void Piece::Builder::addTensorVariables() {
  if (entry != none) {
    addTensorVariable(entry, true);
    piece.entryVariable = tensorVariable[entry];
    double bytes = work.bytesOf(graph.tensors[entry]);
    for (const TensorState &state : tensorStates[entry]) {
      State joined = state.gradient;
      for (uint64_t &axis : joined)
        axis = axis == AxisState::partial ? AxisState::whole : axis;
      Sums &sums = piece.entries.emplace_back();
      sums.forward = sums.forwardExchange = sums.unrepeated = gatherSeconds(bytes, state.state);
      if (options.training)
        sums.backward = sums.backwardExchange = grid.convert(bytes, state.gradient, joined);
      piece.entryBytes.push_back(grid.localBytes(bytes, state.state));
    }
  }
  if (exit != none) {
    addTensorVariable(exit, true);
    piece.exitVariable = tensorVariable[exit];
    for (const TensorState &state : tensorStates[exit]) {
      Sums &sums = piece.exits.emplace_back();
      if (options.training && graph.tensors[exit].learns)
        sums.backward = sums.backwardExchange = gatherSeconds(work.bytesOf(graph.tensors[exit]), state.gradient);
    }
  }
  for (unsigned index = piece.first; index != piece.last; ++index)
    for (unsigned tensor : graph.operators[index].results)
      if (isHere(index) && usesOf(tensor).size() > 1)
        addTensorVariable(tensor, false);
}

namespace {

/// Which of some states are equal: choices have few different ones of a tensor.
struct DistinctStates {
  std::vector<State> states;
  std::vector<unsigned> numbers; ///< By choice: an index into `states`.

  void add(const State &state) {
    // Often the same as before.
    if (!numbers.empty() && states[numbers.back()] == state) {
      numbers.push_back(numbers.back());
      return;
    }
    auto known = llvm::find(states, state);
    numbers.push_back(known - states.begin());
    if (known == states.end())
      states.push_back(state);
  }
};

} // namespace

const std::vector<double> &Piece::Builder::conversions(double bytes, unsigned from, unsigned to) {
  auto [entry, isNew] = knownConversions.try_emplace({bytes, from, to});
  std::vector<double> &seconds = entry->second;
  if (!isNew)
    return seconds;
  // Few changes for many pairs of states.
  llvm::DenseMap<uint32_t, double> &known = knownChanges[bytes];
  seconds.reserve(stateLists[from].size() * stateLists[to].size());
  for (const State &before : stateLists[from])
    for (const State &after : stateLists[to]) {
      Grid::Change change = grid.changeOf(before, after);
      if (!change.isPossible) {
        seconds.push_back(solver::forbidden);
        continue;
      }
      auto [own, isNewChange] = known.try_emplace(change.steps);
      if (isNewChange)
        own->second = grid.convert(bytes, change);
      seconds.push_back(own->second);
    }
  return seconds;
}

void Piece::Builder::addEdge(unsigned from, unsigned to, unsigned forOperator, const Tensor &tensor,
                             llvm::function_ref<TensorState(unsigned)> made,
                             llvm::function_ref<const TensorState &(unsigned)> read) {
  DistinctStates madeStates, madeGradients, readStates, readGradients;
  for (unsigned a = 0; a != piece.problem.domainOf(from).size(); ++a) {
    TensorState state = made(a);
    madeStates.add(state.state);
    madeGradients.add(state.gradient);
  }
  for (unsigned b = 0; b != piece.problem.domainOf(to).size(); ++b) {
    const TensorState &state = read(b);
    readStates.add(state.state);
    readGradients.add(state.gradient);
  }
  double bytes = work.bytesOf(tensor);
  EdgeTable key;
  key.there = &conversions(bytes, stateLists.insert(madeStates.states), stateLists.insert(readStates.states));
  key.back = nullptr;
  if (options.training && tensor.learns)
    key.back = &conversions(bytes, stateLists.insert(readGradients.states), stateLists.insert(madeGradients.states));
  key.madeStates = numberLists.insert(madeStates.numbers);
  key.madeGradients = numberLists.insert(madeGradients.numbers);
  key.readStates = numberLists.insert(readStates.numbers);
  key.readGradients = numberLists.insert(readGradients.numbers);
  auto [known, isNew] = knownTables.try_emplace(key, piece.problem.pairs.size());
  if (isNew) {
    solver::PairTable table;
    table.rows = madeStates.numbers.size();
    table.columns = readStates.numbers.size();
    std::vector<double> forward;
    forward.reserve(size_t(table.rows) * table.columns);
    table.seconds.reserve(forward.capacity());
    for (auto [state, gradient] : llvm::zip_equal(madeStates.numbers, madeGradients.numbers)) {
      const double *there = key.there->data() + state * readStates.states.size();
      for (auto [readState, readGradient] : llvm::zip_equal(readStates.numbers, readGradients.numbers)) {
        forward.push_back(there[readState]);
        double back = key.back ? (*key.back)[readGradient * madeGradients.states.size() + gradient] : 0;
        table.seconds.push_back(forward.back() + back);
      }
    }
    piece.problem.pairs.push_back(std::move(table));
    piece.forwardTables.push_back(std::move(forward));
  }
  piece.problem.edges.push_back({from, to, known->second});
  piece.edgeOperators.push_back(forOperator - piece.first);
}

State Piece::Builder::joined(State state) {
  for (uint64_t &axis : state)
    axis = axis == AxisState::partial ? AxisState::whole : axis;
  return state;
}

void Piece::Builder::addEdges() {
  for (unsigned index = piece.first; index != piece.last; ++index)
    if (isHere(index))
      for (unsigned tensor : graph.operators[index].results)
        connect(tensor);
  if (entry != none)
    connectReaders(entry);
}

void Piece::Builder::connect(unsigned index) {
  const Tensor &tensor = graph.tensors[index];
  unsigned producer = variableOf.lookup(tensor.producer);
  auto own = tensorVariable.find(index);
  auto made = [&](unsigned choice) {
    const State &state = *resultState(index, choice);
    return TensorState{state, joined(state)};
  };
  if (own != tensorVariable.end()) {
    const std::vector<TensorState> &all = tensorStates[index];
    addEdge(producer, own->second, tensor.producer, tensor, made,
            [&](unsigned choice) -> const TensorState & { return all[choice]; });
    connectReaders(index);
  } else {
    for (auto [user, operand] : usesOf(index))
      addEdge(producer, variableOf.lookup(user), user, tensor, made,
              [&, user = user, operand = operand](unsigned choice) -> const TensorState & {
                return operandState(user, operand, choice);
              });
  }
  bool leaves = tensor.isOutput || (index != exit && llvm::any_of(tensor.uses, [&](auto &use) {
                                      return use.first >= piece.last || !variableOf.count(use.first);
                                    }));
  if (leaves)
    finish(index, producer);
}

void Piece::Builder::connectReaders(unsigned index) {
  const Tensor &tensor = graph.tensors[index];
  const std::vector<TensorState> &all = tensorStates[index];
  for (auto [user, operand] : usesOf(index))
    addEdge(
        tensorVariable[index], variableOf.lookup(user), user, tensor, [&](unsigned choice) { return all[choice]; },
        [&, user = user, operand = operand](unsigned choice) -> const TensorState & {
          return operandState(user, operand, choice);
        });
}

void Piece::Builder::finish(unsigned index, unsigned producer) {
  std::vector<solver::Choice> &domain = piece.problem.domains[piece.problem.variables[producer]];
  for (unsigned choice = 0; choice != domain.size(); ++choice) {
    const State &made = *resultState(index, choice);
    double seconds = grid.convert(work.bytesOf(graph.tensors[index]), made, joined(made));
    domain[choice].seconds += seconds;
    piece.variables[producer].sums[choice].forward += seconds;
    piece.variables[producer].sums[choice].forwardExchange += seconds;
    OperatorTime &time = piece.variables[producer].assignments[choice].times.back();
    time.seconds += seconds;
    time.exchange += seconds;
  }
}

} // namespace cleave::search
