// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver whose devices are sets of this machine's cores.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_CPUDRIVER_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_CPUDRIVER_H

#include "runtime/Driver.h"

namespace cleave::runtime {

/// The driver "cpu". Its devices have cores of their own while the machine has enough for all of them.
std::unique_ptr<Driver> createCpuDriver(DriverContext &context);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_CPUDRIVER_H
