// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Signals that ask a run to end, of one that has something to keep: it ends after the current step.

#ifndef CLEAVE_RUNTIME_TRAINING_STOPSIGNALS_H
#define CLEAVE_RUNTIME_TRAINING_STOPSIGNALS_H

#include <array>
#include <csignal>
#include <string>

namespace cleave::runtime {

/// As long as it lives, the first SIGTERM, SIGINT or SIGHUP only asks, and a second one ends the process as it would
/// without. Those that are ignored when it begins stay so (nohup). Where the process has a guard (Watch.h), the guard
/// takes part: what only the guard gets asks as well, and a second signal to it ends the run. One at a time.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that has asked this process to end, since the first StopSignals was made; 0: none.
  static int asked();
  /// The same as when this signal comes, which another process of the run has got.
  static void ask(int signal);
  /// "SIGTERM".
  static std::string nameOf(int signal);
  /// What programs exit with that end by a signal, as shells have it.
  static int exitCodeOf(int signal) { return 128 + signal; }
  /// Ends the process by the signal that has asked it to end, if `code`, which it would exit with, says that this was
  /// why it ended: shells stop their loops for a program that was ended by Ctrl-C. A process with a guard exits as
  /// others do. To be called when nothing is left to write.
  static void endAsAsked(int code);

private:
  static constexpr std::array<int, 3> signals = {SIGTERM, SIGINT, SIGHUP};
  std::array<struct sigaction, signals.size()> before;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_STOPSIGNALS_H
