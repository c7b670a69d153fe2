// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of plans on four processes that meet faults, with devices of any driver, and what must hold after each: all have
// ended within seconds, with the right exit code and one message, and nobody is left behind.

#ifndef CLEAVE_TEST_RUNTIME_FAULTRUNS_H
#define CLEAVE_TEST_RUNTIME_FAULTRUNS_H

#include "MpiRun.h"
#include "Slowness.h"

#include <functional>
#include <gtest/gtest.h>
#include <span>

namespace cleave::runtime::test {

/// An instruction of rank 2 in one of the plans.
struct FaultPlace {
  const char *plan, *action, *node;
};
/// One of each kind.
std::span<const FaultPlace> faultPlaces();

class FaultRuns : public testing::Test {
protected:
  using seconds = std::chrono::seconds;

  /// What runs for longer hangs, however busy the machine is. Messages say after how long a rank was given up.
  static constexpr seconds patience{60};

  /// Runs of `program` on devices "d0" to "d3" of the driver; `before` goes before mpirun.
  FaultRuns(std::string program, std::string driver, std::vector<std::string> before = {})
      : program(std::move(program)), driver(std::move(driver)), before(std::move(before)) {}
  /// Writes mesh.plan and chain.plan.
  void SetUp() override;
  void TearDown() override;

  /// Many steps of a plan on four processes.
  MpiRun start(const std::string &plan, const std::vector<std::string> &options = {},
               const std::string &fault = "") const;
  /// What must hold after any fault.
  static void expectEnd(MpiRun &run, int code, const std::string &message, seconds within = patience);
  /// An instruction of rank 2 meets a fault in a step.
  void at(const FaultPlace &place, int step, const std::string &what, const std::vector<std::string> &options, int code,
          const std::string &message) const;
  /// "on device "d2" in call at node "double"", with a space in front.
  static std::string textOf(const FaultPlace &place);

  /// Waits until the process of a rank (or its guard) is there.
  static pid_t find(const MpiRun &run, unsigned rank, bool guard);
  /// Signals a process that runs steps.
  static void signalLater(const MpiRun &run, unsigned rank, bool guard, int signal);

  const std::string program, driver;
  const std::vector<std::string> before;
  std::filesystem::path folder;
};

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_FAULTRUNS_H
