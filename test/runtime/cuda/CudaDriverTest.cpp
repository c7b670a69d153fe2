// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cuda driver on a simulated CUDA: what conformance does not ask, from graphs to lost GPUs.

#include "../PlanBuilder.h"
#include "SimulatedCuda.h"

#include "runtime/Executor.h"
#include "runtime/Trace.h"
#include "runtime/Verify.h"

#include <cstdlib>
#include <deque>
#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace cleave::runtime::test {
namespace {

/// Sets an environment variable as long as it lives.
class Variable {
public:
  Variable(std::string variable, const std::string &value) : name(std::move(variable)) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name.c_str()); }

private:
  const std::string name;
};

constexpr int64_t length = 8;

HostTensor vectorFrom(float value) {
  HostTensor tensor = *HostTensor::allocate({ElementType::F32, {length}, std::nullopt});
  for (float &element : tensor.as<float>())
    element = value++;
  return tensor;
}

std::vector<float> elementsOf(const HostTensor &tensor) {
  auto elements = tensor.as<float>();
  return {elements.begin(), elements.end()};
}

/// Training on two devices: w, divided over both, starts at 1; a step shows w as "old" and adds to it the sum of x over
/// both devices, which differs from device to device by what it keeps. Then entry "look" shows w + x.
///   main: part = half of x; all = gather(part); old = w; w += part + part of the reduction of all
PlanBuilder trainingPlan(const std::string &driver) {
  PlanBuilder builder(driver);
  builder.entry().samples = length;
  uint32_t mesh = builder.mesh("pair", {2});
  uint32_t w = builder.constant("w", length, 1), add = builder.kernel("add", 2, length / 2);
  Tile half;
  half.dims = {{length, {{0, length / 2}}, length / 2}};
  for (bool trains : {true, false}) {
    if (!trains)
      builder.addEntry("look", length);
    int32_t tile = builder.tile(half);
    builder.input("x", length);
    builder.output(trains ? "old" : "sum", length);
    uint32_t kept = builder.buffer(mesh, "w", length / 2), part = builder.buffer(mesh, "x", length / 2);
    uint32_t shown = builder.buffer(mesh, "shown", length / 2), total = builder.buffer(mesh, "total", length / 2);
    builder.keep(mesh, w, kept, tile);
    fb::LoadInputT load;
    load.buffer = part;
    load.tile = tile;
    Point ready = builder.act(mesh, "x", load, {}, HostQueue);
    Point done{};
    if (trains) {
      fb::AllReduceT reduce;
      reduce.source = part;
      reduce.target = total;
      reduce.axes = {0};
      Point reduced = builder.act(mesh, "sum", reduce, {ready});
      done = builder.copy(mesh, "show", kept, shown);
      builder.call(mesh, "learn", add, {kept, total, kept}, {reduced});
    } else {
      done = builder.call(mesh, "show", add, {kept, part, shown}, {ready});
    }
    fb::StoreOutputT store;
    store.buffer = shown;
    store.tile = tile;
    builder.act(mesh, "shown", store, {done}, HostQueue);
  }
  return builder;
}

/// What trainingPlan computes, in plain loops.
struct Training {
  std::vector<float> w = std::vector<float>(length, 1);
  std::vector<float> learn(float x) {
    std::vector<float> old = w;
    for (int64_t i = 0; i != length; ++i) {
      int64_t at = i % (length / 2);
      w[i] += (x + static_cast<float>(at)) + (x + static_cast<float>(at + length / 2));
    }
    return old;
  }
  std::vector<float> look(float x) const {
    std::vector<float> sum = w;
    for (int64_t i = 0; i != length; ++i)
      sum[i] += x + static_cast<float>(i);
    return sum;
  }
};

class CudaDriverTest : public testing::Test {
protected:
  void simulate(simulated::Options options) {
    executor.reset();
    cuda.reset();
    cuda = std::make_unique<simulated::Cuda>(options);
  }
  Error create(const PlanBuilder &builder, const std::vector<std::string> &entries = {"main"}, Trace *trace = nullptr) {
    Plan plan = builder.read();
    if (Error unsound = verifyPlan(plan))
      return unsound;
    ExecutorOptions options;
    options.trace = trace;
    auto made = Executor::create(plan, entries, values, options);
    if (made)
      executor = std::move(*made);
    return made.error();
  }
  Ticket start(uint32_t entry, float value) {
    outputs.push_back(vectorFrom(-100));
    auto ticket = executor->submit(entry, {vectorFrom(value)}, {outputs.back()});
    EXPECT_TRUE(ticket) << ticket.error().text();
    return ticket ? *ticket : 0;
  }
  /// The error of a step on `value`; the output is the last of `outputs`.
  Error run(float value, uint32_t entry = 0) { return executor->wait(start(entry, value)).error(); }
  void TearDown() override {
    executor.reset();
    if (cuda) {
      EXPECT_EQ(cuda->misuse(), "");
    }
  }

