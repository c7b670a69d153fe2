// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From operators of a program to sizes.

#include "passes/distribute/KeyRingCost.h"

#include "dialects/dfg/PlainScores.h"
#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave {

static double bytesOf(Value value) { return static_cast<double>(tensorBytes(value.getType())); }
static double flopsOf(Operation *product) { return cast<CostInterface>(product).getCost().flops; }

static std::string nameOf(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

/// Whether kernels keep scores of that size out of memory, of a part of the queries with all keys: those of processors
/// where they are f32 or f64, libraries of GPUs where they are narrower and each device's mask is the same.
static bool isOneKernel(dfg::Attention &attention, double bytes, const OperatorCost &cost, bool onProcessors) {
  RankedTensorType scores = attention.getScoresType();
  int64_t queries = scores.getDimSize(scores.getRank() - 2), keys = scores.getShape().back();
  bool isNarrow = scores.getElementTypeBitWidth() < 32;
  if (onProcessors)
    return !isNarrow && dfg::streamsScores(bytes, queries, keys);
  if (!isNarrow || !cost.hasAttentionKernels() || !dfg::isOneLibraryKernel(queries, keys))
    return false;
  auto plain = dfg::getPlainScores(attention);
  return plain && !plain->isCausal;
}

KeyTimes keyTimes(KeyRing &ring, CostAnalysis &costs, dist::MeshOp mesh, bool onProcessors) {
  dfg::Attention &attention = ring.attention;
  RankedTensorType scores = attention.getScoresType();
  CutAttention cut;
  cut.devices = ring.numSteps();
  cut.scoreFlops = flopsOf(attention.scores);
  cut.resultFlops = flopsOf(attention.result);
  cut.queries = bytesOf(attention.scores.getLhs());
  cut.keys = bytesOf(attention.scores.getRhs());
  cut.values = bytesOf(attention.result.getRhs());
  cut.scores = bytesOf(attention.softmax.getResult());
  cut.result = bytesOf(attention.result.getResult());
  cut.numKeys = static_cast<double>(scores.getShape().back());
  cut.training = attention.gradient.has_value();
  const MeshCost &links = costs.meshCost(mesh);
  OperatorCost cost(costs.getMachine(), links.getDevices(), nameOf(scores.getElementType()));
  cut.isOneKernel = isOneKernel(attention, cut.scores, cost, onProcessors);
  return keyTimes(cut, cost, links, axisNumbers(ring.keys.axes, ring.mesh));
}

} // namespace cleave
