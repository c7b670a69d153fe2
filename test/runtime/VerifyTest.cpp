// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The verifier: sound plans pass, and each rule that a plan breaks is found and named.

#include "runtime/Verify.h"

#include "PlanBuilder.h"

#include <gtest/gtest.h>
#include <limits>

namespace cleave::runtime::test {
namespace {

fb::InstructionT &bodyOf(PlanBuilder &builder, uint32_t device, size_t index) {
  return *builder.program(device).body[index];
}

/// Leaves what was decided about training, with a home on mesh 0 for the parameter of 4 elements.
fb::HomeT &addHome(PlanBuilder &builder) {
  builder.entry().programs.clear();
  builder.entry().prediction = std::make_unique<fb::PredictionT>();
  builder.entry().prediction->training = true;
  return *builder.entry().homes.emplace_back(std::make_unique<fb::HomeT>());
}

// A decision may say where parameters are to be kept, whole or in parts.
TEST(Verify, AcceptsHomes) {
  PlanBuilder builder = pipelinePlan("cpu");
  addHome(builder).tile = builder.tile({{{4, {}, 4}}});
  builder.entry().homes.push_back(std::make_unique<fb::HomeT>());
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

/// One dimension of `length`, of which a part has `size` elements behind `before`.
Tile rangeOf(int64_t size, int64_t length, int64_t before) { return {{{size, {}, length, 1, before}}}; }

/// The pipeline with its output of `length` numbers in parts, each with its size and where it begins.
void storeParts(PlanBuilder &b, const std::vector<std::pair<int64_t, int64_t>> &parts, int64_t length) {
  b.entry().outputs[0]->type->shape = {length};
  for (size_t i = 0; i != parts.size(); ++i) {
    if (i != 0)
      b.storeOutput(1, 0, 2, {{ComputeQueue, 1}});
    bodyOf(b, 1, 2 + i).action.AsStoreOutput()->within = b.tile(rangeOf(parts[i].first, length, parts[i].second));
  }
}

// An input may have more than the part that is loaded; an output has the parts that are stored, in any order.
TEST(Verify, AcceptsPartsOfPorts) {
  PlanBuilder builder = pipelinePlan("cpu");
  storeParts(builder, {{4, 4}, {4, 8}, {4, 0}}, 12);
  builder.entry().inputs[0]->type->shape = {9};
  bodyOf(builder, 0, 0).action.AsLoadInput()->within = builder.tile(rangeOf(4, 9, 5));
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

// Everything below breaks this plan; it must be sound before.
TEST(Verify, AcceptsPipeline) {
  Error error = verifyPlan(pipelinePlan("cpu").read());
  EXPECT_FALSE(error) << error.text();
}

// The limits of CUDA's programming guide for every GPU since compute capability 3.0.
TEST(Verify, LimitsGpuLaunches) {
  auto isAccepted = [](uint32_t blocks, uint32_t threads) {
    PlanBuilder builder = pipelinePlan("cuda");
    fb::GpuLaunchT &launch = *builder.plan.kernels[0]->body.AsGpuKernel()->launches[0];
    launch.blocks = blocks;
    launch.threads = threads;
    Error error = verifyPlan(builder.read());
    EXPECT_TRUE(!error || error.text().find("1 to 1024 threads") != std::string::npos) << error.text();
    return !error;
  };
  EXPECT_TRUE(isAccepted(1, 1));
  EXPECT_TRUE(isAccepted(2147483647, 1024));
  EXPECT_FALSE(isAccepted(0, 1));
  EXPECT_FALSE(isAccepted(1, 0));
  EXPECT_FALSE(isAccepted(2147483648, 1));
  EXPECT_FALSE(isAccepted(1, 1025));
}

/// A plan with one rule broken, and a part of the message that says so.
struct Broken {
  const char *name;
  void (*breakPlan)(PlanBuilder &);
  const char *message;
};

void PrintTo(const Broken &broken, std::ostream *out) { *out << broken.name; }

class BrokenPlan : public testing::TestWithParam<Broken> {};

// Each rule of the structure, the order and the memory is enforced, with a message that says what is wrong.
TEST_P(BrokenPlan, IsRejected) {
  PlanBuilder builder = pipelinePlan("cpu");
  GetParam().breakPlan(builder);
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_NE(error.text().find(GetParam().message), std::string::npos) << error.text();
  EXPECT_TRUE(error.status() == Status::Rejected || error.status() == Status::Infeasible);
}

/// Body of device a: 0 load input, 1 call, 2 send. Body of b: 0 receive, 1 call, 2 store output. Buffers of a: 0 x,
/// 1 h. Buffers of b: 0 h, 1 one, 2 y.
constexpr Broken structure[] = {
    {"MeshDevice", [](PlanBuilder &b) { b.plan.meshes[0]->devices = {9}; }, "has device 9, but the plan has 2 devices"},
    {"MeshSize", [](PlanBuilder &b) { b.plan.meshes[0]->devices = {0, 1}; }, "expects 1 devices, the product"},
    {"MeshTwice",
     [](PlanBuilder &b) {
       auto axis = std::make_unique<fb::AxisT>();
       axis->size = 2;
       b.plan.meshes[0]->axes.push_back(std::move(axis));
       b.plan.meshes[0]->devices = {0, 0};
     },
     "has device \"a\" twice"},
    {"MeshAxis", [](PlanBuilder &b) { b.plan.meshes[0]->axes.push_back(std::make_unique<fb::AxisT>()); },
     "has size 0, expected at least 1"},
    {"ProgramMesh", [](PlanBuilder &b) { b.program(0).mesh = 7; }, "a program is on mesh 7, but the plan has 2"},
    {"TwoPrograms", [](PlanBuilder &b) { b.program(1).mesh = 0; }, "mesh \"a\" has two programs"},
    {"ParameterBytes",
     [](PlanBuilder &b) {
       fb::FileSourceT file;
       file.file = "w.bin";
       file.bytes = 3;
       b.plan.parameters[0]->source.Set(std::move(file));
     },
     "expects 16 bytes of \"w.bin\" for f32[4], got 3"},
    {"ParameterFile", [](PlanBuilder &b) { b.plan.parameters[0]->source.Set(fb::FileSourceT()); },
     "has a file source without a file name"},
    {"ParameterInline", [](PlanBuilder &b) { b.plan.parameters[0]->source.Set(fb::InlineSourceT()); },
     "expects 16 bytes for f32[4], got 0"},
    {"NegativeShape", [](PlanBuilder &b) { b.plan.parameters[0]->type->shape = {-4}; },
     "no negative dimension, got -4"},
    {"OverflowingShape",
     [](PlanBuilder &b) { b.plan.parameters[0]->type->shape = {int64_t(1) << 40, int64_t(1) << 40}; },
     "more bytes than 2^63-1"},
    {"Image", [](PlanBuilder &b) { b.plan.objects[0]->image[100] ^= 1; }, "expects an image with checksum"},
    {"NoElf",
     [](PlanBuilder &b) {
       b.plan.objects[0]->checksum = 0;
       b.plan.objects[0]->image[0] = 0;
     },
     "expects an ELF shared object"},
    {"KernelObject", [](PlanBuilder &b) { b.plan.kernels[0]->body.AsNativeKernel()->object = 5; },
     "is in object 5, but the plan has 1"},
    {"KernelSymbol", [](PlanBuilder &b) { b.plan.kernels[0]->body.AsNativeKernel()->symbol = ""; },
     "expects a symbol of printable characters"},
    {"KernelExtent", [](PlanBuilder &b) { b.plan.kernels[0]->body.AsNativeKernel()->parallel_extent = 0; },
     "expects a parallel extent of at least 1, got 0"},
    {"KernelWork", [](PlanBuilder &b) { b.plan.kernels[0]->flops = -1; },
     "expects finite work that is not negative, got -1"},
    {"LibraryName", [](PlanBuilder &b) { b.plan.kernels[0]->body.Set(fb::LibraryKernelT()); },
     "expects the names of a library and an operation"},
    {"PostOpArgument",
     [](PlanBuilder &b) {
       fb::LibraryKernelT library;
       library.library = library.operation = "x";
       library.post_ops.push_back(std::make_unique<fb::PostOpT>());
       library.post_ops[0]->argument = 1;
       b.plan.kernels[0]->body.Set(std::move(library));
     },
     "that reads input 1 of 1"},
    {"PortTwice", [](PlanBuilder &b) { b.input("x", 4); }, "input \"x\" is there twice"},
    {"EntryTwice",
     [](PlanBuilder &b) {
       b.plan.entries.push_back(std::make_unique<fb::EntryT>());
       b.plan.entries[1]->name = "main";
     },
     "entry \"main\" is there twice"},
    {"OperatorMesh",
     [](PlanBuilder &b) {
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->mesh = 4;
     },
     "is on mesh 4, but the plan has 2"},
    {"OperatorInput",
     [](PlanBuilder &b) {
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->inputs = {1};
     },
     "has operator 1 as input, but the entry has 1"},
    {"OperatorSeconds",
     [](PlanBuilder &b) {
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->predicted_seconds = std::numeric_limits<double>::infinity();
     },
     "expects finite numbers for its work, bytes and seconds"},
    {"OperatorKeysOfOneDevice",
     [](PlanBuilder &b) {
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->keys = std::make_unique<fb::KeyExchangeT>();
       b.entry().operators[0]->keys->devices = 1;
     },
     "expects keys of two devices or more"},
    {"OperatorKeysWithoutSeconds",
     [](PlanBuilder &b) {
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->keys = std::make_unique<fb::KeyExchangeT>();
       b.entry().operators[0]->keys->devices = 2;
       b.entry().operators[0]->keys->ring_seconds = std::numeric_limits<double>::quiet_NaN();
     },
     "and finite seconds and bytes"},
    {"OperatorParameter",
     [](PlanBuilder &b) {
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->parameters = {0, 1};
     },
     "reads parameter 1, but the plan has 1"},
    {"HomeBesidePrograms", [](PlanBuilder &b) { b.entry().homes.push_back(std::make_unique<fb::HomeT>()); },
     "expects what its programs say of parameters alone, got homes besides"},
    {"HomeParameter", [](PlanBuilder &b) { addHome(b).parameter = 1; },
     "has a home for parameter 1, but the plan has 1"},
    {"HomeMesh", [](PlanBuilder &b) { addHome(b).mesh = 2; },
     "home of parameter \"one\": is on mesh 2, but the plan has 2"},
    {"HomeTile", [](PlanBuilder &b) { addHome(b).tile = 0; }, "has tile 0, but the entry has 0"},
    {"HomeTileAxis",
     [](PlanBuilder &b) {
       int32_t tile = b.tile({{{4, {{3, 2}}, 2}}});
       addHome(b).tile = tile;
     },
     "has tile 0, whose"},
    {"HomeTileElements",
     [](PlanBuilder &b) {
       int32_t tile = b.tile({{{8, {}, 8}}});
       addHome(b).tile = tile;
     },
     "expects a tile of 4 elements, got one of 8"},
    {"PredictedStageMesh",
     [](PlanBuilder &b) {
       auto &prediction = *(b.entry().prediction = std::make_unique<fb::PredictionT>());
       prediction.stages.push_back(std::make_unique<fb::StageT>());
       prediction.stages[0]->mesh = 2;
     },
     "a predicted stage is on mesh 2, but the plan has 2"},
    {"PredictedStageSeconds",
     [](PlanBuilder &b) {
       auto &prediction = *(b.entry().prediction = std::make_unique<fb::PredictionT>());
       prediction.stages.push_back(std::make_unique<fb::StageT>());
       prediction.stages[0]->forward = -1;
     },
     "a predicted stage expects finite seconds and bytes"},
    {"OperatorStage",
     [](PlanBuilder &b) {
       auto &prediction = *(b.entry().prediction = std::make_unique<fb::PredictionT>());
       prediction.stages.push_back(std::make_unique<fb::StageT>());
       b.entry().operators.push_back(std::make_unique<fb::OperatorT>());
       b.entry().operators[0]->stage = 1;
     },
     "is in stage 1, but the prediction has 1"},
    {"PredictedPeakBytes",
     [](PlanBuilder &b) {
       b.entry().prediction = std::make_unique<fb::PredictionT>();
       b.entry().prediction->peak_bytes = {-1, 0};
     },
     "expects finite peak bytes of at least 0, got -1"},
    {"PredictedDevices",
     [](PlanBuilder &b) {
       b.entry().prediction = std::make_unique<fb::PredictionT>();
       b.entry().prediction->peak_bytes = {1};
     },
     "the prediction expects the peak bytes of 2 devices, got 1"},
    {"PredictedStep",
     [](PlanBuilder &b) {
       b.entry().prediction = std::make_unique<fb::PredictionT>();
       b.entry().prediction->step_seconds = std::numeric_limits<double>::quiet_NaN();
     },
     "the prediction expects finite seconds, operations and bytes"},
    {"Alternative",
     [](PlanBuilder &b) {
       b.entry().prediction = std::make_unique<fb::PredictionT>();
       b.entry().prediction->alternatives.push_back(std::make_unique<fb::AlternativeT>());
       b.entry().prediction->alternatives[0]->peak_bytes = std::numeric_limits<double>::infinity();
     },
     "expects finite seconds and bytes"},
    {"BufferBytes", [](PlanBuilder &b) { b.program(0).buffers[0]->bytes = 12; }, "expects 16 bytes for f32[4], got 12"},
    {"BufferAlignment", [](PlanBuilder &b) { b.program(0).buffers[0]->offset = 4; }, "multiple of 64, got 4"},
    {"BufferOutside", [](PlanBuilder &b) { b.program(0).buffers[0]->offset = 128; },
     "expects to lie in 128 bytes of the arena, got offset 128"},
    {"BufferFarOutside", [](PlanBuilder &b) { b.program(0).buffers[0]->offset = hostOffset - 64; },
     "expects to lie in 128 bytes of the arena, got offset 4611686018427387840"},
    {"BufferOffsetWraps", [](PlanBuilder &b) { b.program(0).buffers[0]->offset = UINT64_MAX - 63; },
     "expects to lie in 0 bytes of the host's memory, got offset 13835058055282163648"},
    {"ArenaTooLarge", [](PlanBuilder &b) { b.program(0).arena_bytes = 4096; }, "but its buffers end at 80"},
    {"LiveBytes", [](PlanBuilder &b) { b.program(0).live_bytes = 4096; }, "fewer than the 4096 live at once"},
    {"MemoryLimit", [](PlanBuilder &b) { b.plan.devices[0]->memory_limit = 100; }, "has a memory limit of 100 bytes"},
    {"ViewIndex", [](PlanBuilder &b) { b.program(0).buffers[0]->view_of = 9; }, "is a view of buffer 9"},
    {"ViewOutside", [](PlanBuilder &b) { b.program(0).buffers[0]->view_of = 1; }, "expects to lie inside \"h\""},
    {"ViewOutsideOfTheFirst", [](PlanBuilder &b) { b.bufferAt(0, "v", 4, 64, 0); }, "expects to lie inside \"x\""},
    {"ViewOfView",
     [](PlanBuilder &b) {
       b.bufferAt(0, "v", 4, 0, 0);
       b.bufferAt(0, "w", 4, 0, 2);
     },
     "which is a view itself"},
    {"Queue", [](PlanBuilder &b) { bodyOf(b, 0, 0).queue = 8; }, "is on queue 8, but the program has 5"},
    {"QueueKind", [](PlanBuilder &b) { bodyOf(b, 0, 1).queue = SendQueue; }, "does not fit a send queue"},
    {"WaitQueue", [](PlanBuilder &b) { bodyOf(b, 0, 1).waits[0]->queue = 6; }, "waits for value 1 of queue 6"},
    {"WaitValue", [](PlanBuilder &b) { bodyOf(b, 0, 1).waits[0]->value = 2; }, "which is never reached"},
    {"Kernel", [](PlanBuilder &b) { bodyOf(b, 0, 1).action.AsCall()->kernel = 3; },
     "calls kernel 3, but the plan has 2"},
    {"Arguments", [](PlanBuilder &b) { bodyOf(b, 0, 1).action.AsCall()->arguments.pop_back(); },
     "which expects 2 arguments, got 1"},
    {"ArgumentIndex", [](PlanBuilder &b) { bodyOf(b, 0, 1).action.AsCall()->arguments[1] = 77; },
     "uses buffer 77, but the program has 2"},
    {"ArgumentType", [](PlanBuilder &b) { b.plan.kernels[0]->inputs[0]->shape = {2, 2}; },
     "expects f32[2,2] as argument 0, got buffer \"x\" of f32[4]"},
    {"Scratch",
     [](PlanBuilder &b) {
       b.plan.kernels[0]->scratch_bytes = 100;
       bodyOf(b, 0, 1).action.AsCall()->arguments.push_back(b.buffer(0, "scratch", 4));
     },
     "expects 100 bytes of scratch, got buffer \"scratch\" of 16"},
    {"CopyType", [](PlanBuilder &b) { b.copy(0, "copy", 0, b.buffer(0, "c", 8)); },
     "expects a buffer of f32[4], got \"c\" of f32[8]"},
    {"Parameter", [](PlanBuilder &b) { b.program(1).prepare[0]->action.AsLoadParameter()->parameter = 2; },
     "loads parameter 2, but the plan has 1"},
    {"Input", [](PlanBuilder &b) { bodyOf(b, 0, 0).action.AsLoadInput()->input = 2; },
     "loads input 2, but the entry has 1"},
    {"InputInPrepare", [](PlanBuilder &b) { b.into(Phase::Prepare).loadInput(0, 0, 0); },
     "in prepare, expected that only in the body"},
    {"Output", [](PlanBuilder &b) { bodyOf(b, 1, 2).action.AsStoreOutput()->output = 2; },
     "stores output 2, but the entry has 1"},
    {"OutputMissing", [](PlanBuilder &b) { b.program(1).body.pop_back(); }, "expects to be stored once a step, got 0"},
    {"PartsApart", [](PlanBuilder &b) { storeParts(b, {{4, 0}, {4, 5}}, 12); },
     "expects parts that follow each other, got one from 5 on behind 4"},
    {"PartsOverlap", [](PlanBuilder &b) { storeParts(b, {{4, 0}, {4, 3}}, 12); },
     "expects parts that follow each other, got one from 3 on behind 4"},
    {"PartsEndEarly", [](PlanBuilder &b) { storeParts(b, {{4, 4}, {4, 0}}, 12); },
     "expects parts up to 12, got them up to 8"},
    {"PartAndWhole",
     [](PlanBuilder &b) {
       b.storeOutput(1, 0, b.buffer(1, "two", 2), {{ComputeQueue, 1}});
       bodyOf(b, 1, 3).action.AsStoreOutput()->within = b.tile(rangeOf(2, 4, 0));
     },
     "expects to be stored once a step, got 2"},
    {"PartOutside", [](PlanBuilder &b) { storeParts(b, {{4, 0}, {4, 5}}, 8); },
     "expected a range of one dimension, without cuts and steps"},
    {"PartOfAnother",
     [](PlanBuilder &b) {
       storeParts(b, {{4, 0}, {4, 4}}, 8);
       b.entry().outputs[0]->type->shape = {9};
     },
     "expected one of a dense f32[9], got one of 8 elements"},
    {"PartOfOtherSize", [](PlanBuilder &b) { storeParts(b, {{3, 0}, {4, 3}}, 7); }, "expects a buffer of f32[3]"},
    {"PartOfNoTile",
     [](PlanBuilder &b) {
       storeParts(b, {{4, 0}, {4, 4}}, 8);
       bodyOf(b, 1, 2).action.AsStoreOutput()->within = 7;
     },
     "has a part within tile 7, but the entry has 2"},
    {"PartOfInput", [](PlanBuilder &b) { bodyOf(b, 0, 0).action.AsLoadInput()->within = b.tile(rangeOf(3, 4, 1)); },
     "expects a buffer of f32[3]"},
    {"OutputTwice", [](PlanBuilder &b) { b.storeOutput(1, 0, 2, {{ComputeQueue, 1}}); }, "once a step, got 2"},
    {"Peer", [](PlanBuilder &b) { bodyOf(b, 0, 2).action.AsSend()->mesh = 5; },
     "has mesh 5 as peer, but the plan has 2"},
    {"OwnMesh", [](PlanBuilder &b) { bodyOf(b, 0, 2).action.AsSend()->mesh = 0; },
     "has its own mesh as peer; use an exchange"},
    {"WrongPeer",
     [](PlanBuilder &b) {
       b.device("c");
       bodyOf(b, 0, 2).action.AsSend()->mesh = 2;
     },
     "is sent by mesh \"a\" to \"c\", but received by \"b\" from \"a\""},
    {"ChannelOneEnd", [](PlanBuilder &b) { bodyOf(b, 0, 2).action.AsSend()->channel = 3; },
     "channel 0 expects one send and one receive, or one collective, got 0 and 1, or 0"},
    {"ChannelBytes", [](PlanBuilder &b) { bodyOf(b, 0, 2).action.AsSend()->buffer = b.buffer(0, "long", 8); },
     "expects equal bytes on both ends, got 32 sent and 16 received"},
    {"Order", [](PlanBuilder &b) { bodyOf(b, 0, 0).order = 3; }, "has order 0, expected at least 3"},
};
INSTANTIATE_TEST_SUITE_P(Structure, BrokenPlan, testing::ValuesIn(structure),
                         [](const auto &info) { return info.param.name; });

constexpr Broken memory[] = {
    {"Unwritten", [](PlanBuilder &b) { b.program(1).prepare.clear(); }, "buffer \"one\", which nothing has written"},
    {"ReadBeforeWrite", [](PlanBuilder &b) { bodyOf(b, 0, 1).waits.clear(); },
     "reads buffer \"x\" without waiting for device \"a\" host queue load input \"x\""},
    {"OutputOverInput",
     [](PlanBuilder &b) {
       b.program(0).buffers[1]->offset = 0;
       b.program(0).arena_bytes = 64;
     },
     "which it uses at the same time"},
    {"Clobbered",
     [](PlanBuilder &b) {
       // c takes the bytes of h, between the call that writes h and the send that reads it.
       uint32_t c = b.bufferAt(0, "c", 4, 64);
       Point copied = b.copy(0, "clobber", 0, c);
       bodyOf(b, 0, 2).waits[0]->value = copied.value;
     },
     "reads buffer \"h\", but its bytes hold buffer \"c\" by then"},
    {"ReadWriteRace", [](PlanBuilder &b) { b.copy(0, "overwrite", 0, b.bufferAt(0, "c", 4, 64)); },
     "writes buffer \"c\" without waiting for device \"a\" send queue send \"first\", which reads \"h\""},
    {"WriteWriteRace", [](PlanBuilder &b) { b.loadInput(0, 0, b.bufferAt(0, "c", 4, 64)); },
     "writes buffer \"c\" without waiting for device \"a\" compute queue call \"first\", which writes \"h\""},
    {"PreparedOverwritten", [](PlanBuilder &b) { b.copy(1, "overwrite", 2, b.bufferAt(1, "c", 4, 64)); },
     "needs in every step as prepare left it"},
    {"CopyOntoItself", [](PlanBuilder &b) { b.copy(0, "same", 0, b.bufferAt(0, "v", 4, 0, 0)); },
     "which it uses at the same time"},
    {"PartialInPlace",
     [](PlanBuilder &b) {
       uint32_t wide = b.buffer(0, "wide", 32);
       uint32_t left = b.bufferAt(0, "left", 20, 128, static_cast<int32_t>(wide));
       uint32_t right = b.bufferAt(0, "right", 16, 192, static_cast<int32_t>(wide));
       (void)right;
       uint32_t kernel = b.kernel("twice", 1, 20);
       b.plan.kernels[kernel]->outputs[0]->shape = {16};
       b.loadParameter(0, b.constant("zero", 32, 0), wide);
       b.call(0, "partial", kernel, {left, right}, {{HostQueue, 2}});
     },
     "writes buffer \"right\" over buffer \"left\", which it uses at the same time"},
};
INSTANTIATE_TEST_SUITE_P(Memory, BrokenPlan, testing::ValuesIn(memory),
                         [](const auto &info) { return info.param.name; });

// Two devices that both send before they receive: under rendezvous neither gets on. The message names the whole circle.
TEST(Verify, PrintsDeadlockCircle) {
  PlanBuilder builder;
  uint32_t kernel = builder.kernel("twice", 1, 4), one = builder.constant("one", 4, 1);
  for (uint32_t i = 0; i != 2; ++i) {
    uint32_t device = builder.device(i == 0 ? "a" : "b");
    uint32_t sent = builder.buffer(device, "sent", 4), got = builder.buffer(device, "got", 4);
    uint32_t result = builder.buffer(device, "result", 4);
    builder.into(Phase::Prepare).loadParameter(device, one, sent);
    builder.into(Phase::Body);
    std::string name = i == 0 ? "p" : "q";
    builder.send(device, name, sent, 1 - i, i, {{ReceiveQueue, 1}});
    Point received = builder.receive(device, name, got, 1 - i, 1 - i);
    builder.call(device, name, kernel, {got, result}, {received});
  }
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  for (const char *part : {"deadlock", "device \"a\" send queue send \"p\"", "device \"b\" receive queue receive \"q\"",
                           "device \"b\" send queue send \"q\"", "device \"a\" receive queue receive \"p\""})
    EXPECT_NE(error.message().find(part), std::string::npos) << part << " in " << error.message();
}

// An instruction that waits for a later one of its own queue can never begin.
TEST(Verify, FindsWaitForOwnFuture) {
  PlanBuilder builder = pipelinePlan("cpu");
  auto wait = std::make_unique<fb::WaitT>();
  wait->queue = HostQueue;
  wait->value = 1;
  bodyOf(builder, 0, 0).waits.push_back(std::move(wait));
  EXPECT_NE(verifyPlan(builder.read()).message().find("deadlock"), std::string::npos);
}

// Bytes may be used again once every reader is over, even when the order comes through another device.
TEST(Verify, AcceptsReuseOrderedThroughAnotherDevice) {
  PlanBuilder builder;
  uint32_t a = builder.device("a"), b = builder.device("b");
  uint32_t twice = builder.kernel("twice", 1, 4), one = builder.constant("one", 4, 1);
  uint32_t v = builder.buffer(a, "v", 4), back = builder.buffer(a, "back", 4), w = builder.bufferAt(a, "w", 4, 0);
  uint32_t bv = builder.buffer(b, "v", 4), bw = builder.buffer(b, "w", 4);
  Point loaded = builder.loadParameter(a, one, v);
  builder.send(a, "v", v, b, 0, {loaded});
  Point received = builder.receive(b, "v", bv, a, 0);
  Point doubled = builder.call(b, "double", twice, {bv, bw}, {received});
  builder.send(b, "w", bw, a, 1, {doubled});
  Point returned = builder.receive(a, "w", back, b, 1);
  builder.call(a, "reuse", twice, {back, w}, {returned});
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

// A view of a buffer reads what was written through the buffer, and an in-place kernel writes a view of its input.
TEST(Verify, AcceptsViewsAndInPlaceKernels) {
  PlanBuilder builder;
  uint32_t a = builder.device("a");
  uint32_t y = builder.output("y", 4);
  uint32_t whole = builder.buffer(a, "whole", 32);
  uint32_t view = builder.bufferAt(a, "view", 4, 64, static_cast<int32_t>(whole));
  uint32_t result = builder.bufferAt(a, "result", 4, 64, static_cast<int32_t>(whole));
  Point loaded = builder.loadParameter(a, builder.constant("c", 32, 3), whole);
  Point doubled = builder.call(a, "double", builder.kernel("twice", 1, 4), {view, result}, {loaded});
  builder.storeOutput(a, y, result, {doubled});
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

// A long plan: two devices that take turns, 10,000 instructions.
TEST(Verify, AcceptsLongPlans) {
  PlanBuilder builder;
  uint32_t a = builder.device("a"), b = builder.device("b");
  uint32_t twice = builder.kernel("twice", 1, 4);
  uint32_t av[] = {builder.buffer(a, "0", 4), builder.buffer(a, "1", 4)};
  uint32_t bv[] = {builder.buffer(b, "0", 4), builder.buffer(b, "1", 4)};
  Point last = builder.loadParameter(a, builder.constant("c", 4, 1), av[0]);
  for (uint32_t i = 0; i != 1250; ++i) {
    last = builder.call(a, "n", twice, {av[0], av[1]}, {last});
    builder.send(a, "n", av[1], b, 2 * i, {last});
    last = builder.receive(b, "n", bv[0], a, 2 * i);
    last = builder.call(b, "n", twice, {bv[0], bv[1]}, {last});
    last = builder.call(b, "n", twice, {bv[1], bv[0]});
    last = builder.call(b, "n", twice, {bv[0], bv[1]});
    builder.send(b, "n", bv[1], a, 2 * i + 1, {last});
    last = builder.receive(a, "n", av[0], b, 2 * i + 1, {{SendQueue, i + 1}});
  }
  Error error = verifyPlan(builder.read());
  EXPECT_FALSE(error) << error.text();
}

} // namespace
} // namespace cleave::runtime::test
