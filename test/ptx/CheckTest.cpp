// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each check of the interpreter, provoked once, beside the nearest program that is right. Messages name the entry, the
// line, the block and the thread.

#include "Snippet.h"

#include <array>
#include <gmock/gmock.h>

namespace cleave::ptx::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Runs the body with %r0 the thread, %r1 the block, %d0 the address of the thread's own word of the 64 in global
/// memory and %d1 their begin, and %r2 the shared address of its word among 64 of shared memory, "s".
class PtxCheck : public testing::Test {
protected:
  std::string check(const std::string &body, uint32_t threads = 64, uint32_t blocks = 1, bool checkOrder = true) {
    std::string text =
        kernel(1,
               "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u64 %d1, %p0; mul.wide.u32 %d0, %r0, 4;"
               "add.u64 %d0, %d0, %d1; mov.u32 %r2, s; mad.lo.u32 %r2, %r0, 4, %r2; setp.eq.u32 %q0, %r0, 0;\n" +
                   body,
               ".shared .align 16 .b8 s[256];\n.const .u32 fixed = 3;\n");
    Memory memory;
    memory.allow(words.data(), sizeof words);
    memory.allow(constants.data(), sizeof constants, false);
    Launch launch{"k", blocks, threads, 0, {reinterpret_cast<uint64_t>(words.data())}};
    launch.checkOrder = checkOrder;
    launch.maxJumps = 10000;
    return runKernel(text, launch, memory);
  }

  alignas(16) std::array<uint32_t, 64> words{};
  std::array<uint32_t, 4> gap{};
  alignas(16) std::array<uint32_t, 4> constants{};
};

// One word behind the end; the thread is the first whose word is not there.
TEST_F(PtxCheck, GlobalBounds) {
  EXPECT_EQ(check("st.global.u32 [%d0], %r0;"), "");
  std::string error = check("st.global.u32 [%d0+4], %r0;");
  EXPECT_THAT(error, AllOf(HasSubstr("entry 'k'"), HasSubstr("line 15"), HasSubstr("block 0"), HasSubstr("thread 63"),
                           HasSubstr("a write of 4 bytes"), HasSubstr("ends 0 bytes before")));
  EXPECT_THAT(check("ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%d1+248];"), HasSubstr("misaligned"));
  EXPECT_THAT(check("mov.u64 %d2, 0; ld.global.u32 %r3, [%d2];"), HasSubstr("outside of the memory"));
  EXPECT_THAT(check("ld.global.u32 %r3, [%d1+-4];"), HasSubstr("a read of 4 bytes"));
}

// An odd address, also where only the vector as a whole lies wrong.
TEST_F(PtxCheck, Alignment) {
  EXPECT_THAT(check("ld.global.u32 %r3, [%d0+2];"), HasSubstr("misaligned"));
  EXPECT_THAT(check("ld.global.v2.u32 {%r3, %r4}, [%d1+4];"), HasSubstr("misaligned"));
  EXPECT_EQ(check("ld.global.v2.u32 {%r3, %r4}, [%d1+8];"), "");
}

// Constants, the module's and the launch's.
TEST_F(PtxCheck, ReadOnlyMemory) {
  std::string address = "mov.u64 %d2, " + std::to_string(reinterpret_cast<uint64_t>(constants.data())) + ";";
  EXPECT_EQ(check(address + "ld.global.u32 %r3, [%d2];"), "");
  EXPECT_THAT(check(address + "st.global.u32 [%d2], %r0;"), HasSubstr("may only be read"));
  EXPECT_THAT(check("mov.u64 %d2, fixed; @%q0 st.global.u32 [%d2], %r0;"), HasSubstr("may only be read"));
}

// Shared and local memory have ends, too.
TEST_F(PtxCheck, SharedAndLocalBounds) {
  EXPECT_THAT(check("st.shared.u32 [%r2+4], %r0;"), HasSubstr("shared address"));
  EXPECT_THAT(check(".local .align 4 .b8 l[16]; st.local.u32 [l+16], %r0;"), HasSubstr("local address"));
}

// What nobody wrote in this block is not there, though another block wrote it.
TEST_F(PtxCheck, UnwrittenSharedMemory) {
  EXPECT_EQ(check("st.shared.u32 [%r2], %r0; ld.shared.u32 %r3, [%r2];"), "");
  EXPECT_THAT(check("ld.shared.u32 %r3, [%r2];"), HasSubstr("no thread of the block has written"));
  EXPECT_THAT(
      check("setp.eq.u32 %q1, %r1, 0; @%q1 st.shared.u32 [%r2], %r0; bar.sync 0; ld.shared.u32 %r3, [%r2];", 64, 2),
      AllOf(HasSubstr("block 1"), HasSubstr("no thread of the block has written")));
  EXPECT_EQ(check("ld.shared.u32 %r3, [%r2];", 64, 1, false), "");
}

