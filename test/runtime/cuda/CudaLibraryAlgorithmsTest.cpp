// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file in which chosen algorithms are kept, and the real libraries' functions.

#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"

#include "runtime/drivers/cuda/CublasLtApi.h"
#include "runtime/drivers/cuda/CudnnApi.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <unistd.h>

namespace cleave::runtime {
namespace {

/// A file of the test's own, removed at its end.
struct TemporaryFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("cleave-algorithms-" + std::to_string(getpid()));
  TemporaryFile() { std::filesystem::remove(path); }
  ~TemporaryFile() { std::filesystem::remove(path); }
  std::string text() const {
    std::ostringstream stream;
    stream << std::ifstream(path).rdbuf();
    return stream.str();
  }
  void write(const std::string &text) const { std::ofstream(path, std::ios::binary) << text; }
};

// What one process has measured the next one need not; the last word on a key counts.
TEST(CudaAlgorithmCache, KeepsEntriesInAFile) {
  TemporaryFile file;
  CudaAlgorithmCache first(file.path);
  EXPECT_FALSE(first.find("cublaslt 1 H100: matmul"));
  first.insert("cublaslt 1 H100: matmul", "12 ab ");
  first.insert("cudnn 9 H100: convolution", "1 3 0");
  first.insert("cudnn 9 H100: convolution", "6 3 1");
  CudaAlgorithmCache second(file.path);
  EXPECT_EQ(second.find("cublaslt 1 H100: matmul"), "12 ab ");
  EXPECT_EQ(second.find("cudnn 9 H100: convolution"), "6 3 1");
  EXPECT_FALSE(second.find("cublaslt 2 H100: matmul"));
}

// A file that was cut off, edited, or is something else altogether must not decide anything.
TEST(CudaAlgorithmCache, IgnoresDamagedLines) {
  TemporaryFile file;
  CudaAlgorithmCache(file.path).insert("a", "1");
  CudaAlgorithmCache(file.path).insert("b", "2");
  std::string text = file.text();
  auto known = [](std::string_view key) { return std::string(key == "a" ? "1" : "2"); };
  for (size_t i = 0; i != text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    file.write(damaged);
    CudaAlgorithmCache cache(file.path);
    for (const char *key : {"a", "b"})
      EXPECT_EQ(cache.find(key).value_or(known(key)), known(key)) << "byte " << i;
  }
  for (size_t length = 0; length <= text.size(); ++length) {
    file.write(text.substr(0, length));
    CudaAlgorithmCache cache(file.path);
    cache.insert("c", "3");
    EXPECT_EQ(CudaAlgorithmCache(file.path).find("c"), "3") << "after " << length << " bytes";
  }
  file.write(std::string("\0\t\xff\t\n\n\t\t\t\n", 10));
  EXPECT_FALSE(CudaAlgorithmCache(file.path).find(""));
}

// A file that cannot be written keeps nobody from working.
TEST(CudaAlgorithmCache, WorksWithoutItsFile) {
  CudaAlgorithmCache cache("/nowhere/at/all");
  cache.insert("a", "1");
  EXPECT_EQ(cache.find("a"), "1");
}

/// Every function of the table is in the library that is installed, with the type that its header has.
template <typename Table> void expectComplete(const char *what) {
  replaceCudaLibrary<Table>(nullptr);
  auto library = cudaLibrary<Table>();
  if (!library && library.error().message().find("is not on this machine") != std::string::npos)
    GTEST_SKIP() << library.error().message();
  ASSERT_TRUE(library) << library.error().text();
  Table copy = **library;
  for (const CudaFunction &function : copy.functions())
    EXPECT_NE(*function.place, nullptr) << what << ' ' << function.name;
}

// A name that a version of the library lacks would be found on a machine with a GPU only.
TEST(CudaLibraryTables, LoadAllOfCublasLt) { expectComplete<CublasLt>("cublaslt"); }
TEST(CudaLibraryTables, LoadAllOfCudnn) { expectComplete<Cudnn>("cudnn"); }

} // namespace
} // namespace cleave::runtime