  std::unique_ptr<simulated::Cuda> cuda;
  MemorySource values;
  std::unique_ptr<Executor> executor;
  std::vector<HostTensor> outputs;
};

/// Steps of both entries, several in flight, must give what plain loops give, and so must the state afterwards.
void trainAndLook(Executor &executor, unsigned steps, unsigned inFlight) {
  Training expected;
  struct Flight {
    Ticket ticket;
    HostTensor output;
    std::vector<float> values;
  };
  std::deque<Flight> flights; // all of them: their outputs must live until they are over
  size_t finished = 0;
  auto finish = [&] {
    const Flight &flight = flights[finished++];
    auto times = executor.wait(flight.ticket);
    EXPECT_TRUE(times) << times.error().text();
    EXPECT_EQ(elementsOf(flight.output), flight.values);
  };
  for (unsigned step = 0; step != steps; ++step) {
    bool looks = step % 5 == 4;
    auto x = static_cast<float>(step);
    HostTensor output = vectorFrom(-100);
    auto ticket = executor.submit(looks, {vectorFrom(x)}, {output});
    ASSERT_TRUE(ticket) << ticket.error().text();
    flights.push_back({*ticket, output, looks ? expected.look(x) : expected.learn(x)});
    if (flights.size() - finished == inFlight)
      finish();
  }
  while (finished != flights.size())
    finish();
  HostTensor kept = vectorFrom(0);
  Error error = executor.readState(0, kept);
  EXPECT_FALSE(error) << error.text();
  EXPECT_EQ(elementsOf(kept), expected.w);
}

// Graphs, eager steps and careful ones give the same, on one GPU and on two, whatever the order of streams; parameters
// that steps write last from step to step, and entries take turns on one arena.
TEST_F(CudaDriverTest, TrainsInEveryMode) {
  for (uint64_t seed = 0; seed != 12; ++seed)
    for (const char *mode : {"CLEAVE_NOTHING=1", "CLEAVE_CUDA_GRAPHS=0", "CLEAVE_CUDA_SYNC=1"}) {
      std::string setting = mode;
      size_t equals = setting.find('=');
      Variable variable(setting.substr(0, equals), setting.substr(equals + 1));
      simulate({.seed = seed, .gpus = 1 + static_cast<int>(seed / 6)});
      Error error = create(trainingPlan("cuda"), {"main", "look"});
      ASSERT_FALSE(error) << error.text();
      trainAndLook(*executor, 23, 1 + seed % 4);
      EXPECT_EQ(cuda->graphLaunches() != 0, setting == "CLEAVE_NOTHING=1") << setting;
      // Two of each entry, however fast steps end.
      EXPECT_EQ(cuda->graphs(), setting == "CLEAVE_NOTHING=1" ? 4u : 0u) << setting;
      executor.reset();
      EXPECT_EQ(cuda->misuse(), "") << "seed " << seed << ", " << setting;
    }
}

// The plan is the same for all drivers: the cpu driver must agree with what the tests here expect.
TEST_F(CudaDriverTest, AgreesWithCpu) {
  Error error = create(trainingPlan("cpu"), {"main", "look"});
  ASSERT_FALSE(error) << error.text();
  trainAndLook(*executor, 23, 3);
}

// What CUDA does not record as a graph runs without one, and so does what a GPU has no memory for: graphs are placed
// there by their first launch, if by nothing else, and then it is too late.
TEST_F(CudaDriverTest, RunsWithoutGraphsWhereItMust) {
  for (bool captures : {false, true}) {
    simulate({.captures = captures, .holdsGraphs = false});
    Error error = create(trainingPlan("cuda"), {"main", "look"});
    ASSERT_FALSE(error) << error.text();
    testing::internal::CaptureStderr();
    trainAndLook(*executor, 23, 3);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("without a CUDA graph"), std::string::npos);
    EXPECT_EQ(cuda->graphLaunches(), 0u);
    executor.reset();
    EXPECT_EQ(cuda->misuse(), "");
  }
}

