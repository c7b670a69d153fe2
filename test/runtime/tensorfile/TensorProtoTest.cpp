// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TensorProto messages, byte by byte from protobuf's wire format: key = field << 3 | wire type.

#include "Samples.h"

#include <bit>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

using TensorProtoTest = TensorFileFixture;

/// dims 2 and 1, data_type `type`.
static std::string start(char type) { return std::string("\x08\x02\x08\x01\x10", 5) + type; }

/// A field of `wire` type 2: key, length, bytes.
static std::string delimited(int field, const std::string &bytes) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

static std::string varint(int64_t value) {
  std::string result;
  for (auto rest = static_cast<uint64_t>(value);; rest >>= 7) {
    if (rest < 0x80)
      return result + static_cast<char>(rest);
    result += static_cast<char>(rest | 0x80);
  }
}

// raw_data, for every element type and its code in ONNX.
TEST_F(TensorProtoTest, ReadsRawData) {
  auto read = [&](char code, const std::string &data, ElementType element, double a, double b) {
    expectTensor(file("a.pb", start(code) + delimited(9, data)), dense(element, {2, 1}), {a, b});
  };
  read(1, floats({1.5, -2}), ElementType::F32, 1.5, -2);
  read(2, "\xff\x02", ElementType::U8, 255, 2);
  read(3, "\xff\x02", ElementType::I8, -1, 2);
  read(4, "\xfe\xff\x01\x02", ElementType::U16, 65534, 513);
  read(5, "\xfe\xff\x01\x02", ElementType::I16, -2, 513);
  read(6, little(-3, 4) + little(70000, 4), ElementType::I32, -3, 70000);
  read(7, little(-4, 8) + little(1ull << 40, 8), ElementType::I64, -4, 1099511627776.0);
  read(9, {"\0\1", 2}, ElementType::I1, 0, 1);
  read(10, little(0x3c00, 2) + little(0xc100, 2), ElementType::F16, 1, -2.5);
  read(11, little(0x3ff0000000000000, 8) + little(0xc004000000000000, 8), ElementType::F64, 1, -2.5);
  read(12, little(-3, 4) + little(70000, 4), ElementType::U32, 4294967293.0, 70000);
  read(13, little(1ull << 63, 8) + little(1ull << 40, 8), ElementType::U64, 9223372036854775808.0, 1099511627776.0);
  read(16, little(0x3f80, 2) + little(0xc020, 2), ElementType::BF16, 1, -2.5);
}

// Programs in NumPy call bfloat16 uint16: it is read as what the caller expects.
TEST_F(TensorProtoTest, ReadsBfloat16CalledUint16) {
  std::string bytes = start(4) + delimited(9, little(0x3f80, 2) + little(0xc020, 2));
  TensorType type = dense(ElementType::BF16, {2, 1});
  expectTensor(file("a.pb", bytes), type, {1, -2.5}, &type);
  expectTensor(file("a.pb", bytes), dense(ElementType::U16, {2, 1}), {0x3f80, 0xc020});
}

// Numbers in the typed fields, packed and one by one; half floats and small integers share int32_data.
TEST_F(TensorProtoTest, ReadsTypedData) {
  auto read = [&](char code, const std::string &data, ElementType element, double a, double b) {
    expectTensor(file("a.pb", start(code) + data), dense(element, {2, 1}), {a, b});
  };
  read(1, delimited(4, floats({1.5, -2})), ElementType::F32, 1.5, -2);
  read(1, "\x25" + floats({1.5}) + "\x25" + floats({-2}), ElementType::F32, 1.5, -2);
  read(1, delimited(4, floats({1.5})) + "\x25" + floats({-2}), ElementType::F32, 1.5, -2);
  read(11, delimited(10, little(std::bit_cast<uint64_t>(1.5), 8) + little(std::bit_cast<uint64_t>(-2.0), 8)),
       ElementType::F64, 1.5, -2);
  read(11, "\x51" + little(std::bit_cast<uint64_t>(1.5), 8) + "\x51" + little(std::bit_cast<uint64_t>(-2.0), 8),
       ElementType::F64, 1.5, -2);
  read(7, delimited(7, varint(-1) + varint(300)), ElementType::I64, -1, 300);
  read(7, "\x38" + varint(-1) + "\x38" + varint(300), ElementType::I64, -1, 300);
  read(6, delimited(5, varint(-1) + varint(300)), ElementType::I32, -1, 300);
  read(6, "\x28" + varint(-1) + "\x28" + varint(300), ElementType::I32, -1, 300);
  read(5, delimited(5, varint(-32768) + varint(32767)), ElementType::I16, -32768, 32767);
  read(3, delimited(5, varint(-128) + varint(127)), ElementType::I8, -128, 127);
  read(2, delimited(5, varint(0) + varint(255)), ElementType::U8, 0, 255);
  read(4, delimited(5, varint(0) + varint(65535)), ElementType::U16, 0, 65535);
  read(12, delimited(11, varint(0) + varint(4294967295)), ElementType::U32, 0, 4294967295.0);
  read(13, delimited(11, varint(1) + varint(int64_t(1) << 62)), ElementType::U64, 1, 4611686018427387904.0);
  read(13, "\x58" + varint(-1) + "\x58" + varint(300), ElementType::U64, 18446744073709551616.0, 300);
  read(9, delimited(5, varint(0) + varint(1)), ElementType::I1, 0, 1);
  read(10, delimited(5, varint(0x3c00) + varint(0xc100)), ElementType::F16, 1, -2.5);
  read(16, delimited(5, varint(0x3f80) + varint(0xc020)), ElementType::BF16, 1, -2.5);
}

