// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replicas that do not wait for each other: who may begin, records, and what the verifier refuses.

#include "PlanBuilder.h"

#include "runtime/Verify.h"
#include "runtime/training/asynchronous/LocalCycle.h"
#include "runtime/training/asynchronous/ReplicaClocks.h"
#include "runtime/training/asynchronous/SyncRecord.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <random>

namespace cleave::runtime::test {
namespace {

//===-- clocks ----------------------------------------------------------------------------------------------===//

// Whatever replicas do in whatever order, one that begins its step c has all steps of others before c - bound, and one
// that may not begin lacks one.
TEST(ReplicaClocks, BoundWhatMayBeMissing) {
  std::mt19937 random(1);
  for (unsigned run = 0; run != 200; ++run) {
    uint32_t count = 2 + random() % 5;
    uint64_t bound = random() % 4;
    ReplicaClocks clocks(count, bound);
    std::vector<uint64_t> done(count);
    for (unsigned step = 0; step != 100; ++step) {
      uint32_t replica = random() % count;
      uint64_t least = *std::ranges::min_element(done);
      ASSERT_EQ(clocks.mayBegin(replica), least + bound >= done[replica]);
      ASSERT_EQ(clocks.ahead(replica), done[replica] - least);
      if (!clocks.mayBegin(replica))
        continue;
      clocks.advance(replica);
      ++done[replica];
    }
    // Somebody always may.
    bool any = false;
    for (uint32_t replica = 0; replica != count; ++replica)
      any |= clocks.mayBegin(replica);
    EXPECT_TRUE(any);
  }
}

TEST(ReplicaClocks, NobodyWaitsForWhoHasLeft) {
  ReplicaClocks clocks(2, 1);
  clocks.advance(0);
  clocks.advance(0);
  EXPECT_FALSE(clocks.mayBegin(0));
  clocks.leave(1);
  EXPECT_TRUE(clocks.mayBegin(0));
  EXPECT_EQ(clocks.count(), 1u);
}

TEST(ReplicaClocks, WithoutABoundAllMayBegin) {
  ReplicaClocks clocks(2, std::nullopt);
  for (unsigned i = 0; i != 1000; ++i)
    clocks.advance(0);
  EXPECT_TRUE(clocks.mayBegin(0));
}

//===-- local steps -----------------------------------------------------------------------------------------===//

// However the steps are cut into rounds: gives come every H steps, merges K steps after each, nothing else brings a
// version once there was one, and no stretch goes on where it has to wait.
TEST(LocalCycle, GivesAndMergesAtTheSameStepsHoweverRoundsAreCut) {
  std::mt19937 random(2);
  for (unsigned run = 0; run != 300; ++run) {
    uint64_t all = 1 + random() % 6, overlap = random() % all;
    LocalCycle cycle(all, overlap);
    std::vector<uint64_t> gives, merges, fetches;
    uint64_t done = 0;
    for (unsigned round = 0; round != 20; ++round)
      for (uint64_t left = 1 + random() % 9; left != 0;) {
        ReplicaStretch stretch = cycle.next(left);
        ASSERT_GE(stretch.steps, 1u);
        ASSERT_LE(stretch.steps, left);
        ASSERT_FALSE(stretch.fetches && stretch.merges);
        if (stretch.fetches)
          fetches.push_back(done);
        if (stretch.merges)
          merges.push_back(done);
        if (stretch.exchangesAfter)
          gives.push_back(done + *stretch.exchangesAfter);
        done += stretch.steps;
        left -= stretch.steps;
        if (stretch.gives)
          gives.push_back(done);
        cycle.add(stretch);
      }
    for (size_t i = 0; i != gives.size(); ++i)
      EXPECT_EQ(gives[i], (i + 1) * all);
    EXPECT_EQ(gives.size(), done / all);
    // Without an overlap a version is fetched where the last one was given.
    const std::vector<uint64_t> &taken = overlap == 0 ? fetches : merges;
    for (size_t i = 0; i != taken.size(); ++i)
      EXPECT_EQ(taken[i], overlap == 0 ? i * all : (i + 1) * all + overlap);
    EXPECT_TRUE(overlap == 0 || fetches == std::vector<uint64_t>{0});
    EXPECT_EQ(cycle.stepsSinceExchange(), done % all);
  }
}

// Where somebody reads the parameters all is given, what is on its way is merged before, and the cycle begins again.
TEST(LocalCycle, BeginsAgainWhereItIsDrained) {
  LocalCycle cycle(4, 2);
  cycle.add(cycle.next(5)); // has given after 4 steps
  ReplicaStretch drain = cycle.drain();
  EXPECT_TRUE(drain.merges && drain.gives && !drain.fetches);
  EXPECT_EQ(drain.steps, 0u);
  cycle.add(drain);
  EXPECT_EQ(cycle.stepsSinceExchange(), 0u);
  ReplicaStretch next = cycle.next(100);
  EXPECT_TRUE(next.fetches && !next.merges);
  EXPECT_EQ(next.exchangesAfter, 4u);
  EXPECT_EQ(next.steps, 6u);
  // What was given in the last step is all that there is.
  cycle.add(cycle.next(4));
  EXPECT_EQ(cycle.stepsSinceExchange(), 0u);
  EXPECT_FALSE(cycle.next(1).fetches);
  cycle.forget();
  EXPECT_TRUE(cycle.next(1).fetches);
  // Past the merge there is nothing on its way.
  cycle.add(cycle.next(6));
  cycle.add(cycle.next(1));
  EXPECT_FALSE(cycle.drain().merges);
}

//===-- records ---------------------------------------------------------------------------------------------===//

class Records : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) / ("records-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    file = (folder / "record").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string &text) const { std::ofstream(file) << text; }

  const std::string header = "cleave-record 1 replicas 2 bound 1 local 0 seed 7\n";
  std::filesystem::path folder;
  std::string file;
};

TEST_F(Records, AreReadAsTheyWereWritten) {
  RecordedRun run{{2, 0, std::nullopt, 0}, 9};
  {
    auto writer = RecordWriter::open(file, run);
    ASSERT_TRUE(writer);
    writer->round(1, 32, 4);
    writer->begin(1, 0, 0);
    writer->begin(0, 1, 0);
    writer->apply(1);
    writer->begin(1, 2, 1);
    writer->lose(0);
    EXPECT_FALSE(writer->check());
  }
  auto read = SyncRecord::read(file);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->run, run);
  ASSERT_EQ(read->rounds.size(), 1u);
  const RecordedRound &round = read->rounds.front();
  EXPECT_EQ(round.epoch, 1u);
  EXPECT_EQ(round.sample, 32u);
  EXPECT_EQ(round.batches, 4u);
  ASSERT_EQ(round.begins[1].size(), 2u);
  EXPECT_EQ(round.begins[1][1].batch, 2u);
  EXPECT_EQ(round.begins[1][1].version, 1u);
  EXPECT_EQ(round.applied, (std::deque<uint32_t>{1}));
  ASSERT_EQ(round.losses.size(), 1u);
  EXPECT_EQ(round.losses[0].replica, 0u);
  EXPECT_EQ(round.losses[0].version, 1u);
}

