// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Damaged plan files: always an error or a sound plan, never a crash, a hang or an allocation without bounds.

#include "PlanBuilder.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"
#include "runtime/simulator/Simulator.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

/// Every instruction takes a second, and nothing lies between devices.
class OneSecondEach : public MachineModel {
public:
  uint32_t kindOf(uint32_t) const override { return 0; }
  uint32_t hostOf(uint32_t) const override { return 0; }
  double seconds(uint32_t, const LocalWork &) const override { return 1; }
  std::span<const double> bandwidths() const override { return {}; }
  void findWay(uint32_t, uint32_t, double, Way &) const override {}
};

/// Takes the bytes as far as they go: read, verify, simulate, and run if all devices are simulated. Whether they were
/// refused.
bool isRefused(std::span<const std::byte> bytes) {
  auto plan = Plan::fromBytes(bytes);
  if (!plan) {
    EXPECT_EQ(plan.error().status(), Status::Rejected) << plan.error().text();
    return true;
  }
  if (verifyPlan(*plan))
    return true;
  for (const Entry &entry : (*plan)->entries)
    (void)simulate(**plan, entry, OneSecondEach());
  bool simulated = std::ranges::all_of((*plan)->devices, [](const PlanDevice &d) { return d.driver == "null"; });
  if (!simulated || (*plan)->entries.empty())
    return false;
  MemorySource none;
  auto executor = Executor::create(*plan, (*plan)->entries[0].name, none);
  if (!executor)
    return true;
  std::vector<HostTensor> inputs, outputs;
  for (const Port &port : (*executor)->entry().inputs)
    inputs.push_back(*HostTensor::allocate(port.type));
  for (const Port &port : (*executor)->entry().outputs)
    outputs.push_back(*HostTensor::allocate(port.type));
  auto ticket = (*executor)->submit(inputs, outputs);
  return !ticket || !(*executor)->wait(*ticket);
}

class CorruptPlan : public testing::Test {
protected:
  void SetUp() override {
    PlanBuilder builder = pipelinePlan("null");
    // A short image keeps the loops short; its header is what the verifier looks at.
    auto &object = *builder.plan.objects[0];
    object.image.resize(256);
    object.checksum = checksum(std::as_bytes(std::span(object.image)));
    bytes = builder.bytes();
    ASSERT_FALSE(isRefused(bytes));
    flatBuffer = bytes;
    flatBuffer.resize(bytes.size() - planSeal({}).size());
  }
  std::vector<std::byte> bytes, flatBuffer;
};

// A file that was cut off anywhere is refused.
TEST_F(CorruptPlan, Truncated) {
  for (size_t length = 0; length != bytes.size(); ++length) {
    std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_TRUE(isRefused(part)) << length << " of " << bytes.size();
  }
}

// Whatever single byte is wrong, the checksum tells.
TEST_F(CorruptPlan, Flipped) {
  for (size_t i = 0; i != bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte(0x40);
    auto plan = Plan::fromBytes(damaged);
    ASSERT_FALSE(plan) << i;
    EXPECT_EQ(plan.error().status(), Status::Rejected);
  }
}

// Without the checksum's help: whatever single byte is wrong, the plan is refused or still sound.
TEST_F(CorruptPlan, FlippedAndSealed) {
  unsigned refused = 0;
  for (size_t i = 0; i != flatBuffer.size(); ++i)
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::vector<std::byte> damaged = flatBuffer;
      damaged[i] ^= static_cast<std::byte>(flip);
      refused += isRefused(sealed(damaged));
    }
  EXPECT_GT(refused, flatBuffer.size());
}

// A damaged image is never given to the loader: its checksum tells.
TEST_F(CorruptPlan, ImageIsChecked) {
  PlanBuilder builder = pipelinePlan("cpu");
  for (size_t i = 64; i < builder.plan.objects[0]->image.size(); i += 997) {
    builder.plan.objects[0]->image[i] ^= 0x10;
    EXPECT_TRUE(isRefused(builder.bytes()));
    builder.plan.objects[0]->image[i] ^= 0x10;
  }
}

