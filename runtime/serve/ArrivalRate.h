// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many samples arrive a second, from the latest arrivals.

#ifndef CLEAVE_RUNTIME_SERVE_ARRIVALRATE_H
#define CLEAVE_RUNTIME_SERVE_ARRIVALRATE_H

#include <cstddef>
#include <cstdint>
#include <deque>

namespace cleave::runtime::serve {

/// Times are nanoseconds of one clock that only goes forwards. The more arrivals, the better they tell a rate; so many
/// are remembered, until the last of them tell that it has changed.
class ArrivalRate {
public:
  void add(int64_t now, uint64_t samples);
  /// Samples a second; 0 before the second request. Falls while nothing arrives.
  double perSecond(int64_t now) const;
  /// Whether the rate is known to a tenth, and no burst's alone.
  bool isReliable() const;

private:
  struct Arrival {
    int64_t time = 0;
    uint64_t before = 0; ///< samples that came earlier
  };
  /// Samples a second from arrival number `first` of those in memory to the last one.
  double rateSince(size_t first) const;

  std::deque<Arrival> latest;
  uint64_t samples = 0;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_ARRIVALRATE_H
