// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loading CUDA's libraries. They can be loaded where there is no GPU.

#include "SimulatedCuda.h"

#include "runtime/drivers/cuda/CublasLtApi.h"

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
  EXPECT_NE(error.message().find("libm.so.6 lacks the function cudaNothing"), std::string::npos) << error.text();
  // Some functions make things faster, no more.
  place = &place;
  function.isOptional = true;
  EXPECT_FALSE(openCudaLibrary({"the library of numbers", mathematics, ""}, {&function, 1}));
  EXPECT_EQ(place, nullptr);
}

/// Which of the test's libraries `open` takes; its version, or 0 and the error's text.
std::pair<int, std::string> take(std::vector<const char *> files, bool asksVersions = true) {
  void *place = nullptr;
  CudaFunction function{"cleaveFakeFunction", &place};
  CudaLibraryFile library{"the fake", files, "install it"};
  if (asksVersions)
    library.versions = CudaRuntime::file().versions;
  Error error = openCudaLibrary(library, {&function, 1});
  if (error)
    return {0, error.message()};
  return {reinterpret_cast<int (*)()>(place)(), ""};
}

// Machines have several versions: one that is older than the headers, or newer than the GPU's driver, must not keep the
// one that fits from being found.
TEST(CudaApiTest, PassesOverWhatDoesNotFit) {
  const char *lacking = CLEAVE_FAKE_LACKING, *newer = CLEAVE_FAKE_NEWER, *fitting = CLEAVE_FAKE_FITTING;
  EXPECT_EQ(take({fitting, newer}).first, 12000);
  EXPECT_EQ(take({newer, fitting}).first, 12000);
  EXPECT_EQ(take({lacking, "libnothing.so", newer, fitting}).first, 12000);
  EXPECT_EQ(take({newer, fitting}, /*asksVersions=*/false).first, 13000);
  std::string message = take({"libnothing.so", lacking, newer}).second;
  auto says = [&](std::string name, const char *text) { return message.find(name.append(text)) != std::string::npos; };
  EXPECT_TRUE(says(lacking, " lacks the function cleaveFakeFunction")) << message;
  EXPECT_TRUE(says(newer, " is for CUDA 13, and the GPU's driver for CUDA 12")) << message;
  EXPECT_EQ(message.find("libnothing.so"), std::string::npos) << message;
}

// Structures have the sizes that the headers say: a library of their version goes first.
TEST(CudaApiTest, PrefersTheVersionOfTheHeaders) {
  const std::string major = std::to_string(CUDART_VERSION / 1000);
  for (auto [library, stem] :
       {std::pair{CudaRuntime::file(), "libcudart.so."}, std::pair{CublasLt::file(), "libcublasLt.so."}}) {
    EXPECT_EQ(library.files.front(), stem + major);
    EXPECT_GE(library.files.size(), 2u);
    for (const char *other : library.files.subspan(1))
      EXPECT_NE(other, stem + major);
  }
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
