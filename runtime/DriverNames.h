// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which drivers a program has, for who needs no more of them.

#ifndef CLEAVE_RUNTIME_DRIVERNAMES_H
#define CLEAVE_RUNTIME_DRIVERNAMES_H

#include <string>
#include <vector>

namespace cleave::runtime {

/// The names of all drivers of this build, and of those that were registered (Driver.h), in order.
std::vector<std::string> driverNames();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERNAMES_H