// One name of a mebibyte, referred to by 100,000 operators, must not become 100 GB.
TEST(CorruptPlanSharing, IsBounded) {
  flatbuffers::FlatBufferBuilder builder;
  auto name = builder.CreateString(std::string(1 << 20, 'x'));
  auto op = fb::CreateOperator(builder, name);
  std::vector<flatbuffers::Offset<fb::Operator>> operators(100000, op);
  auto entry = fb::CreateEntry(builder, 0, 0, 0, 0, builder.CreateVector(operators));
  auto entries = builder.CreateVector(std::vector{entry});
  fb::PlanBuilder plan(builder);
  plan.add_version(planVersion);
  plan.add_entries(entries);
  fb::FinishPlanBuffer(builder, plan.Finish());
  auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  EXPECT_NE(Plan::fromBytes(sealed(bytes)).error().message().find("shared so often"), std::string::npos);
}

// What is no plan at all says so; a missing file says so too.
TEST(Plan, RefusesOtherFiles) {
  std::vector<std::byte> text(100, std::byte('a'));
  EXPECT_NE(Plan::fromBytes(text).error().message().find("not a plan"), std::string::npos);
  EXPECT_TRUE(Plan::fromBytes({}).error());
  auto missing = Plan::read("/nonexistent/x.plan");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().status(), Status::Failure);
  auto folder = Plan::read("/");
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message().find("is not a regular file"), std::string::npos);
}

// A plan of another version is refused with the remedy.
TEST(Plan, RefusesOtherVersions) {
  PlanBuilder builder;
  builder.plan.version = 1;
  Error error = Plan::fromBytes(builder.bytes()).error();
  EXPECT_EQ(error.message(), "plan has version 1, expected 7; compile the model again with this version of Cleave");
}

// Parts that FlatBuffers lets be absent are missed by name.
TEST(Plan, RefusesAbsentParts) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.plan.parameters[0]->type.reset();
  EXPECT_NE(Plan::fromBytes(builder.bytes()).error().message().find("\"one\" has no type"), std::string::npos);
  builder = pipelinePlan("cpu");
  builder.plan.parameters[0]->source.Reset();
  EXPECT_NE(Plan::fromBytes(builder.bytes()).error().message().find("\"one\" has no known source"), std::string::npos);
  builder = pipelinePlan("cpu");
  builder.plan.kernels[0]->body.Reset();
  EXPECT_NE(Plan::fromBytes(builder.bytes()).error().message().find("\"twice\" has no known body"), std::string::npos);
  builder = pipelinePlan("cpu");
  builder.program(0).body[1]->action.Reset();
  EXPECT_NE(Plan::fromBytes(builder.bytes()).error().message().find("\"first\" has no known action"),
            std::string::npos);
}

// Enumerators beyond the last are refused: code behind may index tables with them.
TEST(Plan, RefusesUnknownEnumerators) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.plan.parameters[0]->type->element = static_cast<fb::ElementType>(77);
  EXPECT_NE(Plan::fromBytes(builder.bytes()).error().message().find("unknown element type 77"), std::string::npos);
  builder = pipelinePlan("cpu");
  builder.program(0).queues[0] = static_cast<fb::QueueKind>(9);
  EXPECT_NE(Plan::fromBytes(builder.bytes()).error().message().find("unknown queue kind 9"), std::string::npos);
}

// A plan read from a file is the plan that was written, and knows its folder.
TEST(Plan, ReadsFiles) {
  auto path = std::filesystem::temp_directory_path() / ("cleave-plan-test-" + std::to_string(getpid()) + ".plan");
  std::vector<std::byte> bytes = pipelinePlan("cpu").bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  auto plan = Plan::read(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan->folder(), path.parent_path());
  EXPECT_TRUE(std::ranges::equal(plan->bytes(), bytes));
  EXPECT_EQ((*plan)->devices[1].name, "b");
  EXPECT_EQ(*plan->entry("main"), &(*plan)->entries[0]);
  EXPECT_EQ(plan->entry("other").error().message(), "plan has no entry \"other\", expected one of \"main\"");
}

// FNV-1a's published test vectors.
TEST(Plan, ChecksumIsFnv1a) {
  EXPECT_EQ(checksum({}), 0xcbf29ce484222325u);
  EXPECT_EQ(checksum(std::as_bytes(std::span("a", 1))), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(checksum(std::as_bytes(std::span("foobar", 6))), 0x85944171f73967e8u);
}

} // namespace
} // namespace cleave::runtime::test
