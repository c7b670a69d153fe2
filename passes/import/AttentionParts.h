// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What operators of attention are made of: heads, scaled dot products (Vaswani et al.: Attention Is All You Need, 2017)
// and rotary position embeddings (Su et al.: RoFormer, 2021).

#ifndef CLEAVE_PASSES_IMPORT_ATTENTIONPARTS_H
#define CLEAVE_PASSES_IMPORT_ATTENTIONPARTS_H

#include "passes/import/NodeImporter.h"

#include <functional>

namespace cleave {

/// batch x sequence x heads * size as batch x heads x sequence x size; an error where the heads do not divide.
mlir::Value splitHeads(NodeImporter &node, mlir::Value value, int64_t heads);

/// batch x heads x sequence x size as batch x sequence x heads * size.
mlir::Value joinHeads(NodeImporter &node, mlir::Value value);

/// The sizes of one attention. Queries are batch x heads x length x size, keys batch x groups x total x size, values
/// batch x groups x total x valueSize.
struct AttentionSizes {
  int64_t batch = 0, heads = 0, groups = 0, length = 0, total = 0, size = 0, valueSize = 0;
};

/// The sizes of values of rank 4; an error where they do not fit each other, or where heads of queries cannot share
/// those of keys.
llvm::FailureOr<AttentionSizes> readAttentionSizes(NodeImporter &node, mlir::Value query, mlir::Value key,
                                                   mlir::Value value);

/// How an attention comes from the products of queries and keys to its weights.
struct AttentionRule {
  double scale = 1.0;
  /// Scores go towards this value and minus it, by tanh; 0: there is none.
  double cap = 0.0;
  /// The type in which weights are computed and applied.
  mlir::Type precision;
  /// From scores to scores, batch x heads x length x total; may be empty.
  std::function<mlir::Value(mlir::Value)> mask;
  /// From scores to weights of the same shape; empty: softmax over the keys.
  std::function<mlir::Value(mlir::Value)> softmax;
};

/// The result, batch x heads x length x valueSize in the queries' type, and what it is computed from.
struct AttentionValues {
  mlir::Value product, capped, masked, weights, result;
};

/// Builds the attention of values whose sizes were read.
AttentionValues attend(NodeImporter &node, const AttentionSizes &sizes, mlir::Value query, mlir::Value key,
                       mlir::Value value, const AttentionRule &rule);

/// The scores of `scores` where `keeps` (which broadcasts over them) is true, minus infinity elsewhere.
mlir::Value keepScores(NodeImporter &node, mlir::Value keeps, mlir::Value scores);

/// `scores` plus `bias`, which must broadcast to their shape.
mlir::Value addToScores(NodeImporter &node, mlir::Value scores, mlir::Value bias);

/// Per query and key (length x total), whether the query may attend to it when both go forward in time: query i to the
/// keys up to i plus `past`, the number of those before the first query.
mlir::Value isCausal(NodeImporter &node, int64_t length, int64_t total, int64_t past);

/// Pairs of elements of `input` (batch x sequence x heads x size) turn by their position's angle, of which cosine and
/// sine are given (batch x sequence x 1 x pairs, or the batch one). Pairs are neighbours or elements of the two halves;
/// elements behind the pairs stay.
mlir::Value turnPairs(NodeImporter &node, mlir::Value input, mlir::Value cosine, mlir::Value sine, bool neighbours);

} // namespace cleave

#endif // CLEAVE_PASSES_IMPORT_ATTENTIONPARTS_H
