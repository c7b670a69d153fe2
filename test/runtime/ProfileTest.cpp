// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The host's profile: what is read back, what is refused, and which calls of kernels are alike.

#include "PlanBuilder.h"

#include "runtime/profile/KernelTimer.h"
#include "runtime/profile/KernelUse.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

class ProfileTest : public testing::Test {
protected:
  void SetUp() override {
    file = std::filesystem::temp_directory_path() / ("cleave-profile-" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove(file); }
  std::filesystem::path file;
};

// What was written is read; what is not there is empty.
TEST_F(ProfileTest, ReadsBack) {
  Profile profile;
  profile.setKernel(42, {1.5e-6, 2.5e-6, "matmul.0 of two words"});
  profile.addPoint("copy", 1000, 1e-6);
  profile.addPoint("copy", 3000, 3e-6);
  profile.setNumber("wake:1x1", 5e-6);
  ASSERT_FALSE(profile.write(file));
  auto read = Profile::read(file);
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_NE(read->kernel(42), nullptr);
  EXPECT_EQ(read->kernel(42)->busy, 2.5e-6);
  EXPECT_EQ(read->kernel(42)->name, "matmul.0 of two words");
  EXPECT_EQ(read->kernel(43), nullptr);
  EXPECT_EQ(read->number("wake:1x1"), 5e-6);
  EXPECT_FALSE(read->number("wake:2x1"));
  EXPECT_EQ(Profile::read("/nowhere/at/all")->numKernels(), 0u);
}

// Before the first point as long as there, between two along a line, behind the last at its rate.
TEST_F(ProfileTest, Interpolates) {
  Profile profile;
  profile.addPoint("copy", 1000, 1e-6);
  profile.addPoint("copy", 3000, 5e-6);
  EXPECT_DOUBLE_EQ(*profile.curve("copy", 10), 1e-6);
  EXPECT_DOUBLE_EQ(*profile.curve("copy", 1000), 1e-6);
  EXPECT_DOUBLE_EQ(*profile.curve("copy", 2000), 3e-6);
  EXPECT_DOUBLE_EQ(*profile.curve("copy", 6000), 10e-6);
  EXPECT_FALSE(profile.curve("send", 10));
}

// Damaged files are refused with the line.
TEST_F(ProfileTest, RefusesDamage) {
  for (const char *line : {"kernel", "kernel xyz 1 2", "kernel 1f -1 2", "kernel 1f 1 nan", "curve copy 1",
                           "curve copy 1 inf", "number wake", "number wake -3", "something else", "\xff\xfe"}) {
    std::ofstream(file) << "cleave profile 1\n" << line << "\n";
    auto read = Profile::read(file);
    ASSERT_FALSE(read) << line;
    EXPECT_EQ(read.error().status(), Status::Rejected);
    EXPECT_NE(read.error().message().find(":2: expects"), std::string::npos) << read.error().message();
  }
  std::ofstream(file) << "other\n";
  EXPECT_FALSE(Profile::read(file));
}

/// Two calls of one kernel on fresh buffers, a third on a weight, a fourth in place.
PlanBuilder callsPlan() {
  PlanBuilder builder("cpu");
  uint32_t d = builder.device("d"), x = builder.input("x", 64), kernel = builder.kernel("twice", 1, 64);
  uint32_t w = builder.constant("w", 64, 1), weight = builder.buffer(d, "weight", 64);
  uint32_t a = builder.buffer(d, "a", 64), b = builder.buffer(d, "b", 64), c = builder.buffer(d, "c", 64),
           e = builder.buffer(d, "e", 64);
  builder.into(Phase::Prepare).loadParameter(d, w, weight);
  builder.into(Phase::Body);
  Point first = builder.call(d, "first", kernel, {a, b}, {builder.loadInput(d, x, a)});
  Point second = builder.call(d, "second", kernel, {b, c}, {first});
  builder.call(d, "third", kernel, {weight, e}, {second});
  return builder;
}

// Calls on passing buffers are alike wherever these lie; a call on a weight is another.
TEST_F(ProfileTest, TellsUsesApart) {
  Plan plan = callsPlan().read();
  auto uses = kernelUsesOf(plan->entries[0].programs[0], 1);
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].signature(*plan), uses[1].signature(*plan));
  EXPECT_NE(uses[0].signature(*plan), uses[2].signature(*plan));
  EXPECT_EQ(uses[0].blocks.size(), 2u);
  for (const KernelUse &use : uses) {
    EXPECT_TRUE(use.arguments[0].isWarm && use.arguments[1].isWarm);
    EXPECT_EQ(use.lastingDistance + use.passingDistance, 0u);
  }
  EXPECT_TRUE(uses[2].blocks[uses[2].arguments[0].block].lasts);
  EXPECT_NE(Profile::keyOf("k", 1, 1), Profile::keyOf("k", 2, 1));
}

