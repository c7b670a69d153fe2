// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where parameters come from: files below a folder, memory, the generator.

#include "runtime/Generator.h"
#include "runtime/ParameterSource.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave::runtime {
namespace {

/// A folder with a file "w.bin" of 8 bytes, and a file "secret" beside the folder.
class FolderSourceTest : public testing::Test {
protected:
  void SetUp() override {
    top = std::filesystem::temp_directory_path() / ("cleave-parameter-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(top / "plan" / "sub");
    std::ofstream(top / "plan" / "w.bin") << "01234567";
    std::ofstream(top / "secret") << "secret!!";
    std::filesystem::create_symlink(top / "secret", top / "plan" / "out");
    std::filesystem::create_symlink("../w.bin", top / "plan" / "sub" / "in");
    std::filesystem::create_directory_symlink(top, top / "plan" / "up");
  }
  void TearDown() override { std::filesystem::remove_all(top); }
  Error errorOf(const FileSource &file) { return FolderSource(top / "plan").bytes(file).error(); }

  std::filesystem::path top;
};

// The bytes asked for, from a file and through a link that stays inside.
TEST_F(FolderSourceTest, GivesBytes) {
  FolderSource source(top / "plan");
  for (const char *file : {"w.bin", "sub/in", "./w.bin"}) {
    auto bytes = source.bytes({file, 2, 3});
    ASSERT_TRUE(bytes) << bytes.error().text();
    EXPECT_EQ(std::memcmp(bytes->data(), "234", 3), 0);
  }
  EXPECT_TRUE(source.bytes({"w.bin", 8, 0}));
}

// A plan must not read what lies outside its folder.
TEST_F(FolderSourceTest, RefusesToLeave) {
  std::string absolute = (top / "secret").string();
  for (const std::string &file : {std::string("../secret"), std::string("sub/../../secret"), std::string("out"),
                                  std::string("up/secret"), absolute}) {
    Error error = errorOf({file, 0, 1});
    EXPECT_EQ(error.status(), Status::Rejected) << file << ": " << error.text();
  }
  EXPECT_EQ(errorOf({std::string("w.bin\0x", 7), 0, 1}).status(), Status::Rejected);
}

// A range beyond the file's end, also one that overflows, and files that are none.
TEST_F(FolderSourceTest, RefusesMissingBytes) {
  EXPECT_EQ(errorOf({"w.bin", 4, 5}).message(),
            "parameter file \"w.bin\" expects 5 bytes at offset 4, got a file of 8 bytes");
  EXPECT_EQ(errorOf({"w.bin", UINT64_MAX, 2}).status(), Status::Rejected);
  EXPECT_EQ(errorOf({"none.bin", 0, 1}).status(), Status::Failure);
  EXPECT_EQ(errorOf({"sub", 0, 1}).status(), Status::Failure);
}

// Eight lanes, one word each: worked out by hand for zeros, whose lanes are i * p, shifted and mixed.
TEST(FileChecksum, IsAsDefined) {
  std::vector<std::byte> words;
  auto add = [&](uint64_t word) {
    for (int i = 0; i != 8; ++i)
      words.push_back(std::byte(word >> 8 * i));
  };
  for (uint64_t lane = 0; lane != 8; ++lane)
    add(lane * 0x100000001b3 ^ (lane * 0x100000001b3 >> 32));
  add(13);
  EXPECT_EQ(wholeChecksum(std::vector<std::byte>(13)).value, checksum(words));
}

// Any byte counts in the whole, also two signs that flip in one lane; samples count their pieces alone.
TEST(FileChecksum, NoticesChanges) {
  std::vector<std::byte> bytes(100000, std::byte(7));
  FileChecksum whole = wholeChecksum(bytes), sampled = sampledChecksum(bytes);
  EXPECT_FALSE(whole == sampled);
  for (size_t place : {size_t(0), size_t(5000), size_t(52000), bytes.size() - 1}) {
    auto changed = bytes;
    changed[place] ^= std::byte(0x80);
    EXPECT_FALSE(wholeChecksum(changed) == whole) << place;
    EXPECT_EQ(sampledChecksum(changed) == sampled, place == 5000) << place;
  }
  auto changed = bytes;
  changed[7] ^= std::byte(0x80), changed[71] ^= std::byte(0x80);
  EXPECT_FALSE(wholeChecksum(changed) == whole);
  changed.assign(bytes.begin(), bytes.end() - 1);
  EXPECT_FALSE(wholeChecksum(changed) == whole);
  EXPECT_FALSE(sampledChecksum(changed) == sampled);
}

// A file of the right size that holds another model's bytes would give wrong results in silence.
TEST_F(FolderSourceTest, RefusesOtherBytes) {
  FileSource file{"w.bin", 2, 3, wholeChecksum(std::as_bytes(std::span("234", 3)))};
  FolderSource source(top / "plan");
  EXPECT_TRUE(source.bytes(file));
  std::ofstream(top / "plan" / "w.bin") << "01934567";
  Error error = errorOf(file);
  EXPECT_EQ(error.status(), Status::Rejected);
  EXPECT_EQ(error.message(),
            "parameter file \"w.bin\" expects the bytes with which the plan was compiled, got others in "
            "the 3 at offset 2; it is damaged or another model's: compile the model again");
  file.checksum = {};
  EXPECT_EQ(errorOf(file).status(), Status::Success);
}

// Files in memory obey the same bounds.
TEST(MemorySource, GivesBytes) {
  MemorySource source;
  source.add("w", std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(source.bytes({"w", 1, 2})->size(), 2u);
  EXPECT_FALSE(source.bytes({"w", 2, 2}));
  EXPECT_EQ(source.bytes({"v", 0, 0}).error().message(), "parameter file \"v\" is not in memory");
}

std::vector<double> generated(const GeneratedSource &source, size_t count) {
  std::vector<double> values(count);
  generate(source, ElementType::F64, std::as_writable_bytes(std::span(values)));
  return values;
}

// SplitMix64 with seed 1234567 begins with 6457827717110365317 and 3203168211198807973 (the reference code's outputs).
TEST(Generator, IsSplitMix64) {
  auto values = generated({Distribution::Uniform, 0, 1, 1234567}, 2);
  EXPECT_EQ(values[0], std::ldexp(static_cast<double>(6457827717110365317u >> 11), -53));
  EXPECT_EQ(values[1], std::ldexp(static_cast<double>(3203168211198807973u >> 11), -53));
}

// Mean and deviation of many elements, within six standard errors.
TEST(Generator, HasMoments) {
  constexpr size_t count = 100000;
  auto moments = [](const std::vector<double> &values) {
    double sum = 0, squares = 0;
    for (double value : values) {
      sum += value;
      squares += value * value;
    }
    double mean = sum / count;
    return std::pair(mean, std::sqrt(squares / count - mean * mean));
  };
  auto [normalMean, normalDeviation] = moments(generated({Distribution::Normal, 3, 2, 7}, count));
  EXPECT_NEAR(normalMean, 3, 6 * 2 / std::sqrt(count));
  EXPECT_NEAR(normalDeviation, 2, 6 * 2 / std::sqrt(2.0 * count));
  auto [uniformMean, uniformDeviation] = moments(generated({Distribution::Uniform, -1, 1, 7}, count));
  EXPECT_NEAR(uniformMean, 0, 6 / std::sqrt(3.0 * count));
  EXPECT_NEAR(uniformDeviation, 1 / std::sqrt(3.0), 0.01);
}

// An element depends on seed and index alone: not on how many are made, nor on the type beyond rounding.
TEST(Generator, DependsOnIndexAlone) {
  GeneratedSource source{Distribution::Normal, 0, 1, 42};
  auto many = generated(source, 101), few = generated(source, 51);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  std::vector<float> floats(101);
  generate(source, ElementType::F32, std::as_writable_bytes(std::span(floats)));
  for (size_t i = 0; i != 101; ++i)
    EXPECT_EQ(floats[i], static_cast<float>(many[i]));
  // Large enough to be made in several parts at the same time.
  auto huge = generated(source, 1 << 19), prefix = generated(source, (1 << 18) + 1);
  EXPECT_TRUE(std::equal(prefix.begin(), prefix.end(), huge.begin()));
  EXPECT_TRUE(std::equal(many.begin(), many.end(), huge.begin()));
  source.seed = 43;
  EXPECT_NE(generated(source, 1)[0], many[0]);
}

} // namespace
} // namespace cleave::runtime