TEST_F(Records, SayHowManyStepsHideAnExchange) {
  RecordedRun run{{2, 0, 0, 4, 3}, 9};
  ASSERT_TRUE(RecordWriter::open(file, run));
  auto read = SyncRecord::read(file);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->run, run);
}

// As a process that is killed leaves it.
TEST_F(Records, LeaveOutALineThatIsCutOff) {
  write(header + "round 0 0 4\nbegin 0 0 0\nbegin 1 1");
  auto read = SyncRecord::read(file);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->rounds.front().begins[0].size(), 1u);
  EXPECT_TRUE(read->rounds.front().begins[1].empty());
}

TEST_F(Records, ThatAreDamagedAreRefusedByLine) {
  for (const char *line : {"begin 0 0 0", "apply 0", "round 0 0", "end 0 0 4", "round -1 0 4", "round 0 0 4 5"}) {
    write(header + line + "\n");
    auto read = SyncRecord::read(file);
    ASSERT_FALSE(read) << line;
    EXPECT_EQ(read.error().status(), Status::Rejected);
    EXPECT_NE(read.error().text().find("line 2"), std::string::npos) << read.error().text();
  }
  // A replica, a batch and a version that there are not.
  for (const char *line : {"begin 2 0 0", "begin 0 4 0", "begin 0 0 1", "apply 2", "begin 0 0 0 0"}) {
    write(header + "round 0 0 4\n" + line + "\n");
    auto read = SyncRecord::read(file);
    ASSERT_FALSE(read) << line;
    EXPECT_NE(read.error().text().find("line 3"), std::string::npos) << read.error().text();
  }
  // What cannot come next, so that replicas which repeat it would wait for ever: the last line.
  const std::string together = "cleave-record 1 replicas 2 bound 0 local 0 seed 7\n", one = "begin 0 0 0\napply 0\n";
  for (const std::string &text :
       {header + "round 0 0 9\nbegin 0 0 0\nbegin 0 1 0\n", header + "round 0 0 9\napply 0\n",
        header + "round 0 0 9\n" + one + one + "begin 0 2 2\n", header + "round 0 0 9\nlose 0\nbegin 0 0 0\n",
        header + "round 0 0 9\nlose 0\nlose 1\n", together + "round 0 0 4\nbegin 0 0 0\napply 0\n",
        together + "round 0 0 4\nlose 0\n"}) {
    write(text);
    auto read = SyncRecord::read(file);
    ASSERT_FALSE(read) << text;
    std::string line = "line " + std::to_string(std::ranges::count(text, '\n'));
    EXPECT_NE(read.error().text().find(line), std::string::npos) << read.error().text() << "\n" << text;
  }
  for (const char *first :
       {"cleave-record 1 replicas 2 bound 0 local 3 overlap 3 seed 7\n", "",
        "cleave-record 2 replicas 2 bound 1 local 0 seed 7\n", "cleave-record 1 replicas 1 bound 1 local 0 seed 7\n",
        "cleave-record 1 replicas 4000000000 bound 1 local 0 seed 7\n",
        "cleave-record 1 replicas 2 bound x local 0 seed 7\n"}) {
    write(first);
    EXPECT_FALSE(SyncRecord::read(file)) << first;
  }
}

