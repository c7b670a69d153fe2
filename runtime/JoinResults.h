// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the processes of a run bring together: before it the certainty that they run the same, after it what each of
// them has of the results, for rank 0 to report. All functions are called by all processes together.

#ifndef CLEAVE_RUNTIME_JOINRESULTS_H
#define CLEAVE_RUNTIME_JOINRESULTS_H

#include "runtime/Executor.h"
#include "runtime/Processes.h"
#include "runtime/Trace.h"

#include <set>

namespace cleave::runtime {

/// Status::Rejected unless every process has the same plan, Status::Usage unless each runs it with the same `options`
/// (text that they must have in common).
Error checkSame(Processes &processes, const Plan &plan, const std::string &options);

/// Puts the parts of the output that other processes have stored into rank 0's tensor.
void joinOutput(Processes &processes, const Plan &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
                uint32_t output, const HostTensor &tensor);

/// `own` is what Executor::memory says here. At rank 0: the same for the devices of all processes.
std::vector<DeviceMemory> joinMemory(Processes &processes, const Plan &plan, std::span<const Entry *const> entries,
                                     const std::vector<uint32_t> &rankOfDevice, const std::vector<DeviceMemory> &own);

/// The same where `own` is of these devices, in the order of their numbers, as far as they are here.
std::vector<DeviceMemory> joinMemory(Processes &processes, const Plan &plan, const std::set<uint32_t> &devices,
                                     const std::vector<uint32_t> &rankOfDevice, const std::vector<DeviceMemory> &own);

/// Puts the parts of a parameter that other processes have read (Executor::readState) into rank 0's tensor.
void joinState(Processes &processes, const Plan &plan, const Entry &entry, const std::vector<uint32_t> &rankOfDevice,
               uint32_t parameter, const HostTensor &tensor);

/// Adds the events of all processes to rank 0's trace, by rank 0's clock.
void joinTrace(Processes &processes, const Plan &plan, std::span<const Entry *const> entries, Trace &trace);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_JOINRESULTS_H
