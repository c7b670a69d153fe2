// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When values move to the host's memory and come back, and what memory that leaves.

#include "passes/schedule/HostCopies.h"

#include "ProblemBuilder.h"
#include "ScheduleChecker.h"

#include <gtest/gtest.h>

using namespace cleave::schedule;

namespace {

/// A device that runs in the model's order.
struct Offloading : ProblemBuilder {
  Offloading() : ProblemBuilder(1) { problem.ordered = {true}; }

  Task &taskOf(unsigned value) { return problem.tasks[writerOf(value)]; }
};

// Calls a, b, c and d of a second each: what d reads, and half a second brings back, is on its way while c runs.
TEST(HostCopies, ComeWhenTheyAreNeeded) {
  Offloading builder;
  unsigned a = builder.launch(0, {builder.input(0, 64)}, 64);
  unsigned kept = builder.offload(a, 0.5);
  unsigned b = builder.launch(0, {a}, 64), c = builder.launch(0, {b}, 64);
  unsigned back = builder.fetch(kept, 0.5);
  builder.output(builder.launch(0, {c, back}, 64));
  paceHostCopies(builder.problem);
  EXPECT_EQ(builder.taskOf(back).after, std::vector{builder.writerOf(b)});
}

// One way for all: what the last call reads comes last, and the one before it earlier than its reader needs it.
TEST(HostCopies, ComeOneAfterTheOther) {
  Offloading builder;
  unsigned a = builder.launch(0, {builder.input(0, 64)}, 64);
  unsigned first = builder.offload(a), second = builder.offload(a);
  unsigned b = builder.launch(0, {a}, 64), c = builder.launch(0, {b}, 64), d = builder.launch(0, {c}, 64);
  unsigned late = builder.fetch(second, 1.5), early = builder.fetch(first, 0.25);
  unsigned e = builder.launch(0, {d, early}, 64, 0.5);
  builder.output(builder.launch(0, {e, late}, 64));
  // The last call begins at 4.5, and what it reads comes from 3 on; the call before begins at 4.
  paceHostCopies(builder.problem);
  EXPECT_EQ(builder.taskOf(late).after, std::vector{builder.writerOf(c)});
  EXPECT_EQ(builder.taskOf(early).after, std::vector{builder.writerOf(b)});
}

// A way that is too slow does not fill the device's memory before others have had it: nothing comes back before the
// last value has gone that is moved away, here b; what the last call reads is on its way when c has had what it waits
// for.
TEST(HostCopies, ComeBehindWhatIsMovedAway) {
  Offloading builder;
  unsigned a = builder.launch(0, {builder.input(0, 64)}, 64);
  unsigned first = builder.offload(a, 10);
  unsigned b = builder.launch(0, {a}, 64);
  unsigned second = builder.offload(b, 10);
  unsigned c = builder.launch(0, {builder.launch(0, {b}, 64), builder.fetch(second, 10)}, 64, 20);
  unsigned back = builder.fetch(first, 10);
  builder.output(builder.launch(0, {c, back}, 64));
  paceHostCopies(builder.problem);
  // Of the fetch that c reads.
  unsigned early = builder.problem.tasks[builder.writerOf(c)].reads.back();
  EXPECT_EQ(builder.taskOf(early).after, std::vector{builder.writerOf(b)});
  // c runs from 12 to 32, and the other one comes from 22 on: after the call before c.
  EXPECT_EQ(builder.taskOf(back).after, std::vector{builder.writerOf(c) - 2});
  EXPECT_TRUE(solve(builder.problem).has_value());
}

// Two of the largest values may be on their way: the call that makes the third one, and with it what is moved after it,
// follows the moving of the first; one that makes a small one waits for none.
TEST(HostCopies, LeaveInTurns) {
  Offloading builder;
  unsigned a = builder.launch(0, {builder.input(0, 64)}, 1024);
  unsigned kept = builder.offload(a, 10);
  unsigned b = builder.launch(0, {a}, 1024);
  builder.offload(b, 10);
  unsigned c = builder.launch(0, {b}, 1024);
  builder.offload(c, 10);
  unsigned d = builder.launch(0, {c}, 64), e = builder.launch(0, {d}, 64);
  builder.offload(e, 1);
  builder.output(builder.launch(0, {e, builder.fetch(kept)}, 64));
  paceHostCopies(builder.problem);
  EXPECT_TRUE(builder.taskOf(a).after.empty());
  EXPECT_TRUE(builder.taskOf(b).after.empty());
  EXPECT_EQ(builder.taskOf(c).after, std::vector{builder.writerOf(kept)});
  // Behind b and c, 64 bytes are too many.
  EXPECT_EQ(builder.taskOf(e).after, std::vector{builder.writerOf(b) + 1});
  EXPECT_TRUE(builder.taskOf(d).after.empty());
}

// Between the passes the device's memory is free for others: 1,024 bytes of a, then of c, then of a again, when the
// last call has two values of 64 bytes beside it.
TEST(HostCopies, LeaveMemoryToOthers) {
  for (bool offloads : {false, true}) {
    Offloading builder;
    unsigned a = builder.launch(0, {builder.input(0, 64)}, 1024);
    unsigned kept = offloads ? builder.offload(a, 0.5) : a;
    unsigned b = builder.launch(0, {a}, 64);
    unsigned pause = builder.launch(0, {b}, 64);
    unsigned c = builder.launch(0, {pause}, 1024), d = builder.launch(0, {c}, 64);
    unsigned rest = builder.launch(0, {d}, 64);
    unsigned back = offloads ? builder.fetch(kept, 0.5) : a;
    builder.output(builder.launch(0, {rest, back}, 64));
    paceHostCopies(builder.problem);
    auto schedule = solve(builder.problem);
    ASSERT_TRUE(schedule);
    EXPECT_EQ(findFault(builder.problem, *schedule), "");
    const DeviceSchedule &device = schedule->devices.front();
    EXPECT_EQ(device.hostBytes, offloads ? 1024u : 0u);
    EXPECT_EQ(device.liveBytes, offloads ? 1024u + 2 * 64 : 2 * 1024u + 64);
    EXPECT_EQ(device.queues.size(), offloads ? 3u : 1u);
  }
}

} // namespace
