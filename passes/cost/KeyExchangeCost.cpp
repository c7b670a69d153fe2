// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds up products, what is read and written of scores, and messages.

#include "passes/cost/KeyExchangeCost.h"

namespace cleave {
namespace {

/// A product of an attention or of its gradient.
struct Product {
  double flops, bytes;
};

class KeyCost {
public:
  KeyCost(const CutAttention &attention, const OperatorCost &cost, const MeshCost &links, llvm::ArrayRef<unsigned> axes)
      : attention(attention), cost(cost), links(links), axes(axes),
        overKeys{attention.scoreFlops, attention.queries + attention.keys + attention.scores},
        overValues{attention.resultFlops, attention.result + attention.values + attention.scores} {}

  KeyTimes run() const {
    // Read with the chunk's, and written; their weights and sums are a few numbers a query.
    double join = memory(3 * attention.result) + 4 * memory(attention.scores / attention.numKeys);
    std::vector<Product> products = {overKeys, overValues};
    double hops = hop(attention.keys) + hop(attention.values);
    KeyTimes times;
    times.gathered.forward = waiting(compute(products, /*passes=*/2, 1, attention.isOneKernel),
                                     links.allGather(attention.keys, axes) + links.allGather(attention.values, axes));
    times.ring.forward = inRing(compute(products, 2, share(), false), join, hops);
    times.gathered.bytes = bytesOf(1, attention.isOneKernel ? 0 : 1);
    times.ring.bytes = bytesOf(chunksAtOnce() * share(), share());
    if (!attention.training)
      return times;
    // Of queries, keys and values, and of the weights. The scores are made once more in both ways: one kernel keeps
    // none, nor does a ring.
    products = {overKeys, overKeys, overValues, overValues};
    std::vector<Product> again = products;
    again.push_back(overKeys);
    times.gathered.backward =
        waiting(compute(attention.isOneKernel ? again : products, 4, 1, attention.isOneKernel),
                links.reduceScatter(attention.keys, axes) + links.reduceScatter(attention.values, axes));
    // Sums of gradients go on with the chunks, and one step more at the end.
    times.ring.backward = inRing(compute(again, 4, share(), false), memory(3 * attention.queries), 2 * hops);
    times.ring.backward.seconds += hops;
    times.ring.backward.exchange += hops;
    return times;
  }

private:
  double share() const { return 1.0 / static_cast<double>(attention.devices); }
  /// A device's own, the one that it computes with, and the one that comes.
  double chunksAtOnce() const { return std::min(static_cast<double>(attention.devices), 3.0); }
  /// A chunk of the tensor, from the neighbour.
  double hop(double bytes) const { return links.exchange(bytes * share(), 1, axes); }
  double memory(double bytes) const { return cost.seconds(CostClass::Elementwise, 0, bytes); }

  /// Of parts of keys and values, and of scores and weights. Backward keys and values have gradients, and in the place
  /// of the scores there are the gradients of weights and scores.
  double bytesOf(double partOfKeys, double partOfScores) const {
    double ofKeys = attention.training ? 2 : 1, ofScores = attention.training ? 3 : 2;
    return ofKeys * partOfKeys * (attention.keys + attention.values) + ofScores * partOfScores * attention.scores;
  }

  static KeyPass waiting(double computing, double exchange) { return {computing + exchange, exchange}; }

  KeyPass inRing(double chunk, double join, double hop) const {
    double seconds = ringSeconds(attention.devices, chunk, join, hop);
    return {seconds, seconds - ringSeconds(attention.devices, chunk, join, 0)};
  }

  /// Products of that share of the keys, and as many reads and writes of their scores by other kernels.
  double compute(llvm::ArrayRef<Product> products, double passes, double part, bool keepsNoScores) const {
    double seconds = keepsNoScores ? 0 : memory(passes * attention.scores * part);
    for (const Product &product : products) {
      double bytes = product.bytes - (keepsNoScores ? attention.scores : 0);
      seconds += cost.seconds(CostClass::Contraction, product.flops * part, bytes * part);
    }
    return seconds;
  }

  const CutAttention &attention;
  const OperatorCost &cost;
  const MeshCost &links;
  llvm::ArrayRef<unsigned> axes;
  Product overKeys, overValues;
};

} // namespace

KeyTimes keyTimes(const CutAttention &attention, const OperatorCost &cost, const MeshCost &links,
                  llvm::ArrayRef<unsigned> axes) {
  return KeyCost(attention, cost, links, axes).run();
}

} // namespace cleave