// Compilers load more than they need where that is one instruction: what goes to registers that nobody reads counts as
// not read.
TEST_F(PtxCheck, UnreadPartsOfVectors) {
  std::string write = "setp.ne.u32 %q1, %r0, 0; @%q1 ret; st.shared.v2.u32 [s], {%r0, %r0};";
  std::string load = "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [s];";
  EXPECT_EQ(check(write + load + "add.u32 %r3, %r3, %r4;"), "");
  EXPECT_THAT(check(write + load + "add.u32 %r3, %r3, %r5;"), HasSubstr("no thread of the block has written"));
}

// A neighbour's word, with and without the barrier between.
TEST_F(PtxCheck, SharedRaces) {
  std::string neighbour = "xor.b32 %r3, %r0, 1; mov.u32 %r4, s; mad.lo.u32 %r4, %r3, 4, %r4;";
  std::string write = "st.shared.u32 [%r2], %r0;", read = "ld.shared.u32 %r5, [%r4];";
  EXPECT_EQ(check(neighbour + write + "bar.sync 0;" + read), "");
  EXPECT_THAT(check(neighbour + write + read),
              AllOf(HasSubstr("the thread reads shared memory"), HasSubstr("thread 1 wrote in line 15")));
  EXPECT_THAT(check(neighbour + write + "bar.sync 0;" + read + write),
              AllOf(HasSubstr("the thread writes shared memory"), HasSubstr("thread 1 has read")));
  // The neighbour of another warp runs later, or has gone another way.
  std::string other = "xor.b32 %r3, %r0, 32; mov.u32 %r4, s; mad.lo.u32 %r4, %r3, 4, %r4;";
  EXPECT_THAT(check(other + write + read), HasSubstr("no thread of the block has written"));
  EXPECT_THAT(check(neighbour + write + "bar.sync 0; @%q0 bra SKIP;" + read + "SKIP: " + write),
              HasSubstr("a data race"));
  EXPECT_EQ(check(neighbour + write + "bar.sync 0;" + read + "bar.sync 0;" + write), "");
  // A word that thread 0 reads, and then thread 1, or 33 of another warp, writes.
  for (std::string writer : {"1", "33"})
    EXPECT_THAT(check(write + "bar.sync 0; @%q0 ld.shared.u32 %r5, [s+8]; setp.eq.u32 %q1, %r0, " + writer +
                      "; @%q1 st.shared.u32 [s+8], %r0;"),
                AllOf(HasSubstr("a data race: the thread writes shared memory"), HasSubstr("thread 0 has read")));
  EXPECT_THAT(
      check(write + "bar.sync 0; ld.shared.u32 %r5, [s+8]; setp.eq.u32 %q1, %r0, 63; @%q1 st.shared.u32 [s+8], %r0;"),
      HasSubstr("threads of several warps have read"));
}

// All threads write one word.
TEST_F(PtxCheck, SharedWrites) {
  EXPECT_THAT(check("st.shared.u32 [s], %r0;"),
              AllOf(HasSubstr("a data race: the thread writes"), HasSubstr("thread 0 wrote")));
  EXPECT_EQ(check("@%q0 st.shared.u32 [s], %r0;"), "");
  EXPECT_EQ(check("st.shared.u32 [s], %r0;", 64, 1, false), "");
}

// A barrier of lanes orders a warp, but not two; a shuffle orders nothing.
TEST_F(PtxCheck, WarpBarriers) {
  std::string inWarp = "xor.b32 %r3, %r0, 1;", across = "xor.b32 %r3, %r0, 32;";
  auto exchange = [&](const std::string &between) {
    return "mov.u32 %r4, s; mad.lo.u32 %r4, %r3, 4, %r4; st.shared.u32 [%r2], %r0;" + between +
           "ld.shared.u32 %r5, [%r4];";
  };
  EXPECT_EQ(check(inWarp + exchange("bar.warp.sync -1;")), "");
  EXPECT_NE(check(across + exchange("bar.warp.sync -1;")), "");
  EXPECT_THAT(check(inWarp + exchange("shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;")),
              HasSubstr("a data race: the thread reads"));
  // Half of the lanes meet, the others do not take part.
  EXPECT_EQ(
      check("setp.ge.u32 %q1, %r0, 16; @%q1 bra END;" + inWarp + exchange("bar.warp.sync 0xffff;") + "\nEND:", 32), "");
  // The order is handed on from lane to lane: 0 meets 1, then 1 meets 2.
  EXPECT_EQ(check("setp.gt.u32 %q1, %r0, 2; @%q1 bra END; @%q0 st.shared.u32 [s], %r0; setp.lt.u32 %q1, %r0, 2;"
                  "@%q1 bar.warp.sync 3; setp.gt.u32 %q1, %r0, 0; @%q1 bar.warp.sync 6; setp.eq.u32 %q1, %r0, 2;"
                  "@%q1 ld.shared.u32 %r5, [s];\nEND:",
                  32),
            "");
}

