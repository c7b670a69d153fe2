// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Waits are complete, and none is there that others imply. Occupancy of bytes.

#include "passes/schedule/HappensBefore.h"
#include "passes/schedule/Occupancy.h"

#include <gtest/gtest.h>

using namespace cleave::schedule;

namespace {

using Points = std::vector<TimelinePoint>;

// A queue runs in order: what is needed of the own queue is there already.
TEST(HappensBefore, NeedsNoWaitOnTheOwnQueue) {
  HappensBefore past(2);
  past.append(0, {});
  EXPECT_EQ(past.append(0, {{0, 1}}), Points());
}

// The later of two points of a queue implies the earlier one.
TEST(HappensBefore, WaitsForTheLatestPointOnly) {
  HappensBefore past(2);
  past.append(0, {});
  past.append(0, {});
  EXPECT_EQ(past.append(1, {{0, 1}, {0, 2}}), (Points{{0, 2}}));
}

// What the instruction before on the same queue has waited for is over.
TEST(HappensBefore, RemembersEarlierWaits) {
  HappensBefore past(2);
  past.append(0, {});
  EXPECT_EQ(past.append(1, {{0, 1}}), (Points{{0, 1}}));
  EXPECT_EQ(past.append(1, {{0, 1}}), Points());
}

// Queue 2 needs 0 and 1, but 1 has waited for 0.
TEST(HappensBefore, DropsWhatAnotherWaitImplies) {
  HappensBefore past(3);
  past.append(0, {});
  past.append(1, {{0, 1}});
  EXPECT_EQ(past.append(2, {{0, 1}, {1, 1}}), (Points{{1, 1}}));
}

// A receive ends with its send, so what came before the send is over for whoever waits for the receive.
TEST(HappensBefore, KnowsWhatTheOtherEndOfATransferWaitedFor) {
  HappensBefore past(4);
  past.append(0, {});
  past.append(1, {{0, 1}});
  past.append(2, {});
  past.meet(1, 2);
  EXPECT_EQ(past.append(3, {{0, 1}, {2, 1}}), (Points{{2, 1}}));
}

// A value takes over from all values of which it covers a part, and the rest of them stays theirs.
TEST(Occupancy, TakesOverParts) {
  Occupancy arena;
  EXPECT_EQ(arena.take(0, 0, 128), std::vector<unsigned>());
  EXPECT_EQ(arena.take(1, 128, 128), std::vector<unsigned>());
  EXPECT_EQ(arena.take(2, 64, 128), (std::vector<unsigned>{0, 1}));
  EXPECT_EQ(arena.take(3, 0, 64), (std::vector<unsigned>{0}));
  EXPECT_EQ(arena.take(4, 0, 256), (std::vector<unsigned>{3, 2, 1}));
}

// The middle of a value is taken, both of its ends stay.
TEST(Occupancy, TakesTheMiddle) {
  Occupancy arena;
  arena.take(0, 0, 192);
  EXPECT_EQ(arena.take(1, 64, 64), (std::vector<unsigned>{0}));
  EXPECT_EQ(arena.take(2, 0, 192), (std::vector<unsigned>{0, 1}));
}

} // namespace
