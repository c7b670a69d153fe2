// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The PTX that GPUs' drivers get from the cuda driver and from its tests.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

extern "C" const unsigned char cleaveLinksPtx[];
extern "C" const unsigned char cleaveEpiloguePtx[];
extern "C" const unsigned char cleaveProductsPtx[];

namespace cleave::runtime::test {
namespace {

std::string testKernels() {
  std::ifstream stream(CLEAVE_TEST_PTX);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<std::pair<std::string, std::string>> allCode() {
  return {{"Links", reinterpret_cast<const char *>(cleaveLinksPtx)},
          {"Epilogue", reinterpret_cast<const char *>(cleaveEpiloguePtx)},
          {"Products", reinterpret_cast<const char *>(cleaveProductsPtx)},
          {"TestKernels", testKernels()}};
}

// A GPU's driver refuses PTX of a newer version than it came with, whatever the code is: that of the toolkit would need
// the newest driver.
TEST(CudaPtxTest, IsForOldDrivers) {
  for (const auto &[name, text] : allCode()) {
    EXPECT_NE(text.find("\n.version 8.0\n"), std::string::npos) << name;
    EXPECT_NE(text.find("\n.target sm_80\n"), std::string::npos) << name;
  }
}

// The version is written over that of nvcc: the code must not need more.
TEST(CudaPtxTest, Assembles) {
  const std::string assembler = CLEAVE_CUDA_PROGRAMS "/ptxas";
  if (!std::filesystem::exists(assembler))
    GTEST_SKIP() << "there is no ptxas";
  const std::string file = testing::TempDir() + "cleave-ptx-" + std::to_string(getpid()) + ".ptx";
  for (const auto &[name, text] : allCode()) {
    std::ofstream(file) << text;
    const std::string command = assembler + " -arch=sm_80 " + file + " -o " + file + ".cubin";
    EXPECT_EQ(std::system(command.c_str()), 0) << name;
  }
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".cubin");
}

// Tests of overlap need a kernel that takes a while. The simulation has another function in its place.
TEST(CudaPtxTest, NapTakesTime) {
  std::string text = testKernels();
  size_t begin = text.find(".entry nap("), end = text.find("\n}", begin);
  ASSERT_NE(end, std::string::npos);
  std::string body = text.substr(begin, end - begin);
  size_t loop = body.find("\n$L"), branch = body.find("bra", loop);
  ASSERT_NE(branch, std::string::npos) << body;
  // To the loop's beginning, and for each sum.
  std::string label = body.substr(loop + 1, body.find(':', loop) - loop - 1);
  EXPECT_NE(body.find(label, branch), std::string::npos) << body;
  EXPECT_NE(body.substr(loop, branch - loop).find("0f3F000000"), std::string::npos) << body;
}

} // namespace
} // namespace cleave::runtime::test
