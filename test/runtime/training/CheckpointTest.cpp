// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checkpoints: what is written is read, what is damaged is noticed, and two are kept.

#include "runtime/training/Manifest.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/resource.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("cleave-checkpoint-test-" + std::to_string(getpid()));
    fs::remove_all(folder);
    add("weight", {ElementType::F32, {3, 5}, std::nullopt});
    add("a name\nof \\ two lines", {ElementType::I8, {7}, std::nullopt});
    add("train/step", {ElementType::I64, {}, std::nullopt});
  }
  void TearDown() override { fs::remove_all(folder); }

  void add(const std::string &name, TensorType type) {
    HostTensor tensor = *HostTensor::allocate(std::move(type));
    for (std::byte &byte : tensor.bytes())
      byte = static_cast<std::byte>(next++);
    tensors.push_back({name, tensor});
  }
  void write(uint64_t steps) {
    auto opened = CheckpointFolder::open(folder);
    ASSERT_TRUE(opened) << opened.error().text();
    position.steps = steps;
    Error error = opened->write(position, tensors);
    ASSERT_FALSE(error) << error.text();
  }
  std::string read(const fs::path &file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void replace(const fs::path &file, const std::string &bytes) const {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }

  fs::path folder;
  std::vector<NamedTensor> tensors;
  TrainPosition position{0, 17, 3, 1200, 60000, 5, 0.1, 1100, 1200};
  unsigned char next = 0;
};

// Everything comes back, to the last bit.
TEST_F(CheckpointTest, ReadsWhatWasWritten) {
  write(120);
  auto checkpoint = readCheckpoint(folder / "step-120");
  ASSERT_TRUE(checkpoint) << checkpoint.error().text();
  EXPECT_EQ(checkpoint->position, position);
  ASSERT_EQ(checkpoint->tensors.size(), tensors.size());
  for (size_t i = 0; i != tensors.size(); ++i) {
    EXPECT_EQ(checkpoint->tensors[i].name, tensors[i].name);
    EXPECT_EQ(checkpoint->tensors[i].tensor.type(), tensors[i].tensor.type());
    EXPECT_TRUE(std::ranges::equal(checkpoint->tensors[i].tensor.bytes(), tensors[i].tensor.bytes()));
  }
}