/// An event on the clock of all.
Trace::Event lastOf(const Trace &trace, uint32_t device, const std::string &node) {
  Trace::Event last = {};
  for (const Trace::Track &track : trace.tracks())
    for (const Trace::Event &event : track.events)
      if (track.device == device && event.instruction->node == node)
        last = event;
  return last;
}

// CUDA's times are float32: years after the clock was set they would be whole seconds.
TEST_F(CudaDriverTest, TracesLongRuns) {
  Trace trace;
  simulate({.gpus = 2});
  cuda->setKernel("add", [](const uint64_t *) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  ASSERT_FALSE(create(trainingPlan("cuda"), {"main"}, &trace));
  for (unsigned step = 0; step != 3; ++step) {
    ASSERT_FALSE(run(1));
    for (uint32_t device : {0, 1}) {
      Trace::Event event = lastOf(trace, device, "learn");
      EXPECT_GE(event.end - event.begin, 4900000) << "step " << step << " on device " << device;
      EXPECT_LE(event.end - event.begin, 1000000000) << "step " << step << " on device " << device;
    }
    cuda->pass(1e8);
  }
}

// What devices do together ends on all of them at one time, also where the host hears late of what a GPU did.
TEST_F(CudaDriverTest, TracesSeveralGpusOnOneClock) {
  Trace trace;
  simulate({.gpus = 2, .lateMilliseconds = 60});
  ASSERT_FALSE(create(trainingPlan("cuda"), {"main"}, &trace));
  ASSERT_FALSE(run(1));
  EXPECT_LE(std::abs(lastOf(trace, 0, "sum").end - lastOf(trace, 1, "sum").end), 20000000);
}

// While one executor records a graph others begin, step and show their parameters on the same GPU.
TEST_F(CudaDriverTest, LeavesCapturesOfOthersAlone) {
  simulate({.gpus = 2});
  const CudaRuntime &runtime = **cudaRuntime();
  std::promise<void> captures, mayEnd;
  std::thread other([&] {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(runtime.cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(runtime.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(runtime.cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    captures.set_value();
    mayEnd.get_future().wait();
    EXPECT_EQ(runtime.cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(runtime.cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(runtime.cudaStreamDestroy(stream), cudaSuccess);
  });
  captures.get_future().wait();
  Error error = create(trainingPlan("cuda"), {"main", "look"});
  EXPECT_FALSE(error) << error.text();
  if (!error)
    trainAndLook(*executor, 7, 2);
  mayEnd.set_value();
  other.join();
}

// The driver's kernels are many, and translating them takes seconds: executors of a process share them. GPUs that one
// has connected stay so for the next.
TEST_F(CudaDriverTest, SharesItsKernels) {
  simulate({.gpus = 2});
  ASSERT_FALSE(create(trainingPlan("cuda")));
  ASSERT_FALSE(run(1));
  auto first = std::move(executor);
  ASSERT_FALSE(create(trainingPlan("cuda")));
  ASSERT_FALSE(run(1));
  EXPECT_EQ(cuda->libraries(), 3u); // of each plan, and the one
}

// A launch that CUDA refuses fails its step, by name; the next step is as good as ever.
TEST_F(CudaDriverTest, SurvivesRefusedLaunch) {
  for (bool graphs : {false, true}) {
    Variable variable("CLEAVE_CUDA_GRAPHS", graphs ? "1" : "0");
    simulate({.seed = 3});
    ASSERT_FALSE(create(trainingPlan("cuda")));
    Training expected;
    for (unsigned step = 0; step != 6; ++step) {
      // In the first step, which runs carefully, and in a later one.
      bool fails = step == 0 || (step == 3 && !graphs);
      if (fails)
        cuda->failKernel("add", cudaErrorLaunchOutOfResources, /*late=*/false);
      Error error = run(1);
      EXPECT_EQ(bool(error), fails) << error.text();
      if (fails) {
        EXPECT_EQ(error.status(), Status::Failure);
        EXPECT_EQ(error.node(), "learn");
        EXPECT_NE(error.message().find("device \"d"), std::string::npos) << error.text();
        EXPECT_NE(error.message().find("cudaErrorLaunchOutOfResources"), std::string::npos) << error.text();
        // What the device before it had done stays done: start anew.
        ASSERT_FALSE(create(trainingPlan("cuda")));
        expected = {};
        continue;
      }
      EXPECT_EQ(elementsOf(outputs.back()), expected.learn(1));
    }
  }
}

// A fault on the GPU ends its step and all later ones, quickly; the first step, and all with CLEAVE_CUDA_SYNC=1, name
// the node, and the others say how to learn it.
TEST_F(CudaDriverTest, GivesUpLostGpus) {
  for (const char *mode : {"graphs", "eager", "careful"})
    for (unsigned faultyStep : {0, 2}) {
      std::string name = mode;
      Variable graphs("CLEAVE_CUDA_GRAPHS", name == "graphs" ? "1" : "0"),
          sync("CLEAVE_CUDA_SYNC", name == "careful" ? "1" : "0");
      simulate({.seed = faultyStep + 1});
      ASSERT_FALSE(create(trainingPlan("cuda")));
      std::vector<Ticket> tickets;
      for (unsigned step = 0; step != 6; ++step) {
        if (step == faultyStep)
          cuda->failKernel("add", cudaErrorIllegalAddress, /*late=*/true);
        Error error = run(1);
        EXPECT_EQ(bool(error), step >= faultyStep) << name << ", step " << step;
        if (step < faultyStep)
          continue;
        EXPECT_EQ(error.status(), Status::Lost);
        EXPECT_NE(error.message().find("cudaErrorIllegalAddress"), std::string::npos) << error.text();
        bool knowsNode = step == 0 || name == "careful";
        if (step == faultyStep && knowsNode) {
          EXPECT_EQ(error.node(), "learn");
        } else if (step == faultyStep) {
          EXPECT_NE(error.message().find("CLEAVE_CUDA_SYNC=1"), std::string::npos) << error.text();
        } else {
          EXPECT_NE(error.message().find("lost by an earlier step"), std::string::npos) << error.text();
        }
      }
      executor.reset();
      cuda.reset(); // with streams and events left, as CUDA takes nothing back any more
    }
}

// A kernel that leaves its memory is such a fault, and no crash.
TEST_F(CudaDriverTest, NamesNodeThatLeavesItsMemory) {
  simulate({});
  PlanBuilder builder("cuda");
  uint32_t device = builder.device("a"), x = builder.input("x", length), y = builder.output("y", length);
  uint32_t in = builder.buffer(device, "x", length), out = builder.buffer(device, "y", length);
  Point loaded = builder.loadInput(device, x, in);
  Point called = builder.call(device, "bad", builder.kernel("crash", 1, length), {in, out}, {loaded});
  builder.storeOutput(device, y, out, {called});
  ASSERT_FALSE(create(builder));
  Error error = run(1);
  EXPECT_EQ(error.status(), Status::Lost);
  EXPECT_EQ(error.node(), "bad");
  EXPECT_NE(error.message().find("device \"a\", call"), std::string::npos) << error.text();
  executor.reset();
  cuda.reset();
}

// Memory that is not there is said with what was asked for and what there is.
TEST_F(CudaDriverTest, SaysHowMuchMemoryIsMissing) {
  simulate({.bytesOfGpu = 256});
  Error error = create(trainingPlan("cuda"));
  EXPECT_EQ(error.status(), Status::Infeasible);
  EXPECT_NE(error.message().find("expects to hold 256 bytes, got 0 free of 256"), std::string::npos) << error.text();
  EXPECT_NE(error.message().find("device \"d"), std::string::npos) << error.text();
}

// Where there is no GPU the message says so before anything else goes wrong.
TEST_F(CudaDriverTest, SaysThatThereIsNoGpu) {
  simulate({.gpus = 0});
  Error error = create(trainingPlan("cuda"));
  EXPECT_EQ(error.status(), Status::Infeasible);
  EXPECT_NE(error.message().find("expects an NVIDIA GPU"), std::string::npos) << error.text();
  EXPECT_NE(error.message().find("cudaErrorNoDevice"), std::string::npos) << error.text();
}

// Code for a newer chip is refused by the chip's name.
TEST_F(CudaDriverTest, RefusesCodeForOtherChips) {
  simulate({.capability = 80});
  for (const char *chip : {"sm_90", "sm_80a", "sm_80", "sm_70", "gfx90a"}) {
    PlanBuilder builder = trainingPlan("cuda");
    builder.plan.objects[0]->cpu = chip;
    Error error = create(builder);
    executor.reset();
    EXPECT_EQ(bool(error), std::string(chip) == "sm_90" || std::string(chip) == "gfx90a") << chip << error.text();
    if (error) {
      EXPECT_NE(error.message().find(chip), std::string::npos) << error.text();
    }
  }
}

// A plan is for devices of one kind.
TEST_F(CudaDriverTest, RefusesToMixDrivers) {
  simulate({});
  PlanBuilder builder = pipelinePlan("cuda");
  builder.plan.devices[1]->driver = "cpu";
  Plan plan = builder.read();
  auto made = Executor::create(plan, "main", values);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().status(), Status::Unsupported);
  EXPECT_NE(made.error().message().find("expects devices of one driver, got \"cpu\" and \"cuda\""), std::string::npos)
      << made.error().text();
}

// Which GPU a device is on can be chosen; what cannot be is refused.
TEST_F(CudaDriverTest, ChoosesGpus) {
  {
    Variable gpus("CLEAVE_GPUS", "1,1");
    simulate({.gpus = 2, .bytesOfGpu = 4096});
    ASSERT_FALSE(create(trainingPlan("cuda"), {"main", "look"}));
    trainAndLook(*executor, 5, 2);
    executor.reset();
  }
  for (const char *list : {"2", "0,,1", "a", "0;1", "-1"}) {
    Variable gpus("CLEAVE_GPUS", list);
    simulate({.gpus = 2});
    Error error = create(trainingPlan("cuda"));
    EXPECT_EQ(error.status(), Status::Usage) << list;
    EXPECT_NE(error.message().find(list), std::string::npos) << error.text();
  }
}

// GPUs that cannot reach each other's memory exchange row by row; reductions over them are refused before a step runs.
TEST_F(CudaDriverTest, LinksGpusThatAreApart) {
  Tile rows, columns;
  rows.dims = {{6, {{0, 3}}, 3}, {4, {}, 4}, {2, {}, 2}};
  columns.dims = {{6, {}, 6}, {4, {{0, 2}}, 2}, {2, {}, 2}};
  for (uint64_t seed = 0; seed != 12; ++seed) {
    // Also where rows are farther apart than a copy may have them.
    simulate({.seed = seed, .gpus = 2, .peers = false, .mostPitch = seed < 6 ? 0x7fffffff : 24});
    PlanBuilder builder("cuda");
    uint32_t mesh = builder.mesh("pair", {2}), x = builder.input("x", 48), y = builder.output("y", 48);
    int32_t from = builder.tile(rows), to = builder.tile(columns);
    uint32_t in = builder.buffer(mesh, "in", 24), out = builder.buffer(mesh, "out", 24);
    fb::LoadInputT load;
    load.input = x;
    load.buffer = in;
    load.tile = from;
    Point loaded = builder.act(mesh, "x", load, {}, HostQueue);
    fb::ExchangeT exchange;
    exchange.source = in;
    exchange.target = out;
    exchange.source_tile = from;
    exchange.target_tile = to;
    Point moved = builder.act(mesh, "move", exchange, {loaded});
    fb::StoreOutputT store;
    store.output = y;
    store.buffer = out;
    store.tile = to;
    builder.act(mesh, "y", store, {moved}, HostQueue);
    ASSERT_FALSE(create(builder));
    for (unsigned step = 0; step != 4; ++step) {
      HostTensor input = *HostTensor::allocate({ElementType::F32, {48}, std::nullopt});
      HostTensor output = *HostTensor::allocate({ElementType::F32, {48}, std::nullopt});
      for (size_t i = 0; i != 48; ++i)
        input.as<float>()[i] = static_cast<float>(100 * step + i);
      auto times = executor->wait(*executor->submit({input}, {output}));
      ASSERT_TRUE(times) << times.error().text();
      EXPECT_EQ(elementsOf(output), elementsOf(input));
    }
    executor.reset();
    Error error = create(trainingPlan("cuda"));
    EXPECT_EQ(error.status(), Status::Unsupported);
    EXPECT_EQ(error.node(), "sum");
    EXPECT_NE(error.message().find("expects them to reach each other's memory"), std::string::npos) << error.text();
    EXPECT_EQ(cuda->misuse(), "");
  }
}

} // namespace
} // namespace cleave::runtime::test
