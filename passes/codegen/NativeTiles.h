// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of products in registers: which loops of a nest become vectors and which are written out side by side, so that
// each element that is loaded takes part in many products.

#ifndef CLEAVE_PASSES_CODEGEN_NATIVETILES_H
#define CLEAVE_PASSES_CODEGEN_NATIVETILES_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <optional>

namespace cleave {

struct Nest;

/// What a processor keeps vectors in.
struct VectorRegisters {
  int64_t bytes = 16, count = 16;
};

/// How a sum of products is to be tiled. One operand, `vectors`, is read a vector at a time; the other either likewise,
/// when the lanes are summed up (the loop is a reduction), or one element for all lanes.
struct TileChoice {
  /// The loop along which vectors lie, their number of elements, and how many of them stand side by side.
  unsigned lanes = 0;
  int64_t width = 1, vectorsAlongLanes = 1;
  /// Loops of which that many iterations stand side by side; each divides its loop.
  struct Copies {
    unsigned loop;
    int64_t count;
  };
  llvm::SmallVector<Copies, 2> copies;
  /// The input that is read in vectors: 0 or 1.
  unsigned vectors = 0;
};

/// A tile of a nest whose loops are split already: the loop of the lanes has `width` iterations, and those in `copies`
/// have accumulators of their own each, the last varying fastest.
struct RegisterTile {
  unsigned lanes = 0;
  int64_t width = 1;
  llvm::SmallVector<unsigned, 3> copies;
  unsigned vectors = 0;
};

/// Whether the body is acc + a * b on elements of one type of 32 or 64 bits, a and b being the inputs.
bool isSumOfProducts(mlir::linalg::LinalgOp op);

/// The tile that needs the fewest cycles a product, none for nests that are no sums of products in floats, or in which
/// no loop suits. `fixed` tells loops that must not be split.
std::optional<TileChoice> chooseTile(const Nest &nest, const VectorRegisters &registers,
                                     llvm::function_ref<bool(unsigned loop)> fixed);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_NATIVETILES_H
