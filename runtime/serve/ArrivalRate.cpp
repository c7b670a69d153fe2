// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A window of requests, not of time: it is as long as the rate needs it to be.

#include "runtime/serve/ArrivalRate.h"

#include <algorithm>
#include <cstddef>

namespace cleave::runtime::serve {

/// Of so many random arrivals a rate is right to 1 / sqrt(1024), 3 %.
static constexpr size_t mostArrivals = 1024;
/// The rate has changed where so many arrivals are faster or slower by such a factor: five standard deviations.
static constexpr size_t fewArrivals = 96;
static constexpr double change = 1.65;

double ArrivalRate::rateSince(size_t first) const {
  double seconds = static_cast<double>(latest.back().time - latest[first].time) * 1e-9;
  // The first one begins the time in which the others came.
  return static_cast<double>(latest.back().before - latest[first].before) / std::max(seconds, 1e-9);
}

void ArrivalRate::add(int64_t now, uint64_t added) {
  latest.push_back({now, samples});
  samples += added;
  if (latest.size() > mostArrivals)
    latest.pop_front();
  if (latest.size() <= 2 * fewArrivals)
    return;
  double lately = rateSince(latest.size() - fewArrivals), all = rateSince(0);
  if (lately > change * all || all > change * lately)
    latest.erase(latest.begin(), latest.end() - fewArrivals);
}

bool ArrivalRate::isReliable() const { return latest.size() >= fewArrivals; }

double ArrivalRate::perSecond(int64_t now) const {
  if (latest.size() < 2)
    return 0;
  // Since the last one, less than what is usual says nothing.
  double span = std::max(static_cast<double>(latest.back().time - latest.front().time) * 1e-9, 1e-9);
  double usual = span / static_cast<double>(latest.size() - 1);
  double since = static_cast<double>(now - latest.back().time) * 1e-9;
  return rateSince(0) * span / (span + std::max(0.0, since - usual));
}

} // namespace cleave::runtime::serve
