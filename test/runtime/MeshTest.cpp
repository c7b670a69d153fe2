// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole programs on meshes of several devices, with every driver: one program, run by each device with its own
// coordinates. Values are compared where the driver computes, with plain loops.

#include "Conformance.h"
#include "TileReference.h"

#include "runtime/Verify.h"

#include <algorithm>

namespace cleave::runtime::test {
namespace {

class MeshTest : public ConformanceTest {
protected:
  /// Runs a step on 1, 2, 3, ... and gives the only output's elements.
  std::vector<float> run() {
    std::vector<HostTensor> inputs, outputs;
    for (const Port &port : executor->entry().inputs) {
      inputs.push_back(*HostTensor::allocate(port.type));
      for (size_t i = 0; i != inputs.back().as<float>().size(); ++i)
        inputs.back().as<float>()[i] = static_cast<float>(i + 1);
    }
    for (const Port &port : executor->entry().outputs)
      outputs.push_back(*HostTensor::allocate(port.type));
    auto times = executor->wait(*executor->submit(inputs, outputs));
    EXPECT_TRUE(times) << times.error().text();
    return valuesOf(outputs[0]);
  }
};

INSTANTIATE_TEST_SUITE_P(Drivers, MeshTest, testing::ValuesIn(allBackends()),
                         [](const auto &info) { return info.param.name; });

template <typename T> T exchangeOf(uint32_t source, int32_t sourceTile, uint32_t target, int32_t targetTile) {
  T exchange;
  exchange.source = source;
  exchange.target = target;
  exchange.source_tile = sourceTile;
  exchange.target_tile = targetTile;
  return exchange;
}

/// y = 2 x over the blocks of a mesh: load rows, double, gather, store; and z the sum of all blocks.
PlanBuilder gatherPlan(const std::string &driver, const std::vector<uint32_t> &axes, int64_t size) {
  PlanBuilder builder(driver);
  Mesh mesh = meshOf(axes);
  std::vector<uint32_t> all;
  for (uint32_t axis = 0; axis != axes.size(); ++axis)
    all.push_back(axis);
  Tile rows{{blocks(size, all, mesh)}};
  uint32_t program = builder.mesh("m", axes), x = builder.input("x", size), y = builder.output("y", size);
  int64_t length = rows.dims[0].length;
  uint32_t in = builder.buffer(program, "in", length), out = builder.buffer(program, "out", length);
  uint32_t gathered = builder.buffer(program, "gathered", size);
  int32_t tile = builder.tile(rows);
  Point loaded = builder.loadInput(program, x, in);
  builder.program(program).body.back()->action.AsLoadInput()->tile = tile;
  Point doubled = builder.call(program, "double", builder.kernel("twice", 1, length), {in, out}, {loaded});
  auto gather = exchangeOf<fb::ExchangeT>(out, tile, gathered, -1);
  gather.kind = fb::ExchangeKind::AllGather;
  builder.storeOutput(program, y, gathered, {builder.act(program, "gather", gather, {doubled})});
  return builder;
}

// Devices load their blocks, compute, gather, and one of the replicas stores; sizes that do not divide come out right.
TEST_P(MeshTest, GathersBlocks) {
  for (const std::vector<uint32_t> &axes : std::vector<std::vector<uint32_t>>{{1}, {2}, {3}, {4}, {2, 2}})
    for (int64_t size : {8, 7, 3}) {
      create(gatherPlan(GetParam().driver, axes, size));
      std::vector<float> expected;
      for (int64_t i = 0; i != size; ++i)
        expected.push_back(2.0f * static_cast<float>(i + 1));
      for (unsigned step = 0; step != 3; ++step) {
        auto result = run();
        if (GetParam().computes) {
          EXPECT_EQ(result, expected);
        }
      }
    }
}

// A generated parameter is made box by box, a reduction combines it, blocks are stored straight into the output, and
// indices follow the device's coordinates.
TEST_P(MeshTest, ReducesAndStoresBlocks) {
  PlanBuilder builder(GetParam().driver);
  Mesh mesh = meshOf({3});
  Tile rows{{blocks(7, {0}, mesh)}};
  uint32_t program = builder.mesh("m", {3}), y = builder.output("y", 7), x = builder.input("x", 7);
  int32_t tile = builder.tile(rows);
  uint32_t w = builder.buffer(program, "w", 7), part = builder.buffer(program, "part", 3);
  uint32_t block = builder.buffer(program, "block", 3), sum = builder.buffer(program, "sum", 3);
  uint32_t start = builder.buffer(program, "start", ElementType::I64, {});
  builder.into(Phase::Prepare).loadParameter(program, builder.constant("two", 7, 2), w);
  fb::LoadIndexT index;
  index.buffer = start;
  index.tile = static_cast<uint32_t>(tile);
  builder.act(program, "index", index, {}, HostQueue);
  builder.into(Phase::Body);
  fb::ReduceScatterT scatter;
  scatter.source = w;
  scatter.target = part;
  scatter.axes = {0};
  scatter.tile = tile;
  Point scattered = builder.act(program, "scatter", scatter);
  Point loaded = builder.loadInput(program, x, block);
  builder.program(program).body.back()->action.AsLoadInput()->tile = tile;
  Point added = builder.call(program, "add", builder.kernel("add", 2, 3), {part, block, sum}, {scattered, loaded});
  builder.storeOutput(program, y, sum, {added});
  builder.program(program).body.back()->action.AsStoreOutput()->tile = tile;
  create(builder);
  auto result = run();
  if (GetParam().computes) {
    EXPECT_EQ(result, (std::vector<float>{7, 8, 9, 10, 11, 12, 13})); // 2 from each of three devices, plus x
  }
}

/// A mesh of four doubles rows and sends them to a mesh of two, which shares device d1 with it, as columns' halves.
PlanBuilder twoMeshPlan(const std::string &driver) {
  PlanBuilder builder(driver);
  Mesh four = meshOf({4}), two = meshOf({2}, 1);
  uint32_t a = builder.mesh("a", {4}), b = builder.mesh("b", {2}, 1);
  uint32_t x = builder.input("x", 10), y = builder.output("y", 10);
  Tile quarter{{blocks(10, {0}, four)}}, half{{blocks(10, {0}, two)}};
  int32_t quarters = builder.tile(quarter), halves = builder.tile(half);
  uint32_t ax = builder.buffer(a, "x", 3), ah = builder.buffer(a, "h", 3);
  uint32_t bh = builder.buffer(b, "h", 5), by = builder.buffer(b, "y", 5);
  Point loaded = builder.loadInput(a, x, ax);
  builder.program(a).body.back()->action.AsLoadInput()->tile = quarters;
  Point doubled = builder.call(a, "double", builder.kernel("twice", 1, 3), {ax, ah}, {loaded});
  builder.send(a, "move", ah, b, 0, {doubled});
  Point received = builder.receive(b, "move", bh, a, 0);
  for (auto *instruction : {builder.program(a).body.back().get(), builder.program(b).body.back().get()}) {
    if (auto *send = instruction->action.AsSend()) {
      send->source_tile = quarters;
      send->target_tile = halves;
    } else {
      instruction->action.AsReceive()->source_tile = quarters;
      instruction->action.AsReceive()->target_tile = halves;
    }
  }
  Point again = builder.call(b, "again", builder.kernel("twice", 1, 5), {bh, by}, {received});
  builder.storeOutput(b, y, by, {again});
  builder.program(b).body.back()->action.AsStoreOutput()->tile = halves;
  return builder;
}

// Two meshes that share a device: a value goes from the blocks of the one to those of the other, for many steps in
// flight, and memory is reported for each device once.
TEST_P(MeshTest, MovesBetweenMeshes) {
  create(twoMeshPlan(GetParam().driver));
  std::vector<float> expected;
  for (int i = 0; i != 10; ++i)
    expected.push_back(4.0f * static_cast<float>(i + 1));
  auto result = run();
  if (GetParam().computes) {
    EXPECT_EQ(result, expected);
  }
  std::vector<DeviceMemory> memory = executor->memory();
  ASSERT_EQ(memory.size(), 4u);
  EXPECT_EQ(memory[0].plannedBytes, 128u);
  EXPECT_EQ(memory[1].plannedBytes, 256u);
  std::vector<std::vector<HostTensor>> outputs(4);
  std::vector<Ticket> tickets(4);
  for (unsigned step = 0; step != 500; ++step) {
    if (step >= 4) {
      ASSERT_TRUE(executor->wait(tickets[step % 4]));
      if (GetParam().computes) {
        ASSERT_EQ(valuesOf(outputs[step % 4][0]), std::vector<float>(10, 4.0f * static_cast<float>(step - 4)));
      }
    }
    tickets[step % 4] = submit(static_cast<float>(step), outputs[step % 4]);
  }
}

/// Only where something is done can something fail.
class MeshErrorTest : public MeshTest {};
INSTANTIATE_TEST_SUITE_P(Drivers, MeshErrorTest, testing::ValuesIn(computingBackends()),
                         [](const auto &info) { return info.param.name; });

// A step whose parameter cannot be read fails on all devices that depend on it, and the next one works.
TEST_P(MeshErrorTest, CarriesErrors) {
  PlanBuilder builder = gatherPlan(GetParam().driver, {4}, 8);
  fb::FileSourceT file;
  file.file = "w.bin";
  file.bytes = 16;
  fb::SourceUnion any;
  any.Set(file);
  uint32_t buffer = builder.buffer(0, "w", 4);
  builder.loadParameter(0, builder.parameter("w", 4, any), buffer);
  create(builder);
  std::vector<HostTensor> outputs;
  for (bool broken : {false, true, false}) {
    source.broken = broken;
    auto times = executor->wait(submit(1, outputs));
    EXPECT_EQ(bool(times), !broken);
    if (!broken) {
      EXPECT_EQ(valuesOf(outputs[0]), std::vector<float>(8, 2));
    } else {
      EXPECT_EQ(times.error().node(), "w");
    }
  }
}

// Of the reductions of a mesh of 2 x 2 along its second axis, each pair waits for its own members only: the pair with
// the slow device ends later. Both take the time of the reduction once.
TEST(NullMesh, SimulatesGroups) {
  PlanBuilder builder("null");
  uint32_t program = builder.mesh("m", {2, 2}), y = builder.output("y", 4), x = builder.input("x", 4);
  uint32_t b = builder.buffer(program, "b", 4), c = builder.buffer(program, "c", 4);
  Point loaded = builder.loadInput(program, x, b);
  Point called = builder.call(program, "c", builder.kernel("twice", 1, 4), {b, c}, {loaded});
  fb::AllReduceT reduce;
  reduce.source = reduce.target = c;
  reduce.axes = {1};
  builder.storeOutput(program, y, c, {builder.act(program, "r", reduce, {called})});
  Trace trace;
  ExecutorOptions options;
  options.trace = &trace;
  options.seconds = [](uint32_t device, const Instruction &instruction) {
    if (std::holds_alternative<Call>(instruction.action))
      return device == 3 ? 5.0 : 1.0;
    return std::holds_alternative<AllReduce>(instruction.action) ? 2.0 : 0.0;
  };
  MemorySource none;
  auto executor = Executor::create(builder.read(), "", none, options);
  ASSERT_TRUE(executor) << executor.error().text();
  auto tensor = *HostTensor::allocate({ElementType::F32, {4}, {}});
  ASSERT_TRUE((*executor)->wait(*(*executor)->submit({tensor}, {tensor})));
  std::vector<int64_t> ends(4);
  for (const Trace::Track &track : trace.tracks())
    for (const Trace::Event &event : track.events)
      if (std::holds_alternative<AllReduce>(event.instruction->action))
        ends[track.device] = event.end / 1000000000;
  EXPECT_EQ(ends, (std::vector<int64_t>{3, 3, 7, 7}));
}

// A plan for 1,024 devices is one program; proving and simulating it needs one thread, and moderate time and memory.
TEST(NullMesh, RunsAThousandDevices) {
  PlanBuilder builder = gatherPlan("null", {32, 32}, 1 << 20);
  for (uint32_t i = 0; i != 200; ++i)
    builder.call(0, "more", 0, {0, 1}, {{CollectiveQueue, 1}});
  Plan plan = builder.read();
  Error error = verifyPlan(plan);
  ASSERT_FALSE(error) << error.text();
  MemorySource none;
  auto executor = Executor::create(plan, "", none);
  ASSERT_TRUE(executor) << executor.error().text();
  auto tensor = *HostTensor::allocate({ElementType::F32, {1 << 20}, {}});
  for (unsigned step = 0; step != 2; ++step)
    ASSERT_TRUE((*executor)->wait(*(*executor)->submit({tensor}, {tensor})));
  EXPECT_EQ((*executor)->memory().size(), 1024u);
}

/// A sound plan with one rule for meshes broken, and a part of the message that says so.
struct BrokenMesh {
  const char *name;
  void (*breakPlan)(PlanBuilder &);
  const char *message;
};
void PrintTo(const BrokenMesh &broken, std::ostream *out) { *out << broken.name; }
class BrokenMeshPlan : public testing::TestWithParam<BrokenMesh> {};

fb::ExchangeT &gatherOf(PlanBuilder &builder) { return *builder.program(0).body[2]->action.AsExchange(); }
fb::TileDimT &rowsOf(PlanBuilder &builder) { return *builder.entry().tiles[0]->dims[0]; }

/// Body: 0 load input, 1 call, 2 gather, 3 store output. Buffers: 0 in[4], 1 out[4], 2 gathered[8]. Tile 0: 8 by 4.
constexpr BrokenMesh brokenMeshes[] = {
    {"TileIndex", [](PlanBuilder &b) { gatherOf(b).source_tile = 3; }, "has source tile 3, but the entry has 1"},
    {"NegativeTile", [](PlanBuilder &b) { gatherOf(b).target_tile = -2; }, "has target tile -2, but the entry has 1"},
    {"TileAxis", [](PlanBuilder &b) { rowsOf(b).cuts[0]->axis = 1; }, "is cut along axis 1, but mesh \"m\" has 1"},
    {"TileLength", [](PlanBuilder &b) { gatherOf(b).source = 2; },
     "has source tile 0 of 4 elements for buffer \"gathered\" of f32[8]"},
    {"TileCover", [](PlanBuilder &b) { rowsOf(b).size = 9; }, "that cover 9 elements"},
    {"TileTensor",
     [](PlanBuilder &b) {
       rowsOf(b).size = 7;
       b.entry().inputs[0]->type->shape = {7};
     },
     "expects tiles of the same tensor, got 7 elements sent and 8 received"},
    {"InputTensor", [](PlanBuilder &b) { b.entry().inputs[0]->type->shape = {9}; },
     "expects a tile of f32[9], got one of 8 elements"},
    {"SourceWindow",
     [](PlanBuilder &b) {
       Tile window{{{8, {{0, 4}}, 4, 1, 1}}};
       gatherOf(b).source_tile = b.tile(window);
     },
     "only targets have windows"},
    {"ExchangeQueue", [](PlanBuilder &b) { b.program(0).body[2]->queue = ComputeQueue; },
     "(all_gather) does not fit a compute queue"},
    {"ExchangeElement", [](PlanBuilder &b) { gatherOf(b).target = b.buffer(0, "other", ElementType::I32, {8}); },
     "expects equal element types on both ends, got f32[4] and i32[8]"},
    {"ExchangeOverlap", [](PlanBuilder &b) { gatherOf(b).target = b.bufferAt(0, "over", 8, 64); },
     "which it uses at the same time"},
    {"ChannelTwice", [](PlanBuilder &b) { b.act(0, "again", gatherOf(b)); },
     "expects one send and one receive, or one collective, got 0 and 0, or 2"},
    {"ReduceAxis",
     [](PlanBuilder &b) {
       fb::AllReduceT reduce;
       reduce.channel = 1;
       reduce.axes = {0, 0};
       b.act(0, "r", reduce);
     },
     "reduces over axis 0, expected different axes"},
    {"ReduceType",
     [](PlanBuilder &b) {
       fb::AllReduceT reduce;
       reduce.channel = 1;
       reduce.axes = {0};
       reduce.target = 2;
       b.act(0, "r", reduce);
     },
     "expects a buffer of f32[4], got \"gathered\""},
    {"ReduceCombiner",
     [](PlanBuilder &b) {
       fb::AllReduceT reduce;
       reduce.source = reduce.target = b.buffer(0, "flags", ElementType::I1, {4});
       reduce.channel = 1;
       reduce.axes = {0};
       b.act(0, "r", reduce);
     },
     "has combiner sum for i1[4]"},
    {"TensorTypes",
     [](PlanBuilder &b) {
       auto other = std::make_unique<fb::OperandT>();
       other->source = b.buffer(0, "parts", ElementType::I32, {4});
       other->target = b.buffer(0, "whole", ElementType::I32, {8});
       other->source_tile = 0;
       gatherOf(b).more.push_back(std::move(other));
     },
     "expects tensors of one element type, got f32[4] and i32[4]"},
    {"TensorsOverlap",
     [](PlanBuilder &b) {
       fb::AllReduceT reduce;
       reduce.source = reduce.target = 1;
       reduce.channel = 1;
       reduce.axes = {0};
       auto other = std::make_unique<fb::OperandT>();
       other->source = b.buffer(0, "other", 4);
       other->target = 1;
       reduce.more.push_back(std::move(other));
       b.act(0, "r", reduce, {{HostQueue, 1}, {ComputeQueue, 1}});
     },
     "which it uses at the same time"},
    {"ScatterWithoutTile",
     [](PlanBuilder &b) {
       fb::ReduceScatterT reduce;
       reduce.source = 2;
       reduce.target = 0;
       reduce.axes = {0};
       b.act(0, "r", reduce);
     },
     "expects a tile that says which part each device keeps"},
    {"ScatterAxes",
     [](PlanBuilder &b) {
       fb::ReduceScatterT reduce;
       reduce.source = 2;
       reduce.target = 0;
       reduce.tile = 0;
       b.act(0, "r", reduce);
     },
     "cuts along the axes of the reduction and no others; axis \"axis0\" differs"},
    {"IndexBuffer",
     [](PlanBuilder &b) {
       fb::LoadIndexT index;
       b.act(0, "i", index, {}, HostQueue);
     },
     "expects a buffer of one i64, got \"in\""},
    {"IndexDim",
     [](PlanBuilder &b) {
       fb::LoadIndexT index;
       index.buffer = b.buffer(0, "i", ElementType::I64, {1});
       index.dim = 1;
       b.act(0, "i", index, {}, HostQueue);
     },
     "has dimension 1 of tile 0, which is not there"},
    {"UnorderedGather", [](PlanBuilder &b) { b.program(0).body[2]->waits.clear(); },
     "mesh \"m\" collective queue all_gather \"gather\" reads buffer \"out\", which nothing has written before"},
    {"SharedMemory",
     [](PlanBuilder &b) {
       b.mesh("n", {3});
       b.buffer(1, "n", 64);
       b.plan.devices[1]->memory_limit = 300;
     },
     "device \"d1\" has a memory limit of 300 bytes, but its arenas need 448"},
};
INSTANTIATE_TEST_SUITE_P(Meshes, BrokenMeshPlan, testing::ValuesIn(brokenMeshes),
                         [](const auto &info) { return info.param.name; });

// Each rule for programs on meshes is enforced, with a message that says what is wrong.
TEST_P(BrokenMeshPlan, IsRejected) {
  PlanBuilder builder = gatherPlan("cpu", {2}, 8);
  Error error = verifyPlan(builder.read());
  ASSERT_FALSE(error) << error.text();
  GetParam().breakPlan(builder);
  error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_NE(error.text().find(GetParam().message), std::string::npos) << error.text();
}

// Both ends of a transfer between meshes must tell the same story.
TEST(VerifyMeshes, ComparesEnds) {
  PlanBuilder builder = twoMeshPlan("cpu");
  Error error = verifyPlan(builder.read());
  ASSERT_FALSE(error) << error.text();
  builder.program(1).body[0]->action.AsReceive()->source_tile = -1;
  EXPECT_NE(verifyPlan(builder.read()).text().find("expects the same tiles on both ends, got 0 to 1 sent and -1 to 1"),
            std::string::npos);
}

// Two meshes that each wait for the other: the circle is found on programs and names meshes.
TEST(VerifyMeshes, PrintsDeadlockCircle) {
  PlanBuilder builder;
  uint32_t a = builder.mesh("a", {2}), b = builder.mesh("b", {2}, 2), one = builder.constant("one", 4, 1);
  for (uint32_t program : {a, b}) {
    uint32_t sent = builder.buffer(program, "sent", 4), got = builder.buffer(program, "got", 4);
    builder.into(Phase::Prepare).loadParameter(program, one, sent);
    builder.into(Phase::Body);
    fb::AllReduceT reduce;
    reduce.source = reduce.target = got;
    reduce.axes = {0};
    reduce.channel = 2 + program;
    Point received = builder.receive(program, "r", got, 1 - program, 1 - program);
    Point reduced = builder.act(program, "sum", reduce, {received});
    builder.send(program, "s", sent, 1 - program, program, {reduced});
  }
  std::string message = verifyPlan(builder.read()).message();
  for (const char *part : {"deadlock: mesh \"", "mesh \"a\" receive queue receive \"r\"", "all_reduce \"sum\"",
                           "mesh \"b\" send queue send \"s\""})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
}

/// v goes to b and comes back as w; then v's bytes are written again without waiting for its send.
PlanBuilder roundTrip(const std::vector<uint32_t> &axes) {
  PlanBuilder builder;
  uint32_t a = builder.mesh("a", axes), b = builder.mesh("b", axes, 8), one = builder.constant("one", 4, 1);
  uint32_t v = builder.buffer(a, "v", 4), back = builder.buffer(a, "back", 4), w = builder.bufferAt(a, "w", 4, 0);
  uint32_t bv = builder.buffer(b, "v", 4);
  Point loaded = builder.loadParameter(a, one, v);
  builder.send(a, "v", v, b, 0, {loaded});
  builder.send(b, "w", bv, a, 1, {builder.receive(b, "v", bv, a, 0)});
  Point returned = builder.receive(a, "w", back, b, 1);
  builder.copy(a, "reuse", back, w, {returned, loaded});
  return builder;
}

// An order through another program holds between single devices only: of several, the one that answers need not be the
// one that still reads.
TEST(VerifyMeshes, TrustsNoRoundTripOfMeshes) {
  Error error = verifyPlan(roundTrip({}).read());
  EXPECT_FALSE(error) << error.text();
  error = verifyPlan(roundTrip({2}).read());
  EXPECT_NE(error.text().find("writes buffer \"w\" without waiting for mesh \"a\" send queue send \"v\""),
            std::string::npos)
      << error.text();
}

} // namespace
} // namespace cleave::runtime::test
