// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy archives, byte by byte from the ZIP specification, including the lies that a directory can tell.

#include "Samples.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

using NpzTest = TensorFileFixture;

namespace {

/// CRC-32 bit by bit, as the ZIP specification defines it.
uint32_t crc32(const std::string &bytes) {
  uint32_t crc = 0xffffffff;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit != 8; ++bit)
      crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

struct Member {
  std::string name, data;
  bool deflate = false;
  /// What the directory claims, where that is not the truth.
  std::optional<uint32_t> size, compressed;
};

std::string joined(std::initializer_list<std::string> parts) {
  std::string result;
  for (const std::string &part : parts)
    result += part;
  return result;
}

/// An archive: members with their headers, the directory, the end record.
std::string zip(const std::vector<Member> &members, const std::string &comment = "", bool extra64 = false) {
  std::string result, directory;
  for (const Member &member : members) {
    // Deflated data is one stored block.
    uint64_t length = member.data.size();
    std::string data =
        member.deflate ? joined({"\x01", little(length, 2), little(~length, 2), member.data}) : member.data;
    uint32_t compressed = member.compressed.value_or(data.size()), size = member.size.value_or(length);
    std::string extra = extra64 ? joined({little(1, 2), little(16, 2), little(size, 8), little(compressed, 8)}) : "";
    std::string sizes = extra64 ? std::string(8, '\xff') : joined({little(compressed, 4), little(size, 4)});
    std::string shared = joined({little(member.deflate ? 8 : 0, 2), little(0, 4), little(crc32(member.data), 4), sizes,
                                 little(member.name.size(), 2), little(extra.size(), 2)});
    directory += joined({"PK\x01\x02", little(20, 2), little(20, 2), little(0, 2), shared, std::string(10, '\0'),
                         little(result.size(), 4), member.name, extra});
    result += joined({"PK\x03\x04", little(20, 2), little(0, 2), shared, member.name, extra, data});
  }
  return joined({result, directory, "PK\x05\x06", little(0, 4), little(members.size(), 2), little(members.size(), 2),
                 little(directory.size(), 4), little(result.size(), 4), little(comment.size(), 2), comment});
}

std::string array(float value) {
  return npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", floats({value}));
}

TensorType oneFloat() { return dense(ElementType::F32, {1}); }

} // namespace

// By name, or the only one; stored, deflated, with a comment and with 64-bit sizes.
TEST_F(NpzTest, ReadsMembers) {
  for (bool deflate : {false, true})
    for (bool extra64 : {false, true}) {
      file("a.npz",
           zip({{"x.npy", array(1), deflate, {}, {}}, {"y.npy", array(2), deflate, {}, {}}}, "a comment", extra64));
      expectTensor(path("a.npz:x"), oneFloat(), {1});
      expectTensor(path("a.npz:y"), oneFloat(), {2});
      expectTensor(path("a.npz:y.npy"), oneFloat(), {2});
      expectFailure(path("a.npz"), Status::Failure, "expected one member, got 2 (x.npy, y.npy)");
      expectFailure(path("a.npz:z"), Status::Failure, "expected a member \"z\"");
      expectTensor(file("b.npz", zip({{"x.npy", array(3), deflate, {}, {}}})), oneFloat(), {3});
    }
}

// A directory that names sizes beyond the file, or fewer than come out.
TEST_F(NpzTest, RefusesLies) {
  auto refuse = [&](const Member &member, const std::string &message) {
    expectFailure(file("a.npz", zip({member})), Status::Rejected, message);
  };
  refuse({"x.npy", array(1), true, 0xfffffff0, {}}, "cannot hold");
  refuse({"x.npy", array(1), true, 60, {}}, "got more");
  refuse({"x.npy", array(1), true, 70000, {}}, "the data ends after");
  refuse({"x.npy", array(1), false, 5, {}}, "contradict each other");
  refuse({"x.npy", array(1), false, {}, 0xfffffff0}, "bytes of an archive member");
  std::string bytes = zip({{"x.npy", array(1), false, {}, {}}});
  bytes[bytes.find("NUMPY") + 60] ^= 1;
  expectFailure(file("a.npz", bytes), Status::Rejected, "checksum");
  bytes = zip({{"x.npy", "hello", false, {}, {}}});
  expectFailure(file("a.npz", bytes), Status::Rejected, "member \"x.npy\": at byte");
  bytes = zip({{"x.npy", array(1), false, {}, {}}});
  bytes[bytes.find("PK\x01\x02") + 8] |= 1;
  expectFailure(file("a.npz", bytes), Status::Unsupported, "encrypted");
  expectFailure(file("a.npz", "PK\x03\x04 and nothing else"), Status::Rejected, "end record");
}

// Cut off and damaged files end in an error, never in a crash.
TEST_F(NpzTest, SurvivesDamage) {
  expectRobust("a.npz", zip({{"x.npy", array(1), true, {}, {}}}));
  expectRobust("a.npz", zip({{"x.npy", array(1), false, {}, {}}}, "", true));
}

// Several outputs go to one archive: members are added and replaced, others kept, also compressed ones.
TEST_F(NpzTest, AddsMembers) {
  file("a.npz", zip({{"x.npy", array(1), true, {}, {}}}, "a comment"));
  ASSERT_FALSE(writeTensorFile(path("a.npz:y"), tensorOf(oneFloat(), {2})));
  ASSERT_FALSE(writeTensorFile(path("a.npz:z"), tensorOf(oneFloat(), {3})));
  ASSERT_FALSE(writeTensorFile(path("a.npz:y"), tensorOf(oneFloat(), {4})));
  expectTensor(path("a.npz:x"), oneFloat(), {1});
  expectTensor(path("a.npz:y"), oneFloat(), {4});
  expectTensor(path("a.npz:z"), oneFloat(), {3});
  expectFailure(path("a.npz"), Status::Failure, "got 3");
  ASSERT_FALSE(writeTensorFile(path("b.npz"), tensorOf(oneFloat(), {5})));
  expectTensor(path("b.npz:arr_0"), oneFloat(), {5});
  Error error = writeTensorFile(file("c.npz", "not an archive") + ":x", tensorOf(oneFloat(), {1}));
  ASSERT_TRUE(error);
  EXPECT_EQ(contents("c.npz"), "not an archive");
}
