// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is special about the cpu driver: native code, processor features, teams of threads, arenas.

#include "PlanBuilder.h"

#include "runtime/Executor.h"
#include "runtime/Verify.h"
#include "runtime/drivers/cpu/CoreSet.h"
#include "runtime/drivers/cpu/CpuArena.h"
#include "runtime/drivers/cpu/ProcessorFeatures.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>

namespace cleave::runtime::test {
namespace {

Error createError(const PlanBuilder &builder) {
  MemorySource none;
  return Executor::create(builder.read(), "", none).error();
}

// Code for a processor that this machine is not ends in an error instead of an illegal instruction.
TEST(CpuDriver, RefusesMissingFeatures) {
  std::set<std::string> features = {"sse4.1", "avx2"};
  NativeObject object;
  object.cpu = "znver9";
  object.features = {"+sse4.1", "avx2", "-avx512f", "+fast-lzcnt-tuning"};
  EXPECT_FALSE(checkProcessor(object, features));
  object.features.push_back("+avx512vnni");
  object.features.push_back("+fma");
  Error error = checkProcessor(object, features);
  EXPECT_EQ(error.status(), Status::Infeasible);
  EXPECT_EQ(error.message(), "native code for \"znver9\" needs processor features that this machine lacks: avx512vnni, "
                             "fma; compile the model for this machine");
}

// The same for what a plan says that it needs, whether it has code of its own or kernels of libraries alone.
TEST(CpuDriver, RefusesPlansForOtherProcessors) {
  std::set<std::string> features = {"sse4.1", "avx2"};
  EXPECT_FALSE(checkProcessor(Processor{"x86-64-v3", {"avx2", "sse4.1"}}, features));
  EXPECT_FALSE(checkProcessor(Processor{}, features));
  Error error = checkProcessor(Processor{"x86-64-v4", {"avx2", "avx512f", "avx512vl"}}, features);
  EXPECT_EQ(error.status(), Status::Infeasible);
  EXPECT_EQ(error.message(),
            "the plan was made for processor \"x86-64-v4\" and needs features that this machine lacks: "
            "avx512f, avx512vl; compile the model on this machine, or with --cpu for a processor like "
            "it");
}

// The same through a whole plan, where the kernel and the node are named; and code for another architecture.
TEST(CpuDriver, NamesKernelThatCannotRun) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.plan.objects[0]->features = {"+tbm", "+sse4a", "+xop"};
  Error error = createError(builder);
  EXPECT_EQ(error.status(), Status::Infeasible);
  EXPECT_EQ(error.message().find("device \"a\": kernel \"twice\": native code"), 0u) << error.message();
  EXPECT_EQ(error.node(), "first");
  builder.plan.objects[0]->triple = "riscv64-unknown-linux";
  EXPECT_NE(createError(builder).message().find("expects a processor for \"riscv64-unknown-linux\", got x86_64"),
            std::string::npos);
}

// What the compiler's own library finds, whose names for some differ: /proc/cpuinfo may hide what a virtual machine
// has.
TEST(CpuDriver, KnowsThisProcessor) {
  std::set<std::string> features = hostFeatures();
#define EXPECT_FEATURE(name, theirs) EXPECT_EQ(features.count(name) != 0, __builtin_cpu_supports(theirs) != 0) << name
  EXPECT_FEATURE("sse2", "sse2");
  EXPECT_FEATURE("sse3", "sse3");
  EXPECT_FEATURE("ssse3", "ssse3");
  EXPECT_FEATURE("sse4.1", "sse4.1");
  EXPECT_FEATURE("sse4.2", "sse4.2");
  EXPECT_FEATURE("sse4a", "sse4a");
  EXPECT_FEATURE("popcnt", "popcnt");
  EXPECT_FEATURE("avx", "avx");
  EXPECT_FEATURE("avx2", "avx2");
  EXPECT_FEATURE("bmi", "bmi");
  EXPECT_FEATURE("bmi2", "bmi2");
  EXPECT_FEATURE("fma", "fma");
  EXPECT_FEATURE("avx512f", "avx512f");
  EXPECT_FEATURE("avx512bw", "avx512bw");
  EXPECT_FEATURE("avx512cd", "avx512cd");
  EXPECT_FEATURE("avx512dq", "avx512dq");
  EXPECT_FEATURE("avx512vl", "avx512vl");
  EXPECT_FEATURE("avx512vbmi", "avx512vbmi");
  EXPECT_FEATURE("avx512vnni", "avx512vnni");
  EXPECT_FEATURE("gfni", "gfni");
#if defined(__GNUC__) && !defined(__clang__)
  EXPECT_FEATURE("lzcnt", "lzcnt");
  EXPECT_FEATURE("movbe", "movbe");
  EXPECT_FEATURE("f16c", "f16c");
  EXPECT_FEATURE("cx16", "cmpxchg16b");
  EXPECT_FEATURE("avxvnni", "avxvnni");
  EXPECT_FEATURE("avx512bf16", "avx512bf16");
  EXPECT_FEATURE("amx-tile", "amx-tile");
  EXPECT_FEATURE("xsaves", "xsaves");
#endif
#undef EXPECT_FEATURE
  EXPECT_TRUE(features.count("64bit"));
}

// A kernel of which the plan's tables say something else than its code would write beyond its buffers.
TEST(CpuDriver, RefusesKernelsThatTheirCodeDoesNotDeclare) {
  PlanBuilder builder("cpu");
  uint32_t device = builder.device("a");
  uint32_t kernel = builder.kernel("fixed", 1, 4);
  builder.plan.kernels[kernel]->scratch_bytes = 16;
  uint32_t x = builder.buffer(device, "x", 4), y = builder.buffer(device, "y", 4);
  uint32_t scratch = builder.buffer(device, "scratch", 4);
  Point loaded = builder.loadInput(device, builder.input("x", 4), x);
  Point called = builder.call(device, "fixed", kernel, {x, y, scratch}, {loaded});
  builder.storeOutput(device, builder.output("y", 4), y, {called});
  ASSERT_FALSE(verifyPlan(*builder.read()));
  ASSERT_FALSE(createError(builder)) << createError(builder).message();
  fb::KernelT &damaged = *builder.plan.kernels[kernel];
  auto refused = [&](const std::string &reason) {
    Error error = createError(builder);
    EXPECT_EQ(error.status(), Status::Rejected);
    EXPECT_NE(error.message().find("kernel \"fixed\": native code " + reason), std::string::npos) << error.message();
  };
  auto &native = *damaged.body.AsNativeKernel();
  native.parallel_extent = 5;
  refused("\"fixed\" expects a parallel extent of 4, got 5; the plan is damaged");
  native.parallel_extent = 4;
  damaged.scratch_bytes = 15;
  refused("\"fixed\" expects 16 bytes as argument 2, got 15; the plan is damaged");
  damaged.scratch_bytes = 0;
  refused("\"fixed\" expects 3 arguments, scratch memory included, got 2; the plan is damaged");
  damaged.scratch_bytes = 16;
  damaged.inputs[0]->shape[0] = 3;
  refused("\"fixed\" expects 16 bytes as argument 0, got 12; the plan is damaged");
  native.symbol = "undeclared";
  refused("does not declare what \"undeclared\" takes; compile the model again with this version of Cleave");
}

// A symbol that the object lacks, and a library that this build lacks.
TEST(CpuDriver, RefusesUnknownKernels) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.plan.kernels[0]->body.AsNativeKernel()->symbol = "thrice";
  EXPECT_NE(createError(builder).message().find("native code has no symbol \"thrice\""), std::string::npos);
  fb::LibraryKernelT library;
  library.library = "abacus";
  library.operation = "count";
  builder.plan.kernels[0]->body.Set(std::move(library));
  Error error = createError(builder);
  EXPECT_EQ(error.status(), Status::Unsupported);
  EXPECT_NE(error.message().find("needs library \"abacus\", which is not in this build"), std::string::npos);
}

