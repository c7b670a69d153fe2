// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The models that `cleave probe` measures. A node's name begins with what it is a sample of: "contraction/64x64x64".
// Weights are drawn when a model is loaded; the only input is one number, so that nothing has to be brought in.

#ifndef CLEAVE_TOOLS_CLEAVE_PROBEMODELS_H
#define CLEAVE_TOOLS_CLEAVE_PROBEMODELS_H

#include "passes/import/OnnxProto.h"

#include <string>

namespace cleave::tool {

/// Matrix products: "contraction/…", of both square and flat shapes from 65 kFLOP to 2 GFLOP, and "streaming/…" of one
/// row, whose matrix is read once.
onnx::ModelProto buildProducts();

/// Convolutions as in image networks, "convolution/…", those that Winograd's algorithm may compute, "winograd/…", and
/// poolings, "reduction/…".
onnx::ModelProto buildConvolutions();

/// "elementwise/…", "reduction/…" and "movement/…" from 8 KiB to 128 MiB, each on what another has just written.
onnx::ModelProto buildMovements();

/// "launch/…": a chain of operators that have next to nothing to do.
onnx::ModelProto buildLaunches();

/// The same work twice, "left/…" and "right/…": products, convolutions and normalizations.
onnx::ModelProto buildNeighbours();

/// "give/…" makes tensors of 16 MiB, of which "take/…" reads a few elements, while "work/…" are products.
onnx::ModelProto buildOverlap();

/// "even/…" and "odd/…" in turns, each reading the other's result of so many bytes.
onnx::ModelProto buildTransfers(int64_t bytes);

/// "spread/…" makes two tensors of so many bytes of one, "sum/…" their sum.
onnx::ModelProto buildReductions(int64_t bytes);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PROBEMODELS_H
