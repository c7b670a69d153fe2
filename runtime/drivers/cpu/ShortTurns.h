// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a thread that has little to do, but soon, gets a core that another thread computes on.

#ifndef CLEAVE_RUNTIME_DRIVERS_CPU_SHORTTURNS_H
#define CLEAVE_RUNTIME_DRIVERS_CPU_SHORTTURNS_H

#include <chrono>

namespace cleave::runtime {

/// The shortest turn that Linux grants.
constexpr std::chrono::microseconds shortestTurn(100);

/// Asks the system for short turns on a core for the calling thread: it runs as soon as it is woken, instead of when
/// the thread that computes there has had its turn, which lasts up to a timer's tick (4 ms). Its share of the core
/// stays what it was. Linux knows this since 6.12 (its deadline scheduler, EEVDF: a thread with a shorter slice
/// preempts); before, and elsewhere, it is without effect.
void takeShortTurns(std::chrono::microseconds turn = shortestTurn);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DRIVERS_CPU_SHORTTURNS_H
