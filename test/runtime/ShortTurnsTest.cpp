// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the system says of a thread that has asked for short turns. That it is woken sooner is not tested: it would take
// two busy cores and a clock.

#include "runtime/drivers/cpu/ShortTurns.h"

#include <array>
#include <gtest/gtest.h>
#include <optional>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

/// Policy and slice of the calling thread, from the words of sched_getattr's struct.
struct Turns {
  uint32_t policy = 0;
  uint64_t slice = 0;
};

std::optional<Turns> turns() {
  std::array<uint32_t, 12> words{};
  if (syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0) != 0)
    return std::nullopt;
  return Turns{words[1], words[6] | uint64_t(words[7]) << 32};
}

TEST(ShortTurns, ShortenTheSliceOfTheThreadAlone) {
  std::optional<Turns> before = turns();
  if (!before || before->slice == 0)
    GTEST_SKIP() << "this system has no slices to ask for (Linux 6.12 has)";
  std::optional<Turns> of;
  int nice = getpriority(PRIO_PROCESS, 0), niceOf = nice + 1;
  std::thread([&] {
    takeShortTurns();
    of = turns();
    niceOf = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  }).join();
  ASSERT_TRUE(of);
  EXPECT_LT(of->slice, before->slice);
  EXPECT_EQ(of->policy, before->policy);
  EXPECT_EQ(niceOf, nice);
  EXPECT_EQ(turns()->slice, before->slice);
}

} // namespace
