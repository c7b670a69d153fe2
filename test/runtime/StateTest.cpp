// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters that steps write, and entries that share them: what the verifier allows, and what an executor does.

#include "PlanBuilder.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"

#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

constexpr int64_t length = 8;

/// w, which has 1 at first and is divided over two devices: entry "main" adds x to it and shows what it was before, as
/// "old"; entry "look" shows w + x as "sum". Buffers of "main": 0 w, 1 x, 2 old; of "look": 0 w, 1 x, 2 sum.
PlanBuilder sharingPlan(const std::string &driver = "cpu") {
  PlanBuilder builder(driver);
  builder.entry().samples = length;
  uint32_t mesh = builder.mesh("pair", {2});
  uint32_t w = builder.constant("w", length, 1), sum = builder.kernel("add", 2, length / 2);
  Tile half;
  half.dims = {{length, {{0, length / 2}}, length / 2}};
  auto addPart = [&](const char *output, bool writes) {
    int32_t tile = builder.tile(half);
    builder.input("x", length);
    builder.output(output, length);
    uint32_t kept = builder.buffer(mesh, "w", length / 2), x = builder.buffer(mesh, "x", length / 2);
    uint32_t shown = builder.buffer(mesh, output, length / 2);
    builder.keep(mesh, w, kept, tile);
    fb::LoadInputT load;
    load.buffer = x;
    load.tile = tile;
    Point loaded = builder.act(mesh, "x", load, {}, HostQueue);
    Point done =
        writes ? builder.copy(mesh, "show", kept, shown) : builder.call(mesh, "show", sum, {kept, x, shown}, {loaded});
    if (writes)
      builder.call(mesh, "learn", sum, {kept, x, kept}, {loaded});
    fb::StoreOutputT store;
    store.buffer = shown;
    store.tile = tile;
    builder.act(mesh, output, store, {done}, HostQueue);
  };
  addPart("old", true);
  builder.addEntry("look", length);
  addPart("sum", false);
  return builder;
}

/// A vector of `value`, `value` + 1, ...
HostTensor countingFrom(float value) {
  HostTensor tensor = *HostTensor::allocate({ElementType::F32, {length}, std::nullopt});
  for (float &element : tensor.as<float>())
    element = value++;
  return tensor;
}

std::vector<float> elementsOf(const HostTensor &tensor) {
  auto elements = tensor.as<float>();
  return {elements.begin(), elements.end()};
}

class StateTest : public testing::Test {
protected:
  void create(const PlanBuilder &builder, const std::vector<std::string> &entries) {
    plan = builder.read();
    Error unsound = verifyPlan(*plan);
    ASSERT_FALSE(unsound) << unsound.text();
    auto made = Executor::create(*plan, entries, values);
    ASSERT_TRUE(made) << made.error().text();
    executor = std::move(*made);
  }
  /// Starts a step of an entry whose output is then `outputs[the ticket]`.
  Ticket start(uint32_t entry, float value) {
    outputs.push_back(countingFrom(0));
    auto ticket = executor->submit(entry, {countingFrom(value)}, {outputs.back()});
    EXPECT_TRUE(ticket) << ticket.error().text();
    return ticket ? *ticket : 0;
  }
  std::vector<float> finish(Ticket ticket) {
    auto times = executor->wait(ticket);
    EXPECT_TRUE(times) << times.error().text();
    return elementsOf(outputs[ticket]);
  }
  std::vector<float> kept() {
    HostTensor tensor = countingFrom(0);
    Error error = executor->readState(0, tensor);
    EXPECT_FALSE(error) << error.text();
    return elementsOf(tensor);
  }

  MemorySource none;
  ValueSource values{none};
  std::optional<Plan> plan;
  std::unique_ptr<Executor> executor;
  std::vector<HostTensor> outputs;
};