// Two are kept, and nothing else is in the folder.
TEST_F(CheckpointTest, KeepsTheLastTwo) {
  for (uint64_t steps : {5, 10, 15, 20})
    write(steps);
  EXPECT_EQ(CheckpointFolder::steps(folder), (std::vector<uint64_t>{20, 15}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
}

// Any byte that changes, or is missing, is noticed, and the checkpoint before serves.
TEST_F(CheckpointTest, SkipsDamagedOnes) {
  write(1);
  write(2);
  for (const char *name : {"manifest", "tensors"}) {
    fs::path file = folder / "step-2" / name;
    const std::string good = read(file);
    auto expectSkipped = [&](const std::string &bytes) {
      replace(file, bytes);
      unsigned skipped = 0;
      auto latest = CheckpointFolder::readLatest(folder, [&](const Error &error) {
        ++skipped;
        EXPECT_EQ(error.status(), Status::Rejected);
        EXPECT_NE(error.text().find("step-2"), std::string::npos) << error.text();
      });
      ASSERT_TRUE(latest);
      EXPECT_EQ(latest->position.steps, 1u);
      EXPECT_EQ(skipped, 1u);
    };
    for (size_t i = 0; i != good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 4);
      expectSkipped(bad);
    }
    for (size_t length : {size_t(0), good.size() / 2, good.size() - 1})
      expectSkipped(good.substr(0, length));
    expectSkipped(good + "x");
    fs::remove(file);
    EXPECT_FALSE(readCheckpoint(folder / "step-2"));
    replace(file, good);
  }
  EXPECT_TRUE(readCheckpoint(folder / "step-2"));
  // A run that goes on from the first writes the second again.
  replace(folder / "step-2" / "manifest", "nothing");
  write(2);
  EXPECT_TRUE(readCheckpoint(folder / "step-2"));
}

// A manifest that is whole but says something else is not trusted either.
TEST_F(CheckpointTest, RefusesOtherManifests) {
  write(1);
  auto parsed = Manifest::parse(read(folder / "step-1" / "manifest"));
  ASSERT_TRUE(parsed);
  auto refuse = [&](const Manifest &manifest, const std::string &text) {
    replace(folder / "step-1" / "manifest", manifest.text());
    auto checkpoint = readCheckpoint(folder / "step-1");
    ASSERT_FALSE(checkpoint);
    EXPECT_NE(checkpoint.error().text().find(text), std::string::npos) << checkpoint.error().text();
  };
  Manifest far = *parsed;
  far.tensors[0].offset = 1 << 20;
  refuse(far, "tensor \"weight\" is not in its file");
  Manifest huge = *parsed;
  huge.tensors[0].type.shape = {INT64_MAX, INT64_MAX};
  refuse(huge, "tensor \"weight\" is not in its file");
  Manifest other = *parsed;
  other.tensorBytes += 1;
  refuse(other, "its tensors expect");
  auto seal = [](std::string text) {
    Fnv1a sum;
    sum.add(std::as_bytes(std::span(text)));
    std::ostringstream line;
    line << text << "checksum " << std::hex << sum.value() << "\n";
    return line.str();
  };
  for (const char *line :
       {"cleave checkpoint 2\n", "cleave checkpoint 1\ncolour blue\n", "cleave checkpoint 1\nsteps -1\n",
        "cleave checkpoint 1\nsteps 1 2\n", "cleave checkpoint 1\ntensor 0 f31 [1] w\n",
        "cleave checkpoint 1\ntensor 0 f32 [1;2] w\n", "cleave checkpoint 1\ntensor 0 f32 1 w\n",
        // A batch behind so many samples would begin at one that wraps around.
        "cleave checkpoint 1\nsample 18446744073709551608\n", "cleave checkpoint 1\nepoch 4611686018427387904\n"}) {
    auto wrong = Manifest::parse(seal(line));
    ASSERT_FALSE(wrong) << line;
    EXPECT_NE(wrong.error().text().find("of its manifest expects what this version writes"), std::string::npos);
  }
}

// Two runs do not write into one folder, and what a killed one has left goes away.
TEST_F(CheckpointTest, LocksItsFolder) {
  fs::create_directories(folder / ".step-7.part");
  auto opened = CheckpointFolder::open(folder);
  ASSERT_TRUE(opened) << opened.error().text();
  EXPECT_FALSE(fs::exists(folder / ".step-7.part"));
  auto second = CheckpointFolder::open(folder);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text().find("another process writes checkpoints into"), std::string::npos);
  replace(folder / "file", "");
  EXPECT_FALSE(CheckpointFolder::open(folder / "file"));
}

// A folder that takes no files is refused before there is anything to write.
TEST_F(CheckpointTest, NeedsFolderForFiles) {
  auto opened = CheckpointFolder::open("/proc/self/task");
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text().find("checkpoint folder \"/proc/self/task\" expects to take new files, got"),
            std::string::npos)
      << opened.error().text();
}

// Where there is no room nothing stays behind that takes some, and the checkpoint before is still there.
TEST_F(CheckpointTest, LeavesNothingWithoutRoom) {
  write(1);
  add("large", {ElementType::F32, {1000}, std::nullopt});
  auto opened = CheckpointFolder::open(folder);
  ASSERT_TRUE(opened) << opened.error().text();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto *handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  position.steps = 2;
  Error error = opened->write(position, tensors);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(error);
  EXPECT_EQ(error.text(), "cannot write checkpoint \"" + (folder / "step-2").string() + "\": File too large");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  EXPECT_TRUE(readCheckpoint(folder / "step-1"));
}

} // namespace
} // namespace cleave::runtime::test
