// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random scheduling problems.

#include "ProblemBuilder.h"

#include "passes/schedule/HostCopies.h"

#include <map>

namespace cleave::schedule {

Problem randomProblem(uint64_t seed, unsigned numLaunches) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t bound) { return static_cast<unsigned>(random() % bound); };
  auto size = [&]() -> uint64_t { return below(20) == 0 ? 0 : (uint64_t{1} << below(14)) * (1 + below(7)); };

  ProblemBuilder builder(1 + below(3));
  unsigned numDevices = builder.problem.numDevices;
  std::vector<unsigned> values;
  std::map<std::pair<unsigned, unsigned>, unsigned> received;
  auto valueOn = [&](unsigned value, unsigned device) {
    if (builder.problem.values[value].device == device)
      return value;
    auto [entry, isNew] = received.try_emplace({value, device});
    if (isNew)
      entry->second = builder.transfer(value, device, 0.1 * (1 + below(30)));
    return entry->second;
  };
  for (unsigned device = 0; device != numDevices; ++device)
    values.push_back(builder.input(device, size()));
  for (unsigned i = 0; i != numLaunches; ++i) {
    unsigned device = below(numDevices);
    std::vector<unsigned> reads;
    for (unsigned count = 1 + below(3); count != 0; --count)
      // Mostly recent values, now and then an old one or a parameter.
      reads.push_back(
          below(4) == 0
              ? builder.parameter(device, size())
              : valueOn(
                    values[values.size() - 1 - below(below(4) ? std::min<size_t>(values.size(), 4) : values.size())],
                    device));
    values.push_back(builder.launch(device, reads, size(), 0.1 * (1 + below(30))));
    if (below(5) == 0)
      builder.also(size());
    if (below(6) == 0)
      values.push_back(builder.collective(values.back(), 0.1 * (1 + below(30))));
    // What goes to the host's memory and comes back.
    if (below(5) == 0) {
      unsigned kept = builder.offload(values.back(), 0.1 * (1 + below(30)));
      values.push_back(builder.fetch(kept, 0.1 * (1 + below(30))));
    }
    // A value that nobody else reads.
    if (below(6) == 0)
      values.push_back(builder.collectiveInPlace(
          builder.launch(device, {valueOn(values.back(), device)}, size(), 0.1 * (1 + below(30))),
          0.1 * (1 + below(30))));
    if (below(8) == 0)
      builder.output(values.back());
  }
  builder.output(values.back());
  builder.problem.ordered.assign(numDevices, below(2) == 0);
  paceHostCopies(builder.problem);
  return builder.problem;
}

} // namespace cleave::schedule
