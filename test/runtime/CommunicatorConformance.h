// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every communicator must do. An implementation opts in by a file that instantiates the tests for it, in a test
// program of its own if it needs one.

#ifndef CLEAVE_TEST_RUNTIME_COMMUNICATORCONFORMANCE_H
#define CLEAVE_TEST_RUNTIME_COMMUNICATORCONFORMANCE_H

#include "PlanBuilder.h"

#include "runtime/Communicator.h"

#include <functional>
#include <gtest/gtest.h>

namespace cleave::runtime::test {

/// A communicator and which of the sites it serves: with several processes, those of this one.
struct CommunicatorKind {
  const char *name;
  bool (*isHere)(uint32_t site);
  std::unique_ptr<Communicator> (*create)(const Channels &channels);
  /// Whether a site's error goes with the communication to those who depend on it.
  bool carriesErrors = true;
  /// Whether the machine has what it needs, if that is a question: else tests are skipped.
  bool (*isPossible)() = nullptr;
  /// Whether bytes move so slowly that large buffers are for few tests only.
  bool isSlow = false;
};

inline void PrintTo(const CommunicatorKind &kind, std::ostream *out) { *out << kind.name; }

/// Runs communications of plans without an executor: a thread for each site, each with buffers of its own.
class CommunicatorConformanceTest : public testing::TestWithParam<CommunicatorKind> {
protected:
  void SetUp() override;
  /// Verifies the plan and makes its channels and the communicator.
  void create(const PlanBuilder &builder);
  /// One site's part in one step: gets its site, the step, and gives the participant to `run`.
  using Work = std::function<void(uint32_t site, uint64_t step)>;
  /// Calls work(site, step) for each step, on a thread for each site that is here.
  void onAllSites(uint64_t steps, const Work &work);

  std::optional<Plan> plan;
  const Entry *entry = nullptr;
  std::unique_ptr<Channels> channels;
  std::unique_ptr<Communicator> communicator;
};

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_COMMUNICATORCONFORMANCE_H
