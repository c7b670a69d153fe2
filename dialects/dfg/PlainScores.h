// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose scores meet a scale and a causal mask alone, as kernels of libraries for GPUs compute it; and which
// tensors are causal masks.

#ifndef CLEAVE_DIALECTS_DFG_PLAINSCORES_H
#define CLEAVE_DIALECTS_DFG_PLAINSCORES_H

#include "dialects/dfg/Attention.h"
#include "dialects/interfaces/HostTensor.h"

#include <limits>

namespace cleave::dfg {

/// How a tensor of a model hides keys (its last dimension) behind each query's own position (the dimension before), and
/// nothing else: by numbers that are added to scores, 0 up to the diagonal and -1e8 or less behind it, or by booleans
/// that are true for the scores that stay, or for the others. Dimensions before are of one element.
enum class CausalMask { None, Added, Seen, Hidden };
CausalMask getCausalMask(const HostTensor &tensor);
/// The same of a constant's value or a parameter's that stays what it is.
CausalMask getCausalMask(mlir::Value value);

/// The attribute of a parameter that is a causal mask: its name, and the text for a mask.
inline constexpr llvm::StringLiteral causalMaskAttrName = "dfg.causal_mask";
llvm::StringRef stringifyCausalMask(CausalMask mask);
CausalMask readCausalMask(llvm::StringRef text);

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
