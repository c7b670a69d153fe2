// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From operators of a program to sizes.

#include "passes/distribute/KeyRingCost.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave {

static double bytesOf(Value value) { return static_cast<double>(tensorBytes(value.getType())); }
static double flopsOf(Operation *product) { return cast<CostInterface>(product).getCost().flops; }

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
  cut.isOneKernel =
      onProcessors && dfg::streamsScores(cut.scores, scores.getDimSize(scores.getRank() - 2), scores.getShape().back());
  const MeshCost &links = costs.meshCost(mesh);
  return keyTimes(cut, OperatorCost(costs.getMachine(), links.getDevices(), "f32"), links,
                  axisNumbers(ring.keys.axes, ring.mesh));
}

} // namespace cleave