// Words of global memory, within a block and between blocks, where no barrier helps.
TEST_F(PtxCheck, GlobalRaces) {
  std::string neighbour = "xor.b32 %r3, %r0, 1; mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d2, %d1;";
  EXPECT_THAT(check("st.global.u32 [%d1], %r0;"), HasSubstr("a data race: the thread writes global memory"));
  EXPECT_EQ(check(neighbour + "st.global.u32 [%d0], %r0; bar.sync 0; ld.global.u32 %r4, [%d2];"), "");
  EXPECT_THAT(check(neighbour + "st.global.u32 [%d0], %r0; ld.global.u32 %r4, [%d2];"), HasSubstr("a data race"));
  EXPECT_THAT(check("st.global.u32 [%d0], %r0;", 64, 2), AllOf(HasSubstr("block 1"), HasSubstr("another block wrote")));
  EXPECT_THAT(check("setp.eq.u32 %q1, %r1, 0; @%q1 ld.global.u32 %r4, [%d0]; @!%q1 st.global.u32 [%d0], %r4;", 64, 2),
              HasSubstr("another block has read"));
  EXPECT_THAT(check("setp.eq.u32 %q1, %r1, 2; ld.global.u32 %r4, [%d0]; @%q1 st.global.u32 [%d0], %r4;", 64, 3),
              HasSubstr("another block has read"));
  EXPECT_EQ(check("ld.global.u32 %r4, [%d1]; ld.global.u32 %r5, [%d0];", 64, 3), "");
}

// What is read as constant is written nowhere in the launch: not before, not after, not by the thread itself.
TEST_F(PtxCheck, ConstantReads) {
  EXPECT_EQ(check("ld.global.nc.u32 %r4, [%d0]; ld.global.nc.u32 %r5, [%d1]; ld.global.u32 %r5, [%d1];", 64, 2), "");
  EXPECT_EQ(check("@%q0 ld.global.nc.u32 %r4, [%d1]; setp.eq.u32 %q1, %r0, 1; @%q1 st.global.u32 [%d0], %r0;"), "");
  EXPECT_THAT(check("ld.global.nc.u32 %r4, [%d0]; st.global.u32 [%d0], %r4;"),
              HasSubstr("that the launch has read by ld.global.nc"));
  EXPECT_THAT(check("ld.global.nc.u32 %r4, [%d1]; bar.sync 0; @%q0 st.global.u32 [%d1], %r4;"),
              HasSubstr("that the launch has read by ld.global.nc"));
  EXPECT_THAT(check("st.global.u32 [%d0], %r0; bar.sync 0; ld.global.nc.u32 %r4, [%d0];"),
              HasSubstr("that the launch has written in line"));
}

// Bytes of one word are different places.
TEST_F(PtxCheck, RacesOfBytes) {
  std::string byte = "cvt.u64.u32 %d2, %r0; add.u64 %d2, %d2, %d1;";
  EXPECT_EQ(check(byte + "st.global.u8 [%d2], %r0;"), "");
  EXPECT_THAT(check(byte + "st.global.u8 [%d2], %r0; @%q0 ld.global.u32 %r4, [%d1];"), HasSubstr("a data race"));
  // Words first, then a byte of one of them.
  EXPECT_THAT(check("st.global.u32 [%d0], %r0; setp.eq.u32 %q1, %r0, 5; @%q1 st.global.u8 [%d1+17], %r0;"),
              HasSubstr("thread 4 wrote"));
}

// Atomic operations do not race with each other, but with plain accesses.
TEST_F(PtxCheck, AtomicRaces) {
  EXPECT_EQ(check("red.global.add.u32 [%d1], 1;", 64, 3), "");
  EXPECT_EQ(check("red.global.add.u32 [%d1], 1; bar.sync 0; ld.global.u32 %r4, [%d1];"), "");
  EXPECT_THAT(check("red.global.add.u32 [%d1], 1; bar.sync 0; ld.global.u32 %r4, [%d1];", 64, 2), HasSubstr("block 1"));
  EXPECT_THAT(check("red.global.add.u32 [%d1], 1; @%q0 ld.global.u32 %r4, [%d1];"), HasSubstr("a data race"));
  EXPECT_THAT(check("red.global.add.u32 [%d1], 1; setp.eq.u32 %q1, %r0, 63; @%q1 ld.global.u32 %r4, [%d1];"),
              HasSubstr("several threads wrote"));
  EXPECT_EQ(check("red.global.add.u32 [%d1], 1; ld.relaxed.gpu.global.u32 %r4, [%d1];"), "");
}

