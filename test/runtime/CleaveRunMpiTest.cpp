// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cleave-run under mpirun as a shell sees it: the same plans and files as without, on several processes.

#include "MpiRun.h"
#include "PlanBuilder.h"
#include "TileReference.h"

#include "runtime/tensorfile/TensorFile.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

/// y = 2 x in blocks of rows over four devices, z the sum of all devices' x blocks' halves: loads, a kernel, an
/// all-gather, an all-reduce, and a store of blocks.
PlanBuilder meshPlan() {
  constexpr int64_t size = 10;
  PlanBuilder builder;
  Mesh mesh = meshOf({4});
  Tile rows{{blocks(size, {0}, mesh)}};
  uint32_t program = builder.mesh("m", {4});
  uint32_t x = builder.input("x", size), y = builder.output("y", size), z = builder.output("z", size);
  int64_t length = rows.dims[0].length;
  uint32_t in = builder.buffer(program, "in", length), out = builder.buffer(program, "out", length);
  uint32_t gathered = builder.buffer(program, "gathered", size), sum = builder.buffer(program, "sum", size);
  int32_t tile = builder.tile(rows);
  Point loaded = builder.loadInput(program, x, in);
  builder.program(program).body.back()->action.AsLoadInput()->tile = tile;
  Point doubled = builder.call(program, "double", builder.kernel("twice", 1, length), {in, out}, {loaded});
  builder.storeOutput(program, y, out, {doubled});
  builder.program(program).body.back()->action.AsStoreOutput()->tile = tile;
  fb::ExchangeT gather;
  gather.source = in;
  gather.target = gathered;
  gather.source_tile = tile;
  builder.act(program, "gather", gather, {loaded});
  fb::AllReduceT reduce;
  reduce.source = gathered;
  reduce.target = sum;
  reduce.axes = {0};
  reduce.channel = 1;
  builder.storeOutput(program, z, sum, {builder.act(program, "reduce", reduce)});
  return builder;
}