// What a step has left behind more bytes than a core's caches hold is cold, as the forward pass's results are in the
// backward pass; what the instruction before has made is warm.
TEST_F(ProfileTest, KnowsWhatIsWarm) {
  constexpr int64_t large = int64_t(1) << 26;
  PlanBuilder builder("cpu");
  uint32_t d = builder.device("d"), x = builder.input("x", 64), small = builder.kernel("small", 1, 64),
           big = builder.kernel("big", 1, large);
  uint32_t a = builder.buffer(d, "a", 64), b = builder.buffer(d, "b", large), c = builder.buffer(d, "c", large),
           e = builder.buffer(d, "e", 64);
  builder.into(Phase::Body);
  Point loaded = builder.loadInput(d, x, a);
  Point first = builder.call(d, "forward", small, {a, e}, {loaded});
  Point second = builder.call(d, "between", big, {b, c}, {first});
  builder.call(d, "backward", small, {a, e}, {second});
  Plan plan = builder.read();
  auto uses = kernelUsesOf(plan->entries[0].programs[0], 1);
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_TRUE(uses[0].arguments[0].isWarm);
  EXPECT_FALSE(uses[2].arguments[0].isWarm);
  EXPECT_GT(uses[2].passingDistance, 0u);
}

// However few bytes calls touch, a thousand of them push out what came before: a step of many small calls is not read
// from end to end for each.
TEST_F(ProfileTest, ForgetsAfterManyCalls) {
  for (unsigned calls : {900u, 1100u}) {
    PlanBuilder builder("cpu");
    uint32_t d = builder.device("d"), x = builder.input("x", 4), kernel = builder.kernel("twice", 1, 4);
    uint32_t a = builder.buffer(d, "a", 4), b = builder.buffer(d, "b", 4), c = builder.buffer(d, "c", 4);
    builder.into(Phase::Body);
    Point last = builder.call(d, "forward", kernel, {a, b}, {builder.loadInput(d, x, a)});
    for (unsigned i = 0; i != calls; ++i)
      last = builder.call(d, "between", kernel, {b, c}, {last});
    builder.call(d, "backward", kernel, {a, c}, {last});
    Plan plan = builder.read();
    auto uses = kernelUsesOf(plan->entries[0].programs[0], 1);
    EXPECT_EQ(uses.back().arguments[0].isWarm, calls < 1000) << calls;
  }
}

// Every distinct use is measured once, alone and with a second device.
TEST_F(ProfileTest, MeasuresKernels) {
  Plan plan = callsPlan().read();
  Profile profile;
  size_t told = 0;
  ASSERT_FALSE(profileKernels(plan, plan->entries[0], 2, 1, profile, [&](size_t, size_t count) { told = count; }));
  EXPECT_EQ(profile.numKernels(), 2u);
  EXPECT_EQ(told, 2u);
  for (const KernelUse &use : kernelUsesOf(plan->entries[0].programs[0], 1)) {
    const KernelTime *time = profile.kernel(Profile::keyOf(use.signature(*plan), 2, 1));
    ASSERT_NE(time, nullptr);
    EXPECT_GT(time->alone, 0);
    EXPECT_GE(time->busy, time->alone);
  }
}

} // namespace
} // namespace cleave::runtime::test
