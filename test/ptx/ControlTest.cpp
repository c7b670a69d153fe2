// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Jumps, calls, memory of all spaces, and moves between registers, in one thread or many that do not meet.

#include "Snippet.h"

#include <array>
#include <numeric>

namespace cleave::ptx::test {
namespace {

/// Runs kernel "k" with one parameter, the array.
template <typename T>
std::string runOn(std::vector<T> &values, const std::string &text, uint32_t blocks = 1, uint32_t threads = 1,
                  uint32_t sharedBytes = 0) {
  Memory memory;
  memory.allow(values.data(), values.size() * sizeof(T));
  return runKernel(text, {"k", blocks, threads, sharedBytes, {reinterpret_cast<uint64_t>(values.data())}}, memory);
}

// A loop with a guarded jump backwards, and an instruction under a predicate.
TEST(PtxControl, Loop) {
  std::string code = "mov.u32 %d, 0; .reg .b32 i; mov.u32 i, 0;\nLOOP:\n add.u32 i, i, 1; rem.u32 %d, i, 2;"
                     "setp.eq.u32 %q1, %d, 0; @%q1 add.u32 %b, %b, i; @!%q1 sub.u32 %b, %b, 1;"
                     "setp.lt.u32 %q0, i, %a; @%q0 bra LOOP; mov.u32 %d, %b;";
  // Even numbers up to 10 are added, 1 is subtracted for each odd one.
  EXPECT_EQ(evaluate<int32_t>(code, {10, 0}), 2 + 4 + 6 + 8 + 10 - 5);
}

// Every thread finds its own place from the special registers.
TEST(PtxControl, GridIndices) {
  std::vector<uint32_t> values(3 * 70 * 4);
  std::string body =
      "mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x;"
      "mov.u32 %r6, %laneid; mov.u32 %r7, %warpid; mad.lo.u32 %r4, %r2, %r1, %r0; mul.wide.u32 %d0, %r4, 16;"
      "add.u64 %d1, %p0, %d0; mad.lo.u32 %r8, %r7, 32, %r6; st.global.v4.u32 [%d1], {%r4, %r8, %r3, %r1};";
  EXPECT_EQ(runOn(values, kernel(1, body), 3, 70), "");
  for (uint32_t i = 0; i != 3 * 70; ++i)
    EXPECT_EQ((std::array{values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]}),
              (std::array{i, i % 70, 3u, 70u}));
}

// Jumps by a table, as compilers write them for switch.
TEST(PtxControl, JumpTable) {
  std::string code =
      "mov.u32 %d, 0;\nTABLE: .branchtargets L0, L1, L2;\n brx.idx %a, TABLE;\nL0: mov.u32 %d, 5; bra END;\n"
      "L1: mov.u32 %d, 6;\nL2: add.u32 %d, %d, 1;\nEND:\n";
  EXPECT_EQ(evaluate<int>(code, {0}), 5);
  EXPECT_EQ(evaluate<int>(code, {1}), 7);
  EXPECT_EQ(evaluate<int>(code, {2}), 1);
}

// Recursion needs frames of its own for registers, parameters and local memory.
TEST(PtxControl, Recursion) {
  std::string function = R"(.func (.param .b32 result) factorial (.param .b32 n)
{
  .reg .pred %p; .reg .b32 %r<4>; .local .align 4 .b8 kept[4]; .reg .b64 %d<1>;
  ld.param.b32 %r0, [n];
  st.local.b32 [kept], %r0;
  mov.b32 %r1, 1;
  setp.le.s32 %p, %r0, 1;
  @%p bra END;
  sub.s32 %r2, %r0, 1;
  { .param .b32 argument; .param .b32 value;
    st.param.b32 [argument], %r2;
    call.uni (value), factorial, (argument);
    ld.param.b32 %r1, [value];
  }
  ld.local.b32 %r0, [kept];
  mul.lo.s32 %r1, %r1, %r0;
END:
  st.param.b32 [result], %r1;
  ret;
})";
  std::vector<int32_t> value = {10};
  std::string body = "ld.global.b32 %r0, [%p0]; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0;"
                     "call (b), factorial, (a); ld.param.b32 %r1, [b]; } st.global.b32 [%p0], %r1;";
  EXPECT_EQ(runOn(value, kernel(1, body, function + "\n")), "");
  EXPECT_EQ(value[0], 3628800);
  // Without an end it would take all memory.
  value[0] = 5000;
  EXPECT_NE(runOn(value, kernel(1, body, function + "\n")).find("nested more than 1000 deep"), std::string::npos);
}