// What a step writes is there for the next one, and can be read from all devices.
TEST_F(StateTest, LastsFromStepToStep) {
  create(sharingPlan(), {"main"});
  EXPECT_EQ(finish(start(0, 0)), std::vector<float>(length, 1));
  EXPECT_EQ(finish(start(0, 10)), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(kept(), (std::vector<float>{11, 13, 15, 17, 19, 21, 23, 25}));
}

// A run goes on where another one stopped, whatever the parameter's source.
TEST_F(StateTest, BeginsWithOtherValues) {
  HostTensor before = countingFrom(100);
  values.add("w", before.bytes());
  create(sharingPlan(), {"main", "look"});
  EXPECT_EQ(kept(), elementsOf(countingFrom(100)));
  EXPECT_EQ(finish(start(1, 0)), (std::vector<float>{100, 102, 104, 106, 108, 110, 112, 114}));
}

// Entries take turns on one arena: each sees what steps of the other have written before, with many in flight.
TEST_F(StateTest, EntriesShareWhatStepsWrite) {
  create(sharingPlan(), {"main", "look"});
  const unsigned rounds = 50;
  for (unsigned round = 0; round != rounds; ++round) {
    start(1, 0);
    start(0, 1);
    start(0, 1);
    if (round % 3 == 0)
      start(1, 0);
  }
  Ticket ticket = 0;
  float steps = 0;
  auto expectSum = [&] {
    std::vector<float> sum = finish(ticket++);
    for (int64_t i = 0; i != length; ++i)
      EXPECT_EQ(sum[static_cast<size_t>(i)], 1 + static_cast<float>(i) + steps * static_cast<float>(i + 1));
  };
  for (unsigned round = 0; round != rounds; ++round) {
    expectSum();
    for (int i = 0; i != 2; ++i, ++steps)
      EXPECT_EQ(finish(ticket++)[1], 1 + steps * 2);
    if (round % 3 == 0)
      expectSum();
  }
  EXPECT_EQ(executor->memory().size(), 2u);
  EXPECT_EQ(executor->memory()[0].allocatedBytes, 192u);
  EXPECT_EQ(executor->entry(1).name, "look");
}

// The arena is that of the entry that needs more.
TEST_F(StateTest, ArenaIsTheLargest) {
  PlanBuilder builder = sharingPlan();
  uint32_t more = builder.buffer(0, "more", 100);
  (void)more;
  create(builder, {"main", "look"});
  EXPECT_EQ(executor->memory()[0].allocatedBytes, 192u + 448u);
  EXPECT_EQ(executor->memory()[0].plannedBytes, 192u + 448u);
}

// Entries whose queues differ, and meshes that only one of them uses, run on the same devices.
TEST_F(StateTest, EntriesDifferInQueuesAndMeshes) {
  PlanBuilder builder = sharingPlan();
  fb::ProgramT &look = builder.program(0);
  // A host queue alone, and the compute queue after it.
  look.queues = {fb::QueueKind::Host, fb::QueueKind::Compute};
  for (auto *list : {&look.prepare, &look.body})
    for (auto &instruction : *list) {
      auto swap = [](uint32_t queue) -> uint32_t { return queue == ComputeQueue ? 1 : 0; };
      instruction->queue = swap(instruction->queue);
      for (auto &wait : instruction->waits)
        wait->queue = swap(wait->queue);
    }
  builder.device("alone");
  create(builder, {"main", "look"});
  start(0, 0);
  EXPECT_EQ(finish(start(1, 0)), (std::vector<float>{1, 3, 5, 7, 9, 11, 13, 15}));
  EXPECT_FALSE(executor->wait(0).error());
}

// Simulated devices run shared entries in order as well, and have nothing to read.
TEST_F(StateTest, NullDevicesHoldNothing) {
  create(sharingPlan("null"), {"main", "look"});
  for (unsigned i = 0; i != 9; ++i)
    start(i % 2, 0);
  for (Ticket i = 0; i != 9; ++i)
    EXPECT_FALSE(executor->wait(i).error());
  Error error = executor->readState(0, countingFrom(0));
  EXPECT_EQ(error.status(), Status::Unsupported);
  EXPECT_NE(error.text().find("simulates and holds nothing"), std::string::npos) << error.text();
}

// Each wrong use says what is wrong with it.
TEST_F(StateTest, RefusesWrongUse) {
  create(sharingPlan(), {"main", "look"});
  Ticket ticket = start(0, 0);
  EXPECT_NE(executor->readState(0, countingFrom(0)).text().find("expects no step in flight, got 1"), std::string::npos);
  finish(ticket);
  EXPECT_NE(executor->readState(7, countingFrom(0)).text().find("is not one that a step writes"), std::string::npos);
  HostTensor small = *HostTensor::allocate({ElementType::F32, {2}, std::nullopt});
  EXPECT_NE(executor->readState(0, small).text().find("parameter \"w\" expects f32[8], got f32[2]"), std::string::npos);
  auto twice = Executor::create(*plan, std::vector<std::string>{"main", "main"}, none);
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().text().find("to be named once, got \"main\""), std::string::npos) << twice.error().text();
}

/// A sharing plan with one rule broken, and a part of the message that says so.
struct BrokenSharing {
  const char *name;
  void (*breakPlan)(PlanBuilder &);
  const char *message;
};

void PrintTo(const BrokenSharing &broken, std::ostream *out) { *out << broken.name; }

class BrokenSharingPlan : public testing::TestWithParam<BrokenSharing> {};

// Each rule of what lasts is enforced, with a message that says what is wrong.
TEST_P(BrokenSharingPlan, IsRejected) {
  PlanBuilder builder = sharingPlan();
  GetParam().breakPlan(builder);
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_NE(error.text().find(GetParam().message), std::string::npos) << error.text();
}