// Packed dimensions, fields in any order, a name and unknown fields, a scalar and an empty tensor.
TEST_F(TensorProtoTest, ReadsUnusualMessages) {
  expectTensor(file("a.pb", delimited(9, floats({1, 2, 3})) + delimited(8, "name") + "\x10\x01" +
                                delimited(1, "\x01\x03") + delimited(12, "doc") + "\xa0\x06\x05"),
               dense(ElementType::F32, {1, 3}), {1, 2, 3});
  expectTensor(file("a.pb", "\x10\x01" + delimited(9, floats({4}))), dense(ElementType::F32, {}), {4});
  expectTensor(file("a.pb", std::string("\x08\x00\x10\x01", 4)), dense(ElementType::F32, {0}), {});
}

// Contradictions, overflow, and what a tensor here cannot be.
TEST_F(TensorProtoTest, RefusesBadMessages) {
  auto refuse = [&](const std::string &bytes, const std::string &message, Status status = Status::Rejected) {
    expectFailure(file("a.pb", bytes), status, message);
  };
  refuse("", "data_type 0");
  refuse(start(1) + delimited(9, "abc"), "expected 8 bytes of elements for f32[2,1], got 3");
  refuse(start(1) + delimited(4, "abc"), "multiple of 4");
  refuse(start(1) + delimited(7, varint(1) + varint(2)), "beside another element type");
  refuse(start(1) + delimited(4, floats({1, 2})) + delimited(9, floats({1, 2})), "beside raw data");
  refuse(start(3) + delimited(5, varint(128) + varint(0)), "expects a number from -128 to 127 for i8, got 128");
  refuse(start(2) + delimited(5, varint(-1) + varint(0)), "expects a number from 0 to 255 for u8, got -1");
  refuse(start(12) + delimited(11, varint(int64_t(1) << 32) + varint(0)),
         "from 0 to 4294967295 for u32, got 4294967296");
  refuse(start(10) + delimited(5, varint(-1) + varint(0)), "from 0 to 65535");
  refuse("\x08" + varint(-1) + "\x10\x01", "no negative dimension");
  refuse("\x08" + varint(1ll << 62) + "\x08\x08\x10\x01", "2^63");
  refuse("\x08" + varint(1ll << 40) + "\x10\x01", "expected 4398046511104 bytes of elements");
  refuse("\x08" + std::string(11, '\xff'), "at most 64 bits");
  refuse("\x0f", "wire type");
  refuse(std::string("\0\0", 2), "field number");
  refuse("\x4a" + varint(1ll << 60) + "abc", "the file ends after 3");
  refuse("\x4a" + varint(-1) + "abc", "the file ends after 3");
  refuse(start(8) + delimited(6, "text"), "strings", Status::Unsupported);
  refuse(start(14), "data_type 14", Status::Unsupported);
  refuse(start(1) + "\x70\x01", "another file", Status::Unsupported);
  refuse(start(1) + delimited(13, ""), "another file", Status::Unsupported);
  refuse(start(1) + delimited(3, ""), "segments", Status::Unsupported);
  refuse("\x48\x01", "wrong wire type");
  refuse("\x15" + floats({1}), "wrong wire type");
}

// Cut off and damaged files end in an error, never in a crash. A cut between fields leaves a valid message with fewer
// elements than its shape, so the elements come last.
TEST_F(TensorProtoTest, SurvivesDamage) {
  expectRobust("a.pb", start(1) + delimited(8, "x") + delimited(9, floats({1, 2})));
  expectRobust("a.pb", start(7) + delimited(7, varint(-1) + varint(300)));
}

// The bytes of a message with unpacked dimensions and raw data.
TEST_F(TensorProtoTest, WritesRawData) {
  ASSERT_FALSE(writeTensorFile(path("a.pb"), tensorOf(dense(ElementType::F32, {2, 300}), std::vector<double>(600, 1))));
  EXPECT_EQ(contents("a.pb"),
            std::string("\x08\x02\x08\xac\x02\x10\x01\x4a\xe0\x12", 10) + floats(std::vector<float>(600, 1)));
  ASSERT_FALSE(writeTensorFile(path("b.pb"), tensorOf(dense(ElementType::BF16, {}), {-2.5})));
  expectTensor(path("b.pb"), dense(ElementType::BF16, {}), {-2.5});
}
