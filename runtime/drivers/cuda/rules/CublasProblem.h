// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of matrices as cuBLASLt computes it, read from the description of a plan's kernel. Names no type of
// cuBLASLt: the compiler reads it for its rules, the runtime to make descriptors.
//
// cuBLASLt's matrices are column-major, and the bias that it adds is one value a row. Ours are row-major with one value
// a column: their transposes have the same bytes as column-major matrices, so what is computed is the transposed
// product,
//
//   result [M, N] = a [M, K] b [K, N]     as     result' [N, M] = b' [N, K] a' [K, M]
//
// with b on the left. An operand that lies transposed in memory is read with a transpose.
//
// The rules. float32, or bfloat16 with a result in bfloat16 or float32; sums are made in float32. Dimensions before the
// last two are batches: those of an operand lie at one distance, or are all 1 and used for all products. Besides the
// operation's own bias, in this order, as post operations:
//
//   binary_add   once of a value a column, where there is no bias yet, and once of the result's shape; in either order
//   sum          in place of the latter: the same, where the value lies in the result's buffer
//   relu, gelu_tanh   one of them, last
//   gelu_tanh_gradient  in their place, of the result's shape with rows of a multiple of 8, where there is no bias

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUBLASPROBLEM_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUBLASPROBLEM_H

#include "runtime/LibraryKernelDesc.h"

#include <optional>

namespace cleave::runtime {

/// A batch of column-major matrices: element (row, column) of matrix i lies at row + column * leading + i *
/// batchStride.
struct CublasMatrix {
  ElementType element = ElementType::F32;
  int64_t rows = 1, columns = 1, leading = 1, batchStride = 0;
  /// What is multiplied is the matrix's transpose.
  bool transposed = false;

  bool operator==(const CublasMatrix &) const = default;
};

struct CublasProblem {
  enum class Activation { None, Relu, Gelu, GeluGradient };

  /// result [rows, columns] = left [rows, depth] right [depth, columns], of column-major matrices.
  int64_t rows = 0, columns = 0, depth = 0, batches = 1;
  /// left is the kernel's input 1, right its input 0.
  CublasMatrix left, right, result;
  /// The kernel's input with one value a row, of the result's element type; -1: none.
  int bias = -1;
  /// The kernel's input that is added times `addedScale`, and lies as the result does; -1: none.
  int added = -1;
  float addedScale = 1;
  /// The added input has to be the result's buffer.
  bool addsInPlace = false;
  Activation activation = Activation::None;
  /// The kernel's input at whose elements GELU is differentiated, which lies as the result does; -1: none.
  int activationInput = -1;
  bool tf32 = false;

  /// What the address of cuBLASLt's workspace must be a multiple of (cuBLAS's documentation, cublasLtMatmul).
  static constexpr uint64_t workspaceAlignment = 256;
  /// What cuBLASLt gets. Room for eight partial sums of the result in float32, with which a long depth is divided among
  /// processors; at least 1 MiB, and at most the 32 MiB that cuBLAS's documentation recommends for GPUs as large as the
  /// H100; and what may be left out in front to align it.
  uint64_t productBytes() const;
  /// That, and the copies of `aligned`, if there is one.
  uint64_t workspaceBytes() const;

  /// The same product of copies in which the sizes along which matrices lie in one piece are multiples of 16 bytes,
  /// with zeros behind: a vocabulary of 50,257 is none, and matrix units, which read 16 bytes at once, reach a sixth of
  /// their rate with it (measured on an H200 in bfloat16: 124 of 790 Tflop/s; columns that only begin at such multiples
  /// did not help). None where nothing is to be copied, where the copies would take longer than they save, where
  /// something is added to a result that would be one, and for batches. A bias and an activation are
  /// not meant for what is too much of the result.
  std::optional<CublasProblem> aligned() const;
};

/// The bytes of one matrix, with what lies between its columns.
uint64_t bytesOf(const CublasMatrix &matrix);

/// Status::Unsupported where the rules do not allow it, Status::Rejected where the description contradicts itself.
/// Its types are valid.
Expected<CublasProblem> readCublasProblem(const LibraryKernelDesc &desc);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUBLASPROBLEM_H
