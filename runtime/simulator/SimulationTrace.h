// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A simulation as a trace in the format of a run's, so that predicted and measured lie side by side.

#ifndef CLEAVE_RUNTIME_SIMULATOR_SIMULATIONTRACE_H
#define CLEAVE_RUNTIME_SIMULATOR_SIMULATIONTRACE_H

#include "runtime/Trace.h"
#include "runtime/simulator/Simulator.h"

namespace cleave::runtime {

/// Adds a track for each queue and a counter of the bytes in use for each device that was simulated. Devices that are
/// alike have one, named after the first.
void traceSimulation(const Plan &plan, const Entry &entry, const SimulationResult &result, Trace &trace);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_SIMULATIONTRACE_H
