// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The verifier: what is kept in the host's memory, for a time or from step to step.

#include "PlanBuilder.h"

#include "runtime/Verify.h"

#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

fb::InstructionT &bodyOf(PlanBuilder &builder, size_t index) { return *builder.program(0).body[index]; }

/// On device a: buffer 2, v, which is loaded; 3, kept, in the host's memory, to which it is copied; 4, back, to which
/// that is. Of the body 4 is the offload, 5 the fetch.
PlanBuilder offloading() {
  PlanBuilder b = pipelinePlan("cpu");
  uint32_t v = b.buffer(0, "v", 4), kept = b.hostBuffer(0, "kept", 4), back = b.buffer(0, "back", 4);
  Point loaded = b.loadParameter(0, b.constant("c", 4, 3), v);
  b.fetch(0, "v", kept, back, {b.offload(0, "v", v, kept, {loaded})});
  return b;
}

/// On device a: w, which steps write, in the host's memory (buffer 0); old, to which it is fetched; next, which is
/// moved there. Of the body 0 is the fetch, 1 the call, 2 the offload.
PlanBuilder keepingState() {
  PlanBuilder b;
  uint32_t device = b.device("a"), w = b.constant("w", 4, 1), twice = b.kernel("twice", 1, 4);
  uint32_t kept = b.hostBuffer(device, "w", 4), old = b.buffer(device, "old", 4), next = b.buffer(device, "next", 4);
  b.keep(device, w, kept);
  Point fetched = b.fetch(device, "w", kept, old);
  b.offload(device, "w", next, kept, {b.call(device, "twice", twice, {old, next}, {fetched})});
  return b;
}

TEST(VerifyHostMemory, AcceptsWhatIsKeptThere) {
  for (const PlanBuilder &builder : {offloading(), keepingState()}) {
    Error error = verifyPlan(builder.read());
    EXPECT_FALSE(error) << error.text();
  }
}

/// A plan with one rule broken, and a part of the message that says so.
struct BrokenHostMemory {
  const char *name;
  PlanBuilder (*makePlan)();
  void (*breakPlan)(PlanBuilder &);
  const char *message;
};

void PrintTo(const BrokenHostMemory &broken, std::ostream *out) { *out << broken.name; }

class BrokenHostMemoryPlan : public testing::TestWithParam<BrokenHostMemory> {};

TEST_P(BrokenHostMemoryPlan, IsRejected) {
  PlanBuilder builder = GetParam().makePlan();
  GetParam().breakPlan(builder);
  Error error = verifyPlan(builder.read());
  ASSERT_TRUE(error);
  EXPECT_NE(error.text().find(GetParam().message), std::string::npos) << error.text();
  EXPECT_EQ(error.status(), Status::Rejected);
}

constexpr BrokenHostMemory hostMemoryRules[] = {
    {"Outside", offloading, [](PlanBuilder &b) { b.program(0).buffers[3]->offset += 64; },
     "expects to lie in 64 bytes of the host's memory, got offset 64 and 16 bytes"},
    {"Unused", offloading, [](PlanBuilder &b) { b.program(0).host_bytes = 128; },
     "has 128 bytes of the host's memory, but its buffers there end at 16"},
    {"TooMuch", offloading, [](PlanBuilder &b) { b.program(0).host_bytes = UINT64_MAX; },
     "bytes of the arena and of the host's memory"},
    {"WithinTheArena", offloading, [](PlanBuilder &b) { bodyOf(b, 4).action.AsOffload()->target = 4; },
     "expects a buffer in the host's memory, got \"back\" in the arena"},
    {"FromTheHost", offloading, [](PlanBuilder &b) { bodyOf(b, 4).action.AsOffload()->source = 3; },
     "expects a buffer in the arena, got \"kept\" in the host's memory"},
    {"Copied", offloading, [](PlanBuilder &b) { b.copy(0, "copy", 3, 2); },
     "expects a buffer in the arena, got \"kept\" in the host's memory"},
    {"Called", offloading, [](PlanBuilder &b) { bodyOf(b, 1).action.AsCall()->arguments[0] = 3; },
     "expects a buffer in the arena, got \"kept\" in the host's memory"},
    {"Loaded", offloading, [](PlanBuilder &b) { bodyOf(b, 3).action.AsLoadParameter()->buffer = 3; },
     "expects a buffer in the arena, got \"kept\" in the host's memory"},
    {"Sent", offloading, [](PlanBuilder &b) { bodyOf(b, 2).action.AsSend()->buffer = 3; },
     "expects a buffer in the arena, got \"kept\" in the host's memory"},
    {"NoSuchBuffer", offloading, [](PlanBuilder &b) { bodyOf(b, 5).action.AsFetch()->source = 77; }, "uses buffer 77"},
    {"OtherType", offloading,
     [](PlanBuilder &b) {
       b.program(0).buffers[4]->type->shape = {2};
       b.program(0).buffers[4]->bytes = 8;
     },
     "expects equal types in the arena and in the host's memory, got"},
    {"WrongQueue", offloading, [](PlanBuilder &b) { bodyOf(b, 4).queue = ComputeQueue; }, "queue"},
    {"OffloadTooEarly", offloading, [](PlanBuilder &b) { bodyOf(b, 4).waits.clear(); }, "without waiting for"},
    {"FetchTooEarly", offloading, [](PlanBuilder &b) { bodyOf(b, 5).waits.clear(); },
     "which nothing has written before"},
    {"StateNotKept", keepingState, [](PlanBuilder &b) { b.program(0).state.clear(); },
     "expects a buffer in the arena, got \"w\" in the host's memory"},
    {"StateCalled", keepingState, [](PlanBuilder &b) { bodyOf(b, 1).action.AsCall()->arguments[0] = 0; },
     "expects a buffer in the arena, got \"w\" in the host's memory"},
    {"StateWrittenTooEarly", keepingState,
     [](PlanBuilder &b) {
       bodyOf(b, 1).waits.clear();
       bodyOf(b, 2).waits.clear();
     },
     "without waiting for"},
    {"StateSharesItsBytes", keepingState,
     [](PlanBuilder &b) {
       b.hostBuffer(0, "other", 4);
       b.program(0).buffers.back()->offset = b.program(0).buffers[0]->offset;
       b.program(0).host_bytes = 64;
     },
     "expects bytes of its own, got some that buffer \"other\" takes"},
};
INSTANTIATE_TEST_SUITE_P(Host, BrokenHostMemoryPlan, testing::ValuesIn(hostMemoryRules),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace cleave::runtime::test
