// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which commands are put on streams.

#include "runtime/drivers/cuda/CudaSchedule.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace cleave::runtime::test {
namespace {

using Lists = std::vector<std::vector<CudaStep>>;

// Whatever the lists, if they were made from an order there is one: each command has one turn, after those before it in
// its list and those that it waits for, and a communication has one turn for all its ends.
TEST(CudaScheduleTest, KeepsListsWaitsAndMeetings) {
  std::mt19937 random(1);
  for (unsigned round = 0; round != 300; ++round) {
    Lists lists(1 + random() % 6);
    for (uint32_t order = 0, channel = 0; order != 30; ++order) {
      std::vector<uint32_t> ends;
      for (uint32_t list = 0; list != lists.size(); ++list)
        if (random() % 3 == 0)
          ends.push_back(list);
      bool meets = ends.size() > 1 && random() % 2;
      std::vector<uint32_t> lengths;
      for (const auto &list : lists)
        lengths.push_back(static_cast<uint32_t>(list.size()));
      for (uint32_t list : ends) {
        CudaStep step;
        step.order = random() % 2 ? order : random() % 30;
        if (meets)
          step.channel = channel;
        uint32_t other = random() % lists.size();
        if (other != list && lengths[other] != 0)
          step.waits.push_back({other, 1 + static_cast<uint32_t>(random() % lengths[other])});
        lists[list].push_back(step);
      }
      channel += meets;
    }
    auto turns = scheduleTurns(lists);
    ASSERT_TRUE(turns) << turns.error().text();
    std::vector<uint32_t> reached(lists.size());
    for (const CudaTurn &turn : *turns) {
      auto channel = lists[turn[0].list][turn[0].index].channel;
      EXPECT_TRUE(channel || turn.size() == 1);
      for (const CudaPlace &place : turn) {
        const CudaStep &step = lists[place.list][place.index];
        EXPECT_EQ(place.index, reached[place.list]);
        EXPECT_EQ(step.channel, channel);
        for (const CudaPlace &wait : step.waits)
          EXPECT_GE(reached[wait.list], wait.index);
      }
      for (const CudaPlace &place : turn)
        ++reached[place.list];
    }
    for (size_t list = 0; list != lists.size(); ++list)
      EXPECT_EQ(reached[list], lists[list].size());
  }
}

// Where the plan leaves it open, its global order decides: transfers that are needed first go first.
TEST(CudaScheduleTest, PrefersThePlansOrder) {
  Lists lists = {{{2, {}, {}}, {3, {}, {}}}, {{1, {}, {}}, {4, {}, {}}}};
  auto turns = scheduleTurns(lists);
  ASSERT_TRUE(turns);
  std::vector<uint32_t> orders;
  for (const CudaTurn &turn : *turns)
    orders.push_back(lists[turn[0].list][turn[0].index].order);
  EXPECT_EQ(orders, (std::vector<uint32_t>{1, 2, 3, 4}));
}

// A circle is an error and not an endless loop.
TEST(CudaScheduleTest, RefusesCircles) {
  Lists lists = {{{0, {{1, 1}}, {}}}, {{0, {{0, 1}}, {}}}};
  auto turns = scheduleTurns(lists);
  ASSERT_FALSE(turns);
  EXPECT_EQ(turns.error().status(), Status::Rejected);
}

} // namespace
} // namespace cleave::runtime::test
