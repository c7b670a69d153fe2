// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions with windows of 3 x 3 by Winograd's algorithm (Lavin, Gray: Fast Algorithms for Convolutional Neural
// Networks, 2016): when it is taken, and weights that are transformed once. oneDNN 2.6 has it for AVX-512 alone; for
// AVX2 there are tiles of our own (WinogradTiles.h).

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNWINOGRAD_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNWINOGRAD_H

#include "runtime/drivers/cpu/OneDnnBuilder.h"

#include <optional>

namespace cleave::runtime::onednn {

/// The algorithm that the operation's kind names: `direct` for none, `winograd` for "winograd".
dnnl::algorithm convolutionAlgorithm(const Builder &builder, dnnl::algorithm direct, dnnl::algorithm winograd);

/// Whether input 1 of a convolution are packed weights: a list, or constants in whatever layout the library likes.
bool readsPackedWeights(const Builder &builder);

/// [O, C, 3, 3] of a convolution from `data` to `result`.
std::vector<int64_t> winogradWeightShape(const Builder &builder, const TensorType &data, const TensorType &result);

/// Refuses packed weights in another format than the attribute `format` says, where it is there: the bytes would be
/// taken for what they are not.
void checkPackedFormat(const Builder &builder, const dnnl::memory::desc &weights);

/// The same contraction by Winograd's algorithm, where that takes less than direct code; nothing for all others.
std::optional<LibraryKernelQuery> inWinogradTiles(const LibraryKernelQuery &query);

/// Whether a choice for such a query takes less with weights that are transformed in each call: for packed ones oneDNN
/// has chosen small tiles.
bool isFasterUnpacked(const LibraryChoice &choice);

/// The kernel that packs weights of type `weights` for `convolution`, which expects them in `format`; both get the
/// attribute `format`.
LibraryKernelDesc packingOf(LibraryKernelDesc &convolution, const TensorType &weights,
                            const dnnl::memory::desc &format);

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNNWINOGRAD_H
