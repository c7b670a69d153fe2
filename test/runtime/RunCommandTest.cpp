// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The run command, from tensor files to exit code, report and trace.

#include "PlanBuilder.h"

#include "runtime/Json.h"
#include "runtime/run/RunCommand.h"
#include "runtime/run/RunReport.h"
#include "runtime/tensorfile/TensorFile.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

/// Runs the pipeline y = 2 x + 1 on files in a folder of its own.
class RunCommandTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("cleave-run-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    write("x.npy", {1, 2, 3, 4});
    write("y.npy", {3, 5, 7, 9});
    options.inputs = {"x=" + at("x.npy")};
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string at(const char *file) const { return (folder / file).string(); }
  void write(const char *file, std::vector<float> values) {
    auto tensor = HostTensor::view({ElementType::F32, {static_cast<int64_t>(values.size())}, {}},
                                   std::as_writable_bytes(std::span(values)));
    Error error = writeTensorFile(at(file), *tensor);
    ASSERT_FALSE(error) << error.text();
  }
  std::string read(const char *file) const {
    std::ifstream in(folder / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int run(const char *driver = "cpu") {
    out.str("");
    err.str("");
    MemorySource none;
    return runPlan(pipelinePlan(driver).read(), none, options, out, err);
  }

  std::filesystem::path folder;
  RunOptions options;
  std::ostringstream out, err;
};

// The right answer is exit code 0, and the output file holds it.
TEST_F(RunCommandTest, ComparesAndWrites) {
  options.expects = {"@0=" + at("y.npy")};
  options.outputs = {"y=" + at("out.npy")};
  EXPECT_EQ(run(), 0) << err.str();
  EXPECT_NE(out.str().find("output \"y\" f32[4]: equal, largest error 0"), std::string::npos) << out.str();
  EXPECT_EQ(read("out.npy"), read("y.npy"));
  EXPECT_EQ(err.str(), "");
}

// A wrong answer is exit code 6 and says where it is worst.
TEST_F(RunCommandTest, TellsDifference) {
  write("wrong.npy", {3, 5, 70, 9});
  options.expects = {"y=" + at("wrong.npy")};
  EXPECT_EQ(run(), 6);
  EXPECT_EQ(err.str(),
            "error: output \"y\": 1 of 4 elements differ; worst at [2]: expected 70, got 7 (rtol 0.001, atol "
            "1e-05)\n");
  options.rtol = 0.9;
  EXPECT_EQ(run(), 0) << err.str();
}

// Programs read the JSON: the keys that they rely on are there, and memory is what the plan says.
TEST_F(RunCommandTest, WritesJson) {
  options.jsonFile = at("run.json");
  options.repeat = 5;
  options.inFlight = 2;
  EXPECT_EQ(run(), 0) << err.str();
  std::string json = read("run.json");
  for (const char *part : {"\"latency_ms\": {\"median\": ", "\"p10\": ", "\"p90\": ", "\"peak_bytes\": 192",
                           "\"planned_bytes\": 128, \"allocated_bytes\": 128", "\"steps\": 5"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
}

// Under the null driver latency is simulated time: with no costs given, none.
TEST_F(RunCommandTest, SimulatesNullDevices) {
  options.jsonFile = at("run.json");
  EXPECT_EQ(run("null"), 0) << err.str();
  EXPECT_NE(read("run.json").find("\"simulated\": true"), std::string::npos);
  EXPECT_NE(read("run.json").find("\"median\": 0,"), std::string::npos) << read("run.json");
}

// The trace names devices, queues, nodes and kernels the way that Perfetto shows them.
TEST_F(RunCommandTest, WritesTrace) {
  options.traceFile = at("trace.json");
  EXPECT_EQ(run(), 0) << err.str();
  std::string trace = read("trace.json");
  for (const char *part :
       {"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"b\"}}",
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":1,\"args\":{\"name\":\"send\"}}",
        "{\"ph\":\"X\",\"name\":\"second\",\"cat\":\"call\",\"pid\":1,\"tid\":0,\"ts\":", "\"kernel\":\"add\""})
    EXPECT_NE(trace.find(part), std::string::npos) << part << " in " << trace;
}

// An input without a file is filled, the same every time, and the user hears of it.
TEST_F(RunCommandTest, FillsMissingInputs) {
  options.inputs.clear();
  options.outputs = {"y=" + at("1.npy")};
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(err.str(), "notice: input \"x\" f32[4] has no file; filled with random numbers\n");
  options.outputs = {"y=" + at("2.npy")};
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(read("1.npy"), read("2.npy"));
}

// Mistakes on the command line are exit code 2 with what was expected.
TEST_F(RunCommandTest, RefusesBadBindings) {
  for (const char *binding : {"z=f.npy", "@1=f.npy", "@x=f.npy", "x", "x=", "=f", "", "@=f"}) {
    options.inputs = {binding};
    EXPECT_EQ(run(), 2) << binding;
    EXPECT_NE(err.str().find("--input expects NAME=FILE with NAME one of @0 \"x\", got"), std::string::npos)
        << err.str();
  }
  options.inputs = {"x=a.npy", "@0=b.npy"};
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(err.str(), "error: --input names \"x\" twice\n");
  options.inputs.clear();
  options.entry = "other";
  EXPECT_EQ(run(), 2);
}

// A tensor of another shape is refused with both types.
TEST_F(RunCommandTest, RefusesWrongShape) {
  write("x5.npy", {1, 2, 3, 4, 5});
  options.inputs = {"x=" + at("x5.npy")};
  EXPECT_EQ(run(), 1);
  EXPECT_NE(err.str().find("f32[4]"), std::string::npos) << err.str();
  EXPECT_NE(err.str().find("f32[5]"), std::string::npos) << err.str();
}

// An output that cannot be written is an error, and no half-written file is left.
TEST_F(RunCommandTest, ReportsUnwritableFiles) {
  options.jsonFile = at("none/run.json");
  EXPECT_EQ(run(), 1);
  EXPECT_NE(err.str().find("run.json"), std::string::npos) << err.str();
}

// A plan that does not verify is not run: exit code 4.
TEST_F(RunCommandTest, RefusesUnsoundPlan) {
  PlanBuilder builder = pipelinePlan("cpu");
  builder.program(0).body[1]->waits.clear();
  MemorySource none;
  EXPECT_EQ(runPlan(builder.read(), none, options, out, err), 4);
  EXPECT_NE(err.str().find("note: at node \"first\"\n"), std::string::npos) << err.str();
}

// The nearest sample to each quantile: of 1 to 11, the median is 6, the tenth percentiles 2 and 10.
TEST(RunReport, TakesQuantiles) {
  Latency latency = latencyOf({11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6});
  EXPECT_EQ(latency.median, 6);
  EXPECT_EQ(latency.p10, 2);
  EXPECT_EQ(latency.p90, 10);
  EXPECT_EQ(latencyOf({3}).p90, 3);
}

// RFC 8259: quotes, backslashes and control characters are escaped; what is not UTF-8 or not finite does not get in.
TEST(Json, WritesLiterals) {
  std::ostringstream out;
  out << JsonString{"a\"\\\n\xc3\xa9\xff\xc0\x80\xed\xa0\x80"} << JsonNumber{0.1} << JsonNumber{HUGE_VAL};
  EXPECT_EQ(out.str(), "\"a\\\"\\\\\\u000a\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"0.1null");
}

} // namespace
} // namespace cleave::runtime::test
