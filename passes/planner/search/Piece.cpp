// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enumerates choices and costs them.

#include "passes/planner/search/Piece.h"

#include "dialects/dfg/Attention.h"

#include <cmath>
#include <map>

namespace cleave::search {

using Factors = std::array<unsigned, mostAxes>;

void Sums::add(const Sums &other) {
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
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  parametersShared += other.parametersShared;
  gradientsShared += other.gradientsShared;
  optimizerShared += other.optimizerShared;
  saved += other.saved;
  savedProducts += other.savedProducts;
  transient = std::max(transient, other.transient);
}

double updateSeconds(double bytes, const OperatorCost &cost, const Precision &precision, const Executor &executor,
                     bool isFloat) {
  if (executor.updateBytes > 0)
    return cost.streamSeconds(bytes / sizeof(float) * executor.updateBytes);
  // Parameters and optimizer state are read and written, gradients read.
  double held = isFloat ? precision.parameter : 1;
  return cost.memorySeconds(bytes * (2 * held + precision.gradient + 2 * precision.optimizer));
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

class Piece::Builder {
public:
  Builder(Piece &piece, const SearchGraph &graph, unsigned entry, unsigned exit, const Grid &grid,
          const OperatorCost &cost, const PieceOptions &options, const FixedFactors &fixed)
      : piece(piece), graph(graph), entry(entry), exit(exit), grid(grid), cost(cost), options(options), fixed(fixed),
        numAxes(grid.numAxes()) {}

  void run() {
    findUnrepeated();
    for (unsigned index = piece.first; index != piece.last; ++index)
      if (isHere(index))
        assign(index);
    for (unsigned variable = 0; variable != piece.variables.size(); ++variable)
      enumerate(variable);
    addTensorVariables();
    addEdges();
  }

private:
  /// How a tensor lies, and its gradient.
  struct TensorState {
    State state = {}, gradient = {};
    bool operator<(const TensorState &other) const {
      return std::tie(state, gradient) < std::tie(other.state, other.gradient);
    }
  };

  Piece &piece;
  const SearchGraph &graph;
  unsigned entry, exit;
  const Grid &grid;
  const OperatorCost &cost;
  const PieceOptions &options;
  const FixedFactors &fixed;
  unsigned numAxes;
  /// By operator: its variable.
  llvm::DenseMap<unsigned, unsigned> variableOf;
  /// By tensor: its own variable, and its states by choice.
  llvm::DenseMap<unsigned, unsigned> tensorVariable;
  llvm::DenseMap<unsigned, std::vector<TensorState>> tensorStates;
  /// By variable, choice and operator of the variable: the states of operands and results.
  struct States {
    llvm::SmallVector<TensorState, 3> operands;
    llvm::SmallVector<State, 1> results;
  };
  std::vector<std::vector<std::vector<States>>> states;

  /// Whether an operator is the grid's, and runs in every step.
  bool isHere(unsigned index) const {
    return !graph.operators[index].once && (!options.included || (*options.included)[index]);
  }

  //===-- what is computed again ------------------------------------------------------------------------------===//

  /// Operators from here to the end of the piece are not computed again.
  unsigned repeatedEnd = none;

  void findUnrepeated() {
    repeatedEnd = piece.last;
    if (!options.executor.stopsRecomputing)
      return;
    while (repeatedEnd != piece.first && !isReadBackward(graph.operators[repeatedEnd - 1]))
      --repeatedEnd;
  }

  /// Whether a backward pass reads what an operator makes; the piece's own result lies in memory.
  bool isReadBackward(const Operator &op) const {
    return !op.use || op.use->masks ||
           llvm::any_of(op.results, [&](unsigned tensor) { return tensor != exit && graph.tensors[tensor].kept; });
  }

  //===-- variables -------------------------------------------------------------------------------------------===//

  void assign(unsigned index) {
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

  double scaleOf(const Operator &op) const { return op.batch == none ? 1 : options.batchScale; }
  double bytesOf(const Tensor &tensor) const {
    return tensor.bytes * (tensor.batched ? options.batchScale : 1) *
           (tensor.isFloat ? options.precision.activation : 1);
  }
  /// Elements of a factor in a microbatch.
  double sizeOf(const Operator &op, unsigned factor) const {
    return static_cast<double>(op.rule.factors[factor].size) * (factor == op.batch ? options.batchScale : 1);
  }

  static bool mentions(const TensorFactors &tensor, unsigned factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
  }

  static bool hasWeights(const Operator &op) {
    return op.cost.costClass == CostClass::Contraction &&
           llvm::any_of(op.operands, [](const Operand &operand) { return operand.parameter != none; });
  }

  static bool ofWeights(const Operator &op, unsigned factor) {
    return llvm::any_of(llvm::zip_equal(op.operands, op.rule.operands), [&](auto pair) {
      return std::get<0>(pair).parameter != none && mentions(std::get<1>(pair), factor);
    });
  }

  static bool mayPlay(const Operator &op, AxisRole role, unsigned factor) {
    if (!op.inner.empty() && factor != op.batch && op.cost.costClass != CostClass::Contraction && !op.inner[factor])
      return false;
    switch (role) {
    case AxisRole::Any:
      return true;
    case AxisRole::Batch:
      return factor == op.batch;
    case AxisRole::NotBatch:
      return factor != op.batch && (!hasWeights(op) || ofWeights(op, factor));
    case AxisRole::Sequence:
      return factor == op.sequence;
    case AxisRole::Expert:
      break;
    }
    if (factor == op.batch)
      return false;
    if (op.cost.costClass != CostClass::Contraction)
      return true;
    bool ofData = false;
    for (auto [operand, tensor] : llvm::zip_equal(op.operands, op.rule.operands))
      ofData |= operand.parameter == none && mentions(tensor, factor);
    return ofWeights(op, factor) && ofData && op.rule.factors[factor].kind == FactorKind::Parallel;
  }

  bool mayCut(const Operator &op, unsigned axis, unsigned factor, double ways) const {
    const Factor &known = op.rule.factors[factor];
    if (known.kind == FactorKind::Stepwise || known.kind == FactorKind::Unsplittable)
      return false;
    AxisRole role = axis < options.roles.size() ? options.roles[axis] : AxisRole::Any;
    if (!mayPlay(op, role, factor))
      return false;
    double size = sizeOf(op, factor);
    if (known.kind == FactorKind::Window &&
        size / ways * static_cast<double>(known.step) < static_cast<double>(known.haloBefore + known.haloAfter))
      return false;
    return size >= ways;
  }

  /// The choices of a variable: every way in which axes cut factors of its first operator.
  void enumerate(unsigned variable) {
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

  void enumerate(unsigned variable, const Operator &op, Factors &factors, unsigned axis) {
    if (axis == numAxes) {
      addChoice(variable, factors);
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
    bool isBatchAxis = axis < options.roles.size() && options.roles[axis] == AxisRole::Batch;
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

  States statesOf(const Operator &op, const Factors &factors) const {
    States made;
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

  void addChoice(unsigned variable, const Factors &factors) {
    Variable &made = piece.variables[variable];
    Assignment assignment;
    Sums sums;
    std::vector<States> chosen;
    for (unsigned position = 0; position != made.operators.size(); ++position) {
      const Operator &op = graph.operators[made.operators[position]];
      Sums before = sums;
      Factors own = position == 0 ? factors : follow(made, op, chosen, sums);
      chosen.push_back(statesOf(op, own));
      assignment.factors.push_back(own);
      addWork(made.operators[position], own, chosen.back(), sums);
      assignment.times.push_back(
          {sums.forward + sums.backward - before.forward - before.backward,
           sums.forwardExchange + sums.backwardExchange - before.forwardExchange - before.backwardExchange});
    }
    made.assignments.push_back(std::move(assignment));
    made.sums.push_back(sums);
    states[variable].push_back(std::move(chosen));
  }

  /// A follower's factors: those at the places where its operand is cut. What it cannot follow is gathered.
  Factors follow(const Variable &made, const Operator &op, const std::vector<States> &chosen, Sums &sums) const {
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
        factors[axis] = factorAt(op.rule, tensorFactors, from[axis]);
        if (factors[axis] == none)
          to[axis] = AxisState::whole;
      }
      double seconds = grid.convert(bytesOf(tensor), from, to);
      sums.forward += seconds;
      sums.forwardExchange += seconds;
      break;
    }
    return factors;
  }

  //===-- work ------------------------------------------------------------------------------------------------===//

  void addWork(unsigned index, const Factors &factors, const States &state, Sums &sums) const {
    const Operator &op = graph.operators[index];
    // The part of the work that a device does; blocks are rounded up.
    double part = 1;
    for (unsigned factor = 0; factor != op.rule.factors.size(); ++factor) {
      double ways = 1;
      for (unsigned axis = 0; axis != numAxes; ++axis)
        if (factors[axis] == factor)
          ways *= static_cast<double>(grid.size(axis));
      if (ways > 1) {
        double size = sizeOf(op, factor);
        part *= std::min(1.0, std::ceil(size / ways - 1e-9) / size);
      }
    }
    double flops = op.cost.flops * scaleOf(op) * part, bytes = 0;
    for (auto [operand, at] : llvm::zip_equal(op.operands, state.operands))
      bytes += operandBytes(operand, at.state);
    double resultBytes = 0;
    for (auto [tensor, at] : llvm::zip_equal(op.results, state.results))
      resultBytes += grid.localBytes(bytesOf(graph.tensors[tensor]), at);
    // Operators that read a part of an operand (a lookup in a table) say so.
    double whole = 0;
    for (const Operand &operand : op.operands)
      whole += operand.bytes;
    double read = whole > 0 ? bytes * std::min(1.0, op.cost.bytesRead / whole) : bytes;
    KernelWork work{op.cost.costClass, flops, read + resultBytes, op.slides};
    if (op.cost.costClass == CostClass::Contraction && op.operands.size() >= 2 && !op.results.empty()) {
      work.lhs = localElements(op.operands[0], state.operands[0].state);
      work.rhs = localElements(op.operands[1], state.operands[1].state);
      work.result = localElements(graph.tensors[op.results[0]], state.results[0]);
    }
    if (op.use) {
      addKernel(op, work, state, resultBytes, index >= repeatedEnd, sums);
      sums.transient = std::max(sums.transient, touchedBytes(op, state, resultBytes));
      addHalo(op, factors, state, sums);
      addParameters(index, state, sums);
      return;
    }
    bool hasNoScores = streamsScores(op, state);
    if (hasNoScores) {
      double scores =
          op.scores->operand == none ? 0 : operandBytes(op.operands[op.scores->operand], scoresState(op, state));
      bytes -= scores;
      work.bytes = std::max(0.0, work.bytes - scores - (op.scores->isResult ? resultBytes : 0));
      resultBytes = op.scores->isResult ? 0 : resultBytes;
    }
    bool isInKernel = op.fused || (hasNoScores && op.cost.costClass != CostClass::Contraction);
    double forward = isInKernel ? flops / cost.peakFlops() : cost.seconds(work);
    sums.forward += forward;
    if (op.cost.costClass == CostClass::Contraction)
      sums.contractions += forward;
    sums.transient = std::max(sums.transient, bytes + resultBytes);
    addHalo(op, factors, state, sums);
    addParameters(index, state, sums);
    if (options.training)
      addBackward(op, work, forward, resultBytes, sums);
    // Two kernels make the gradient, each of which makes the scores again and the gradient of the weights.
    if (options.training && hasNoScores && op.cost.costClass == CostClass::Contraction)
      sums.backward += (op.scores->isResult ? 2 : 1) * forward;
  }

  const State &scoresState(const Operator &op, const States &state) const {
    return op.scores->operand == none ? state.results.front() : state.operands[op.scores->operand].state;
  }

  /// Whether the operator is a part of attention whose scores the device does not have in memory: its kernel computes
  /// them by blocks of keys, of which it has all.
  bool streamsScores(const Operator &op, const States &state) const {
    if (!op.scores || !cost.isOfProcessors())
      return false;
    if (options.training && (!op.scores->streamsGradient || options.precision.activation < 1))
      return false;
    const State &at = scoresState(op, state);
    for (unsigned axis = 0; axis != numAxes; ++axis)
      if (AxisState::isCut(at[axis]) && AxisState::dimOf(at[axis]) == op.scores->keysDim)
        return false;
    unsigned tensor = op.scores->operand == none ? op.results.front() : op.operands[op.scores->operand].tensor;
    return tensor != none &&
           dfg::streamsScores(grid.localBytes(bytesOf(graph.tensors[tensor]), at), op.scores->queries, op.scores->keys);
  }

  double localElements(const Tensor &tensor, const State &state) const {
    return grid.localBytes(tensor.bytes * (tensor.batched ? options.batchScale : 1) / sizeof(float), state);
  }
  double localElements(const Operand &operand, const State &state) const {
    return operand.parameter != none ? grid.localBytes(operand.bytes / sizeof(float), state)
                                     : localElements(graph.tensors[operand.tensor], state);
  }

  bool learns(const Operand &operand) const {
    return operand.isFloat && (operand.parameter != none ? graph.parameters[operand.parameter].trained
                                                         : graph.tensors[operand.tensor].learns);
  }

  //===-- kernels of an executor ----------------------------------------------------------------------------===//

  /// An operator as part of a kernel: forward, backward, what is kept.
  void addKernel(const Operator &op, const KernelWork &work, const States &state, double resultBytes, bool isLast,
                 Sums &sums) const {
    const KernelUse &use = *op.use;
    const Executor &executor = options.executor;
    bool product = op.cost.costClass == CostClass::Contraction;
    double forward = 0;
    if (use.isStreamed)
      forward = streamedSeconds(work, use.forwardProducts, executor.attentionForward);
    else if (product)
      forward = productSeconds(work, use.share);
    else if (!use.isFree)
      forward = movedSeconds(work.costClass, work.flops, forwardBytes(op, state, resultBytes), use.launches);
    if (use.launches && !use.isFree)
      sums.forwardHost += executor.dispatch * use.share;
    double lossBytes = 0, keptLoss = 0;
    if (options.training)
      for (auto [tensor, at] : llvm::zip_equal(op.results, state.results))
        if (graph.tensors[tensor].isOutput && graph.tensors[tensor].learns) {
          lossBytes += localElements(graph.tensors[tensor], at) * executor.lossBytes;
          keptLoss += localElements(graph.tensors[tensor], at) * executor.keptLossBytes;
        }
    double loss = lossBytes > 0 ? cost.streamSeconds(lossBytes / 2) : 0;
    sums.forward += forward + loss;
    if (isLast || llvm::any_of(op.results, [&](unsigned tensor) { return graph.tensors[tensor].isOutput; }))
      sums.unrepeated += forward + loss;
    if (product)
      sums.contractions += forward;
    if (!options.training)
      return;
    sums.backward += loss;
    sums.saved += keptLoss;
    addKernelBackward(op, work, state, resultBytes, sums);
  }

  /// A streamed product has neither scores nor their gradients in memory, so that it is bound by what it computes.
  double streamedSeconds(const KernelWork &work, double products, double share) const {
    if (products == 0)
      return 0;
    double done = options.executor.skipsMasked ? 0.5 : 1;
    return cost.launchSeconds() + products * done * work.flops / cost.attentionFlops(share);
  }

  /// A product's part of the one that it is joined with.
  double productSeconds(KernelWork work, double share) const {
    work.flops /= share;
    work.rhs /= share;
    work.result /= share;
    return cost.seconds(work) * share;
  }

  double movedSeconds(CostClass costClass, double flops, double bytes, bool launches) const {
    if (bytes <= 0 && !launches)
      return 0;
    return cost.seconds(costClass, flops, bytes) - (launches ? 0 : cost.launchSeconds());
  }

  double forwardBytes(const Operator &op, const States &state, double resultBytes) const {
    double bytes = 0, whole = 0;
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      whole += operand.bytes;
      if (op.use->reads[number])
        bytes += operandBytes(operand, state.operands[number].state);
    }
    // Operators that read a part of an operand (a lookup in a table) say so.
    if (whole > 0)
      bytes *= std::min(1.0, op.cost.bytesRead / whole);
    if (op.use->writes)
      bytes += resultBytes;
    if (op.use->masks && options.training)
      bytes += maskBytes(op, state);
    return bytes + op.use->passes * resultBytes;
  }

  /// What a kernel has in memory while it runs.
  double touchedBytes(const Operator &op, const States &state, double resultBytes) const {
    double bytes = op.use->writes || op.use->isEpilogue ? resultBytes : 0;
    for (auto [number, operand] : llvm::enumerate(op.operands))
      if (op.use->reads[number])
        bytes += operandBytes(operand, state.operands[number].state);
    return bytes;
  }

  double maskBytes(const Operator &op, const States &state) const {
    return localElements(graph.tensors[op.results.front()], state.results.front());
  }

  /// The gradient of an operand of a product is a product itself, of the result's gradient and the other operand.
  static KernelWork gradientOf(const KernelWork &work, unsigned operand) {
    KernelWork gradient = work;
    std::swap(gradient.result, operand == 0 ? gradient.lhs : gradient.rhs);
    return gradient;
  }

  void addKernelBackward(const Operator &op, const KernelWork &work, const States &state, double resultBytes,
                         Sums &sums) const {
    const KernelUse &use = *op.use;
    const Executor &executor = options.executor;
    for (auto [tensor, at] : llvm::zip_equal(op.results, state.results)) {
      const Tensor &result = graph.tensors[tensor];
      double bytes = grid.localBytes(bytesOf(result), at);
      if (result.kept)
        sums.saved += bytes;
      if (result.kept && op.cost.costClass == CostClass::Contraction)
        sums.savedProducts += bytes;
      if (result.gradientSums > 0)
        sums.backward += result.gradientSums * cost.seconds(CostClass::Elementwise, 0, 3 * bytes);
    }
    if (llvm::none_of(op.operands, [&](const Operand &operand) { return learns(operand); }))
      return;
    for (auto [operand, at] : llvm::zip_equal(op.operands, state.operands))
      if (operand.parameter != none && learns(operand) && executor.accumulationBytes > 0)
        sums.backward += cost.streamSeconds(localElements(operand, at.state) * executor.accumulationBytes);
    if (op.cost.costClass == CostClass::Contraction) {
      addProductGradients(op, work, resultBytes, sums);
      return;
    }
    if (use.masks)
      sums.saved += maskBytes(op, state);
    double bytes = (use.gradientReads + use.backwardPasses) * resultBytes + (use.readsResultAgain ? resultBytes : 0) +
                   (use.masks ? maskBytes(op, state) : 0);
    for (auto [number, operand] : llvm::enumerate(op.operands))
      bytes +=
          (use.readsAgain[number] + use.writesGradient[number]) * operandBytes(operand, state.operands[number].state);
    if (bytes <= 0)
      return;
    // The bias of a product is summed by a kernel of its own.
    bool launches = use.launchesBackward || use.isEpilogue;
    sums.backward += movedSeconds(op.cost.costClass, work.flops, bytes, launches);
    sums.backwardHost += launches ? executor.backwardDispatch : 0;
  }

  void addProductGradients(const Operator &op, const KernelWork &work, double resultBytes, Sums &sums) const {
    const KernelUse &use = *op.use;
    const Executor &executor = options.executor;
    if (use.isStreamed) {
      sums.backward += streamedSeconds(work, use.backwardProducts, executor.attentionBackward);
      sums.backwardHost += executor.backwardDispatch;
      return;
    }
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      if (number > 1 || !learns(operand))
        continue;
      KernelWork gradient = work;
      // The columns of a joined product are joined in its gradients, too.
      gradient.flops /= use.share;
      gradient.rhs /= use.share;
      gradient.result /= use.share;
      double seconds = cost.seconds(gradientOf(gradient, number)) * use.share;
      sums.backward += seconds;
      sums.backwardHost += executor.backwardDispatch * use.share;
      if (operand.parameter != none)
        sums.backwardWeights += seconds;
    }
    // Gradients of joined products are put side by side.
    if (use.share < 1)
      sums.backward += movedSeconds(CostClass::Movement, 0, 2 * resultBytes, /*launches=*/false);
  }

  double operandBytes(const Operand &operand, const State &state) const {
    double bytes = operand.parameter != none ? operand.bytes * (operand.isFloat ? options.precision.activation : 1)
                                             : bytesOf(graph.tensors[operand.tensor]);
    return grid.localBytes(bytes, state);
  }

  void addHalo(const Operator &op, const Factors &factors, const States &state, Sums &sums) const {
    for (unsigned axis = 0; axis != numAxes; ++axis) {
      if (factors[axis] == none || op.rule.factors[factors[axis]].kind != FactorKind::Window)
        continue;
      const Factor &factor = op.rule.factors[factors[axis]];
      double halo = static_cast<double>(factor.haloBefore + std::max<int64_t>(0, factor.haloAfter));
      double rows = static_cast<double>(factor.size * factor.step) / static_cast<double>(grid.size(axis));
      double seconds = halo <= 0 ? 0
                                 : grid.exchangeHalo(operandBytes(op.operands[0], state.operands[0].state) *
                                                         std::min(1.0, halo / std::max(rows, 1.0)),
                                                     axis);
      sums.forward += seconds;
      sums.forwardExchange += seconds;
      if (options.training) {
        sums.backward += seconds;
        sums.backwardExchange += seconds;
      }
    }
  }

  /// A parameter's share of the all-reduce of the bucket that it is in.
  double joinSeconds(double bytes, llvm::ArrayRef<unsigned> axes) const {
    double bucket = std::max(bytes, options.bucketBytes);
    return bucket > 0 ? grid.allReduce(bucket, axes) * bytes / bucket : 0;
  }

  void addParameters(unsigned index, const States &state, Sums &sums) const {
    const Operator &op = graph.operators[index];
    for (auto [operand, at] : llvm::zip_equal(op.operands, state.operands)) {
      bool prepared = operand.tensor != none && graph.tensors[operand.tensor].firstUse == index;
      bool own = operand.parameter != none && graph.parameters[operand.parameter].firstUse == index;
      if (!own && !prepared)
        continue;
      double local = grid.localBytes(operand.bytes, at.state), replicas = 1;
      llvm::SmallVector<unsigned, 3> joined;
      for (unsigned axis = 0; axis != numAxes; ++axis) {
        if (AxisState::isCut(at.state[axis]) || grid.size(axis) == 1)
          continue;
        replicas *= static_cast<double>(grid.size(axis));
        if (at.gradient[axis] == AxisState::partial)
          joined.push_back(axis);
      }
      const Precision &precision = options.precision;
      double held = local * (operand.isFloat ? precision.parameter : 1);
      // Replicas share parameters, not the copies that operators read.
      double copied = operand.isRounded ? local * precision.rounded : 0;
      sums.parameters += held + copied;
      sums.parametersShared += copied;
      bool trained = operand.parameter != none ? graph.parameters[operand.parameter].trained
                                               : graph.tensors[operand.tensor].learns;
      if (!options.training || !trained) {
        sums.parametersShared += held;
        continue;
      }
      sums.gradients += local * precision.gradient;
      sums.optimizer += local * precision.optimizer;
      sums.parametersShared += held / replicas;
      sums.gradientsShared += local * precision.gradient / replicas;
      sums.optimizerShared += local * precision.optimizer / replicas;
      sums.reduction += joinSeconds(local * precision.gradient, joined);
      sums.gathering += grid.allGather(held, joined);
      sums.update += updateSeconds(local, cost, precision, options.executor, operand.isFloat);
    }
  }

  /// A contraction has a product as large as itself for each operand that learns; other operators read and write about
  /// as much as forward.
  void addBackward(const Operator &op, const KernelWork &work, double forward, double resultBytes, Sums &sums) const {
    bool product = op.cost.costClass == CostClass::Contraction;
    unsigned gradients = 0;
    for (auto [number, operand] : llvm::enumerate(op.operands)) {
      if (!learns(operand))
        continue;
      ++gradients;
      if (!product)
        continue;
      double seconds = number < 2 && !op.fused ? cost.seconds(gradientOf(work, number)) : forward;
      sums.backward += seconds;
      if (operand.parameter != none)
        sums.backwardWeights += seconds;
    }
    if (!gradients)
      return;
    if (!product)
      sums.backward += forward;
    bool view = op.cost.costClass == CostClass::View || op.cost.costClass == CostClass::Movement;
    // What is fused is computed again from what it was fused to.
    if (!view && !op.fused)
      sums.saved += resultBytes;
    if (product)
      sums.savedProducts += resultBytes;
  }

  //===-- tensors ---------------------------------------------------------------------------------------------===//

  const State *resultState(unsigned tensor, unsigned choice) const {
    const Tensor &known = graph.tensors[tensor];
    auto variable = variableOf.find(known.producer);
    if (known.producer == none || variable == variableOf.end())
      return nullptr;
    size_t position = llvm::find(piece.variables[variable->second].operators, known.producer) -
                      piece.variables[variable->second].operators.begin();
    return &states[variable->second][choice][position].results[known.result];
  }

  const TensorState &operandState(unsigned index, unsigned operand, unsigned choice) const {
    unsigned variable = variableOf.lookup(index);
    size_t position =
        llvm::find(piece.variables[variable].operators, index) - piece.variables[variable].operators.begin();
    return states[variable][choice][position].operands[operand];
  }

  /// Uses of a tensor by other variables than its producer's.
  llvm::SmallVector<std::pair<unsigned, unsigned>, 4> usesOf(unsigned tensor) const {
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

  /// Every state of a tensor on its own: each axis cuts a dimension, or nothing; then the gradient is whole or partial.
  std::vector<TensorState> allStates(const Tensor &tensor) const {
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

  void addTensorVariable(unsigned tensor, bool isBoundary) {
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

  void addTensorVariables() {
    if (entry != none) {
      addTensorVariable(entry, true);
      piece.entryVariable = tensorVariable[entry];
      for (const TensorState &state : tensorStates[entry]) {
        State joined = state.gradient;
        for (uint64_t &axis : joined)
          axis = axis == AxisState::partial ? AxisState::whole : axis;
        piece.entrySeconds.push_back(
            options.training ? grid.convert(bytesOf(graph.tensors[entry]), state.gradient, joined) : 0);
        piece.entryBytes.push_back(grid.localBytes(bytesOf(graph.tensors[entry]), state.state));
      }
    }
    if (exit != none) {
      addTensorVariable(exit, true);
      piece.exitVariable = tensorVariable[exit];
    }
    for (unsigned index = piece.first; index != piece.last; ++index)
      for (unsigned tensor : graph.operators[index].results)
        if (isHere(index) && usesOf(tensor).size() > 1)
          addTensorVariable(tensor, false);
  }

  //===-- edges -----------------------------------------------------------------------------------------------===//

  void addEdge(unsigned from, unsigned to, unsigned forOperator,
               llvm::function_ref<std::pair<double, double>(unsigned, unsigned)> cost) {
    solver::PairTable table;
    table.rows = piece.problem.domainOf(from).size();
    table.columns = piece.problem.domainOf(to).size();
    std::vector<double> forward;
    for (unsigned a = 0; a != table.rows; ++a)
      for (unsigned b = 0; b != table.columns; ++b) {
        auto [there, back] = cost(a, b);
        table.seconds.push_back(there + back);
        forward.push_back(there);
      }
    piece.problem.edges.push_back({from, to, static_cast<unsigned>(piece.problem.pairs.size())});
    piece.problem.pairs.push_back(std::move(table));
    piece.forwardTables.push_back(std::move(forward));
    piece.edgeOperators.push_back(forOperator - piece.first);
  }

  static State joined(State state) {
    for (uint64_t &axis : state)
      axis = axis == AxisState::partial ? AxisState::whole : axis;
    return state;
  }

  /// Bringing a tensor from its producer to a reader's state, and its gradient back.
  std::pair<double, double> between(const Tensor &tensor, const State &made, const TensorState &read) const {
    double bytes = bytesOf(tensor);
    return {grid.convert(bytes, made, read.state),
            options.training && tensor.learns ? grid.convert(bytes, read.gradient, joined(made)) : 0};
  }
  std::pair<double, double> between(const Tensor &tensor, const TensorState &from, const TensorState &read) const {
    double bytes = bytesOf(tensor);
    return {grid.convert(bytes, from.state, read.state),
            options.training && tensor.learns ? grid.convert(bytes, read.gradient, from.gradient) : 0};
  }

  void addEdges() {
    for (unsigned index = piece.first; index != piece.last; ++index)
      if (isHere(index))
        for (unsigned tensor : graph.operators[index].results)
          connect(tensor);
    if (entry != none)
      connectReaders(entry);
  }

  void connect(unsigned index) {
    const Tensor &tensor = graph.tensors[index];
    unsigned producer = variableOf.lookup(tensor.producer);
    auto own = tensorVariable.find(index);
    if (own != tensorVariable.end()) {
      const std::vector<TensorState> &all = tensorStates[index];
      addEdge(producer, own->second, tensor.producer,
              [&](unsigned a, unsigned b) { return between(tensor, *resultState(index, a), all[b]); });
      connectReaders(index);
    } else {
      for (auto [user, operand] : usesOf(index))
        addEdge(producer, variableOf.lookup(user), user, [&, user = user, operand = operand](unsigned a, unsigned b) {
          return between(tensor, *resultState(index, a), operandState(user, operand, b));
        });
    }
    bool leaves = tensor.isOutput || (index != exit && llvm::any_of(tensor.uses, [&](auto &use) {
                                        return use.first >= piece.last || !variableOf.count(use.first);
                                      }));
    if (leaves)
      finish(index, producer);
  }

  void connectReaders(unsigned index) {
    const Tensor &tensor = graph.tensors[index];
    const std::vector<TensorState> &all = tensorStates[index];
    for (auto [user, operand] : usesOf(index))
      addEdge(tensorVariable[index], variableOf.lookup(user), user,
              [&, user = user, operand = operand](unsigned a, unsigned b) {
                return between(tensor, all[a], operandState(user, operand, b));
              });
  }

  /// What leaves the piece is no partial value.
  void finish(unsigned index, unsigned producer) {
    std::vector<solver::Choice> &domain = piece.problem.domains[piece.problem.variables[producer]];
    for (unsigned choice = 0; choice != domain.size(); ++choice) {
      const State &made = *resultState(index, choice);
      double seconds = grid.convert(bytesOf(graph.tensors[index]), made, joined(made));
      domain[choice].seconds += seconds;
      piece.variables[producer].sums[choice].forward += seconds;
      piece.variables[producer].sums[choice].forwardExchange += seconds;
      OperatorTime &time = piece.variables[producer].assignments[choice].times.back();
      time.seconds += seconds;
      time.exchange += seconds;
    }
  }
};

Piece::Piece(const SearchGraph &graph, unsigned first, unsigned last, unsigned entry, unsigned exit, const Grid &grid,
             const OperatorCost &cost, const PieceOptions &options, const FixedFactors &fixed)
    : first(first), last(last), options(options) {
  Builder(*this, graph, entry, exit, grid, cost, options, fixed).run();
}

Sums Piece::exchangeOf(unsigned edge, unsigned a, unsigned b) const {
  const solver::PairTable &table = problem.pairs[problem.edges[edge].table];
  Sums sums;
  sums.forward = sums.forwardExchange = forwardTables[edge][static_cast<size_t>(a) * table.columns + b];
  sums.backward = sums.backwardExchange = table.at(a, b) - sums.forward;
  // Nobody waits for a host to find out that there is nothing to send.
  sums.forwardHost = sums.forward > 0 ? options.executor.dispatch : 0;
  sums.backwardHost = sums.backward > 0 ? options.executor.backwardDispatch : 0;
  return sums;
}

Sums Piece::sumsOf(const std::vector<unsigned> &choices) const {
  Sums total;
  for (auto [variable, choice] : llvm::zip_equal(variables, choices))
    total.add(variable.sums[choice]);
  for (auto [index, edge] : llvm::enumerate(problem.edges))
    total.add(exchangeOf(index, choices[edge.first], choices[edge.second]));
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