// An image that passes for an object by its header but is none: the loader's reason, no crash.
TEST(CpuDriver, RefusesDamagedObject) {
  PlanBuilder builder = pipelinePlan("cpu");
  auto &object = *builder.plan.objects[0];
  std::fill(object.image.begin() + 20, object.image.end(), uint8_t(0));
  object.checksum = 0;
  Error error = createError(builder);
  EXPECT_EQ(error.status(), Status::Rejected);
  EXPECT_NE(error.message().find("cannot load native code"), std::string::npos) << error.message();
}

// A parallel loop is split into parts that cover it exactly once and differ by at most one.
TEST(CpuDriver, SplitsLoopOverTeam) {
  size_t cores = std::min<size_t>(availableCores().size(), 2);
  if (cores < 2)
    GTEST_SKIP() << "needs two cores";
  PlanBuilder builder;
  constexpr int64_t length = 7;
  uint32_t a = builder.device("a", 2), y = builder.output("y", length);
  uint32_t buffer = builder.buffer(a, "y", length);
  Point done = builder.call(a, "ranges", builder.kernel("rangeLength", 0, length), {buffer});
  builder.storeOutput(a, y, buffer, {done});
  MemorySource none;
  auto executor = Executor::create(builder.read(), "", none);
  ASSERT_TRUE(executor) << executor.error().text();
  auto output = *HostTensor::allocate({ElementType::F32, {length}, {}});
  ASSERT_TRUE((*executor)->wait(*(*executor)->submit({}, {output})));
  auto values = output.as<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{4, 4, 4, 4, 3, 3, 3}));
}

