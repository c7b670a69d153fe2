// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators of attention whose keys and values go around in a ring.

#include "passes/planner/search/OperatorWork.h"

namespace cleave::search {

/// The same with all keys and values on each device.
static OperatorStates withGathered(OperatorStates state) {
  for (TensorState &operand : state.operands)
    for (unsigned axis = 0; axis != mostAxes; ++axis) {
      bool isKeys = AxisState::goesAround(operand.state[axis]);
      operand.state[axis] = isKeys ? AxisState::whole : AxisState::withoutRing(operand.state[axis]);
      operand.gradient[axis] = isKeys ? AxisState::partial : AxisState::withoutRing(operand.gradient[axis]);
    }
  for (State &result : state.results)
    for (uint64_t &axis : result)
      axis = AxisState::withoutRing(axis);
  return state;
}

KeyTimes OperatorWork::keyTimesOf(const Operator &op, const Factors &factors, const OperatorStates &gathered) const {
  const Operator &result = graph.operators[graph.attentions[op.scores->attention].result()];
  // Of a tensor as large as this one in what both share.
  auto like = [&](const Tensor &tensor, unsigned operand) {
    return bytesOf(tensor) * operandBytes(op.operands[operand], gathered.operands[operand].state) /
           bytesOf(graph.tensors[op.operands[operand].tensor]);
  };
  CutAttention cut;
  llvm::SmallVector<unsigned, 3> axes;
  const State &scores = gathered.results.front();
  for (unsigned axis = 0; axis != numAxes; ++axis)
    if (AxisState::isCut(scores[axis]) && AxisState::dimOf(scores[axis]) == op.scores->queriesDim()) {
      axes.push_back(axis);
      cut.devices *= grid.size(axis);
    }
  double part = partOf(op, factors);
  cut.scoreFlops = op.cost.flops * scaleOf(op) * part;
  cut.resultFlops = result.cost.flops * scaleOf(result) * part;
  cut.queries = operandBytes(op.operands[0], gathered.operands[0].state);
  cut.keys = operandBytes(op.operands[1], gathered.operands[1].state);
  cut.values = like(graph.tensors[result.operands[1].tensor], 1);
  cut.result = like(graph.tensors[result.results.front()], 0);
  cut.scores = grid.localBytes(bytesOf(graph.tensors[op.results.front()]), scores);
  cut.numKeys = static_cast<double>(op.scores->keys);
  cut.training = options.training;
  cut.isOneKernel = streamsScores(op, gathered);
  return keyTimes(cut, cost, grid.getCost(), axes);
}

dist::KeyExchange OperatorWork::decisionOf(const Operator &op, const Factors &factors, const OperatorStates &state,
                                           bool isRing) const {
  OperatorStates gathered = withGathered(state);
  KeyTimes times = keyTimesOf(op, factors, gathered);
  dist::KeyExchange made{
      isRing, 1, times.ring.seconds(), times.gathered.seconds(), times.ring.bytes, times.gathered.bytes};
  for (unsigned axis = 0; axis != numAxes; ++axis)
    if (uint64_t at = gathered.results.front()[axis];
        AxisState::isCut(at) && AxisState::dimOf(at) == op.scores->queriesDim())
      made.devices *= grid.size(axis);
  return made;
}

void OperatorWork::addGathered(const Operator &op, const OperatorStates &state, Sums &sums) const {
  if (!options.training || (op.scores->operand != none && op.scores->isResult))
    return;
  const State &scores = scoresState(op, state);
  double own = 1;
  for (unsigned axis = 0; axis != numAxes; ++axis)
    if (AxisState::isCut(scores[axis]) && AxisState::dimOf(scores[axis]) == op.scores->queriesDim())
      own /= static_cast<double>(grid.size(axis));
  double bytes = (1 - own) * operandBytes(op.operands[1], state.operands[1].state);
  sums.saved += bytes;
  sums.savedProducts += bytes;
}

void OperatorWork::addInRing(unsigned index, const Factors &factors, const OperatorStates &state, Sums &sums) const {
  const Operator &op = graph.operators[index];
  const AttentionRow &row = graph.attentions[op.scores->attention];
  OperatorStates gathered = withGathered(state);
  Sums own;
  addAlone(index, factors, gathered, own);
  own.transient = 0;
  if (index != row.result())
    own.saved = 0;
  if (index == row.scores()) {
    KeyTimes times = keyTimesOf(op, factors, gathered);
    auto more = [](const KeyPass &ring, const KeyPass &gathered) {
      return std::max(0.0, ring.seconds - gathered.computing());
    };
    own.forward += more(times.ring.forward, times.gathered.forward);
    own.forwardExchange += times.ring.forward.exchange;
    own.backward += more(times.ring.backward, times.gathered.backward);
    own.backwardExchange += times.ring.backward.exchange;
    // A number for each query: the logarithm of its powers' sum.
    double perQuery = grid.localBytes(bytesOf(graph.tensors[op.results.front()]), gathered.results.front()) /
                      static_cast<double>(op.scores->keys);
    if (options.training)
      own.saved += perQuery;
    double queries = operandBytes(op.operands[0], gathered.operands[0].state);
    // Queries, and the results so far, of the chunk and of both; backward the gradients of both instead.
    own.transient = times.ring.bytes + 4 * queries;
  }
  // The backward pass makes the weights again by itself.
  own.savedProducts = own.saved;
  own.contractions = own.forward - own.forwardExchange;
  sums.add(own);
}

} // namespace cleave::search
