// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forward: rooflines of what a device computes, reads and writes, and what it exchanges.

#include "passes/planner/search/OperatorWork.h"

#include "dialects/dfg/Attention.h"

#include <cmath>

namespace cleave::search {

double OperatorWork::partOf(const Operator &op, const Factors &factors) const {
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
  return part;
}

void OperatorWork::add(unsigned index, const Factors &factors, const OperatorStates &state, Sums &sums) const {
  double saved = sums.saved;
  addAlone(index, factors, state, sums);
  // Where attention has no scores in memory, its gradient reads what the forward pass left.
  const Operator &op = graph.operators[index];
  if (op.scores ? streamsScores(op, state) : op.isForAttention)
    sums.unmoved += sums.saved - saved;
}

void OperatorWork::addAlone(unsigned index, const Factors &factors, const OperatorStates &state, Sums &sums) const {
  const Operator &op = graph.operators[index];
  if (op.scores && llvm::any_of(scoresState(op, state), AxisState::isByChunks)) {
    addInRing(index, factors, state, sums);
    return;
  }
  double flops = op.cost.flops * scaleOf(op) * partOf(op, factors), bytes = 0, joined = 0;
  for (auto [operand, at] : llvm::zip_equal(op.operands, state.operands)) {
    bytes += operandBytes(operand, at.state);
    if (graph.isJoined(op, operand))
      joined += operandBytes(operand, at.state);
  }
  double resultBytes = 0;
  for (auto [tensor, at] : llvm::zip_equal(op.results, state.results))
    resultBytes += grid.localBytes(bytesOf(graph.tensors[tensor]), at);
  // Operators that read a part of an operand (a lookup in a table) say so.
  double whole = 0;
  for (const Operand &operand : op.operands)
    whole += operand.bytes;
  double read = (bytes - joined) * (whole > 0 ? std::min(1.0, op.cost.bytesRead / whole) : 1);
  KernelWork work{op.cost.costClass, flops, read + (op.joinsReader ? 0 : resultBytes), op.slides};
  work.isLinear = op.use && op.use->isLinear;
  double pixels = op.cost.winogradPixels * scaleOf(op) * partOf(op, factors);
  if (pixels > 0 && !options.training) {
    work.winograd = KernelWork::Winograd::OfConstants;
    // Packed, each window of nine weights is 36 values.
    if (op.operands.size() >= 2 && cost.packsWinograd())
      work.bytes += (36.0 / 9 - 1) * operandBytes(op.operands[1], state.operands[1].state);
  } else if (pixels >= leastWinogradPixels)
    work.winograd = KernelWork::Winograd::OfChanging;
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
  double keptScores = 0; // by a library's gradient
  if (hasNoScores) {
    if (options.training && !cost.isOfProcessors() && op.scores->operand == none &&
        resultBytes <= static_cast<double>(dfg::mostKeptScores))
      keptScores = resultBytes;
    double scores =
        op.scores->operand == none ? 0 : operandBytes(op.operands[op.scores->operand], scoresState(op, state));
    bytes -= scores;
    work.bytes = std::max(0.0, work.bytes - scores - (op.scores->isResult ? resultBytes : 0));
    resultBytes = op.scores->isResult ? 0 : resultBytes;
  }
  // A library leaves out what a causal mask hides.
  if (hasNoScores && !cost.isOfProcessors() && op.scores->plain->isCausal) {
    flops /= 2;
    work.flops /= 2;
  }
  // So do kernels for processors, where a device has all queries: positions of a part differ from device to device.
  if (hasNoScores && cost.isOfProcessors() && hasAllQueries(op, state)) {
    flops *= op.scores->share;
    work.flops *= op.scores->share;
  }
  bool findsStatistics = options.training && op.findsStatistics;
  if (findsStatistics)
    work.bytes = statisticsPasses * resultBytes;
  bool isInKernel = (op.fused && !findsStatistics) || (op.endsProduct && !options.training) ||
                    (hasNoScores && op.cost.costClass != CostClass::Contraction);
  double forward = isInKernel ? flops / cost.peakFlops() : cost.seconds(work);
  sums.forward += forward;
  if (op.cost.costClass == CostClass::Contraction)
    sums.contractions += forward;
  sums.transient = std::max(sums.transient, bytes + resultBytes + keptScores);
  addHalo(op, factors, state, sums);
  addParameters(index, state, sums);
  if (options.training)
    addBackward(index, work, state, forward, resultBytes, sums);
  // Of processors two kernels make the gradient, each of which makes the scores again and the gradient of the weights;
  // a library's one kernel makes the scores again.
  if (options.training && hasNoScores && op.cost.costClass == CostClass::Contraction)
    sums.backward += (cost.isOfProcessors() + op.scores->isResult) * forward;
}

const State &OperatorWork::scoresState(const Operator &op, const OperatorStates &state) const {
  return op.scores->operand == none ? state.results.front() : state.operands[op.scores->operand].state;
}

bool OperatorWork::hasAllQueries(const Operator &op, const OperatorStates &state) const {
  const State &at = scoresState(op, state);
  return llvm::none_of(llvm::seq(numAxes), [&](unsigned axis) {
    return AxisState::isCut(at[axis]) && AxisState::dimOf(at[axis]) == op.scores->queriesDim();
  });
}

bool OperatorWork::streamsScores(const Operator &op, const OperatorStates &state) const {
  if (!op.scores || (options.training && !op.scores->streamsGradient))
    return false;
  // Libraries of GPUs have kernels for bfloat16, ours for processors are for float32.
  bool isNarrow = options.precision.activation < 1;
  if (cost.isOfProcessors() ? options.training && isNarrow
                            : !isNarrow || !cost.hasAttentionKernels() || !op.scores->plain ||
                                  !dfg::isOneLibraryKernel(op.scores->queries, op.scores->keys))
    return false;
  const State &at = scoresState(op, state);
  // A part of the queries sees keys beyond its own diagonal, which libraries do not know.
  bool needsQueries = !cost.isOfProcessors() && op.scores->plain->isCausal;
  for (unsigned axis = 0; axis != numAxes; ++axis)
    if (AxisState::isCut(at[axis])) {
      uint64_t dim = AxisState::dimOf(at[axis]);
      if (dim == op.scores->keysDim || (needsQueries && dim == op.scores->queriesDim()))
        return false;
    }
  if (!cost.isOfProcessors())
    return true;
  unsigned tensor = op.scores->operand == none ? op.results.front() : op.operands[op.scores->operand].tensor;
  return tensor != none &&
         dfg::streamsScores(grid.localBytes(bytesOf(graph.tensors[tensor]), at), op.scores->queries, op.scores->keys,
                            options.training || !hasAllQueries(op, state) ? 1 : op.scores->share);
}

double OperatorWork::localElements(const Tensor &tensor, const State &state) const {
  return grid.localBytes(tensor.bytes * (tensor.batched ? options.batchScale : 1) / sizeof(float), state);
}

double OperatorWork::localElements(const Operand &operand, const State &state) const {
  return operand.parameter != none ? grid.localBytes(operand.bytes / sizeof(float), state)
                                   : localElements(graph.tensors[operand.tensor], state);
}

void OperatorWork::addKernel(const Operator &op, const KernelWork &work, const OperatorStates &state,
                             double resultBytes, bool isLast, Sums &sums) const {
  const KernelUse &use = *op.use;
  const Executor &executor = options.executor;
  bool product = op.cost.costClass == CostClass::Contraction;
  double forward = 0;
  if (use.isStreamed)
    forward = streamedSeconds(work, use.forwardProducts, executor.attentionForward);
  else if (product)
    forward = productSeconds(work, use.share) +
              castSeconds(use, work.lhs / copiesOf(state.operands[0].state), executor.linearLayers.castBytes);
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

double OperatorWork::streamedSeconds(const KernelWork &work, double products, double share) const {
  if (products == 0)
    return 0;
  double done = options.executor.skipsMasked ? 0.5 : 1;
  return cost.launchSeconds() +
         products * done * work.flops / cost.attentionFlops(share, options.executor.tunesAttention);
}

double OperatorWork::productSeconds(KernelWork work, double share) const {
  work.flops /= share;
  work.rhs /= share;
  work.result /= share;
  return cost.seconds(work) * share;
}

double OperatorWork::copiesOf(const State &state) const {
  double copies = 1;
  for (unsigned axis = 0; axis != numAxes; ++axis)
    if (!AxisState::isCut(state[axis]))
      copies *= static_cast<double>(grid.size(axis));
  return copies;
}

double OperatorWork::castSeconds(const KernelUse &use, double elements, double bytes) const {
  return use.isLinear && cost.roundsLinearLayers() && bytes > 0
             ? (cost.launchSeconds() + cost.streamSeconds(elements * bytes)) * use.share
             : 0;
}

double OperatorWork::movedSeconds(CostClass costClass, double flops, double bytes, bool launches) const {
  if (bytes <= 0 && !launches)
    return 0;
  return cost.seconds(costClass, flops, bytes) - (launches ? 0 : cost.launchSeconds());
}

double OperatorWork::forwardBytes(const Operator &op, const OperatorStates &state, double resultBytes) const {
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
  return bytes + (op.use->passes + (options.training ? op.use->trainingPasses : 0)) * resultBytes;
}

double OperatorWork::touchedBytes(const Operator &op, const OperatorStates &state, double resultBytes) const {
  double bytes = op.use->writes || op.use->isEpilogue ? resultBytes : 0;
  for (auto [number, operand] : llvm::enumerate(op.operands))
    if (op.use->reads[number])
      bytes += operandBytes(operand, state.operands[number].state);
  return bytes;
}

double OperatorWork::maskBytes(const Operator &op, const OperatorStates &state) const {
  return localElements(graph.tensors[op.results.front()], state.results.front());
}

double OperatorWork::operandBytes(const Operand &operand, const State &state) const {
  double bytes = operand.parameter != none ? operand.bytes * (operand.isFloat ? options.precision.activation : 1)
                                           : bytesOf(graph.tensors[operand.tensor]);
  return grid.localBytes(bytes, state);
}

void OperatorWork::addHalo(const Operator &op, const Factors &factors, const OperatorStates &state, Sums &sums) const {
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

double OperatorWork::joinSeconds(double bytes, llvm::ArrayRef<unsigned> axes) const {
  double bucket = std::max(bytes, options.bucketBytes);
  return bucket > 0 ? grid.allReduce(bucket, axes) * bytes / bucket : 0;
}

void OperatorWork::addParameters(unsigned index, const OperatorStates &state, Sums &sums) const {
  const Operator &op = graph.operators[index];
  for (auto [operand, at] : llvm::zip_equal(op.operands, state.operands)) {
    if (!graph.isFirstUse(operand, index))
      continue;
    double local = grid.localBytes(operand.bytes, at.state), replicas = copiesOf(at.state);
    llvm::SmallVector<unsigned, 3> repeated, joined;
    for (unsigned axis = 0; axis != numAxes; ++axis) {
      if (AxisState::isCut(at.state[axis]) || grid.size(axis) == 1)
        continue;
      repeated.push_back(axis);
      if (at.gradient[axis] == AxisState::partial)
        joined.push_back(axis);
    }
    const Precision &precision = options.precision;
    double held = local * (operand.isFloat ? precision.parameter : 1);
    // Replicas share parameters, not the copies that operators read.
    double copied = operand.isRounded ? local * precision.rounded : 0;
    sums.parameters += held + copied;
    sums.parametersShared += copied;
    bool trained =
        operand.parameter != none ? graph.parameters[operand.parameter].trained : graph.tensors[operand.tensor].learns;
    if (!options.training || !trained) {
      sums.parametersShared += held;
      continue;
    }
    sums.parametersShared += held / replicas;
    if (graph.isSummedEarlier(operand, index, options.stageStart, options.included))
      continue;
    sums.gradients += local * precision.gradient;
    double optimizer = local * precision.optimizer,
           update = updateSeconds(local, cost, precision, options.executor, operand.isFloat);
    if (options.offloadOptimizer > 0) {
      sums.inHost += optimizer;
      sums.inHostShared += optimizer / replicas;
      // What is fetched, and what is written beside it.
      sums.transient = std::max(sums.transient, 2 * optimizer);
      update = std::max(update, optimizer * options.offloadOptimizer);
      optimizer = 0;
    }
    sums.optimizer += optimizer;
    sums.gradientsShared += local * precision.gradient / replicas;
    sums.optimizerShared += optimizer / replicas;
    // Not before the operator's backward pass is done.
    sums.reduction += joinSeconds(local * precision.gradient, joined);
    sums.lateReduction = sums.reduction;
    double gathering = grid.allGather(held, repeated);
    sums.gathering += gathering;
    if (repeated.size() != joined.size())
      sums.regathering += std::max(0.0, gathering - grid.allGather(held, joined));
    sums.update += update;
  }
}

} // namespace cleave::search
