// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// oneDNN as a kernel library: the compiler asks it which layouts a kernel wants, the runtime loads the same kernel from
// the plan. It has all operations of LibraryKernelDesc.h. This header names no oneDNN type.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNN_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNN_H

#include "runtime/KernelLibrary.h"
#include "runtime/drivers/cpu/LibraryKernel.h"

namespace cleave::runtime {

/// The library "onednn". It takes an output's, input's or scratch buffer's address as it comes in a call, and is
/// fastest when a kernel sees the same addresses again.
std::unique_ptr<LibraryProvider> createOneDnnProvider();

/// oneDNN on this processor. It prefers layouts for a team of `threads`, and creates no code to say which.
const KernelLibrary &oneDnnLibrary();

/// limitLibraries() of LibraryKernel.h. What the user has set in ONEDNN_MAX_CPU_ISA stays in force where it allows no
/// more.
Error limitOneDnn(const std::vector<std::string> &features);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_ONEDNN_H
