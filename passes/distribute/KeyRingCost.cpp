// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds up products, what is read and written of scores, and messages.

#include "passes/distribute/KeyRingCost.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave {
namespace {

class KeyCost {
public:
  KeyCost(KeyRing &ring, CostAnalysis &costs, dist::MeshOp mesh, bool onProcessors)
      : ring(ring), attention(ring.attention), costs(costs), mesh(mesh), links(costs.meshCost(mesh)),
        axes(axisNumbers(ring.keys.axes, ring.mesh)), scoresBytes(bytesOf(attention.softmax.getResult())) {
    RankedTensorType scores = attention.getScoresType();
    isOneKernel = onProcessors &&
                  dfg::streamsScores(scoresBytes, scores.getDimSize(scores.getRank() - 2), scores.getShape().back());
  }

  KeyTimes run() {
    Value keys = attention.scores.getRhs(), values = attention.result.getRhs(), result = attention.result.getResult();
    // Read with the chunk's, and written; their weights and sums are a few numbers a query.
    double ofQueries = 4 * memory(scoresBytes / static_cast<double>(attention.getScoresType().getShape().back()));
    double join = memory(3 * bytesOf(result)) + ofQueries;
    SmallVector<Operation *> products = {attention.scores, attention.result};
    KeyTimes times;
    times.gathered = links.allGather(bytesOf(keys), axes) + links.allGather(bytesOf(values), axes) +
                     compute(products, /*passes=*/2, 1, isOneKernel);
    times.ring = ringSeconds(ring.numSteps(), compute(products, 2, share(), false), join, hop(keys) + hop(values));
    if (!attention.gradient)
      return times;
    dfg::AttentionGradient &gradient = *attention.gradient;
    // The weights are made once more in both ways: scores of one kernel are not kept, nor are a chunk's.
    products = {attention.scores, gradient.weights};
    for (const auto *uses : {&gradient.overKeys, &gradient.overQueries})
      for (OpOperand *use : *uses)
        products.push_back(use->getOwner());
    double joinGradients = memory(3 * bytesOf(attention.scores.getLhs()));
    double hops = 2 * (hop(keys) + hop(values));
    times.ring += ringSeconds(ring.numSteps(), compute(products, 4, share(), false), joinGradients, hops) + hop(keys) +
                  hop(values);
    if (!isOneKernel)
      products.erase(products.begin());
    times.gathered += compute(products, 4, 1, isOneKernel) + links.reduceScatter(bytesOf(keys), axes) +
                      links.reduceScatter(bytesOf(values), axes);
    return times;
  }

private:
  static double bytesOf(Value value) { return static_cast<double>(tensorBytes(value.getType())); }
  double share() const { return 1.0 / static_cast<double>(ring.numSteps()); }
  /// A chunk of the tensor, from the neighbour.
  double hop(Value whole) const { return links.exchange(bytesOf(whole) * share(), 1, axes); }
  double memory(double bytes) { return costs.callSeconds(mesh, {CostClass::Elementwise, 0, bytes}, "f32"); }

  /// Products of that share of the keys, and as many reads and writes of their scores by other kernels.
  double compute(ArrayRef<Operation *> products, double passes, double part, bool keepsNoScores) {
    double seconds = keepsNoScores ? 0 : memory(passes * scoresBytes * part);
    for (Operation *product : products) {
      OpCost cost = cast<CostInterface>(product).getCost();
      double bytes = cost.bytesRead + cost.bytesWritten - (keepsNoScores ? scoresBytes : 0);
      seconds += costs.callSeconds(mesh, {CostClass::Contraction, cost.flops * part, bytes * part}, "f32");
    }
    return seconds;
  }

  KeyRing &ring;
  dfg::Attention &attention;
  CostAnalysis &costs;
  dist::MeshOp mesh;
  const MeshCost &links;
  SmallVector<unsigned> axes;
  double scoresBytes;
  bool isOneKernel = false;
};

} // namespace

KeyTimes keyTimes(KeyRing &ring, CostAnalysis &costs, dist::MeshOp mesh, bool onProcessors) {
  return KeyCost(ring, costs, mesh, onProcessors).run();
}

} // namespace cleave
