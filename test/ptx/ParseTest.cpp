// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the parser refuses, and with which words; and that no text, however damaged, brings it down.

#include "Snippet.h"

#include <fstream>
#include <gmock/gmock.h>
#include <random>
#include <sstream>

namespace cleave::ptx::test {
namespace {

using testing::HasSubstr;

std::string errorOf(const std::string &text) {
  std::variant<Module, std::string> result = Module::parse(text);
  auto *error = std::get_if<std::string>(&result);
  return error ? *error : "";
}

/// The error of a kernel with this body, which begins in line 11.
std::string errorIn(const std::string &body) { return errorOf(kernel(0, body)); }

// What is not known is refused before anything runs, with its line.
TEST(PtxParse, UnknownInstructions) {
  EXPECT_EQ(errorIn("mov.u32 %r0, 1;\nfrobnicate.u32 %r0, %r1;"), "line 12: instruction 'frobnicate' is not known");
  EXPECT_EQ(errorIn("add.u32.fast %r0, %r1, %r2;"), "line 11: 'add' with '.fast' is not known");
  EXPECT_EQ(errorIn("add %r0, %r1, %r2;"), "line 11: 'add' lacks a type");
  EXPECT_EQ(errorIn("setp.u32 %q0, %r1, %r2;"), "line 11: 'setp' lacks a modifier such as '.eq'");
  EXPECT_EQ(errorIn("sin.f32 %r0, %r1;"), "line 11: 'sin' is not known of this type");
  EXPECT_EQ(errorIn("tex.2d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%d0, {%r4, %r5}];"),
            "line 11: instruction 'tex' is not known");
}

// Operands that are not there, of the wrong kind, or too many.
TEST(PtxParse, Operands) {
  EXPECT_EQ(errorIn("add.u32 %r0, %r1, %r77;"), "line 11: '%r77' is not known here");
  EXPECT_EQ(errorIn("add.u32 %r0, %r1;"), "line 11: 'add' expects 3 operands, got 2");
  EXPECT_EQ(errorIn("add.u32 5, %r1, %r1;"), "line 11: 'add' expects a register for its result, got ''");
  EXPECT_EQ(errorIn("add.u32 %r0, [%r1], %r1;"), "line 11: 'add' expects a register or number as operand");
  EXPECT_EQ(errorIn("add.f32 %r0, %r1, 1;"), "line 11: 'add' expects a floating-point number, got an integer");
  EXPECT_EQ(errorIn("ld.global.v2.u32 {%r0}, [%d0];"), "line 11: 'ld' expects 2 registers");
  EXPECT_EQ(errorIn("ld.global.u32 %r0, %d0;"), "line 11: 'ld' expects an address in brackets");
  EXPECT_EQ(errorIn("@%r0 mov.u32 %r0, %r1;"), "line 11: '%r0' is no predicate");
  EXPECT_EQ(errorIn("mov.u32 %r0, %clock;"), "line 11: '%clock' is not known here");
  EXPECT_EQ(errorIn("{ .param .b32 x; ld.param.b64 %d0, [x]; }"), "line 11: 'x' has 4 bytes, the access ends at 8");
}

// Names of labels, functions and variables.
TEST(PtxParse, Names) {
  EXPECT_EQ(errorIn("bra NOWHERE;"), "line 11: there is no label 'NOWHERE'");
  EXPECT_EQ(errorIn("L:\nL:"), "line 12: label 'L' is declared twice");
  EXPECT_EQ(errorIn("call missing;"),
            "line 11: 'missing' is no function declared above; calls by address are not supported");
  EXPECT_EQ(errorIn(".reg .b32 %r0;"), "line 11: '%r0' is declared twice");
  EXPECT_EQ(errorIn("brx.idx %r0, T;"), "line 11: there is no list of branch targets 'T'");
  EXPECT_EQ(errorIn("T: .branchtargets A;"), "line 11: there is no label 'A'");
  EXPECT_EQ(errorOf(header() + ".global .u32 a;\n.global .u32 a;\n"), "line 5: 'a' is declared twice");
  EXPECT_EQ(errorOf(header() + ".visible .entry k() { ret; }\n.visible .entry k() { ret; }\n"),
            "line 5: function 'k' is defined twice");
}

// Directives and texts that are not whole.
TEST(PtxParse, Directives) {
  EXPECT_EQ(errorOf("hello"), "line 1: directive 'hello' is not known here");
  EXPECT_EQ(errorOf(".extern .global .u32 a;"), "line 1: 'a' is defined in another module, which is not supported");
  EXPECT_EQ(errorOf(".global .align 3 .u32 a;"), "line 1: expected an alignment of a power of two up to 256, got 3");
  EXPECT_EQ(errorOf(".global .u32 a[1] = {1, 2};"), "line 1: the initial value has more elements than the variable");
  EXPECT_EQ(errorOf(".global .u64 a = b;"), "line 1: 'b' is no variable whose address is known here");
  EXPECT_EQ(errorOf(".global .b8 a[1073741825];"), "line 1: 'a' is too large");
  EXPECT_EQ(errorOf(".global .b64 a[1073741824];"), "line 1: 'a' is too large");
  EXPECT_EQ(errorOf(".shared .b8 a[67108865];"), "line 1: the module's shared variables take more than 67108864 bytes");
  EXPECT_EQ(errorIn(".local .b8 a[524000]; .local .b8 b[1000];"),
            "line 11: the function's variables take more than 524288 bytes");
  EXPECT_EQ(errorOf(".entry k(.param .b8 a[40000]) { ret; }"),
            "line 1: parameters of more than 32764 bytes are not supported");
  EXPECT_EQ(errorOf("/* no end"), "line 1: a comment that begins here does not end");
  EXPECT_EQ(errorOf(".entry k() { ret;"), "line 1: a function's body does not end");
  EXPECT_EQ(errorOf(".global .u32 a = 0xzz;"), "line 1: expected a number, got 'zz'");
  EXPECT_EQ(errorOf(""), "");
}

// What ptxas refuses, and with it the driver: an entry's shared variables, with those of what it calls, but not those
// of others.
TEST(PtxParse, SharedVariablesOfEntries) {
  std::string variables = header() + ".shared .b8 a[40000];\n.shared .b8 b[9152];\n.shared .b8 c[4];\n",
              use = ".reg .b32 %r; st.shared.b32 [", entry = ".visible .entry k() { " + use;
  EXPECT_EQ(errorOf(variables + entry + "a], %r; st.shared.b32 [a], %r; st.shared.b32 [b], %r; ret; }\n" +
                    ".visible .entry m() { " + use + "c], %r; ret; }\n"),
            "");
  std::string error = "entry 'k' expects at most 49152 bytes of static shared variables, got 49156";
  EXPECT_THAT(errorOf(variables + entry + "a], %r; st.shared.b32 [b], %r; st.shared.b32 [c], %r; ret; }\n"),
              HasSubstr(error));
  EXPECT_THAT(errorOf(variables + ".func f { " + use + "c], %r; ret; }\n" + entry +
                      "a], %r; st.shared.b32 [b], %r; call f; ret; }\n"),
              HasSubstr(error));
}

// PTX before 8.1 has 4352 bytes of parameters.
TEST(PtxParse, ParametersOfEntries) {
  auto entry = [](const std::string &version, int count) {
    std::string text = ".version " + version + "\n.target sm_80\n.address_size 64\n.visible .entry k(";
    for (int i = 0; i != count; ++i)
      text += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
    return errorOf(text + ") { ret; }\n");
  };
  EXPECT_EQ(entry("8.0", 544), "");
  EXPECT_EQ(entry("8.0", 545), "line 4: entry 'k' expects parameters of at most 4352 bytes, got 4360");
  EXPECT_EQ(entry("8.1", 4095), "");
  EXPECT_EQ(entry("8.1", 4096), "line 4: entry 'k' expects parameters of at most 32764 bytes, got 32768");
}

// Debugging information and comments are passed over.
TEST(PtxParse, WhatHasNoEffect) {
  EXPECT_EQ(errorOf(header() +
                    ".file 1 \"a.cu\"\n.section .debug_str\n{\n.b8 5,6,7 // {\n}\n.visible .entry k() {\n"
                    ".loc 1 7 8\n/* } */ .pragma \"nounroll\";\n.loc 1 7 8, function_name $L__info, inlined_at 1 2 3\n"
                    " ret; }\n"),
            "");
}

// A function without a body is an error when it is called, not before: compilers leave declarations behind.
TEST(PtxParse, FunctionsWithoutBody) {
  std::string text = header() + ".extern .func away;\n.visible .entry k() { call away; ret; }\n";
  ASSERT_EQ(errorOf(text), "");
  EXPECT_THAT(runKernel(text, {"k", 1, 1, 0, {}}, {}), HasSubstr("function 'away' has no body in this module"));
}

// Damaged texts give an error or another program, and never end the process; programs run within their bounds.
TEST(PtxParse, DamagedTexts) {
  std::string text =
      kernel(1,
             ".local .align 4 .b8 l[8]; .reg .f32 f; mov.u32 %r0, %tid.x; mul.wide.u32 %d0, %r0, 4;"
             "add.u64 %d0, %d0, %p0; ld.global.v2.u32 {%r1, %r2}, [%p0]; mov.f32 f, 0f3F800000;\nL1:\n"
             "add.u32 %r1, %r1, 1; setp.lt.and.u32 %q0|%q1, %r1, 5, !%q2; @%q0 bra L1; st.local.u32 [l+4], %r1;"
             "shfl.sync.down.b32 %r3|%q0, %r1, 1, 31, -1; bar.sync 0; { .param .b32 a; st.param.b32 [a], %r1;"
             "call f, (a); } st.shared.u32 [s+8], %r1; cvt.rn.f16.f32 %h0, f; st.global.u32 [%d0], %r1;"
             "T: .branchtargets L1, L2;\n and.b32 %r4, %r1, 1; brx.idx %r4, T;\nL2:",
             ".shared .b32 s[4];\n.global .u32 g[2] = {1, 2};\n.func f(.param .b32 x) { ret; }\n");
  ASSERT_EQ(errorOf(text), "");
  std::vector<uint32_t> values(8);
  Memory memory;
  memory.allow(values.data(), 32);
  Launch launch{"k", 1, 8, 0, {reinterpret_cast<uint64_t>(values.data())}};
  launch.maxJumps = 100;
  std::mt19937 random(41);
  int whole = 0;
  for (int i = 0; i != 3000; ++i) {
    std::string damaged = text;
    size_t at = random() % damaged.size(), length = 1 + random() % 6;
    if (i % 3 == 0)
      damaged.erase(at, length);
    else if (i % 3 == 1)
      damaged.insert(at, text.substr(random() % text.size(), length));
    else
      damaged.resize(at);
    std::variant<Module, std::string> result = Module::parse(damaged);
    if (auto *module = std::get_if<Module>(&result))
      whole += run(*module, launch, memory).has_value();
    else
      EXPECT_THAT(std::get<std::string>(result), HasSubstr("line "));
  }
  EXPECT_GT(whole, 0);
}

} // namespace
} // namespace cleave::ptx::test
