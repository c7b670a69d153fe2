// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What rank 0's guard concludes from what it hears, without processes.

#include "runtime/watch/RunWatch.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

/// From this host, or another.
GuardMessage helloOf(uint32_t rank, const char *host = nullptr) {
  GuardMessage message;
  gethostname(message.host.data(), message.host.size() - 1);
  message.kind = GuardMessageKind::Hello;
  message.rank = rank;
  if (host)
    putText(message.host, host);
  return message;
}

GuardMessage beatOf(ActivityKind kind, const char *text, int64_t age) {
  GuardMessage message;
  message.latest.kind = kind;
  message.latest.age = age;
  putText(message.latest.text, text);
  message.longest = message.latest;
  return message;
}

/// A watch over three ranks from time 0 on.
RunWatch threeRanks(const WatchOptions &options = {}) {
  RunWatch watch(3, options, 0);
  EXPECT_TRUE(watch.join(helloOf(1), 0));
  EXPECT_TRUE(watch.join(helloOf(2), 0));
  return watch;
}

// Only ranks of the run may say hello, each once.
TEST(RunWatchTest, TakesEachRankOnce) {
  RunWatch watch = threeRanks();
  EXPECT_FALSE(watch.join(helloOf(1), 0));
  EXPECT_FALSE(watch.join(helloOf(0), 0));
  EXPECT_FALSE(watch.join(helloOf(3), 0));
}

// The run is over when all ranks have ended, and nobody is missed then.
TEST(RunWatchTest, EndsWithAll) {
  RunWatch watch = threeRanks();
  for (uint32_t rank : {0u, 2u})
    watch.end(rank);
  EXPECT_FALSE(watch.isOver());
  watch.end(1);
  EXPECT_TRUE(watch.isOver());
  watch.leave(1, second);
  EXPECT_FALSE(watch.decide(100 * second));
}

// A process that ended because another one was lost does not hide that one.
TEST(RunWatchTest, PrefersCause) {
  RunWatch watch = threeRanks();
  watch.fail({1, Status::Failure, Urgency::Soon, "consequence", ""}, 0);
  EXPECT_FALSE(watch.decide(second / 10));
  watch.fail({2, Status::Lost, Urgency::Now, "cause", ""}, second / 5);
  ASSERT_TRUE(watch.decide(second / 5));
  EXPECT_EQ(watch.decide(second / 5)->text, "cause");
  RunWatch other = threeRanks();
  other.fail({1, Status::Failure, Urgency::Soon, "first", ""}, 0);
  other.fail({2, Status::Failure, Urgency::Soon, "second", ""}, 0);
  ASSERT_TRUE(other.decide(second));
  EXPECT_EQ(other.decide(second)->text, "first");
}

// Where there are several hosts, messages name the one: which is not known to the rank that composes them.
TEST(RunWatchTest, NamesHosts) {
  RunWatch same = threeRanks();
  same.fail({2, Status::Lost, Urgency::Now, "rank 2 is lost: signal 9", ""}, 0);
  EXPECT_EQ(same.decide(0)->text, "rank 2 is lost: signal 9");
  for (const char *what : {" is lost: signal 9", ": device \"d2\", call: no", " has been stopped for 8 s"}) {
    RunWatch watch(2, {}, 0);
    EXPECT_TRUE(watch.join(helloOf(1, "beta"), 0));
    watch.fail({1, Status::Lost, Urgency::Now, std::string("rank 1") + what, ""}, 0);
    EXPECT_EQ(watch.decide(0)->text, std::string("rank 1 on host \"beta\"") + what);
  }
}

// An error that all are about to agree on ends the run only if they do not, and never without a limit.
TEST(RunWatchTest, LeavesTimeToAgree) {
  RunWatch watch = threeRanks({2, 0});
  watch.fail({1, Status::Failure, Urgency::IfItHangs, "no disk", "conv"}, 0);
  for (uint32_t rank : {1u, 2u})
    watch.beat(rank, {}, second);
  EXPECT_FALSE(watch.decide(second));
  for (uint32_t rank : {1u, 2u})
    watch.beat(rank, {}, 2 * second);
  ASSERT_TRUE(watch.decide(2 * second));
  EXPECT_EQ(watch.decide(2 * second)->node, "conv");
  RunWatch patient = threeRanks({0, 0});
  patient.fail({1, Status::Failure, Urgency::IfItHangs, "no disk", ""}, 0);
  EXPECT_FALSE(patient.decide(1000 * second));
}

// A run that goes on without ranks that are lost tells each of them once, whatever was noticed of it, and ends only
// because of rank 0.
TEST(RunWatchTest, GoesOnWithoutOthers) {
  RunWatch watch = threeRanks({2, 0});
  watch.setAfterLoss(AfterLoss::GoOn);
  watch.fail({1, Status::Lost, Urgency::IfItHangs, "rank 1: no disk", ""}, 0);
  watch.fail({2, Status::Lost, Urgency::Now, "rank 2 is lost: signal 9", ""}, 0);
  watch.leave(2, 0);
  EXPECT_FALSE(watch.decide(second));
  std::vector<Failure> losses = watch.takeLosses();
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses.front().text, "rank 2 is lost: signal 9");
  // Silence is a loss as well.
  EXPECT_FALSE(watch.decide(3 * second));
  losses = watch.takeLosses();
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses.front().rank, 1u);
  EXPECT_FALSE(watch.isOver());
  watch.end(0);
  EXPECT_TRUE(watch.isOver());
  watch.fail({0, Status::Lost, Urgency::Now, "rank 0 is lost: signal 9", ""}, 3 * second);
  EXPECT_TRUE(watch.decide(3 * second));
}

