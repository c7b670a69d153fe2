// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver whose devices compute nothing and need no memory: they run a plan's queues in simulated time.

#ifndef CLEAVE_RUNTIME_DRIVERS_NULL_NULLDRIVER_H
#define CLEAVE_RUNTIME_DRIVERS_NULL_NULLDRIVER_H

#include "runtime/Driver.h"

namespace cleave::runtime {

/// The driver "null". All its devices share one simulation (and one thread); sends meet their receives inside it.
std::unique_ptr<Driver> createNullDriver(DriverContext &context);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_NULL_NULLDRIVER_H
