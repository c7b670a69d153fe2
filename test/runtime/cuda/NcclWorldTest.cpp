// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL's communicators with one rank: what a machine with one GPU can try of NCCL, and, on a simulation, what becomes
// of them when a network is lost or rules of NCCL are broken. No MPI is needed.

#ifdef CLEAVE_SIMULATED_NCCL
#include "SimulatedCuda.h"
#include "SimulatedNccl.h"
#endif

#include "runtime/drivers/cuda/nccl/NcclWorld.h"

#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

namespace cleave::runtime::test {
namespace {

/// The only process, or, of two, one whose peer has the same GPU.
class FewProcesses : public Processes {
public:
  explicit FewProcesses(uint32_t number) : number(number) {}
  uint32_t rank() const override { return 0; }
  uint32_t count() const override { return number; }
  Error agree(const Error &error) override { return error; }
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes) override {
    return std::vector(number, std::vector(bytes.begin(), bytes.end()));
  }
  void broadcast(std::span<std::byte>) override {}
  double maximum(double value) override { return value; }
  std::function<void()> peerOf(std::string_view, std::span<const std::byte>, std::span<std::byte>) override {
    return {};
  }
  int64_t clockOffset() const override { return 0; }
  Expected<std::unique_ptr<Communicator>> createCommunicator(const Channels &, const std::vector<uint32_t> &) override {
    return makeError(Status::Unsupported, "there is none");
  }
  Expected<std::unique_ptr<Messages>> createMessages() override { return std::unique_ptr<Messages>(); }
  Error watch(const WatchOptions &) override { return Error::success(); }
  bool claimReport() override { return true; }
  [[noreturn]] void abort(const Error &) override { std::abort(); }

private:
  const uint32_t number;
};

constexpr size_t elements = 1000;

/// A world of one, with a stream and buffers.
class NcclTest : public testing::Test {
protected:
  /// After CUDA and NCCL are there.
  void create() {
    cuda = *cudaRuntime();
    FewProcesses alone(1);
    auto made = NcclWorld::create(*cuda, alone, 0, {{{0}}});
    ASSERT_TRUE(made) << made.error().text();
    world = std::move(*made);
    stream = std::move(*createCudaStream(*cuda, 0));
    for (CudaMemory *memory : {&source, &sum, &received})
      *memory = std::move(*allocateCudaMemory(*cuda, 0, elements * sizeof(float)));
  }
  /// The sum over all ranks, which is what one rank has; this it sends to itself.
  Error communicate() {
    const Nccl &nccl = world->library();
    if (Error error = world->communicate(stream.get(), "reducing", [&](NcclCalls &calls) {
          calls.note(nccl.ncclAllReduce(source.get(), sum.get(), elements, ncclFloat32, ncclSum, world->of({0}),
                                        stream.get()));
        }))
      return error;
    return world->communicate(stream.get(), "sending and receiving", [&](NcclCalls &calls) {
      constexpr size_t bytes = elements * sizeof(float);
      calls.note(nccl.ncclSend(sum.get(), bytes, ncclInt8, 0, world->all(), stream.get()));
      calls.note(nccl.ncclRecv(received.get(), bytes, ncclInt8, 0, world->all(), stream.get()));
    });
  }
  CudaGraphExec capture() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    world->beginStep(/*isCaptured=*/true);
    EXPECT_EQ(cuda->cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    Error error = communicate();
    EXPECT_FALSE(error) << error.text();
    EXPECT_EQ(cuda->cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
    EXPECT_EQ(cuda->cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cuda->cudaGraphDestroy(graph), cudaSuccess);
    return CudaGraphExec(*cuda, executable);
  }
  /// Different numbers every time.
  void fill(float first) {
    std::vector<float> values(elements);
    for (float &value : values)
      value = first++;
    EXPECT_EQ(cuda->cudaMemcpy(source.get(), values.data(), elements * sizeof(float), cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cuda->cudaDeviceSynchronize(), cudaSuccess);
  }
  void expectReceived(float first) {
    ASSERT_EQ(cuda->cudaStreamSynchronize(stream.get()), cudaSuccess);
    std::vector<float> values(elements);
    EXPECT_EQ(cuda->cudaMemcpy(values.data(), received.get(), elements * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (float value : values)
      ASSERT_EQ(value, first++);
  }

#ifdef CLEAVE_SIMULATED_NCCL
  void simulate(uint64_t seed, int version = 22800) {
    simulation = std::make_unique<simulated::Cuda>(simulated::Options{.seed = seed});
    nccl = std::make_unique<simulated::NcclLibrary>(version);
  }
  std::unique_ptr<simulated::Cuda> simulation;
  std::unique_ptr<simulated::NcclLibrary> nccl;
#endif
  const CudaRuntime *cuda = nullptr;
  std::unique_ptr<NcclWorld> world;
  CudaStream stream;
  CudaMemory source, sum, received;
};

/// On NCCL itself where there are a GPU and NCCL, and simulated.
struct NcclKind {
  std::string name;
  std::optional<uint64_t> seed;
};
class NcclWorldTest : public NcclTest, public testing::WithParamInterface<NcclKind> {
protected:
  void SetUp() override {
#ifdef CLEAVE_SIMULATED_NCCL
    if (GetParam().seed)
      return simulate(*GetParam().seed);
#endif
    auto library = cudaRuntime();
    int count = 0;
    if (!library || (*library)->cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
      GTEST_SKIP() << "there is no GPU";
    if (auto found = runtime::nccl(); !found)
      GTEST_SKIP() << found.error().message();
  }
  void TearDown() override {
    world.reset();
    stream = {}, source = {}, sum = {}, received = {};
#ifdef CLEAVE_SIMULATED_NCCL
    if (simulation) {
      EXPECT_EQ(simulation->misuse(), "");
      EXPECT_EQ(nccl->communicators(), 0u);
    }
#endif
  }
};

std::vector<NcclKind> ncclKinds() {
  std::vector<NcclKind> list = {{"nccl", {}}};
#ifdef CLEAVE_SIMULATED_NCCL
  for (uint64_t seed = 0; seed != 6; ++seed)
    list.push_back({"nccl_simulated_" + std::to_string(seed), seed});
#endif
  return list;
}
INSTANTIATE_TEST_SUITE_P(Nccl, NcclWorldTest, testing::ValuesIn(ncclKinds()),
                         [](const auto &info) { return info.param.name; });

// A reduction and a message to itself bring what was there.
TEST_P(NcclWorldTest, ReducesAndSendsToItself) {
  create();
  for (float first : {1.f, 100.f}) {
    fill(first);
    world->beginStep(/*isCaptured=*/false);
    Error error = communicate();
    ASSERT_FALSE(error) << error.text();
    expectReceived(first);
    error = world->check();
    EXPECT_FALSE(error) << error.text();
  }
}

// The same from a graph, time after time, before and behind communications that are in none.
TEST_P(NcclWorldTest, Replays) {
  create();
  fill(7);
  ASSERT_FALSE(communicate());
  expectReceived(7);
  {
    CudaGraphExec graph = capture();
    for (float first : {1.f, 50.f, 3.f}) {
      fill(first);
      ASSERT_EQ(cuda->cudaGraphLaunch(graph.get(), stream.get()), cudaSuccess);
      expectReceived(first);
    }
  }
  fill(9);
  world->beginStep(/*isCaptured=*/false);
  ASSERT_FALSE(communicate());
  expectReceived(9);
}

// Two ranks on one GPU, which NCCL would refuse in words of its own, are told what to do instead.
TEST_P(NcclWorldTest, RefusesToShareAGpu) {
  FewProcesses two(2);
  auto made = NcclWorld::create(**cudaRuntime(), two, 0, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().status(), Status::Unsupported);
  EXPECT_NE(made.error().message().find("NCCL expects a GPU for each rank, got one for ranks 0 and 1"),
            std::string::npos)
      << made.error().text();
  EXPECT_NE(made.error().message().find("run the plan without mpirun"), std::string::npos) << made.error().text();
  EXPECT_EQ(made.error().message().find('\n'), std::string::npos) << made.error().text();
}

#ifdef CLEAVE_SIMULATED_NCCL

/// What is simulated has its own ways to go wrong.
class SimulatedNcclTest : public NcclTest {
protected:
  bool isNoted(const std::string &what) const { return simulation->misuse().find(what) != std::string::npos; }
};

// A network that is lost says so to whoever asks; what waits for it ends, graphs included, and so does the world.
TEST_F(SimulatedNcclTest, LosesItsNetwork) {
  for (bool isReplay : {false, true}) {
    simulate(2);
    create();
    CudaGraphExec graph = capture();
    nccl->loseNetwork(1); // the message, behind the reduction
    world->beginStep(/*isCaptured=*/false);
    if (isReplay) {
      ASSERT_EQ(cuda->cudaGraphLaunch(graph.get(), stream.get()), cudaSuccess);
    } else {
      ASSERT_FALSE(communicate());
    }
    Error error;
    for (int asked = 0; !error && asked != 1000; ++asked) {
      EXPECT_EQ(cuda->cudaStreamQuery(stream.get()), cudaErrorNotReady);
      error = world->check();
    }
    EXPECT_EQ(error.status(), Status::Lost);
    EXPECT_NE(error.message().find("remote process exited"), std::string::npos) << error.text();
    EXPECT_EQ(cuda->cudaStreamSynchronize(stream.get()), cudaSuccess);
    EXPECT_EQ(communicate().message(), error.message());
    EXPECT_EQ(world->check().message(), error.message());
    graph = {};
    auto begin = std::chrono::steady_clock::now();
    world.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    EXPECT_EQ(nccl->communicators(), 0u);
    stream = {}, source = {}, sum = {}, received = {};
    EXPECT_EQ(simulation->misuse(), "");
    nccl.reset(), simulation.reset();
  }
}

// Communicators that are given up while graphs have them keep nobody from ending.
TEST_F(SimulatedNcclTest, LeavesCommunicatorsOfGraphsBehind) {
  simulate(0);
  create();
  CudaGraphExec graph = capture();
  world->abort(makeError(Status::Lost, "the GPU is gone"));
  EXPECT_EQ(communicate().message(), "the GPU is gone");
  auto begin = std::chrono::steady_clock::now();
  world.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(nccl->communicators(), 1u);
  graph = {};
  for (int waited = 0; nccl->communicators() != 0 && waited != 1000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(nccl->communicators(), 0u);
}

// NCCL waits without end for graphs that have its communicators.
TEST_F(SimulatedNcclTest, NotesGraphsThatOutliveCommunicators) {
  for (bool isEarly : {true, false}) {
    simulate(0);
    create();
    CudaGraphExec graph = capture();
    if (!isEarly)
      graph = {};
    world.reset();
    EXPECT_EQ(isNoted("a communicator destroyed before the graphs that captured it"), isEarly) << simulation->misuse();
    graph = {}, stream = {}, source = {}, sum = {}, received = {};
    nccl.reset(), simulation.reset();
  }
}

// Two communicators may wait for each other's ranks in a circle, unless streams order their communications.
TEST_F(SimulatedNcclTest, NotesCommunicatorsSideBySide) {
  for (uint64_t seed = 0; seed != 12; ++seed)
    for (bool isOrdered : {false, true}) {
      simulate(seed);
      create();
      const Nccl &library = world->library();
      ncclComm_t other = nullptr;
      ASSERT_EQ(library.ncclCommSplit(world->all(), 0, 0, &other, nullptr), ncclSuccess);
      CudaStream beside = std::move(*createCudaStream(*cuda, 0));
      auto reduce = [&](ncclComm_t comm, const CudaMemory &target, const CudaStream &on) {
        EXPECT_EQ(library.ncclAllReduce(source.get(), target.get(), elements, ncclFloat32, ncclSum, comm, on.get()),
                  ncclSuccess);
      };
      ASSERT_EQ(library.ncclGroupStart(), ncclSuccess);
      reduce(world->all(), sum, stream);
      reduce(other, received, isOrdered ? stream : beside);
      ASSERT_EQ(library.ncclGroupEnd(), ncclSuccess);
      ASSERT_EQ(cuda->cudaDeviceSynchronize(), cudaSuccess);
      // Those that run everything at once see the first one alone.
      if (isOrdered || seed / 2 % 3 == 0) {
        EXPECT_EQ(isNoted("communications of two communicators that nothing orders"), !isOrdered)
            << seed << simulation->misuse();
      }
      ASSERT_EQ(library.ncclCommDestroy(other), ncclSuccess);
      world.reset();
      beside = {}, stream = {}, source = {}, sum = {}, received = {};
      nccl.reset(), simulation.reset();
    }
}

// Of a group either all calls are captured, in one graph, or none.
TEST_F(SimulatedNcclTest, RefusesGroupsThatAreCapturedInPart) {
  simulate(0);
  create();
  const Nccl &library = world->library();
  CudaStream beside = std::move(*createCudaStream(*cuda, 0));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cuda->cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  NcclCalls calls(library);
  for (const CudaStream *on : {&stream, &beside})
    calls.note(library.ncclAllReduce(source.get(), sum.get(), elements, ncclFloat32, ncclSum, world->all(), on->get()));
  Error error = calls.end("reducing");
  EXPECT_EQ(error.status(), Status::Lost) << error.text();
  EXPECT_TRUE(isNoted("a group of calls of which some are captured")) << simulation->misuse();
  EXPECT_EQ(cuda->cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  EXPECT_EQ(cuda->cudaGraphDestroy(graph), cudaSuccess);
}

// NCCL 2.30 has a way around, which the message names.
TEST_F(SimulatedNcclTest, NamesTheWayToShareAGpu) {
  simulate(0, 23000);
  FewProcesses two(2);
  auto made = NcclWorld::create(**cudaRuntime(), two, 0, {});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("or set NCCL_MULTI_RANK_GPU_ENABLE=1"), std::string::npos)
      << made.error().text();
}

#endif

} // namespace
} // namespace cleave::runtime::test