// A struct as a parameter is an array of bytes, and parts of it are results.
TEST(PtxControl, AggregateParameters) {
  std::string function = R"(.func (.param .align 8 .b8 result[16]) swap (.param .align 8 .b8 pair[16])
{
  .reg .b64 %d<3>; .reg .b32 %r<2>;
  ld.param.v2.b32 {%r0, %r1}, [pair];
  ld.param.b64 %d1, [pair+8];
  st.param.b64 [result+0], %d1;
  st.param.v2.b32 [result+8], {%r1, %r0};
  ret;
})";
  std::vector<uint64_t> values = {(uint64_t(2) << 32) + 1, 7};
  std::string body = "ld.global.v2.b64 {%d0, %d1}, [%p0]; { .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16];"
                     "st.param.b64 [a], %d0; st.param.b64 [a+8], %d1; call.uni (b), swap, (a);"
                     "ld.param.b64 %d2, [b+8]; ld.param.b64 %d3, [b]; } st.global.v2.b64 [%p0], {%d2, %d3};";
  EXPECT_EQ(runOn(values, kernel(1, body, function + "\n")), "");
  EXPECT_EQ(values, (std::vector<uint64_t>{(uint64_t(1) << 32) + 2, 7}));
}

// Initial values of the module's variables: lists, nested lists that are not complete, numbers, addresses.
TEST(PtxMemory, ModuleVariables) {
  std::string variables = ".global .align 4 .u16 open[][2] = {{1}, {2, 3}};\n.global .align 4 .b8 bytes[8] = {1, 2, "
                          "255};\n.const .align 4 .f32 table[2][3] = "
                          "{{0f3F800000, 2.0}, {0f40400000, 0f40800000, 5.0}};\n.global .align 8 .u64 where = "
                          "generic(bytes)+2;\n.global .s32 count = -5;\n";
  std::vector<float> values(9);
  std::string body =
      "ld.const.f32 %r0, [table+4]; st.global.f32 [%p0], %r0; mov.u64 %d0, table; ld.const.v2.f32 {%r1, %r2}, "
      "[%d0+16]; ld.const.f32 %r3, [table+12]; st.global.f32 [%p0+4], %r1; st.global.f32 [%p0+8], %r2;"
      "st.global.f32 [%p0+12], %r3; ld.global.u64 %d1, [where]; ld.u8 %h0, [%d1]; cvt.rn.f32.u16 %r4, %h0;"
      "st.global.f32 [%p0+16], %r4; ld.global.s8 %h1, [bytes+2]; cvt.rn.f32.s16 %r5, %h1;"
      "st.global.f32 [%p0+20], %r5; ld.global.s32 %r6, [count]; cvt.rn.f32.s32 %r6, %r6;"
      "st.global.f32 [%p0+24], %r6; ld.const.f32 %r7, [table+8]; st.global.f32 [%p0+28], %r7;"
      "ld.global.u16 %h2, [open+6]; cvt.rn.f32.u16 %r8, %h2; st.global.f32 [%p0+32], %r8;";
  EXPECT_EQ(runOn(values, kernel(1, body, variables)), "");
  EXPECT_EQ(values, (std::vector<float>{2, 4, 5, 3, 255, -1, -5, 0, 3}));
}

// A module's variables keep what a launch leaves in them.
TEST(PtxMemory, VariablesOutliveLaunches) {
  Module module = parsed(kernel(1,
                                "ld.global.u32 %r0, [count]; add.u32 %r0, %r0, 1; st.global.u32 [count], %r0;"
                                "st.global.u32 [%p0], %r0;",
                                ".global .u32 count = 40;\n"));
  uint32_t value = 0;
  Memory memory;
  memory.allow(&value, sizeof value);
  Launch launch{.entry = "k", .arguments = {reinterpret_cast<uint64_t>(&value)}};
  for (int i = 0; i != 2; ++i)
    EXPECT_EQ(run(module, launch, memory), std::nullopt);
  EXPECT_EQ(value, 42u);
}

