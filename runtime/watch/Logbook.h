// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a process of several writes down for the guard that watches it (Guard.h): memory that both share, so that the
// guard can read what each thread did even when the process is gone or does not run.

#ifndef CLEAVE_RUNTIME_WATCH_LOGBOOK_H
#define CLEAVE_RUNTIME_WATCH_LOGBOOK_H

#include "runtime/Error.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// Whether an instruction works by itself or may wait for others. `Between` is no instruction: a thread that has ended
/// what it had to do, and may have nothing to do for any time.
enum class ActivityKind : uint32_t { None, Between, Communication, Work };

/// What a thread does: "on device \"d0\" in call at node \"fc1\"", and since when, in nanoseconds of the steady clock.
struct Activity {
  ActivityKind kind = ActivityKind::None;
  int64_t since = 0;
  std::string text;
};

/// What becomes of a run when another rank than 0 is lost: it ends; the others go on, told of the loss; or rank 0 goes
/// on alone, and the others are ended and count as lost.
enum class AfterLoss : uint32_t { End, GoOn, GoOnAlone };

/// Written by one process, by any of its threads, and read by its guard at any time.
class Logbook {
public:
  /// A new one, shared with the processes that this one forks from here on. Null when there is no memory for it.
  static Logbook *create();
  /// That of this process; null when nobody watches it.
  static Logbook *own();

  //===-- the process that writes ---------------------------------------------------------------------------------===//

  /// What one thread does.
  struct Line {
    std::atomic<bool> taken{false};
    std::atomic<uint32_t> text{0};   ///< where its text is; 0: it does nothing
    std::atomic<uint64_t> number{0}; ///< what a numbered text ends with
    std::atomic<int64_t> since{0};
  };
  /// A line for a thread; null when there are too many.
  Line *take();
  static void giveBack(Line *line);
  /// Keeps a text for lines to refer to; 0 when there is no room. A numbered one is followed by the line's number.
  uint32_t add(ActivityKind kind, std::string_view text, bool isNumbered = false);

  /// For the handler of a fatal signal: what the process dies of, and in which line (null: it is not known).
  void crash(int signal, const Line *line);
  /// An instruction has failed by itself. The first one counts.
  void fail(const Error &error);
  /// The process ends by itself, because of an error that is not agreed on with the others.
  void leaveBy(const Error &error);
  /// The process ends as the others do.
  void leave() { leaving.store(true); }
  /// Whether the process ends by itself, in a while, when it is asked to.
  void setEndsWhenAsked(bool does) { ends.store(does); }
  /// The signal by which the guard has been asked to end the run; 0: none.
  int askedToEnd() const { return asked.load(); }
  /// Said by rank 0, whose loss ends the run.
  void setAfterLoss(AfterLoss what) { after.store(what); }
  /// What is known of a rank that is lost, in rank 0 of a run that goes on; success of one that is not.
  Error lost(uint32_t rank) const;
  /// The same of the first rank that was lost.
  Error firstLoss() const { return numLosses.load() == 0 ? Error::success() : losses.front().note.read(); }
  /// Whether the caller is the first to say what is wrong: rank 0's process or its guard.
  bool claimReport() { return !reported.exchange(true); }

  //===-- the guard -----------------------------------------------------------------------------------------------===//

  /// What threads do, the one that began last first.
  std::vector<Activity> activities() const;
  /// The signal of crash(), or 0, and what the thread did.
  int crashSignal() const { return signal.load(); }
  std::optional<Activity> crashActivity() const;
  /// The errors of fail() and leaveBy(); success without one.
  Error failure() const { return failed.read(); }
  Error lastWords() const { return words.read(); }
  bool hasLeft() const { return leaving.load(); }
  AfterLoss afterLoss() const { return after.load(); }
  /// Tells the process that a rank is lost; false when there is no room for one more.
  bool lose(uint32_t rank, const Error &error);
  /// Asks the process to end; false where it would not by itself.
  bool askToEnd(int bySignal) {
    if (ends.load())
      asked.store(bySignal);
    return ends.load();
  }

private:
  /// An error, in memory that others read.
  struct Note {
    std::atomic<uint32_t> state{0}; ///< 0: none, 1: somebody writes, 2: there is one
    int status = 0;
    std::array<char, 2048> message{};
    std::array<char, 512> node{};
    void write(const Error &error);
    Error read() const;
  };
  Activity read(const Line &line) const;

  /// In front of each text, which ends with a zero.
  struct TextHead {
    ActivityKind kind = ActivityKind::None;
    uint32_t isNumbered = 0;
  };

  static constexpr size_t textBytes = size_t(64) << 20; ///< reserved; only what is written takes memory
  std::array<Line, 1024> lines;
  std::atomic<int> signal{0};
  std::atomic<uint32_t> crashed{0}; ///< the line's number, from 1
  std::atomic<bool> leaving{false}, reported{false}, ends{false};
  std::atomic<int> asked{0};
  std::atomic<AfterLoss> after{AfterLoss::End};
  struct Loss {
    uint32_t rank = 0;
    Note note;
  };
  std::array<Loss, 64> losses;
  std::atomic<uint32_t> numLosses{0};
  Note failed, words;
  std::atomic<uint32_t> end{8};
  std::array<char, textBytes> texts;
};

/// What this thread does as long as it lives, in the logbook of this process, if it has one: what takes part in no
/// step.
class NotedActivity {
public:
  NotedActivity(ActivityKind kind, std::string_view text);
  ~NotedActivity() { Logbook::giveBack(line); }
  NotedActivity(const NotedActivity &) = delete;
  NotedActivity &operator=(const NotedActivity &) = delete;

private:
  Logbook::Line *const line;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WATCH_LOGBOOK_H