// Where rank 0 goes on alone, the loss of one takes the others along, with the name of the first.
TEST(RunWatchTest, GoesOnAlone) {
  RunWatch watch = threeRanks({2, 0});
  watch.setAfterLoss(AfterLoss::GoOnAlone);
  watch.fail({2, Status::Lost, Urgency::Now, "rank 2 is lost: signal 9", ""}, 0);
  watch.leave(1, 0);
  std::vector<Failure> losses = watch.takeLosses();
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses.front().rank, 2u);
  EXPECT_EQ(losses.back().rank, 1u);
  EXPECT_EQ(losses.back().text, "rank 2 is lost: signal 9");
  EXPECT_FALSE(watch.decide(3 * second));
  watch.end(0);
  EXPECT_TRUE(watch.isOver());
}

// Silence is told with what was heard last, and with the host where there are several.
TEST(RunWatchTest, NoticesSilence) {
  RunWatch watch(3, {2, 0}, 0);
  EXPECT_TRUE(watch.join(helloOf(1, "a"), 0));
  EXPECT_TRUE(watch.join(helloOf(2, "b"), 0));
  watch.beat(1, {}, second);
  watch.beat(2, beatOf(ActivityKind::Work, "on device \"d2\" in call at node \"fc\"", 0), second / 2);
  EXPECT_FALSE(watch.decide(2 * second));
  watch.beat(1, {}, 2 * second);
  auto failure = watch.decide(5 * second / 2);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2u);
  EXPECT_EQ(failure->status, Status::TimedOut);
  EXPECT_EQ(failure->text, "rank 2 on host \"b\" has not answered for 2 s; heard of last 2 s ago, on device \"d2\" in "
                           "call at node \"fc\"");
  watch.forgive(5 * second / 2);
  EXPECT_FALSE(watch.decide(5 * second / 2));
  watch.leave(1, 5 * second / 2);
  failure = watch.decide(5 * second / 2);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->text,
            "rank 1 on host \"a\" is lost: the connection has ended; heard of last 0.5 s ago, between instructions");
  EXPECT_EQ(failure->status, Status::Lost);
}

// Of a step that takes too long those who work are named, then those who do nothing, and who waits only if all do.
TEST(RunWatchTest, NamesWhoHoldsUp) {
  const GuardMessage work = beatOf(ActivityKind::Work, "on device \"d\" in call at node \"fc\"", second);
  const GuardMessage wait =
      beatOf(ActivityKind::Communication, "on device \"e\" in receive at node \"fc\"", 5 * second);
  auto textOf = [&](const GuardMessage &second, const GuardMessage &third, double limit) {
    RunWatch watch = threeRanks({0, limit});
    watch.beat(0, wait, 0);
    watch.beat(1, second, 0);
    watch.beat(2, third, 0);
    auto failure = watch.decide(0);
    return failure ? failure->text : "";
  };
  EXPECT_EQ(textOf(wait, work, 6), "");
  EXPECT_EQ(textOf(wait, work, 0), "");
  EXPECT_EQ(
      textOf(wait, work, 5),
      "rank 2 has been on device \"d\" in call at node \"fc\" for 1 s, others have waited for 5 s; --step-timeout "
      "allows 5 s");
  EXPECT_EQ(textOf(wait, {}, 5),
            "rank 2 is between instructions, others have waited for 5 s; --step-timeout allows 5 s");
  EXPECT_EQ(textOf(wait, wait, 5),
            "rank 0 has been on device \"e\" in receive at node \"fc\" for 5 s; --step-timeout allows 5 s");
}

// Steps that tell no instructions: whoever is in one for longest holds up the others, also those who have ended it and
// wait for its results; whoever has ended one long ago and begun no other holds up those who are in that one. By itself
// having nothing to do takes any time.
TEST(RunWatchTest, NamesWhoIsBehindInSteps) {
  WatchOptions options;
  options.stepTimeout = 3;
  auto beats = [&](ActivityKind kind, const char *text, ActivityKind otherKind, const char *otherText, int64_t age) {
    RunWatch watch = threeRanks(options);
    watch.beat(0, beatOf(kind, text, 4 * second), 5 * second);
    watch.beat(1, beatOf(otherKind, otherText, age), 5 * second);
    watch.beat(2, beatOf(ActivityKind::Between, "after step 2", 1 * second), 5 * second);
    return watch.decide(5 * second);
  };
  auto failure = beats(ActivityKind::Communication, "in the replay of step 6", ActivityKind::Between, "after step 6",
                       3 * second + second / 2);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->text, "rank 0 has been in the replay of step 6 for 4 s; --step-timeout allows 3 s");
  failure =
      beats(ActivityKind::Communication, "in the replay of step 7", ActivityKind::Between, "after step 6", 5 * second);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->text, "rank 1 has been after step 6 for 5 s; --step-timeout allows 3 s");
  EXPECT_FALSE(beats(ActivityKind::Between, "after step 6", ActivityKind::Between, "after step 6", 4 * second));
}

} // namespace
} // namespace cleave::runtime::test
