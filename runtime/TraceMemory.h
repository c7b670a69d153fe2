// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many bytes of its arena a device uses while a traced run goes on.

#ifndef CLEAVE_RUNTIME_TRACEMEMORY_H
#define CLEAVE_RUNTIME_TRACEMEMORY_H

#include "runtime/Trace.h"

namespace cleave::runtime {

/// By device, as BufferUse counts them, with the times at which instructions really began and ended. Nothing for a
/// trace that has no entries.
std::vector<Trace::Counter> memoryOf(const Trace &trace);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRACEMEMORY_H
