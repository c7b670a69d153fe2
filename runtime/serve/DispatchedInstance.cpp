// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// To the policy, instances that share a queue are one server that is as fast as all of them.

#include "runtime/serve/DispatchedInstance.h"

#include <cmath>

namespace cleave::runtime::serve {

/// There is a policy for every step of the rate by such a share; they are made anew when a time has changed by more
/// than that.
static constexpr double rateStep = 0.04, timeTolerance = 0.15;

/// Of several batches at a time each takes so many times as long as its turn. Their turns come in bursts, though, which
/// larger batches make up for: counted in full, the time that a batch's own samples spend in it made the mean 1.4 times
/// the best fixed pair's near saturation, and not counted the 99th percentile 1.5 times that (DispatcherInstancesTest).
static constexpr double stretchPower = 0.75;

Time nanosecondsOf(double seconds) { return seconds < 9e9 ? static_cast<Time>(std::ceil(seconds * 1e9)) : never; }

static bool isNear(double value, double other) { return std::abs(std::log(value / other)) < timeTolerance; }

bool DispatchedInstance::finish(uint64_t batch, double seconds) {
  auto found = running.find(batch);
  if (found == running.end())
    return false;
  table.measure(found->second.size, seconds);
  running.erase(found);
  return true;
}

void DispatchedInstance::lose() {
  isLost = true;
  running.clear();
}

double DispatchedInstance::measuredRate(size_t size) const {
  return table.isMeasured(size) ? table.samples(size) / table.seconds(size) * inFlight
                                : std::numeric_limits<double>::infinity();
}

Time DispatchedInstance::idleAt(Time now) const {
  Time idle = now;
  for (auto &[number, batch] : running)
    idle = std::max(idle, later(batch.begin, measuredTime(batch.size)));
  return idle;
}

Time DispatchedInstance::freeAt(Time now) const {
  if (isFree())
    return now;
  const Running &oldest = running.begin()->second, &latest = running.rbegin()->second;
  return std::max(
      {now, later(latest.begin, turn(latest.size)), later(oldest.begin, nanosecondsOf(table.seconds(oldest.size)))});
}

Time DispatchedInstance::endOf(uint64_t samples, Time now) const {
  return later(freeAt(now), nanosecondsOf(table.seconds(table.fitting(samples))));
}

const BatchPolicy &DispatchedInstance::policy(double rate, double share) {
  std::vector<double> seconds;
  for (size_t size = 0; size != table.size(); ++size)
    seconds.push_back(table.seconds(size) / inFlight * share);
  if (!std::ranges::equal(seconds, policySeconds, isNear)) {
    policies.clear();
    policySeconds = std::move(seconds);
  }
  int step = static_cast<int>(std::lround(std::log(rate) / rateStep));
  double stretch = std::pow(inFlight / share, stretchPower);
  auto found = policies.find(step);
  if (found == policies.end())
    found = policies.emplace(step, BatchPolicy(table, policySeconds, std::exp(step * rateStep), stretch)).first;
  return found->second;
}

} // namespace cleave::runtime::serve