size_t numThreads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// A device of one core that it may choose needs no thread to run a step for a caller who waits. Steps that are
// submitted have one, and their order is kept.
TEST(CpuDriver, RunsAStepOnItsCallersThread) {
  PlanBuilder builder;
  constexpr int64_t length = 4;
  uint32_t a = builder.device("a"), kernel = builder.kernel("twice", 1, length);
  uint32_t w = builder.constant("w", length, 3), x = builder.buffer(a, "x", length), y = builder.buffer(a, "y", length);
  builder.into(Phase::Prepare).loadParameter(a, w, x);
  builder.into(Phase::Body).call(a, "twice", kernel, {x, y});
  MemorySource none;
  auto executor = Executor::create(builder.read(), "", none);
  ASSERT_TRUE(executor) << executor.error().text();
  size_t before = numThreads();
  ASSERT_TRUE((*executor)->run(0, {}, {}));
  EXPECT_EQ(numThreads(), before);
  ASSERT_TRUE((*executor)->wait(*(*executor)->submit({}, {})));
  EXPECT_GE(numThreads(), before + 1);
  ASSERT_TRUE((*executor)->run(0, {}, {}));
}

// A device may ask for more cores than there are, and two devices for all of them: slower, not wrong.
TEST(CpuDriver, RunsWithoutEnoughCores) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.plan.devices[0]->cores = 4000000000u;
  builder.plan.devices[1]->cores = 0;
  MemorySource none;
  auto executor = Executor::create(builder.read(), "", none);
  ASSERT_TRUE(executor) << executor.error().text();
  auto input = *HostTensor::allocate({ElementType::F32, {4}, {}}),
       output = *HostTensor::allocate({ElementType::F32, {4}, {}});
  input.as<float>()[3] = 20;
  ASSERT_TRUE((*executor)->wait(*(*executor)->submit({input}, {output})));
  EXPECT_EQ(output.as<float>()[3], 41);
}

// An arena is exactly as large as planned, aligned, zero, and more than the machine has is an error.
TEST(CpuArena, AllocatesExactly) {
  for (uint64_t size : {uint64_t(0), uint64_t(64), uint64_t(4096 + 64), uint64_t(5 << 20) + 64}) {
    auto arena = CpuArena::allocate(size);
    ASSERT_TRUE(arena) << arena.error().text();
    EXPECT_EQ(arena->bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->bytes().data()) % 64, 0u);
    std::fill(arena->bytes().begin(), arena->bytes().end(), std::byte(1));
  }
  for (uint64_t size : {UINT64_MAX - 63, uint64_t(1) << 62})
    EXPECT_EQ(CpuArena::allocate(size).error().status(), Status::Infeasible);
}

} // namespace
} // namespace cleave::runtime::test
