// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulated CUDA itself: which streams work at the same time, by its clock, and what graphs need as long as they
// live.

#include "SimulatedCuda.h"

#include "runtime/drivers/cuda/CudaObjects.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <thread>

namespace cleave::runtime::test {
namespace {

constexpr uint64_t seeds = 12;

/// When something ran, in milliseconds after a mark.
struct Interval {
  float begin = 0, end = 0;
  bool overlaps(const Interval &other) const { return begin < other.end && other.begin < end; }
};

class SimulatedCudaTest : public testing::Test {
protected:
  void simulate(uint64_t seed) {
    a = {}, b = {}, mark = {};
    simulation.reset();
    simulation = std::make_unique<simulated::Cuda>(simulated::Options{.seed = seed});
    cuda = *cudaRuntime();
    a = std::move(*createCudaStream(*cuda, 0));
    b = std::move(*createCudaStream(*cuda, 0));
    mark = std::move(*createCudaEvent(*cuda, 0, /*timed=*/true));
    EXPECT_EQ(cuda->cudaEventRecord(mark.get(), a.get()), cudaSuccess);
  }

  /// Something that takes 3 ms.
  struct Nap {
    CudaEvent begin, end;
  };
  Nap nap(const CudaStream &stream) const {
    Nap nap{std::move(*createCudaEvent(*cuda, 0, true)), std::move(*createCudaEvent(*cuda, 0, true))};
    auto sleep = [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
    EXPECT_EQ(cuda->cudaEventRecord(nap.begin.get(), stream.get()), cudaSuccess);
    EXPECT_EQ(cuda->cudaLaunchHostFunc(stream.get(), sleep, nullptr), cudaSuccess);
    EXPECT_EQ(cuda->cudaEventRecord(nap.end.get(), stream.get()), cudaSuccess);
    return nap;
  }
  Interval timesOf(const Nap &nap) const {
    Interval times;
    EXPECT_EQ(cuda->cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cuda->cudaEventElapsedTime(&times.begin, mark.get(), nap.begin.get()), cudaSuccess);
    EXPECT_EQ(cuda->cudaEventElapsedTime(&times.end, mark.get(), nap.end.get()), cudaSuccess);
    EXPECT_GE(times.end - times.begin, 2.9f);
    return times;
  }

  /// What stream `a` records, as a graph to start.
  template <typename Put> CudaGraphExec capture(const Put &put) const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cuda->cudaStreamBeginCapture(a.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    put();
    EXPECT_EQ(cuda->cudaStreamEndCapture(a.get(), &graph), cudaSuccess);
    EXPECT_EQ(cuda->cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cuda->cudaGraphDestroy(graph), cudaSuccess);
    return CudaGraphExec(*cuda, executable);
  }

  std::unique_ptr<simulated::Cuda> simulation;
  const CudaRuntime *cuda = nullptr;
  CudaStream a, b;
  CudaEvent mark;
};

// Streams that wait for nothing of each other work at the same time, in whatever order the simulation runs them.
TEST_F(SimulatedCudaTest, OverlapsIndependentStreams) {
  for (uint64_t seed = 0; seed != seeds; ++seed) {
    simulate(seed);
    Nap first = nap(a), second = nap(b), third = nap(a);
    EXPECT_TRUE(timesOf(first).overlaps(timesOf(second))) << seed;
    EXPECT_FALSE(timesOf(first).overlaps(timesOf(third))) << seed; // of one stream
  }
}

// What waits for an event begins after it, and so does what a thread puts on a stream when it has waited itself.
TEST_F(SimulatedCudaTest, OrdersByEventsAndWaiting) {
  for (uint64_t seed = 0; seed != seeds; ++seed) {
    simulate(seed);
    Nap first = nap(a);
    EXPECT_EQ(cuda->cudaStreamWaitEvent(b.get(), first.end.get(), 0), cudaSuccess);
    Nap second = nap(b);
    EXPECT_EQ(cuda->cudaStreamSynchronize(b.get()), cudaSuccess);
    Nap third = nap(a);
    EXPECT_GE(timesOf(second).begin, timesOf(first).end) << seed;
    EXPECT_GE(timesOf(third).begin, timesOf(second).end) << seed;
  }
}

// That another thread waits keeps nobody from putting more work beside it.
TEST_F(SimulatedCudaTest, KnowsWhoHasWaited) {
  for (uint64_t seed = 0; seed != seeds; ++seed) {
    simulate(seed);
    Nap first = nap(a);
    std::thread([&] {
      EXPECT_EQ(cuda->cudaSetDevice(0), cudaSuccess);
      EXPECT_EQ(cuda->cudaStreamSynchronize(a.get()), cudaSuccess);
    }).join();
    Nap second = nap(b);
    EXPECT_TRUE(timesOf(first).overlaps(timesOf(second))) << seed;
  }
}

// Whoever asks whether work is over, instead of waiting for it, gets to hear of its end.
TEST_F(SimulatedCudaTest, GoesOnWhileAsked) {
  for (uint64_t seed = 0; seed != seeds; ++seed) {
    simulate(seed);
    Nap last = nap(a);
    int asked = 0;
    while (cuda->cudaEventQuery(last.end.get()) == cudaErrorNotReady && asked < 100)
      ++asked;
    EXPECT_LT(asked, 100) << seed;
    EXPECT_EQ(cuda->cudaStreamQuery(a.get()), cudaSuccess) << seed;
    EXPECT_EQ(simulation->misuse().find("of a graph"), std::string::npos);
  }
}

// A graph may be started as long as it lives: what it reaches must live as long.
TEST_F(SimulatedCudaTest, NotesWhatGraphsLack) {
  for (bool isEarly : {true, false})
    for (bool isPinned : {true, false}) {
      simulate(0);
      CudaMemory device = std::move(*allocateCudaMemory(*cuda, 0, 64));
      PinnedMemory host = std::move(*allocatePinnedMemory(*cuda, 64));
      CudaGraphExec graph = capture([&] {
        EXPECT_EQ(cuda->cudaMemcpyAsync(device.get(), host.get(), 64, cudaMemcpyHostToDevice, a.get()), cudaSuccess);
      });
      if (!isEarly)
        graph = {};
      (isPinned ? (void)(host = {}) : (void)(device = {}));
      std::string lacking =
          std::string("memory of ") + (isPinned ? "the host" : "a GPU") + " given back that a graph uses";
      EXPECT_EQ(simulation->misuse().find(lacking) != std::string::npos, isEarly) << simulation->misuse();
    }
}

// The same holds for the code of its kernels.
TEST_F(SimulatedCudaTest, NotesGraphsWithoutCode) {
  std::ifstream file(CLEAVE_TEST_PTX);
  std::string ptx(std::istreambuf_iterator<char>(file), {});
  for (bool isEarly : {true, false}) {
    simulate(0);
    CudaMemory memory = std::move(*allocateCudaMemory(*cuda, 0, 64));
    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr;
    ASSERT_EQ(cuda->cudaLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0), cudaSuccess);
    ASSERT_EQ(cuda->cudaLibraryGetKernel(&kernel, library, "twice"), cudaSuccess);
    CudaCode code(*cuda, library);
    CudaGraphExec graph = capture([&] {
      void *address = memory.get(), *arguments[] = {&address, &address};
      EXPECT_EQ(cuda->cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(1), dim3(4), arguments, 0, a.get()),
                cudaSuccess);
    });
    if (!isEarly)
      graph = {};
    code = {};
    EXPECT_EQ(simulation->misuse().find("code given back that a graph uses") != std::string::npos, isEarly);
  }
}

} // namespace
} // namespace cleave::runtime::test
