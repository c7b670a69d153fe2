// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requests that wait for a batch: by priority, then in the order in which they came.

#ifndef CLEAVE_RUNTIME_SERVE_REQUESTQUEUE_H
#define CLEAVE_RUNTIME_SERVE_REQUESTQUEUE_H

#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

namespace cleave::runtime::serve {

using RequestId = uint64_t;

/// Nanoseconds of one clock that only goes forwards.
using Time = int64_t;
inline constexpr Time never = std::numeric_limits<Time>::max();

struct Request {
  RequestId id = 0;
  /// At least one. A request of several may be divided between batches.
  uint64_t samples = 1;
  /// Smaller ones go first.
  uint32_t priority = 0;
  Time arrival = 0;
  /// Of no use to anybody if it is not over by then.
  Time deadline = never;
};

/// Samples of a request that go into one batch: `count` from number `first` on.
struct Slice {
  RequestId id = 0;
  uint64_t first = 0, count = 0;

  bool operator==(const Slice &) const = default;
};

class RequestQueue {
public:
  /// Ids are the caller's, each used once.
  void push(const Request &request);
  /// Takes a request out; whether it waited. What is in a batch already is not here.
  bool remove(RequestId id);
  /// Takes the next samples out, at most `most`.
  std::vector<Slice> take(uint64_t most);
  /// What `take` would take out.
  std::vector<Slice> peek(uint64_t most) const;
  /// Takes out those of which no sample was taken yet and whose deadline is before `time`.
  std::vector<RequestId> removeDue(Time time);

  uint64_t samples() const { return numSamples; }
  /// Samples that go before those of a new request of this priority.
  uint64_t samplesBefore(uint32_t priority) const;
  size_t requests() const { return where.size(); }
  bool empty() const { return where.empty(); }
  /// When the request that waits longest came; `never` where none waits.
  Time oldest() const { return arrivals.empty() ? never : arrivals.begin()->first; }
  /// The earliest deadline of a request of which no sample was taken; `never` where none has one.
  Time nextDeadline() const { return deadlines.empty() ? never : deadlines.begin()->first; }

private:
  struct Waiting {
    Request request;
    uint64_t taken = 0;
  };
  using Level = std::list<Waiting>;
  struct Place {
    uint32_t priority;
    Level::iterator at;
  };
  void forget(const Waiting &waiting);

  std::map<uint32_t, Level> levels;
  std::map<uint32_t, uint64_t> samplesOfLevel;
  std::unordered_map<RequestId, Place> where;
  std::set<std::pair<Time, RequestId>> arrivals, deadlines;
  uint64_t numSamples = 0;
};

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_REQUESTQUEUE_H
