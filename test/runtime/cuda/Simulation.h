// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state of the simulated CUDA. Its functions are those of the table in SimulatedCuda.cpp, by subject: Memory.cpp,
// Streams.cpp, Graphs.cpp, Kernels.cpp; work on streams is Scheduler.cpp's.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATION_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATION_H

#include "SimulatedCuda.h"

#include "test/ptx/PtxInterpreter.h"

#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace cleave::simulated {

/// What a stream does. Errors of the work lose the GPU, but for cudaErrorNotReady: it is called again until it is done.
using Work = std::function<cudaError_t()>;

/// Work, and what the simulation knows of it.
struct Task {
  Work work;
  /// Memory and code that it reaches; graphs of it need them as long as they live.
  std::vector<const void *> uses;
  /// What graphs of it keep.
  std::shared_ptr<void> kept;
  /// Work on different lanes must not be under way at the same time: streams and events have to order it. Null: any
  /// may.
  const void *lane = nullptr;
};

/// Work on its way, behind others. Times are seconds of a clock on which GPUs work side by side and the host's calls
/// take no time: work begins when its stream's work before, what the stream waits for, and all that the thread which
/// has put it there had waited for, are over.
struct Op {
  Task task;
  int gpu = 0;
  unsigned missing = 0; ///< of those before it
  std::vector<std::shared_ptr<Op>> after;
  bool isDone = false, isWaiting = false; ///< waiting: its work has been called, and is not done
  uint64_t priority = 0;
  double begin = 0, end = 0;
};

/// What a graph does, behind the nodes with these numbers.
struct Node {
  Task task;
  int gpu = 0;
  std::vector<size_t> before;
};

struct Stream;
struct Capture {
  std::vector<Node> nodes;
  std::set<Stream *> streams;
  std::thread::id thread;
  bool isBroken = false;
};

struct Stream {
  int gpu = 0;
  std::shared_ptr<Op> last;
  uint64_t priority = 0;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captured; ///< the nodes behind which the stream stands
};

struct Event {
  int gpu = 0;
  bool isTimed = false;
  std::shared_ptr<Op> op; ///< none before it is recorded
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captured;
};

struct Graph {
  std::vector<Node> nodes;
  std::shared_ptr<Op> last; ///< of an executable one: what its last launch ended with
};

struct Code;
struct Kernel {
  Code *code = nullptr;
  std::string entry;
  std::vector<size_t> parameterSizes;
  std::map<int, int> sharedBytes; ///< by GPU, the most that it may be launched with
};
struct Code {
  std::optional<ptx::Module> module;
  std::string text;
  std::map<std::string, Kernel> kernels;
};

struct Allocation {
  uint64_t bytes = 0;
  int gpu = -1; ///< -1: pinned memory of the host
};

class Simulation {
public:
  explicit Simulation(const Options &options);
  ~Simulation();
  /// The one that there is.
  static Simulation &get();
  static void fillTable(runtime::CudaRuntime &table);

  using Lock = std::unique_lock<std::recursive_mutex>;
  Lock lock() { return Lock(mutex); }

  //===-- errors --------------------------------------------------------------------------------------------------===//

  /// Notes misuse, and fails.
  cudaError_t misuse(const std::string &what, cudaError_t code = cudaErrorInvalidValue);
  /// The thread's last error from here on.
  cudaError_t fail(cudaError_t code);
  /// The error that a call begins with: that of a lost GPU. A thread that has chosen no GPU has CUDA make a context on
  /// GPU 0, whoever it is for: that is misuse.
  cudaError_t begin();
  /// The same for calls that a thread which captures must not make.
  cudaError_t beginUnsafe(const char *function);

  //===-- work ----------------------------------------------------------------------------------------------------===//

  /// Puts work on a stream, or into its graph.
  std::shared_ptr<Op> put(Stream &stream, Task task);
  std::shared_ptr<Op> put(Stream &stream, Work work, std::vector<const void *> uses = {}) {
    return put(stream, Task{std::move(work), std::move(uses), nullptr, nullptr});
  }
  std::shared_ptr<Op> put(int gpu, uint64_t priority, Task task, const std::vector<std::shared_ptr<Op>> &before);
  /// Runs until it is done, chosen work first.
  cudaError_t await(const std::shared_ptr<Op> &op);
  /// Runs all there is.
  cudaError_t awaitAll();
  /// Perhaps runs some.
  void dawdle();
  /// Runs something, as time does for whoever asks again and again. Whether the work is done.
  bool poll(const std::shared_ptr<Op> &op);
  /// Nothing happens for so many seconds.
  void pass(double seconds) { passed += seconds; }
  /// Notes misuse if a live graph needs something between these addresses.
  void checkGraphs(const void *begin, const void *end, const char *what);

  Stream *find(cudaStream_t stream);
  Event *find(cudaEvent_t event);
  /// Whether the bytes lie in one allocation; of the host if `gpu` is -1, of any GPU if it is -2.
  bool isAllocated(const void *begin, uint64_t bytes, int gpu) const;
  ptx::Memory reachable(int gpu) const;

  const Options options;
  std::vector<std::string> misuses;
  cudaError_t lost = cudaSuccess;
  std::map<const std::byte *, Allocation> allocations;
  std::map<int, uint64_t> used;
  std::set<std::pair<int, int>> peers;
  std::map<Stream *, std::unique_ptr<Stream>> streams;
  std::map<Event *, std::unique_ptr<Event>> events;
  std::map<Graph *, std::unique_ptr<Graph>> graphs;
  std::map<Code *, std::unique_ptr<Code>> codes;
  std::map<std::string, Cuda::HostKernel> hostKernels;
  struct Failure {
    cudaError_t code;
    bool late;
  };
  std::map<std::string, Failure> failures;
  std::map<std::string, uint64_t> hangs; ///< how often a function still ends
  std::shared_ptr<Op> defaultStream;     ///< its last work
  uint64_t graphsMade = 0, graphLaunches = 0, kernelLaunches = 0, eventWaits = 0;

private:
  enum class Progress { None, Waiting, Made };
  Progress runOne();
  std::shared_ptr<Op> takeReady();
  void checkLane(const Op &op);
  void letOthers();
  /// The calling thread's time of day: what it has waited for ended before.
  double hostTime();
  void noteEnd(const Op &op);
  void finish(const std::shared_ptr<Op> &op);

  std::recursive_mutex mutex;
  runtime::CudaRuntime &table;
  std::mt19937_64 random;
  std::vector<std::shared_ptr<Op>> ready;
  size_t pending = 0;
  double passed = 0;
};

/// The GPU that the calling thread uses; -1 before it has chosen one.
int &currentGpu();

// The functions by subject.
void fillMemory(runtime::CudaRuntime &table);
void fillStreams(runtime::CudaRuntime &table);
void fillGraphs(runtime::CudaRuntime &table);
void fillKernels(runtime::CudaRuntime &table);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATION_H
