// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the guard of rank 0 knows of all ranks, and what follows from it: which failure was the first, and who has not
// answered for too long. It only judges: hearing, saying and ending are Guard.cpp's.

#ifndef CLEAVE_RUNTIME_WATCH_RUNWATCH_H
#define CLEAVE_RUNTIME_WATCH_RUNWATCH_H

#include "runtime/watch/GuardLink.h"
#include "runtime/watch/Watch.h"

#include <optional>
#include <utility>

namespace cleave::runtime {

/// In nanoseconds.
constexpr int64_t second = 1'000'000'000;
inline int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * static_cast<double>(second)); }

/// When a failure ends the run: at once; soon, since it may follow from one that is still to be heard of; or only if
/// the processes do not end together because of it.
enum class Urgency : uint32_t { Now, Soon, IfItHangs };

struct Failure {
  uint32_t rank = 0;
  Status status = Status::Lost;
  Urgency urgency = Urgency::Now;
  std::string text, node;
};

/// "8 s", "0.5 s".
std::string secondsText(int64_t nanoseconds);

/// All times are in nanoseconds of rank 0's clock.
class RunWatch {
public:
  RunWatch(uint32_t count, const WatchOptions &options, int64_t time);

  /// A guard has said hello. False if it cannot be one of the run.
  bool join(const GuardMessage &hello, int64_t time);
  /// A guard, or this one of itself, has said what its process does.
  void beat(uint32_t rank, const GuardMessage &beat, int64_t time);
  /// A rank has ended as it should.
  void end(uint32_t rank) { members[rank].ended = true; }
  bool hasEnded(uint32_t rank) const { return members[rank].ended; }
  /// The connection to a rank's guard is gone.
  void leave(uint32_t rank, int64_t time);
  void fail(const Failure &failure, int64_t time);
  /// What becomes of the run from here on when other ranks than 0 fail. Where it goes on it does so whatever
  /// instructions fail.
  void setAfterLoss(AfterLoss what) { afterLoss = what; }
  /// Those that it has gone on without since the last call.
  std::vector<Failure> takeLosses() { return std::exchange(losses, {}); }
  /// Counts nobody's silence before this time.
  void forgive(int64_t time);

  /// What the run is to end with now, if anything.
  std::optional<Failure> decide(int64_t time);
  /// Whether all ranks have ended as they should.
  bool isOver() const;

private:
  struct Member {
    int64_t heard = 0;
    bool joined = false, ended = false, lost = false;
    bool isThere() const { return !ended && !lost; }
    std::string host;
    GuardMessage beat;
    int64_t beatAt = 0;
  };
  /// "rank 2", with its host where there are several.
  std::string name(uint32_t rank) const;
  bool goesOn() const { return afterLoss != AfterLoss::End; }
  void lose(const Failure &failure);
  std::string lastHeardOf(uint32_t rank, int64_t time) const;
  std::optional<Failure> findSilent(int64_t time) const;
  std::optional<Failure> findSlow() const;

  const WatchOptions options;
  std::vector<Member> members;
  std::optional<Failure> first;
  AfterLoss afterLoss = AfterLoss::End;
  std::vector<Failure> losses;
  int64_t decideAt = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_RUNWATCH_H
