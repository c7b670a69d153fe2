// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient as cuDNN's fused engines compute them, read from the description of a plan's kernel. Names
// no type of cuDNN: the compiler reads it for its rules, the runtime to make graphs.
//
// The rules. All tensors bfloat16, dense and row-major, but the log sums, which are float32; heads of 8 to 128
// elements, a multiple of 8. Scores are float32, are rounded to bfloat16 behind the softmax (and their gradient before
// its products), and sums are float32.
//
// cuDNN adds up the gradient of the queries with atomic additions, in any order, unless the gradient of all scores is
// kept in between. That is done where it has up to a gibibyte.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDNNATTENTION_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDNNATTENTION_H

#include "runtime/LibraryKernelDesc.h"

#include <string_view>

namespace cleave::runtime {

struct CudnnAttention {
  bool isGradient = false;
  /// Whether the log sums are a result; those of a gradient are an input.
  bool givesLogSums = false;
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, size = 1;
  /// Tensors are [batch, position, head, element], not [batch, head, position, element].
  bool positionsFirst = false;
  /// Scores are multiplied by it.
  float scale = 1;
  /// Keys behind a query's own position are hidden from it.
  bool isCausal = false;

  /// The dimensions [batch, head, position, element] of the queries or keys, and how far apart their elements lie.
  std::vector<int64_t> dimsOf(int64_t positions) const { return {batch, heads, positions, size}; }
  std::vector<int64_t> stridesOf(int64_t positions) const;
  /// Elements of the queries, and of the log sums.
  int64_t queryElements() const { return batch * heads * queries * size; }
  int64_t rows() const { return batch * heads * queries; }
  /// Scores of more bytes have no gradient in memory: the queries' gradient is accumulated atomically instead.
  static constexpr uint64_t mostScores = uint64_t(1) << 30;
  /// Bytes of the scores in bfloat16, in whole tiles.
  uint64_t scoresBytes() const;
  /// Whether a gradient gives the same bits every time.
  bool isRepeatable() const;
  /// What a gradient's graph keeps beside the engine's own workspace: the sums of each row, and of the queries'
  /// gradient in float32 where they are added up in any order. Both are multiples of 256 bytes.
  uint64_t rowSumsBytes() const;
  uint64_t accumulatedBytes() const;
  uint64_t workspaceBytes() const;
};

/// The operation is "attention" or "attention_gradient".
bool isCudnnAttention(std::string_view operation);

/// Status::Unsupported where the rules do not allow it, Status::Rejected where the description contradicts itself. The
/// types of the description are valid.
Expected<CudnnAttention> readCudnnAttention(const LibraryKernelDesc &desc);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDNNATTENTION_H
