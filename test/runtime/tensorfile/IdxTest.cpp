// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// IDX files, plain and in gzip members whose deflate blocks are stored, so that their bytes can be written by hand.

#include "Samples.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

using IdxTest = TensorFileFixture;

/// CRC-32 bit by bit, as RFC 1952 defines it.
static uint32_t crc32(const std::string &bytes) {
  uint32_t crc = 0xffffffff;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit != 8; ++bit)
      crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

/// A gzip member: header without a name, one stored block, checksum and length.
static std::string gzip(const std::string &bytes) {
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + "\x01" + little(bytes.size(), 2) + little(~bytes.size(), 2) +
         bytes + little(crc32(bytes), 4) + little(bytes.size(), 4);
}

static std::string idx(int code, const std::vector<uint32_t> &shape, const std::string &data) {
  std::string result{0, 0, static_cast<char>(code), static_cast<char>(shape.size())};
  for (uint32_t size : shape)
    result += big(size, 4);
  return result + data;
}

// Every element code, big-endian.
TEST_F(IdxTest, ReadsAllElementTypes) {
  auto read = [&](int code, const std::string &data, ElementType element, double a, double b) {
    expectTensor(file("a.idx", idx(code, {1, 2}, data)), dense(element, {1, 2}), {a, b});
  };
  read(0x08, "\xff\x02", ElementType::U8, 255, 2);
  read(0x09, "\xff\x02", ElementType::I8, -1, 2);
  read(0x0B, big(-2, 2) + big(513, 2), ElementType::I16, -2, 513);
  read(0x0C, big(-3, 4) + big(70000, 4), ElementType::I32, -3, 70000);
  read(0x0D, big(0x3f800000, 4) + big(0xc0200000, 4), ElementType::F32, 1, -2.5);
  read(0x0E, big(0x3ff0000000000000, 8) + big(0xc004000000000000, 8), ElementType::F64, 1, -2.5);
  expectFailure(file("a.idx", idx(0x0A, {1}, "a")), Status::Rejected, "magic number");
}

// The names under which data sets come.
TEST_F(IdxTest, ReadsGzip) {
  std::string bytes = idx(0x08, {2, 2}, "abcd");
  TensorType type = dense(ElementType::U8, {2, 2});
  expectTensor(file("t10k-images-idx3-ubyte", bytes), type, {97, 98, 99, 100});
  expectTensor(file("t10k-images-idx3-ubyte.gz", gzip(bytes)), type, {97, 98, 99, 100});
  // Several members are one stream.
  expectTensor(file("a.idx.gz", gzip(bytes.substr(0, 5)) + gzip(bytes.substr(5))), type, {97, 98, 99, 100});
}

// A small file that promises much must not be believed.
TEST_F(IdxTest, RefusesPromises) {
  expectFailure(file("a.idx", idx(0x08, {0xffffffff, 0x7fffffff}, "abcd")), Status::Rejected, "bytes of elements");
  expectFailure(file("a.idx", idx(0x0E, {0xffffffff, 0xffffffff, 2}, "")), Status::Rejected, "2^63");
  expectFailure(file("a.idx.gz", gzip(idx(0x08, {0xffffffff, 4}, "abcd"))), Status::Rejected, "cannot hold");
  expectFailure(file("a.idx.gz", gzip(idx(0x08, {5}, "abcd"))), Status::Rejected, "the data ends after 4");
  expectFailure(file("a.idx.gz", gzip(idx(0x08, {3}, "abcd"))), Status::Rejected, "got more");
  std::string damaged = gzip(idx(0x08, {4}, "abcd"));
  damaged[damaged.size() - 6] ^= 1;
  expectFailure(file("a.idx.gz", damaged), Status::Rejected, "damaged");
}

// Cut off and damaged files end in an error, never in a crash.
TEST_F(IdxTest, SurvivesDamage) {
  expectRobust("a.idx", idx(0x0B, {2, 1}, "abcd"));
  expectRobust("a.idx.gz", gzip(idx(0x0B, {2, 1}, "abcd")));
}

// Written big-endian; what IDX has no code for is refused and leaves no file behind.
TEST_F(IdxTest, Writes) {
  ASSERT_FALSE(writeTensorFile(path("a.idx"), tensorOf(dense(ElementType::I16, {2, 1}), {-2, 513})));
  EXPECT_EQ(contents("a.idx"), idx(0x0B, {2, 1}, big(-2, 2) + big(513, 2)));
  Error error = writeTensorFile(path("b.idx"), tensorOf(dense(ElementType::I64, {1}), {1}));
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("use .npy"), std::string::npos) << error.message();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}