//===-- plans -----------------------------------------------------------------------------------------------===//

/// Two replicas of one device each, with parameters w and v: a step gives its samples, and the keeper adds them to
/// both.
/// `gives`: whether the keeper gives out w, too.
PlanBuilder replicaPlan(int64_t bound, bool gives = true) {
  PlanBuilder builder;
  builder.entry().name = "train";
  builder.entry().samples = 4;
  builder.device("first");
  uint32_t add = builder.kernel("add", 2, 4);
  uint32_t w = builder.constant("w", 4, 1), v = builder.constant("v", 4, 2);
  uint32_t x = builder.input("x", 4);
  for (auto [name, parameter] : {std::pair("w", w), std::pair("v", v)}) {
    uint32_t version = builder.input(name, 4), gift = builder.output(std::string(name) + "/gift", 4);
    builder.entry().inputs[version]->parameter = parameter + 1;
    builder.entry().outputs[gift]->parameter = parameter + 1;
    uint32_t samples = builder.buffer(0, "samples", 4), old = builder.buffer(0, name, 4),
             sum = builder.buffer(0, "sum", 4);
    Point read = builder.loadInput(0, x, samples), loaded = builder.loadInput(0, version, old);
    Point done = builder.call(0, "add", add, {samples, old, sum}, {read, loaded});
    builder.storeOutput(0, gift, sum, {done});
  }
  uint32_t gifts = bound == 0 ? 2 : 1;
  builder.addEntry("apply", 4);
  for (auto [name, parameter] : {std::pair("w", w), std::pair("v", v)}) {
    uint32_t state = builder.buffer(0, name, 4);
    builder.keep(0, parameter, state);
    Point before{ComputeQueue, 0};
    for (uint32_t gift = 0; gift != gifts; ++gift) {
      uint32_t input = builder.input(std::string(name) + "/gift" + std::to_string(gift), 4);
      builder.entry().inputs[input]->parameter = parameter + 1;
      uint32_t buffer = builder.buffer(0, "gift", 4);
      Point loaded = builder.loadInput(0, input, buffer);
      before = builder.call(0, "add", add, {state, buffer, state}, {loaded});
    }
    if (parameter == w && !gives)
      continue;
    uint32_t output = builder.output(name, 4);
    builder.entry().outputs[output]->parameter = parameter + 1;
    builder.storeOutput(0, output, state, {before});
  }
  auto second = std::make_unique<fb::DeviceT>(*builder.plan.devices[0]);
  second->name = "second";
  builder.plan.devices.push_back(std::move(second));
  builder.plan.replicas = std::make_unique<fb::ReplicasT>();
  builder.plan.replicas->count = 2;
  builder.plan.replicas->devices = 1;
  builder.plan.replicas->bound = bound;
  return builder;
}