// Generic addresses find their way back to shared, local and global memory.
TEST(PtxMemory, GenericAddresses) {
  std::vector<uint32_t> values(4);
  std::string body =
      ".shared .align 4 .b8 s[8]; .local .align 4 .b8 l[8]; mov.u64 %d0, s; cvta.shared.u64 %d1, %d0;"
      "mov.u64 %d2, l; cvta.local.u64 %d3, %d2; mov.u32 %r0, 7; st.u32 [%d1+4], %r0; mov.u32 %r1, 8;"
      "st.u32 [%d3], %r1; ld.shared.u32 %r2, [s+4]; ld.local.u32 %r3, [l]; cvta.global.u64 %d4, %p0;"
      "st.v2.u32 [%d4], {%r2, %r3}; cvta.to.shared.u64 %d5, %d1; ld.shared.u32 %r4, [%d5+4];"
      "isspacep.shared %q0, %d1; selp.u32 %r5, 1, 0, %q0; isspacep.global %q1, %d4; @%q1 add.u32 %r5, %r5, 2;"
      "isspacep.shared %q1, %d3; @%q1 add.u32 %r5, %r5, 4; st.global.v2.u32 [%p0+8], {%r4, %r5};";
  EXPECT_EQ(runOn(values, kernel(1, body)), "");
  EXPECT_EQ(values, (std::vector<uint32_t>{7, 8, 7, 3}));
}

// Static variables and the dynamic ones behind them do not overlap.
TEST(PtxMemory, DynamicSharedMemory) {
  std::vector<uint32_t> values(4);
  std::string variables = ".shared .align 4 .b8 fixed[4];\n.extern .shared .align 16 .b8 open[];\n";
  std::string body = "mov.u32 %r0, %tid.x; mul.lo.u32 %r1, %r0, 4; mov.u32 %r2, open; add.u32 %r2, %r2, %r1;"
                     "st.shared.u32 [%r2], %r0; setp.eq.u32 %q0, %r0, 0; @%q0 st.shared.u32 [fixed], 100;bar.sync 0;"
                     "ld.shared.u32 %r3, [fixed]; sub.u32 %r4, 12, %r1; mov.u32 %r5, open; add.u32 %r5, %r5, %r4;"
                     "ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, %r3; cvt.u64.u32 %d0, %r1; add.u64 %d0, %p0, %d0;"
                     "st.global.u32 [%d0], %r6;";
  EXPECT_EQ(runOn(values, kernel(1, body, variables), 1, 4, 16), "");
  EXPECT_EQ(values, (std::vector<uint32_t>{103, 102, 101, 100}));
}

// Stores of narrow types write their own bytes alone.
TEST(PtxMemory, NarrowAccesses) {
  std::vector<uint8_t> values = {1, 2, 0x83, 0xff, 5, 6, 7, 8};
  std::string body =
      "ld.global.s8 %r0, [%p0+2]; ld.global.u16 %h0, [%p0+2]; mov.u32 %r1, 0xabcdef; st.global.u8 [%p0+1], %r1;"
      "shr.s32 %r0, %r0, 1; st.global.u8 [%p0+4], %r0; st.global.u16 [%p0+6], %h0;";
  EXPECT_EQ(runOn(values, kernel(1, body)), "");
  EXPECT_EQ(values, (std::vector<uint8_t>{1, 0xef, 0x83, 0xff, 0xc1, 6, 0x83, 0xff}));
}

// Halves of registers, with a part that is dropped.
TEST(PtxMove, PackAndUnpack) {
  EXPECT_EQ(
      evaluate<uint64_t>(".reg .b32 l, h; mov.b64 {l, h}, %a; mov.b64 %d, {h, l};", {uint64_t(0x1111111122222222)}),
      0x2222222211111111u);
  EXPECT_EQ(evaluate<uint32_t>(".reg .b16 l, h; mov.b32 {l, h}, %a; mov.b32 %d, {h, l};", {0x12345678u}), 0x56781234u);
  EXPECT_EQ(evaluate<uint32_t>("mov.b64 {_, %d}, %a;", {uint64_t(0x1111111122222222)}), 0x11111111u);
  EXPECT_EQ(evaluate<uint32_t>("mov.b32 %d, {0, %a};", {uint16_t(0x3f80)}), 0x3f800000u);
}

} // namespace
} // namespace cleave::ptx::test