// A barrier that some threads never reach, or that is another one in the same warp.
TEST_F(PtxCheck, DivergentBarriers) {
  EXPECT_THAT(check("@%q0 bra END; bar.sync 0;\nEND:"),
              AllOf(HasSubstr("not all threads of the block meet"), HasSubstr("thread 0 has ended")));
  EXPECT_THAT(check("@%q0 bra OTHER; bar.sync 0; bra END;\nOTHER: bar.sync 0;\nEND:"),
              HasSubstr("threads of one warp wait at different barriers"));
  EXPECT_EQ(check("@%q0 bra OTHER; barrier.sync 0; bra END;\nOTHER: barrier.sync 0;\nEND:"), "");
  EXPECT_THAT(check("setp.lt.u32 %q1, %r0, 32; @%q1 bra OTHER; bar.sync 0; bra END;\nOTHER: bar.sync 1;\nEND:"),
              HasSubstr("barrier"));
  EXPECT_THAT(check("bar.sync 1, 32;"), HasSubstr("a barrier of 32 threads is not supported"));
  EXPECT_EQ(check("bar.sync 1, 64;"), "");
}

// Waits for lanes that do something else, or for nobody.
TEST_F(PtxCheck, WaitsWithoutEnd) {
  EXPECT_THAT(check("@%q0 bra OTHER; shfl.sync.bfly.b32 %r4, %r0, 1, 31, -1; bra END;\nOTHER: bar.sync 0;\nEND:"),
              HasSubstr("waits for lanes of its mask that do not come"));
  EXPECT_THAT(check("\nAGAIN: bra AGAIN;"), HasSubstr("does not end"));
  EXPECT_THAT(check("shfl.sync.bfly.b32 %r4, %r0, 1, 31, 3;"), HasSubstr("not in its own mask"));
  EXPECT_THAT(check("setp.gt.u32 %q1, %r0, 1; @%q1 bra END; shfl.sync.bfly.b32 %r4, %r0, 2, 31, 3;\nEND:"),
              HasSubstr("reads lane 2, which is not in its mask"));
}

// Ends that the program brings about itself.
TEST_F(PtxCheck, Traps) {
  EXPECT_THAT(check("setp.eq.u32 %q1, %r0, 7; @%q1 trap;"), AllOf(HasSubstr("thread 7"), HasSubstr("traps")));
  EXPECT_THAT(check("\nT: .branchtargets A, B;\n brx.idx %r0, T;\nA:\nB:"), HasSubstr("an index below 2, got 2"));
}

// Launches that do not fit the entry.
TEST_F(PtxCheck, Launches) {
  Module module =
      parsed(header() + ".visible .entry k(.param .u64 a) .reqntid 32, 1, 1 { ret; }\n"
                        ".visible .entry m() .maxntid 64 { ret; }\n.visible .entry b(.param .b8 x[16]) { ret; }\n");
  EXPECT_EQ(module.entries(), (std::vector<std::string>{"k", "m", "b"}));
  EXPECT_EQ(module.parameterSizes("b"), (std::vector<size_t>{16}));
  EXPECT_TRUE(module.parameterSizes("m").empty());
  auto launch = [&](Launch launch) { return run(module, launch, {}).value_or(""); };
  EXPECT_EQ(launch({"k", 1, 32, 0, {0}}), "");
  EXPECT_EQ(launch({"x", 1, 32, 0, {0}}), "entry 'x' is not in the module");
  EXPECT_EQ(launch({"k", 1, 32, 0, {}}), "entry 'k' expects 1 arguments, got 0");
  EXPECT_EQ(launch({"k", 1, 64, 0, {0}}), "entry 'k' expects 32 threads a block, got 64");
  EXPECT_EQ(launch({"m", 1, 65, 0, {}}), "entry 'm' expects 64 threads a block at most, got 65");
  EXPECT_EQ(launch({"m", 0, 64, 0, {}}), "entry 'm' expects at least one block");
  EXPECT_EQ(launch({"m", 1, 2000, 0, {}}), "entry 'm' expects 1 to 1024 threads a block, got 2000");
  EXPECT_EQ(launch({"b", 1, 1, 0, {0}}), "entry 'b' has a parameter of 16 bytes, only 8 are supported");
}

} // namespace
} // namespace cleave::ptx::test
