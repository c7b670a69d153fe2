// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loading CUDA's libraries. They can be loaded where there is no GPU.

#include "SimulatedCuda.h"

#include "runtime/drivers/cuda/CudaApi.h"

#include <gtest/gtest.h>

namespace cleave::runtime::test {
namespace {

// A function that is misspelled, renamed by a header or gone in a newer toolkit would be found at a customer's first.
TEST(CudaApiTest, FindsAllFunctions) {
  CudaRuntime table;
  Error error = openCudaLibrary(CudaRuntime::file(), table.functions());
  if (error && error.message().find("is not on this machine") != std::string::npos)
    GTEST_SKIP() << "there is no toolkit";
  EXPECT_FALSE(error) << error.text();
  for (const CudaFunction &function : table.functions())
    EXPECT_NE(*function.place, nullptr) << function.name;
}

// People must learn what is missing and what to do.
TEST(CudaApiTest, SaysWhatIsMissing) {
  const char *files[] = {"libnothing.so.1", "libnothing.so"};
  Error error = openCudaLibrary({"the library of nothing", files, "install it"}, {});
  EXPECT_EQ(error.status(), Status::Unsupported);
  EXPECT_NE(error.message().find("the library of nothing is not on this machine"), std::string::npos) << error.text();
  EXPECT_NE(error.message().find("libnothing.so.1"), std::string::npos) << error.text();
  EXPECT_NE(error.message().find("install it"), std::string::npos) << error.text();

  const char *mathematics[] = {"libm.so.6"};
  void *place = nullptr;
  CudaFunction function{"cudaNothing", &place};
  error = openCudaLibrary({"the library of numbers", mathematics, ""}, {&function, 1});
  EXPECT_EQ(error.status(), Status::Unsupported);
  EXPECT_NE(error.message().find("lacks the function cudaNothing"), std::string::npos) << error.text();
}

// The simulation must stand in for every function that the driver may call.
TEST(CudaApiTest, SimulatesAllFunctions) {
  simulated::Cuda cuda;
  CudaRuntime table = **cudaRuntime();
  for (const CudaFunction &function : table.functions())
    EXPECT_NE(*function.place, nullptr) << function.name;
}

} // namespace
} // namespace cleave::runtime::test
