// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of our own that compute samples side by side.
//
// The library computes channels side by side, and of 20 channels in vectors of 16 it computes 32. Where there are
// enough samples, a kernel of our own goes along these, on values that lie with the samples innermost.

#ifndef CLEAVE_PASSES_CODEGEN_SAMPLESINNERMOST_H
#define CLEAVE_PASSES_CODEGEN_SAMPLESINNERMOST_H

#include "passes/codegen/ReplacedValues.h"

#include "dialects/interfaces/Interfaces.h"

namespace cleave {

/// Whether the value lies with the samples, its first dimension, innermost.
bool liesBySamples(mlir::Value value, const ReplacedValues &values);

/// Whether what the value meets next lies with the samples innermost.
bool meetsSamples(mlir::Value value, const ReplacedValues &values);

/// Whether a kernel of our own that goes along samples is better than the library's: the samples fill whole
/// vectors of `lanes` numbers, and of the vectors of channels that the library computes a fifth or more is nothing but
/// padding.
bool isBetterBySamples(mlir::Operation *op, const LibraryCall &call, const ReplacedValues &values, int64_t lanes);

/// Replaces the operator by one whose operands and result lie with the samples innermost, where they have samples.
void computeBySamples(mlir::Operation *op, ReplacedValues &values);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_SAMPLESINNERMOST_H
