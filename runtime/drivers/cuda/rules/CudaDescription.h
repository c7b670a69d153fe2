// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that all descriptions of library kernels for GPUs share. A plan's numbers may be hostile: nothing is used
// before it was checked.

#ifndef CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDADESCRIPTION_H
#define CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDADESCRIPTION_H

#include "runtime/LibraryKernelDesc.h"
#include "runtime/MemoryLayout.h"

namespace cleave::runtime {

/// How many inputs are the operation's own; those of post operations follow. An error unless they are from `least` to
/// `most` and there is one output.
Expected<size_t> countOperands(const LibraryKernelDesc &desc, size_t least, size_t most);

/// An error where a post operation reads an input that it does not need, that it has not got, that is an operand of
/// the operation, or that another one reads.
Error checkPostOpInput(const LibraryKernelDesc &desc, const LibraryPostOp &postOp, size_t operands);

/// The attribute with `count` values from `least` to `most`, or `count` times `fallback`.
Expected<std::vector<int64_t>> readIntegers(const LibraryKernelDesc &desc, const char *name, size_t count,
                                            int64_t fallback, int64_t least, int64_t most);
Expected<int64_t> readInteger(const LibraryKernelDesc &desc, const char *name, int64_t fallback, int64_t least,
                              int64_t most);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CUDA_RULES_CUDADESCRIPTION_H
