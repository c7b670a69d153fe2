// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions with windows of 3 x 3 by Winograd's algorithm on processors with AVX2, for which oneDNN has none: tiles
// of 4 x 4 pixels are transformed here and multiplied by oneDNN's sgemm (Lavin, Gray: Fast Algorithms for Convolutional
// Neural Networks, 2016).

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_WINOGRADTILES_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_WINOGRADTILES_H

#include "runtime/KernelLibrary.h"
#include "runtime/drivers/cpu/LibraryKernel.h"

namespace cleave::runtime::onednn {

/// Whether this processor, as far as oneDNN may use it, has AVX2 and not AVX-512.
bool takesOwnTiles();

/// Whether a description is of this file's `convolution.winograd` or `winograd_weights`: packed weights are of type
/// f32[36, C, O], O filled up with zeros.
bool isTileConvolution(const LibraryKernelDesc &desc);

/// The kernel for a query of a `convolution.winograd` whose weights are constant, with layouts in blocks of 8 channels.
/// Takes a bias, and as post operations rectifiers and additions of a tensor of the result's type. Status::Unsupported
/// for all others.
Expected<LibraryChoice> chooseTileConvolution(const LibraryKernelQuery &query);

/// The kernel of a description that isTileConvolution() knows, on the calling thread's team. Status::Rejected where the
/// description contradicts itself, Status::Infeasible where it has too little scratch.
Expected<std::unique_ptr<LibraryKernelInstance>> makeTileConvolution(const LibraryKernelDesc &desc);

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_WINOGRADTILES_H