fb::EntryT &entryOf(PlanBuilder &builder, size_t index) { return *builder.plan.entries[index]; }

TEST(ReplicaPlan, IsAccepted) {
  for (int64_t bound : {-1, 0, 3}) {
    Error error = verifyPlan(replicaPlan(bound).read());
    EXPECT_FALSE(error) << error.text();
  }
}

// The keeper may have devices of its own, or those of other replicas; replicas have theirs alone.
TEST(ReplicaPlan, MayKeepParametersAnywhere) {
  for (uint32_t device : {1u, 2u}) {
    PlanBuilder builder = replicaPlan(3);
    auto own = std::make_unique<fb::DeviceT>(*builder.plan.devices[0]);
    own->name = "third";
    builder.plan.devices.push_back(std::move(own));
    auto mesh = std::make_unique<fb::MeshT>(*builder.plan.meshes[0]);
    mesh->name = "keeper";
    mesh->devices = {device};
    builder.plan.meshes.push_back(std::move(mesh));
    entryOf(builder, 1).programs[0]->mesh = 1;
    Plan plan = builder.read();
    Error error = verifyPlan(plan);
    EXPECT_FALSE(error) << error.text();
    EXPECT_EQ(keeperDevices(*plan), std::set<uint32_t>{device});
    // Of another replica they are the same, unless it is the replicas' that move.
    EXPECT_EQ(plan.ofReplica(1)->meshes[1].devices, std::vector<uint32_t>{device});
    EXPECT_EQ(plan.ofReplica(1)->meshes[0].devices, std::vector<uint32_t>{1});
  }
}

// A plan has the programs of the first replica alone; the others need as much.
TEST(ReplicaPlan, NeedsRoomForEachReplica) {
  PlanBuilder builder = replicaPlan(3);
  builder.plan.devices[1]->memory_limit = 32;
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_EQ(error.status(), Status::Infeasible);
  EXPECT_NE(error.text().find("device \"second\" has a memory limit of 32 bytes"), std::string::npos) << error.text();
}

TEST(ReplicaPlan, MakesWhatReplicasTake) {
  Error error = verifyPlan(replicaPlan(3, /*gives=*/false).read());
  ASSERT_TRUE(error);
  EXPECT_NE(error.text().find("takes input \"w\" as a version that \"apply\" does not make"), std::string::npos)
      << error.text();
}

TEST(ReplicaPlan, IsNeededForVersions) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.entry().inputs[0]->parameter = 1;
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_NE(error.text().find("in a plan without any"), std::string::npos) << error.text();
}

struct BrokenReplicas {
  const char *name;
  int64_t bound;
  void (*breakPlan)(PlanBuilder &);
  const char *message;
};

void PrintTo(const BrokenReplicas &broken, std::ostream *out) { *out << broken.name; }

class BrokenReplicaPlan : public testing::TestWithParam<BrokenReplicas> {};

TEST_P(BrokenReplicaPlan, IsRejected) {
  PlanBuilder builder = replicaPlan(GetParam().bound);
  GetParam().breakPlan(builder);
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_EQ(error.status(), Status::Rejected);
  EXPECT_NE(error.text().find(GetParam().message), std::string::npos) << error.text();
}

