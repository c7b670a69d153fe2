// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention that is written out in operators (Vaswani et al.: Attention Is All You Need, 2017), alone or with its
// gradient: where it is, and when kernels keep its scores out of memory.

#ifndef CLEAVE_DIALECTS_DFG_ATTENTION_H
#define CLEAVE_DIALECTS_DFG_ATTENTION_H

#include "dialects/dfg/Dfg.h"

#include <optional>

namespace cleave::dfg {

/// What training adds to attention: the gradient of its weights is a product of the result's gradient and the values;
/// elementwise operators make that of the scores of it; products with queries, keys and the result's gradient read both
/// or the weights. Nothing else reads any of it.
struct AttentionGradient {
  /// The gradient of the weights.
  DotGeneralOp weights;
  /// The sums over the keys of the weights times their gradient: the gradient of softmax needs them.
  ReduceOp sums;
  /// The elementwise operators and reshapes between, and repetitions of the attention's own operators.
  llvm::SetVector<mlir::Operation *> operators;
  /// Of repetitions: what they give, and what that is in the attention.
  llvm::DenseMap<mlir::Value, mlir::Value> repeated;
  /// What reads weights, or the gradient of the scores: products that sum up over the keys, and over the queries.
  llvm::SmallVector<mlir::OpOperand *, 4> overKeys, overQueries;
};

/// A product of queries and keys, elementwise operators on these scores, softmax over the keys, a product with values.
/// Nothing but its gradient reads what lies between. The last two dimensions of scores are those of queries and keys;
/// reshapes may group the ones before, of batches and heads, in other ways. One dimension is summed up in each product.
struct Attention {
  DotGeneralOp scores;
  /// In order: elementwise operators, each with scores among its operands, and reshapes.
  llvm::SmallVector<mlir::Operation *, 4> chain;
  SoftmaxOp softmax;
  /// Between softmax and the product with values; may be null.
  ReshapeOp regrouped;
  DotGeneralOp result;
  /// The dimensions before the last two, so finely that every grouping of them is one of neighbours; none of one
  /// element. The first `batchDims` are batch dimensions of the products.
  llvm::SmallVector<int64_t, 4> leading;
  unsigned batchDims = 0;
  /// None in inference.
  std::optional<AttentionGradient> gradient;

  mlir::RankedTensorType getScoresType() { return llvm::cast<mlir::RankedTensorType>(softmax.getType()); }
  /// All operators from the first product to the second, without the gradient's.
  llvm::SmallVector<mlir::Operation *> getOperators();
  /// These and the gradient's, each once.
  llvm::SetVector<mlir::Operation *> getAllOperators();
};

/// Why a softmax between two products is not computed as attention: an operator that reads or makes scores, and what is
/// wrong with it, phrased to follow "its scores stay in memory: ". None where it is nothing like attention.
struct AttentionMiss {
  mlir::Operation *op = nullptr;
  llvm::StringRef reason;
};

/// Whether scores and weights are float32 or float64 from the first product on, or may be rounded between.
enum class ScoreTypes { Wide, Any };

/// The attention of which the operator is the softmax; none where it is something else, or where `miss` says why.
std::optional<Attention> findAttention(mlir::Operation *op, AttentionMiss *miss = nullptr,
                                       ScoreTypes types = ScoreTypes::Wide);

/// The value whose numbers it has, perhaps under another shape or type.
mlir::Value withoutCasts(mlir::Value value);
/// Whether two values are the same by what they are made of, though the backward pass may have repeated one of them.
bool areSame(const AttentionGradient &gradient, mlir::Value a, mlir::Value b);

/// Whether kernels for processors compute attention by blocks of keys, so that its scores are never in memory together.
/// Smaller ones stay in the cache, and what libraries take for the products is less, but for inference that leaves out
/// much of them; and for a few queries it does not pay to bring the keys into blocks. `bytes`: of all scores of a
/// device; `share`: of them, what the blocks of inference have.
inline bool streamsScores(double bytes, int64_t queries, int64_t keys, double share = 1) {
  // Half of 1,024 keys takes 0.65 to 0.74 of the products' time, of 512 ones 0.72 to 0.83
  // (rationale/long-attention.md).
  constexpr double least = 32 << 20, mostShare = 0.7;
  // Beyond, what the blocks of a few queries give would not fit on a stack.
  constexpr int64_t fewestQueries = 32, mostKeys = 1 << 17;
  return (bytes >= least || share <= mostShare) && queries >= fewestQueries && keys <= mostKeys;
}

/// Such kernels divide the keys into blocks of whole groups.
inline constexpr int64_t keysInGroup = 64;

/// Keys a block, for values of that size: of those about 512, or about that for which the scores of a query and what
/// its blocks give take the same memory, the one that leaves the fewest unused, the largest of those. `leavesOut`:
/// where masks hide whole blocks, 128 in the place of 512.
int64_t keysInBlock(int64_t keys, int64_t size, bool leavesOut);

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_ATTENTION_H
