// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions and matrix products of unsigned by signed integers of 8 bits on processors with AVX2 and without VNNI,
// where oneDNN's sums saturate (docs/rationale/integer-products.md).

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERPRODUCTS_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERPRODUCTS_H

#include "runtime/KernelLibrary.h"
#include "runtime/drivers/cpu/LibraryKernel.h"

namespace cleave::runtime::onednn {

/// Whether oneDNN's kernels for such a product would saturate here while ours are fast: it is to be chosen by
/// chooseIntegerProduct.
bool wantsIntegerProduct(const LibraryKernelDesc &desc);

/// Whether a description is of such a product, with weights as our kernels take them.
bool isIntegerProduct(const LibraryKernelDesc &desc);

/// The kernel for `threads` threads: images channels-last, and weights in panels of 16 channels, four numbers side
/// by side. Throws Refusal.
LibraryChoice chooseIntegerProduct(const LibraryKernelQuery &query, unsigned threads);

/// The kernel of a description. Runs on the calling thread's team, on at most `threads` of it and as many as its
/// scratch is for, of which it needs enough for one. Throws Refusal.
std::unique_ptr<LibraryKernelInstance> makeIntegerProduct(const LibraryKernelDesc &desc, unsigned threads);

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_INTEGERPRODUCTS_H