const BrokenReplicas brokenReplicas[] = {
    // A step that would work with half of a version: w of the one that it took, v of another one.
    {"Torn", 3,
     [](PlanBuilder &builder) {
       fb::EntryT &train = entryOf(builder, 0);
       train.inputs[2]->parameter = 0;
     },
     "expects a version of parameter \"v\""},
    {"ApplyWithAnInput", 3, [](PlanBuilder &builder) { entryOf(builder, 1).inputs[0]->parameter = 0; },
     "expects to be of a parameter"},
    {"ApplyWithAnOutput", 3, [](PlanBuilder &builder) { entryOf(builder, 1).outputs[0]->parameter = 0; },
     "expects to be of a parameter"},
    // A step with a copy of its own, whose age nobody bounds.
    {"NotBounded", 3,
     [](PlanBuilder &builder) {
       fb::EntryT &train = entryOf(builder, 0);
       auto state = std::make_unique<fb::StateT>(*entryOf(builder, 1).programs[0]->state[0]);
       fb::ProgramT &program = *train.programs[0];
       auto buffer = std::make_unique<fb::BufferT>(*entryOf(builder, 1).programs[0]->buffers[state->buffer]);
       buffer->offset = program.arena_bytes;
       program.arena_bytes += 64;
       // In both entries at the same place, so that nothing else is wrong.
       fb::ProgramT &apply = *entryOf(builder, 1).programs[0];
       apply.buffers[state->buffer]->offset = buffer->offset;
       apply.arena_bytes = std::max(apply.arena_bytes, program.arena_bytes);
       auto load = std::make_unique<fb::InstructionT>(*apply.prepare[0]);
       state->buffer = static_cast<uint32_t>(program.buffers.size());
       load->action.AsLoadParameter()->buffer = state->buffer;
       program.buffers.push_back(std::move(buffer));
       program.state.push_back(std::move(state));
       program.prepare.push_back(std::move(load));
     },
     "its age would not be bounded"},
    {"TooFewGifts", 0, [](PlanBuilder &builder) { builder.plan.replicas->count = 3; },
     "expect at least two with devices"},
    {"OneGiftForTwo", 3, [](PlanBuilder &builder) { builder.plan.replicas->bound = 0; }, "expects 2 gifts"},
    {"TwoGiftsForOne", 0, [](PlanBuilder &builder) { builder.plan.replicas->bound = 3; }, "expects 1 gifts"},
    {"GiftOfAnother", 3,
     [](PlanBuilder &builder) { entryOf(builder, 1).inputs[0]->parameter = entryOf(builder, 1).inputs[1]->parameter; },
     "gifts"},
    {"VersionTwice", 3,
     [](PlanBuilder &builder) {
       entryOf(builder, 1).outputs[0]->parameter = entryOf(builder, 1).outputs[1]->parameter;
     },
     "once and as it is"},
    {"ForeignDevice", 3, [](PlanBuilder &builder) { builder.plan.meshes[0]->devices[0] = 1; },
     "expects devices of the first"},
    {"OtherDriver", 3, [](PlanBuilder &builder) { builder.plan.devices[1]->driver = "cuda"; }, "expects the driver of"},
    {"NoApply", 3, [](PlanBuilder &builder) { entryOf(builder, 1).name = "applies"; }, "expect entries"},
    {"OverlapWithoutMerge", 3, [](PlanBuilder &builder) { builder.plan.replicas->overlap = 1; },
     "expect an entry \"merge\""},
    {"LocalWithoutFetch", 0, [](PlanBuilder &builder) { builder.plan.replicas->local_steps = 4; }, "expect entries"},
    {"NoSuchParameter", 3, [](PlanBuilder &builder) { entryOf(builder, 1).outputs[0]->parameter = 99; },
     "but the plan has"}};

INSTANTIATE_TEST_SUITE_P(Rules, BrokenReplicaPlan, testing::ValuesIn(brokenReplicas),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace cleave::runtime::test
