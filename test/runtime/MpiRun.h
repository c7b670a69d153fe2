// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs cleave-run under mpirun as a shell would, and finds its processes.

#ifndef CLEAVE_TEST_RUNTIME_MPIRUN_H
#define CLEAVE_TEST_RUNTIME_MPIRUN_H

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cleave::runtime::test {

/// A process of a run. A rank has two: its guard, and the one that the guard guards.
struct RankProcess {
  pid_t process = 0;
  std::optional<unsigned> rank; ///< none: mpirun itself
  bool isGuard = false;
};

class MpiRun {
public:
  using Clock = std::chrono::steady_clock;

  /// Whether this machine has mpirun.
  static bool isPossible();

  /// Starts mpirun in `folder` with what follows its general options. The streams go to the files "out" and "err".
  /// `fault` is CLEAVE_FAULT (runtime/watch/Fault.h), or empty. `before` is a command that starts mpirun, or empty.
  MpiRun(const std::filesystem::path &folder, const std::vector<std::string> &arguments, const std::string &fault = "",
         const std::vector<std::string> &before = {});
  ~MpiRun();
  MpiRun(const MpiRun &) = delete;
  MpiRun &operator=(const MpiRun &) = delete;

  /// Waits for mpirun; its exit code as a shell has it. Empty if it took longer than this, after which all are killed.
  std::optional<int> wait(std::chrono::seconds limit);
  /// The processes that run now, mpirun included.
  std::vector<RankProcess> processes() const;
  /// Whether all processes are gone within this time.
  bool leavesNothing(std::chrono::seconds limit) const;
  /// Where the program wrote to, so far.
  std::string errors() const;
  /// mpirun itself.
  pid_t launcher() const { return child; }

private:
  std::filesystem::path folder;
  std::string mark;
  pid_t child = 0;
};

/// How often `part` is in `text`.
size_t countOf(const std::string &text, const std::string &part);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_MPIRUN_H
