// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy arrays: versions, element types, byte and dimension orders, and headers that NumPy would not write.

#include "Samples.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

using NpyTest = TensorFileFixture;

static std::string header(const std::string &descr, const std::string &shape, const std::string &fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

// The three versions differ in the width of the header's length and nothing else that matters here.
TEST_F(NpyTest, ReadsAllVersions) {
  for (unsigned version : {1, 2, 3})
    expectTensor(file("a.npy", npy(version, header("<f4", "(2, 3)"), floats({1, 2, 3, 4, 5, -6.5}))),
                 dense(ElementType::F32, {2, 3}), {1, 2, 3, 4, 5, -6.5});
  expectFailure(file("a.npy", npy(4, header("<f4", "(1,)"), floats({1}))), Status::Unsupported, "version 1, 2 or 3");
}

// Every element type, with bytes from the types' definitions.
TEST_F(NpyTest, ReadsAllElementTypes) {
  auto read = [&](const char *descr, const std::string &data, ElementType element, double a, double b) {
    expectTensor(file("a.npy", npy(1, header(descr, "(2,)"), data)), dense(element, {2}), {a, b});
  };
  read("|b1", {"\0\1", 2}, ElementType::I1, 0, 1);
  read("|b1", {"\0\7", 2}, ElementType::I1, 0, 1);
  read("|i1", "\xff\x02", ElementType::I8, -1, 2);
  read("|u1", "\xff\x02", ElementType::U8, 255, 2);
  read("<i2", "\xfe\xff\x01\x02", ElementType::I16, -2, 513);
  read("<u2", "\xfe\xff\x01\x02", ElementType::U16, 65534, 513);
  read("<u4", little(0xfffffffd, 4) + little(70000, 4), ElementType::U32, 4294967293.0, 70000);
  read("<u8", little(-1, 8) + little(1ull << 40, 8), ElementType::U64, 18446744073709551616.0, 1099511627776.0);
  read("<i4", little(0xfffffffd, 4) + little(70000, 4), ElementType::I32, -3, 70000);
  read("<i8", little(-4, 8) + little(1ull << 40, 8), ElementType::I64, -4, 1099511627776.0);
  read("<f2", little(0x3c00, 2) + little(0xc100, 2), ElementType::F16, 1, -2.5);
  read("<f4", little(0x3f800000, 4) + little(0xc0200000, 4), ElementType::F32, 1, -2.5);
  read("<f8", little(0x3ff0000000000000, 8) + little(0xc004000000000000, 8), ElementType::F64, 1, -2.5);
  read("=f4", floats({1, 2}), ElementType::F32, 1, 2);
  read(">i4", big(0xfffffffd, 4) + big(70000, 4), ElementType::I32, -3, 70000);
  expectFailure(file("a.npy", npy(1, header("<c8", "(1,)"), little(1, 8))), Status::Unsupported, "\"<c8\"");
  expectFailure(file("a.npy", npy(1, header("|O", "(1,)"), little(1, 8))), Status::Unsupported, "\"|O\"");
}

// Fortran order stores the first dimension fastest: element (i, j, k) of 2 x 3 x 2 is number i + 2 j + 6 k.
TEST_F(NpyTest, ReadsFortranOrder) {
  std::string data;
  for (int i = 0; i != 12; ++i)
    data += static_cast<char>(i);
  std::vector<double> expected;
  for (int i = 0; i != 2; ++i)
    for (int j = 0; j != 3; ++j)
      for (int k = 0; k != 2; ++k)
        expected.push_back(i + 2 * j + 6 * k);
  expectTensor(file("a.npy", npy(1, header("|u1", "(2, 3, 2)", "True"), data)), dense(ElementType::U8, {2, 3, 2}),
               expected);
}

// Scalars, empty tensors, other spacing and order of keys, and Python 2's long integers.
TEST_F(NpyTest, ReadsUnusualHeaders) {
  expectTensor(file("a.npy", npy(1, header("<f4", "()"), floats({7}))), dense(ElementType::F32, {}), {7});
  expectTensor(file("a.npy", npy(1, header("<f4", "(0, 3)"), "")), dense(ElementType::F32, {0, 3}), {});
  expectTensor(
      file("a.npy", npy(1, "{ \"shape\":(1L,2L) ,\"descr\":\"<f4\",\"fortran_order\":True}   \n", floats({1, 2}))),
      dense(ElementType::F32, {1, 2}), {1, 2});
}

// Headers that are not the dictionary, and numbers that overflow or promise more than the file has.
TEST_F(NpyTest, RefusesBadHeaders) {
  auto refuse = [&](const std::string &text, const std::string &message) {
    expectFailure(file("a.npy", npy(1, text, floats({1, 2}))), Status::Rejected, message);
  };
  refuse("", "expected '{'");
  refuse("{}", "the keys 'descr'");
  refuse("{'descr': '<f4', 'shape': (2,)}", "the keys 'descr'");
  refuse("{'descr': '<f4', 'descr': '<f4'}", "once each");
  refuse("{'descr': '<f4', 'other': 1}", "once each");
  refuse("{descr: '<f4'}", "a key in quotes");
  refuse("{'descr", "a key in quotes");
  refuse("{'descr': '<f4", "a closing quote");
  refuse(header("<f4", "(2,)", "Maybe"), "True or False");
  refuse(header("<f4", "2"), "expected '('");
  refuse(header("<f4", "(-2,)"), "a dimension");
  refuse(header("<f4", "(2 2)"), "',' or ')'");
  refuse(header("<f4", "(2,)") + "x", "nothing but spaces");
  refuse(header("<f4", "(99999999999999999999,)"), "below 2^63");
  refuse(header("<f4", "(4611686018427387904, 4)"), "2^63");
  refuse(header("<f4", "(1000000000000,)"), "expected 4000000000000 bytes of elements");
  refuse(header("<f4", "(1,)"), "expected 4 bytes of elements");
  std::string ones = "(";
  for (int i = 0; i != 100; ++i)
    ones += "1,";
  refuse(header("<f4", ones + ")"), "at most 64 dimensions");
  expectFailure(file("a.npy", npy(1, "{'descr': [('a', '<f4')]}", "")), Status::Unsupported, "plain element type");
  expectFailure(file("a.npy", "\x93NUMPX..."), Status::Rejected, "magic string");
}

// bfloat16 has no name in NumPy: it is known by our remark, or because the caller expects it.
TEST_F(NpyTest, ReadsBfloat16) {
  std::string data = little(0x3f80, 2) + little(0xc020, 2);
  TensorType type = dense(ElementType::BF16, {2});
  for (const char *descr : {"<u2", "|V2"}) {
    expectTensor(file("a.npy", npy(1, header(descr, "(2,)"), data)), type, {1, -2.5}, &type);
  }
  expectFailure(file("a.npy", npy(1, header("|V2", "(2,)"), data)), Status::Unsupported, "|V2");
  ASSERT_FALSE(writeTensorFile(path("b.npy"), tensorOf(type, {1, -2.5})));
  expectTensor(path("b.npy"), type, {1, -2.5});
}

// Cut off and damaged files end in an error, never in a crash.
TEST_F(NpyTest, SurvivesDamage) {
  expectRobust("a.npy", npy(1, header("<f4", "(2, 3)"), floats({1, 2, 3, 4, 5, 6})));
  expectRobust("a.npy", npy(2, header(">i2", "(2, 2)", "True"), "abcdefgh"));
}

// What NumPy would write: aligned data, version 1; here byte by byte.
TEST_F(NpyTest, WritesAlignedVersion1) {
  ASSERT_FALSE(writeTensorFile(path("a.npy"), tensorOf(dense(ElementType::F32, {2, 1}), {1, 2})));
  std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  std::string expected = npy(1, dictionary + std::string(117 - dictionary.size(), ' ') + "\n", floats({1, 2}));
  EXPECT_EQ(contents("a.npy"), expected);
  for (const auto &[element, shape] : {std::pair(ElementType::I1, std::vector<int64_t>{}), {ElementType::I64, {3}}}) {
    std::vector<double> values(element == ElementType::I1 ? 1 : 3, 1);
    ASSERT_FALSE(writeTensorFile(path("b.npy"), tensorOf(dense(element, shape), values)));
    expectTensor(path("b.npy"), dense(element, shape), values);
  }
}
