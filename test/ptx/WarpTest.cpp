// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What threads do together: shuffles, votes, barriers that combine, atomic operations.

#include "Snippet.h"

#include <numeric>

namespace cleave::ptx::test {
namespace {

/// Runs one block of `threads` threads; each has its number in %r0, and `body` leaves in %r1 what it stores.
std::vector<uint32_t> perThread(uint32_t threads, const std::string &body, const std::string &variables = "") {
  std::vector<uint32_t> values(threads);
  Memory memory;
  memory.allow(values.data(), 4 * threads);
  std::string text = kernel(1,
                            "mov.u32 %r0, %tid.x;\n" + body +
                                "\nmul.wide.u32 %d0, %r0, 4; add.u64 %d0, %p0, %d0; st.global.u32 [%d0], %r1;",
                            variables);
  EXPECT_EQ(runKernel(text, {"k", 1, threads, 0, {reinterpret_cast<uint64_t>(values.data())}}, memory), "");
  return values;
}

template <typename F> std::vector<uint32_t> expected(uint32_t threads, F f) {
  std::vector<uint32_t> values(threads);
  for (uint32_t i = 0; i != threads; ++i)
    values[i] = f(i);
  return values;
}

// The four modes over a whole warp; lanes out of range keep their own value.
TEST(PtxWarp, Shuffles) {
  auto lane = [](uint32_t i) { return i % 32; };
  EXPECT_EQ(perThread(64, "shfl.sync.down.b32 %r1, %r0, 5, 31, -1;"),
            expected(64, [&](uint32_t i) { return lane(i) + 5 < 32 ? i + 5 : i; }));
  EXPECT_EQ(perThread(64, "shfl.sync.up.b32 %r1, %r0, 3, 0, -1;"),
            expected(64, [&](uint32_t i) { return lane(i) >= 3 ? i - 3 : i; }));
  EXPECT_EQ(perThread(64, "shfl.sync.bfly.b32 %r1, %r0, 9, 31, -1;"), expected(64, [](uint32_t i) { return i ^ 9; }));
  EXPECT_EQ(perThread(64, "shfl.sync.idx.b32 %r1, %r0, 7, 31, -1;"),
            expected(64, [&](uint32_t i) { return i - lane(i) + 7; }));
}

// Segments of 8 lanes: their mask is in bits 8 to 12 of the third source; the second result says who was in range.
TEST(PtxWarp, ShufflesOfSegments) {
  EXPECT_EQ(perThread(32, "shfl.sync.down.b32 %r1|%q0, %r0, 2, 0x181f, -1; @!%q0 mov.u32 %r1, 99;"),
            expected(32, [](uint32_t i) { return i % 8 < 6 ? i + 2 : 99; }));
  EXPECT_EQ(perThread(32, "shfl.sync.idx.b32 %r1, %r0, 3, 0x181f, -1;"),
            expected(32, [](uint32_t i) { return i / 8 * 8 + 3; }));
}

// Half of a warp shuffles by itself while the other half goes its own way.
TEST(PtxWarp, ShufflesOfHalfAWarp) {
  EXPECT_EQ(perThread(32, "mov.u32 %r1, 1000; setp.lt.u32 %q0, %r0, 16; @!%q0 bra END;"
                          "shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffff;\nEND:"),
            expected(32, [](uint32_t i) { return i < 16 ? i ^ 1 : 1000; }));
}

// What goes on together must leave alone those that wait elsewhere: half of a warp computes while the other half is at
// the block's barrier already.
TEST(PtxWarp, HalfAWarpWaits) {
  EXPECT_EQ(perThread(48, "mov.u32 %r1, %r0; and.b32 %r2, %r0, 31; setp.lt.u32 %q0, %r2, 16; @%q0 bra JOIN;"
                          "shfl.sync.bfly.b32 %r3, %r0, 1, 31, 0xffff0000;\n"
                          "add.u32 %r1, %r3, 100; shl.b32 %r1, %r1, 1;\nJOIN: bar.sync 0;"),
            expected(48, [](uint32_t i) { return i % 32 < 16 ? i : ((i ^ 1) + 100) * 2; }));
}

// Lanes that take a loop a different number of times meet again behind it; one has ended before.
TEST(PtxWarp, LoopsOfDifferentLength) {
  EXPECT_EQ(perThread(64, "mov.u32 %r1, 0; mov.u32 %r2, %r0; setp.eq.u32 %q1, %r0, 40; @%q1 exit;\n"
                          "LOOP: add.u32 %r1, %r1, %r2; sub.u32 %r2, %r2, 1; setp.gt.s32 %q0, %r2, 0; @%q0 bra LOOP;\n"
                          "bar.warp.sync -1; add.u32 %r1, %r1, 1000;"),
            expected(64, [](uint32_t i) { return i == 40  ? 0
                                                 : i == 0 ? 1000
                                                          : i * (i + 1) / 2 + 1000; }));
}

// Votes count the lanes that are there: the second warp has 8.
TEST(PtxWarp, Votes) {
  std::string odd = "and.b32 %r2, %r0, 1; setp.eq.u32 %q1, %r2, 1;";
  EXPECT_EQ(perThread(40, odd + "vote.sync.ballot.b32 %r1, %q1, -1;"),
            expected(40, [](uint32_t i) { return i < 32 ? 0xaaaaaaaau : 0xaau; }));
  EXPECT_EQ(perThread(40, odd + "vote.sync.any.pred %q2, %q1, -1; selp.u32 %r1, 1, 0, %q2;"),
            expected(40, [](uint32_t) { return 1; }));
  EXPECT_EQ(perThread(40, odd + "vote.sync.all.pred %q2, %q1, -1; selp.u32 %r1, 1, 0, %q2;"),
            expected(40, [](uint32_t) { return 0; }));
  EXPECT_EQ(perThread(40, "setp.lt.u32 %q1, %r0, 32; vote.sync.uni.pred %q2, !%q1, -1; selp.u32 %r1, 1, 0, %q2;"),
            expected(40, [](uint32_t) { return 1; }));
  EXPECT_EQ(perThread(32, "shr.u32 %r2, %r0, 4; match.any.sync.b32 %r1, %r2, -1;"),
            expected(32, [](uint32_t i) { return i < 16 ? 0xffffu : 0xffff0000u; }));
  // One value, whether it came about with a sign or without.
  EXPECT_EQ(perThread(32, "setp.lt.u32 %q0, %r0, 8; mov.u32 %r2, 0xfffffffb; mov.u32 %r3, 5; @%q0 neg.s32 %r2, %r3;"
                          "match.any.sync.b32 %r1, %r2, -1;"),
            expected(32, [](uint32_t) { return ~0u; }));
}

// Reductions by the warp, signed and unsigned.
TEST(PtxWarp, Reductions) {
  EXPECT_EQ(perThread(32, "redux.sync.add.u32 %r1, %r0, -1;"), expected(32, [](uint32_t) { return 31 * 32 / 2; }));
  EXPECT_EQ(perThread(32, "sub.s32 %r2, %r0, 5; redux.sync.min.s32 %r1, %r2, -1;"),
            expected(32, [](uint32_t) { return static_cast<uint32_t>(-5); }));
  EXPECT_EQ(perThread(32, "sub.s32 %r2, %r0, 5; redux.sync.max.u32 %r1, %r2, -1;"),
            expected(32, [](uint32_t) { return ~0u; }));
}

// Barriers that count, and combine, a predicate of all threads.
TEST(PtxBlock, BarriersThatReduce) {
  std::string third = "rem.u32 %r2, %r0, 3; setp.eq.u32 %q1, %r2, 0;";
  EXPECT_EQ(perThread(100, third + "bar.red.popc.u32 %r1, 0, %q1;"), expected(100, [](uint32_t) { return 34; }));
  EXPECT_EQ(perThread(100, third + "bar.red.and.pred %q2, 0, %q1; selp.u32 %r1, 1, 0, %q2;"),
            expected(100, [](uint32_t) { return 0; }));
  EXPECT_EQ(perThread(100, third + "bar.red.or.pred %q2, 0, !%q1; selp.u32 %r1, 1, 0, %q2;"),
            expected(100, [](uint32_t) { return 1; }));
}

// The sum of a block by shuffles within warps and shared memory between them, as generated code does it.
TEST(PtxBlock, Reduction) {
  std::string sum;
  for (int distance : {16, 8, 4, 2, 1})
    sum += "shfl.sync.bfly.b32 %r5, %r4, " + std::to_string(distance) + ", 31, -1; add.u32 %r4, %r4, %r5;\n";
  std::string body = "mul.lo.u32 %r4, %r0, %r0;\n" + sum +
                     "and.b32 %r6, %r0, 31; shr.u32 %r7, %r0, 5; mul.lo.u32 %r8, %r7, 4; mov.u32 %r9, parts;"
                     "add.u32 %r9, %r9, %r8; setp.eq.u32 %q0, %r6, 0; @%q0 st.shared.u32 [%r9], %r4; bar.sync 0;"
                     "mov.u32 %r1, 0; mov.u32 %r10, parts; mov.u32 %r11, 0;\nNEXT:\n ld.shared.u32 %r12, [%r10];"
                     "add.u32 %r1, %r1, %r12; add.u32 %r10, %r10, 4; add.u32 %r11, %r11, 1; setp.lt.u32 %q1, %r11, 8;"
                     "@%q1 bra NEXT;";
  EXPECT_EQ(perThread(256, body, ".shared .align 4 .b8 parts[32];\n"),
            expected(256, [](uint32_t) { return 255u * 256 * 511 / 6; }));
}

// Atomic operations on global memory, from all threads of several blocks, and what they return.
TEST(PtxAtomic, GlobalMemory) {
  struct {
    uint32_t sum = 5, least = 1000, most = 0, bits = 0, wrapped = 0;
    int32_t leastSigned = 1000;
    float total = 0;
    uint32_t unused = 0;
    double wide = 0;
  } values;
  std::string body =
      "mov.u32 %r0, %tid.x; atom.global.add.u32 %r1, [%p0], 2; red.global.min.u32 [%p0+4], %r0;"
      "red.global.max.u32 [%p0+8], %r0; red.global.or.b32 [%p0+12], %r0; atom.global.inc.u32 %r2, [%p0+16], 6;"
      "sub.s32 %r3, %r0, 10; red.global.min.s32 [%p0+20], %r3; cvt.rn.f32.u32 %r4, %r0;"
      "red.global.add.f32 [%p0+24], %r4; cvt.rn.f64.u32 %d0, %r0; red.relaxed.gpu.global.add.f64 [%p0+32], %d0;";
  Memory memory;
  memory.allow(&values, sizeof values);
  EXPECT_EQ(runKernel(kernel(1, body), {"k", 3, 50, 0, {reinterpret_cast<uint64_t>(&values)}}, memory), "");
  EXPECT_EQ(values.sum, 5u + 2 * 150);
  EXPECT_EQ(values.least, 0u);
  EXPECT_EQ(values.most, 49u);
  EXPECT_EQ(values.bits, 63u);
  EXPECT_EQ(values.wrapped, 150u % 7);
  EXPECT_EQ(values.leastSigned, -10);
  EXPECT_EQ(values.total, 3 * 49 * 50 / 2);
  EXPECT_EQ(values.wide, 3 * 49 * 50 / 2);
}

// A place is taken once: of all threads one sees it free.
TEST(PtxAtomic, CompareAndSwapInSharedMemory) {
  std::string body = "setp.eq.u32 %q0, %r0, 0; mov.u32 %r2, 77; @%q0 st.shared.u32 [place], %r2; bar.sync 0;"
                     "add.u32 %r3, %r0, 100; atom.shared.cas.b32 %r4, [place], 77, %r3; bar.sync 0;"
                     "ld.shared.u32 %r5, [place]; setp.eq.u32 %q1, %r4, 77; selp.u32 %r6, %r3, 0, %q1;"
                     "sub.u32 %r7, %r6, %r5; selp.u32 %r1, 1, 0, %q1; @%q1 mad.lo.u32 %r1, %r7, 1000, %r1;";
  std::vector<uint32_t> results = perThread(64, body, ".shared .u32 place;\n");
  // The winner finds its own number.
  EXPECT_EQ(std::accumulate(results.begin(), results.end(), 0u), 1u);
}

// Sums of bf16 pairs are rounded like the arithmetic's.
TEST(PtxAtomic, PairsOfHalves) {
  uint32_t value = 0x3f803f80;
  Memory memory;
  memory.allow(&value, sizeof value);
  EXPECT_EQ(runKernel(kernel(1, "mov.u32 %r0, 0x40003f80; red.global.add.noftz.bf16x2 [%p0], %r0;"),
                      {"k", 1, 1, 0, {reinterpret_cast<uint64_t>(&value)}}, memory),
            "");
  EXPECT_EQ(value, 0x40404000u);
}

} // namespace
} // namespace cleave::ptx::test
