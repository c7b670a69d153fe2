// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program cleave-run as a shell sees it: arguments, streams, exit codes.

#include "PlanBuilder.h"

#ifdef CLEAVE_CUDA
#include "runtime/drivers/cuda/CudaApi.h"
#endif
#include "runtime/tensorfile/TensorFile.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

/// A folder with pipeline.plan (y = 2 x + 1), x.npy and y.npy.
class CleaveRunTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("cleave-run-tool-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    writeBytes("pipeline.plan", pipelinePlan("cpu").bytes());
    writeTensor("x.npy", {1, 2, 3, 4});
    writeTensor("y.npy", {3, 5, 7, 9});
    writeTensor("wrong.npy", {0, 0, 0, 0});
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void writeBytes(const char *file, const std::vector<std::byte> &bytes) {
    std::ofstream(folder / file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void writeTensor(const char *file, std::vector<float> values) {
    auto tensor = HostTensor::view({ElementType::F32, {4}, {}}, std::as_writable_bytes(std::span(values)));
    ASSERT_FALSE(writeTensorFile((folder / file).string(), *tensor));
  }
  std::string read(const char *file) const {
    std::ifstream in(folder / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The exit code; the streams are in the files `out` and "err".
  int run(const std::string &arguments, const std::string &out = "out") {
    std::string command = "cd '" + folder.string() + "' && '" CLEAVE_RUN "' " + arguments + " >" + out + " 2>err";
    // NOLINTNEXTLINE(bugprone-command-processor): what the shell makes of the program is what is tested
    int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::filesystem::path folder;
};

#ifdef CLEAVE_CUDA
// A plan for GPUs where there is none says what is missing, whether that is the library or the GPU.
TEST_F(CleaveRunTest, SaysThatThereIsNoGpu) {
  writeBytes("gpu.plan", pipelinePlan("cuda").bytes());
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  int code = run("gpu.plan");
  unsetenv("CUDA_VISIBLE_DEVICES");
  bool hasLibrary = bool(cudaRuntime());
  EXPECT_EQ(code, hasLibrary ? 5 : 3) << read("err");
  EXPECT_NE(read("err").find(hasLibrary ? "expects an NVIDIA GPU and its driver, got none: CUDA says: cudaError"
                                        : "the CUDA runtime is not on this machine"),
            std::string::npos)
      << read("err");
}
#endif

// Options before and after the plan; results on standard output, nothing on standard error.
TEST_F(CleaveRunTest, RunsPlan) {
  EXPECT_EQ(run("--input x=x.npy pipeline.plan --expect @0=y.npy --rtol 0 --atol 0 --output y=out.npy --repeat 3 "
                "--in-flight 2 --json run.json --trace trace.json"),
            0)
      << read("err");
  EXPECT_NE(read("out").find("3 steps"), std::string::npos);
  EXPECT_EQ(read("err"), "");
  EXPECT_EQ(read("out.npy"), read("y.npy"));
  EXPECT_FALSE(read("run.json").empty());
  EXPECT_FALSE(read("trace.json").empty());
}

// Each kind of failure has its exit code and a line on standard error.
TEST_F(CleaveRunTest, ReportsFailures) {
  EXPECT_EQ(run("pipeline.plan --input x=x.npy --expect y=wrong.npy"), 6);
  EXPECT_NE(read("err").find("error: output \"y\": 4 of 4 elements differ"), std::string::npos) << read("err");
  EXPECT_EQ(run("none.plan"), 1);
  EXPECT_NE(read("err").find("error: cannot open \"none.plan\""), std::string::npos) << read("err");
  EXPECT_EQ(run("x.npy"), 4);
  EXPECT_NE(read("err").find("not a plan"), std::string::npos) << read("err");
  EXPECT_EQ(run(""), 2);
  EXPECT_EQ(run("pipeline.plan --repeat 0"), 2);
  EXPECT_EQ(run("pipeline.plan --colour blue"), 2);
  EXPECT_EQ(run("pipeline.plan --input z=x.npy"), 2);
}

// Whoever does not trust a plan's author runs none of the plan's code, whether or not something calls it.
TEST_F(CleaveRunTest, RefusesNativeCode) {
  EXPECT_EQ(run("--no-native pipeline.plan --input x=x.npy"), 4);
  EXPECT_NE(read("err").find("pipeline.plan: kernel \"twice\" is native code, which --no-native refuses"),
            std::string::npos)
      << read("err");
  EXPECT_EQ(run("--no-native train pipeline.plan --data x.npy"), 4);
  EXPECT_NE(read("err").find("which --no-native refuses"), std::string::npos) << read("err");
  PlanBuilder unused = pipelinePlan("null");
  unused.plan.kernels.clear();
  writeBytes("unused.plan", unused.bytes());
  EXPECT_EQ(run("--no-native unused.plan"), 4);
  EXPECT_NE(read("err").find("an object that no kernel uses is native code"), std::string::npos) << read("err");
}

// Results that nobody got are a failure, unless something else went wrong first.
TEST_F(CleaveRunTest, NeedsStandardOutput) {
  const std::string full = "error: cannot write standard output: No space left on device\n";
  EXPECT_EQ(run("pipeline.plan --input x=x.npy", "/dev/full"), 1);
  EXPECT_EQ(read("err"), full);
  EXPECT_EQ(run("--help", "/dev/full"), 1);
  EXPECT_EQ(read("err"), full);
  EXPECT_EQ(run("pipeline.plan --input x=x.npy --expect y=wrong.npy", "/dev/full"), 6);
  EXPECT_NE(read("err").find("error: cannot write standard output"), std::string::npos) << read("err");
}

// Collectives are measured without a plan; a plan as well, or neither, is a mistake.
TEST_F(CleaveRunTest, MeasuresCollectives) {
  EXPECT_EQ(run("--collectives --operations all_reduce,all_gather,reduce_scatter,all_to_all,broadcast,permute,send "
                "--sizes 48KiB --devices 3 --json c.json"),
            0)
      << read("err");
  for (const char *part : {"all_reduce           49152", "send                 49152"})
    EXPECT_NE(read("out").find(part), std::string::npos) << read("out");
  EXPECT_NE(read("c.json").find("\"busbw\": "), std::string::npos);
  EXPECT_EQ(run("--collectives pipeline.plan"), 2);
  EXPECT_EQ(run("--collectives --sizes 10"), 2);
  EXPECT_NE(read("err").find("expects sizes that 2 devices can share"), std::string::npos);
  EXPECT_EQ(run("--collectives --operations dance"), 2);
}

// Wrong options are said as cleave says them, without the 309 digits of the largest number.
TEST_F(CleaveRunTest, SaysWhatOptionsExpect) {
  const std::string note = "note: cleave-run --help shows what there is\n";
  EXPECT_EQ(run("pipeline.plan --rtol -1"), 2);
  EXPECT_EQ(read("err"), "error: --rtol: expects a number from 0 on, got -1\n" + note);
  EXPECT_EQ(run("pipeline.plan --repeat 0"), 2);
  EXPECT_EQ(read("err"), "error: --repeat: expects a number above 0, got 0\n" + note);
  EXPECT_EQ(run("pipeline.plan --colour"), 2);
  EXPECT_EQ(read("err"), "error: cleave-run has no option --colour\n" + note);
}

// The parameters' files are looked for beside the plan, wherever it is run from.
TEST_F(CleaveRunTest, FindsParametersBesidePlan) {
  std::filesystem::create_directories(folder / "sub");
  std::ofstream(folder / "sub" / "w.bin", std::ios::binary)
      .write("\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f", 16); // four times 1.0
  PlanBuilder builder = pipelinePlan("cpu");
  fb::FileSourceT file;
  file.file = "w.bin";
  file.bytes = 16;
  builder.plan.parameters[0]->source.Set(std::move(file));
  writeBytes("sub/file.plan", builder.bytes());
  EXPECT_EQ(run("sub/file.plan --input x=x.npy --expect y=y.npy"), 0) << read("err");
  writeBytes("file.plan", builder.bytes());
  EXPECT_EQ(run("file.plan --input x=x.npy"), 1);
  EXPECT_NE(read("err").find("parameter file \"w.bin\""), std::string::npos) << read("err");
}

// JSON has standard output for itself.
TEST_F(CleaveRunTest, GivesJsonStandardOutput) {
  EXPECT_EQ(run("pipeline.plan --input x=x.npy --json -"), 0) << read("err");
  EXPECT_TRUE(read("out").starts_with("{\n")) << read("out");
  EXPECT_TRUE(read("out").ends_with("}\n")) << read("out");
}

} // namespace
} // namespace cleave::runtime::test
