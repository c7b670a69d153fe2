// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A service on a simulated clock: requests of one sample arrive, batches take the times of a table. Run by a
// dispatcher, or by the rule that other servers have, a largest batch and a longest wait.

#ifndef CLEAVE_TEST_RUNTIME_SERVE_SERVICESIMULATION_H
#define CLEAVE_TEST_RUNTIME_SERVE_SERVICESIMULATION_H

#include "runtime/serve/Dispatcher.h"

namespace cleave::runtime::serve {

using Sizes = std::vector<BatchSize>;

/// Nanoseconds of arrivals of a Poisson process.
std::vector<Time> poissonArrivals(double perSecond, size_t count, uint64_t seed);

/// Samples a second of the size that gives most.
double capacityOf(const Sizes &sizes);

/// Seconds from arrival to the end.
struct Latencies {
  double mean = 0, p99 = 0;
};
Latencies latenciesOf(std::vector<double> seconds);

/// `servers` that share a queue: one that is idle starts a batch when either `size` samples wait or the first has
/// waited for `delay`.
Latencies runFixedPair(const Sizes &sizes, const std::vector<Time> &arrivals, uint32_t size, Time delay,
                       size_t servers = 1);

/// The least mean and the least 99th percentile of all pairs of a size and a delay, which need not be one pair's.
Latencies bestFixedPair(const Sizes &sizes, const std::vector<Time> &arrivals, size_t servers = 1);

/// One server whose batches the dispatcher chooses; batches take the times of `sizes`, whatever the dispatcher thinks.
/// Expects that no batch that could have started was held past the limit. Of the latencies the first `ignored` are
/// left out.
Latencies runDispatcher(Dispatcher &dispatcher, const Sizes &sizes, const std::vector<Time> &arrivals, Time maxDelay,
                        size_t ignored = 0);
/// The same of several instances, each of which has the times of its element, a batch at a time.
Latencies runDispatcher(Dispatcher &dispatcher, const std::vector<Sizes> &instances, const std::vector<Time> &arrivals,
                        Time maxDelay, size_t ignored = 0);

} // namespace cleave::runtime::serve

#endif // CLEAVE_TEST_RUNTIME_SERVE_SERVICESIMULATION_H
