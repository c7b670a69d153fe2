// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which cores this process may use, and how a thread keeps to some of them.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_CORESET_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_CORESET_H

#include <vector>

namespace cleave::runtime {

/// Numbers of cores, as the operating system counts them.
using CoreSet = std::vector<unsigned>;

/// The hardware threads that the process may run on, one of each core before the others of any; at least one.
CoreSet availableCores();

/// Keeps the calling thread, and the threads that it will start, on these cores. Without effect when `cores` is empty
/// or the system refuses: a thread in the wrong place is slow, not wrong.
void stayOn(const CoreSet &cores);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_CORESET_H