/// Adds a parameter "c" that prepare of "main" loads into a buffer at `offset`, and the body reads.
void addConstant(PlanBuilder &b, uint64_t offset) {
  uint32_t c = b.constant("c", 4, 3);
  std::unique_ptr<fb::EntryT> look = std::move(b.plan.entries.back());
  b.plan.entries.pop_back();
  uint32_t held = b.bufferAt(0, "held", 4, offset), copied = b.bufferAt(0, "copied", 4, offset + 64);
  b.into(Phase::Prepare).loadParameter(0, c, held);
  b.into(Phase::Body).copy(0, "use", held, copied);
  b.plan.entries.push_back(std::move(look));
}

// An entry may keep nothing, as one that looks at an input alone: it leaves room for what others keep.
TEST(SharingPlan, HasEntriesThatKeepNothing) {
  PlanBuilder builder = sharingPlan();
  builder.plan.entries.pop_back();
  builder.addEntry("look", length);
  Tile half;
  half.dims = {{length, {{0, length / 2}}, length / 2}};
  int32_t tile = builder.tile(half);
  builder.input("x", length);
  builder.output("same", length);
  fb::LoadInputT load;
  load.buffer = builder.bufferAt(0, "x", length / 2, 64);
  load.tile = tile;
  fb::StoreOutputT store;
  store.buffer = builder.bufferAt(0, "same", length / 2, 128);
  store.tile = tile;
  Point loaded = builder.act(0, "x", load, {}, HostQueue);
  Point done = builder.copy(0, "show", load.buffer, store.buffer, {loaded});
  builder.act(0, "same", store, {done}, HostQueue);
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

constexpr BrokenSharing rules[] = {
    {"Parameter", [](PlanBuilder &b) { b.program(0).state[0]->parameter = 9; },
     "keeps parameter 9, but the plan has 1"},
    {"Twice", [](PlanBuilder &b) { b.keep(0, 0, b.buffer(0, "again", 4), 0); }, "expects one buffer, of its own"},
    {"Buffer", [](PlanBuilder &b) { b.program(0).state[0]->buffer = 9; }, "is in buffer 9, but the program has 3"},
    {"View",
     [](PlanBuilder &b) {
       uint32_t whole = b.buffer(0, "whole", 4);
       b.program(0).buffers[0]->view_of = static_cast<int32_t>(whole);
       b.program(0).buffers[0]->offset = b.program(0).buffers[whole]->offset;
     },
     "expects bytes of its own, got a view"},
    {"Layout",
     [](PlanBuilder &b) {
       // Loaded whole, as it lies, by a device alone.
       fb::InlineSourceT bytes;
       bytes.data.resize(16);
       fb::SourceUnion source;
       source.Set(std::move(bytes));
       b.device("alone");
       uint32_t odd = b.parameter("odd", 4, source), buffer = b.buffer(1, "odd", 4);
       for (auto *type : {b.plan.parameters[odd]->type.get(), b.program(1).buffers[buffer]->type.get()}) {
         type->layout = std::make_unique<fb::LayoutT>();
         type->layout->padded = {4};
         type->layout->strides = {1};
       }
       b.keep(1, odd, buffer);
     },
     "kept parameter \"odd\" expects a dense type, got f32[4]"},
    {"Tile", [](PlanBuilder &b) { b.program(0).state[0]->tile = 4; }, "has tile 4, but the entry has 1"},
    {"Window",
     [](PlanBuilder &b) {
       // An element of the neighbour before one's own.
       Tile window;
       window.dims = {{length, {{0, length / 2}}, length / 2 + 1, 1, 1}};
       b.keep(0, b.constant("c", length, 0), b.buffer(0, "c", length / 2 + 1), b.tile(window));
     },
     "kept parameter \"c\" has tile 1, whose"},
    {"OtherTile", [](PlanBuilder &b) { b.program(0).state[0]->tile = -1; },
     "expects prepare to load it and do nothing else with it, got load parameter"},
    {"Overlap", [](PlanBuilder &b) { b.bufferAt(0, "thief", 4, 0); },
     "expects bytes of its own, got some that buffer \"thief\" takes"},
    {"NotLoaded", [](PlanBuilder &b) { b.program(0).prepare.clear(); }, "expects prepare to load it once, got 0"},
    {"MadeOnce", [](PlanBuilder &b) { b.into(Phase::Prepare).copy(0, "reorder", 0, b.buffer(0, "reordered", 4)); },
     "expects prepare to load it and do nothing else with it, got copy; what is made of a parameter"},
    {"OtherPlace",
     [](PlanBuilder &b) {
       for (auto &buffer : b.program(0).buffers)
         buffer->offset += 64;
       b.program(0).arena_bytes += 64;
     },
     "expects the same part at the same offset in all entries, got offset 0 in \"main\" and 64 in \"look\""},
    {"NotKept", [](PlanBuilder &b) { b.program(0).state.clear(); },
     "entry \"look\" loads parameter \"w\", which steps write, into a buffer that does not keep it"},
    {"Taken",
     [](PlanBuilder &b) {
       // "main" keeps another parameter where "look" has x.
       uint32_t c = b.constant("c", 4, 3);
       std::unique_ptr<fb::EntryT> look = std::move(b.plan.entries.back());
       b.plan.entries.pop_back();
       for (size_t i : {1, 2})
         b.program(0).buffers[i]->offset += 64;
       b.keep(0, c, b.bufferAt(0, "c", 4, 64));
       b.program(0).arena_bytes += 64;
       b.plan.entries.push_back(std::move(look));
     },
     "lasts from step to step, but buffer \"x\" of entry \"look\" takes some of its bytes"},
    {"Overwritten",
     [](PlanBuilder &b) {
       addConstant(b, 192);
       b.into(Phase::Body).copy(0, "scratch", 2, b.bufferAt(0, "scratch", 4, 192));
     },
     "buffer \"held\" of entry \"main\" is made once, but copy of entry \"look\" writes buffer \"scratch\" over it"},
    {"SameName",
     [](PlanBuilder &b) {
       uint32_t again = b.constant("w", 4, 1);
       b.keep(0, again, b.buffer(0, "again", 4));
     },
     "two parameters that steps write are called \"w\""},
    {"Room",
     [](PlanBuilder &b) {
       // "look" runs on another mesh of the same device.
       b.device("own");
       b.plan.meshes[1]->devices = {0};
       b.buffer(1, "more", 16);
       b.entry().programs.erase(b.entry().programs.begin());
       b.entry().outputs.clear();
       b.plan.devices[0]->memory_limit = 200;
     },
     "memory limit of 200 bytes, but the arenas of all entries that share it need 256"},
    {"Samples", [](PlanBuilder &b) { b.entry().samples = 3; },
     "input \"x\" expects the entry's 3 samples in dimension 0, got f32[8]"},
};
INSTANTIATE_TEST_SUITE_P(Sharing, BrokenSharingPlan, testing::ValuesIn(rules),
                         [](const auto &info) { return info.param.name; });

// What one entry loads once may be loaded by the other as well, to the same place.
TEST(VerifySharing, AcceptsEqualLoads) {
  PlanBuilder builder = sharingPlan();
  addConstant(builder, 192);
  uint32_t held = builder.bufferAt(0, "held too", 4, 192), copied = builder.bufferAt(0, "copied", 4, 256);
  builder.into(Phase::Prepare).loadParameter(0, 1, held);
  builder.into(Phase::Body).copy(0, "use", held, copied);
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

/// Both entries make the sum of two constants once, in one place, of what they load elsewhere.
PlanBuilder foldingPlan(bool isSame) {
  PlanBuilder builder = sharingPlan();
  uint32_t c = builder.constant("c", 4, 3), d = builder.constant("d", 4, 5);
  auto fold = [&](uint32_t second, uint64_t scratch) {
    uint32_t left = builder.bufferAt(0, "left", 4, scratch), right = builder.bufferAt(0, "right", 4, scratch + 64);
    uint32_t held = builder.bufferAt(0, "folded", 4, 192), copied = builder.bufferAt(0, "copied", 4, 256);
    builder.into(Phase::Prepare);
    Point one = builder.loadParameter(0, c, left), two = builder.loadParameter(0, second, right);
    builder.call(0, "fold", 0, {left, right, held}, {one, two});
    builder.into(Phase::Body).copy(0, "use", held, copied);
  };
  std::unique_ptr<fb::EntryT> look = std::move(builder.plan.entries.back());
  builder.plan.entries.pop_back();
  fold(d, 320);
  builder.plan.entries.push_back(std::move(look));
  fold(isSame ? d : c, 448);
  return builder;
}

// What both make alike of the same parameters, as a weight in a library's layout, has one place.
TEST(VerifySharing, AcceptsWhatIsMadeAlike) {
  Error error = verifyPlan(foldingPlan(true).read());
  EXPECT_FALSE(error) << error.text();
}

// The same kernel of something else is something else.
TEST(VerifySharing, RefusesWhatIsMadeOfSomethingElse) {
  Error error = verifyPlan(foldingPlan(false).read());
  EXPECT_NE(error.message().find("buffer \"folded\" of entry \"main\" is made once, but call of entry \"look\" writes "
                                 "buffer \"folded\" over it"),
            std::string::npos)
      << error.message();
}

} // namespace
} // namespace cleave::runtime::test