class CleaveRunMpiTest : public testing::Test {
protected:
  void SetUp() override {
    if (!MpiRun::isPossible())
      GTEST_SKIP() << "there is no mpirun";
    folder = std::filesystem::temp_directory_path() / ("cleave-run-mpi-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    writePlan("pipeline.plan", pipelinePlan("cpu"));
    writePlan("mesh.plan", meshPlan());
    writeTensor("x.npy", {1, 2, 3, 4});
    writeTensor("y.npy", {3, 5, 7, 9});
    std::vector<float> x, y, z;
    for (int i = 0; i != 10; ++i) {
      x.push_back(static_cast<float>(i));
      y.push_back(static_cast<float>(2 * i));
      z.push_back(static_cast<float>(4 * i));
    }
    writeTensor("x10.npy", x);
    writeTensor("y10.npy", y);
    writeTensor("z10.npy", z);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void writePlan(const char *file, const PlanBuilder &builder) {
    std::vector<std::byte> bytes = builder.bytes();
    std::ofstream(folder / file, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void writeTensor(const char *file, std::vector<float> values) {
    auto tensor = HostTensor::view({ElementType::F32, {static_cast<int64_t>(values.size())}, {}},
                                   std::as_writable_bytes(std::span(values)));
    ASSERT_FALSE(writeTensorFile((folder / file).string(), *tensor));
  }
  std::string read(const char *file) const {
    std::ifstream in(folder / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The exit code of mpirun with what follows its general options, words by spaces; the streams are in the files "out"
  /// and "err".
  int mpirun(const std::string &arguments) const {
    std::istringstream words(arguments);
    return MpiRun(folder, {std::istream_iterator<std::string>(words), {}}).wait(std::chrono::seconds(60)).value_or(-1);
  }
  /// How often `text` is in the file.
  size_t count(const char *file, const std::string &text) const { return countOf(read(file), text); }

  std::filesystem::path folder;
};

// One process a device, several devices a process, uneven and scattered: the same outputs, reported once, with the
// memory of all devices.
TEST_F(CleaveRunMpiTest, RunsPlan) {
  for (const char *division : {"-n 1 cleave-run", "-n 2 cleave-run", "-n 3 cleave-run", "-n 4 cleave-run",
                               "-n 2 cleave-run --devices-of-rank 0-2 --devices-of-rank 3",
                               "-n 2 cleave-run --devices-of-rank 1,3 --devices-of-rank 0,2"}) {
    EXPECT_EQ(mpirun(std::string(division) +
                     " mesh.plan --input x=x10.npy --expect y=y10.npy --expect z=z10.npy --rtol 0 --atol 0 --repeat 20 "
                     "--in-flight 3 --output z=out.npy --json run.json --trace trace.json"),
              0)
        << division << read("err");
    EXPECT_EQ(count("out", "20 steps"), 1u) << read("out");
    EXPECT_EQ(count("out", "equal, largest error 0"), 2u) << read("out");
    EXPECT_EQ(read("out.npy"), read("z10.npy"));
    for (const char *device : {"d0", "d1", "d2", "d3"}) {
      EXPECT_EQ(count("run.json", std::string("{\"name\": \"") + device +
                                      "\", \"planned_bytes\": 256, "
                                      "\"allocated_bytes\": 256"),
                1u)
          << read("run.json");
      EXPECT_EQ(count("trace.json", std::string("\"name\":\"process_name\",\"pid\":") + device[1]), 1u);
    }
    EXPECT_EQ(count("trace.json", "\"name\":\"double\""), 80u) << division;
  }
}

// Stages on different processes.
TEST_F(CleaveRunMpiTest, RunsPipeline) {
  EXPECT_EQ(mpirun("-n 2 cleave-run pipeline.plan --input x=x.npy --expect y=y.npy --repeat 50 --in-flight 4"), 0)
      << read("err");
}

// What is wrong is said once, before anything runs, with its usual exit code.
TEST_F(CleaveRunMpiTest, RefusesBeforeRunning) {
  EXPECT_EQ(mpirun("-n 3 cleave-run pipeline.plan --input x=x.npy"), 2);
  EXPECT_EQ(count("err", "error: the plan's 2 devices expect at most as many processes, got 3"), 1u) << read("err");
  EXPECT_EQ(mpirun("-n 2 cleave-run pipeline.plan --devices-of-rank 0 --devices-of-rank 0"), 2);
  EXPECT_EQ(count("err", "error: --devices-of-rank expects each device once, got 0 for ranks 0 and 1"), 1u);
  EXPECT_EQ(mpirun("-n 2 cleave-run pipeline.plan --devices-of-rank 0"), 2);
  EXPECT_EQ(count("err", "error: --devices-of-rank expects a list for each of the 2 processes, got 1"), 1u);
  EXPECT_EQ(mpirun("-n 2 cleave-run pipeline.plan --colour blue"), 2);
  EXPECT_EQ(mpirun("-n 1 cleave-run pipeline.plan : -n 1 cleave-run pipeline.plan --colour blue"), 2);
  EXPECT_EQ(count("err", "rank 1: "), 1u) << read("err");
  EXPECT_EQ(mpirun("-n 1 cleave-run pipeline.plan : -n 1 cleave-run --help"), 0);
  EXPECT_EQ(mpirun("-n 2 cleave-run none.plan"), 1);
  EXPECT_EQ(count("err", "error: cannot open \"none.plan\""), 1u) << read("err");
  EXPECT_EQ(mpirun("-n 1 cleave-run pipeline.plan : -n 1 cleave-run mesh.plan"), 4);
  EXPECT_EQ(count("err", "every process expects the same plan file, got another at rank 1"), 1u) << read("err");
  EXPECT_EQ(mpirun("-n 1 cleave-run pipeline.plan --repeat 2 : -n 1 cleave-run pipeline.plan"), 2);
  EXPECT_EQ(count("err", "every process expects the same options"), 1u) << read("err");
  EXPECT_EQ(mpirun("-n 1 env CLEAVE_CUDA_GRAPHS=0 cleave-run pipeline.plan : -n 1 cleave-run pipeline.plan"), 2);
  EXPECT_EQ(count("err", "every process expects the same options"), 1u) << read("err");
  EXPECT_EQ(mpirun("-n 1 cleave-run pipeline.plan : -n 1 cleave-run none.plan"), 1);
  EXPECT_EQ(count("err", "error: rank 1: cannot open \"none.plan\""), 1u) << read("err");
}

// Rank 0 compares.
TEST_F(CleaveRunMpiTest, TellsDifference) {
  EXPECT_EQ(mpirun("-n 2 cleave-run pipeline.plan --input x=x.npy --expect y=x.npy"), 6);
  EXPECT_EQ(count("err", "error: output \"y\": 4 of 4 elements differ"), 1u) << read("err");
}

// An instruction that fails on one rank ends all of them with its name.
TEST_F(CleaveRunMpiTest, EndsWithFailingRank) {
  PlanBuilder builder = pipelinePlan("cpu");
  fb::FileSourceT file;
  file.file = "w.bin";
  file.bytes = 16;
  builder.plan.parameters[0]->source.Set(std::move(file));
  writePlan("file.plan", builder);
  EXPECT_EQ(mpirun("-n 2 cleave-run file.plan --input x=x.npy"), 7);
  EXPECT_EQ(count("err", "error: rank 1: device \"b\", load parameter: parameter \"one\": "), 1u) << read("err");
  EXPECT_EQ(count("err", "note: at node \"one\""), 1u) << read("err");
}

// A process that dies ends all of them within seconds; it says what it was doing.
TEST_F(CleaveRunMpiTest, EndsWithDyingRank) {
  writePlan("crash.plan", pipelinePlan("cpu", "crash"));
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(mpirun("-n 2 cleave-run crash.plan --input x=x.npy --devices-of-rank 1 --devices-of-rank 0"), 7);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(count("err", "error: rank 1 is lost: signal 11 on device \"a\" in call at node \"first\""), 1u)
      << read("err");
}

} // namespace
} // namespace cleave::runtime::test
