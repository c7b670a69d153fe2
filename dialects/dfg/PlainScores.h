// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose scores meet a scale and a causal mask alone, as kernels of libraries for GPUs compute it.

#ifndef CLEAVE_DIALECTS_DFG_PLAINSCORES_H
#define CLEAVE_DIALECTS_DFG_PLAINSCORES_H

#include "dialects/dfg/ScoreMasks.h"

#include <limits>

namespace cleave::dfg {

/// What is done to scores between the first product and the softmax, where libraries know it: each head has keys of its
/// own, queries, keys and values have `headSize` elements, which libraries for GPUs can multiply.
struct PlainScores {
  double scale = 1;
  bool isCausal = false;
  /// What stands in the place of a score that is hidden, as far as it is known.
  double hidden = -std::numeric_limits<double>::infinity();
  int64_t headSize = 0;
};
/// None where `miss` says why.
std::optional<PlainScores> getPlainScores(Attention &attention, AttentionMiss *miss = nullptr);
/// Adds what one operator does, of these or of those of their gradient; its operand that is scores, or null where it is
/// none of these.
mlir::Value readPlainScores(mlir::Operation *op, PlainScores &scores);

/// Whether libraries of GPUs have kernels for attention in bfloat16 for an architecture, as "sm_80": not before it.
inline bool hasAttentionKernels(llvm::StringRef chip) {
  constexpr unsigned first = 80;
  unsigned number = 0;
  return chip.consume_front("sm_") && !chip.consumeInteger(10, number) && number >= first;
}

/// The largest scores, in bytes of bfloat16, whose gradient a library's kernel keeps in memory; beyond, it accumulates
/// without.
inline constexpr uint64_t mostKeptScores = uint64_t(1) << 30;

/// Whether a library's kernel takes less than its two products and the softmax by themselves: of a tile or more.
inline bool isOneLibraryKernel(int64_t queries, int64_t keys) { return queries >= 64 && keys >= 64; }

} // namespace cleave::dfg

#endif // CLEAVE_DIALECTS_DFG_PLAINSCORES_H
