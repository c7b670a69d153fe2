// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products in which an index chooses each row's matrix: the rows of one matrix after the other, brought together, as
// products of oneDNN's sgemm, whose number of rows is known only when it runs.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_GATHEREDPRODUCTS_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_GATHEREDPRODUCTS_H

#include "runtime/drivers/cpu/LibraryKernel.h"

namespace cleave::runtime::onednn {

/// Whether a description is of such a product ("gather_matmul", "scatter_matmul").
bool isGatheredProduct(const LibraryKernelDesc &desc);

/// The bytes of scratch of one on `threads` threads; Status::Unsupported for elements other than float32 and indices
/// other than int64, Status::Rejected for shapes that do not fit.
Expected<uint64_t> gatheredProductScratch(const LibraryKernelDesc &desc, unsigned threads);

/// The kernel of a description that gatheredProductScratch takes, with scratch for one thread at least. Runs on the
/// calling thread's team, of as many threads as there are, on `threads` of them at most.
std::unique_ptr<LibraryKernelInstance> makeGatheredProduct(const LibraryKernelDesc &desc, unsigned threads);

} // namespace cleave::runtime::onednn

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_GATHEREDPRODUCTS_H
