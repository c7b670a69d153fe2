// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The scheduler of the simulated CUDA, and its functions about devices and errors. Half of the seeds choose evenly
// among what is ready; the other half give streams priorities that change now and then, so that some are left behind
// for long (after Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).

#include "Simulation.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <unistd.h>

namespace cleave::simulated {

static Simulation *theOne = nullptr;
static thread_local cudaError_t lastError = cudaSuccess;

int &currentGpu() {
  static thread_local const runtime::CudaRuntime *of = nullptr;
  static thread_local int gpu = -1;
  // Another simulation is another process.
  if (const runtime::CudaRuntime *now = *runtime::cudaRuntime(); std::exchange(of, now) != now)
    gpu = -1;
  return gpu;
}

/// Tables have addresses of their own for as long as the program: by these the driver knows what it has done in this
/// process.
static runtime::CudaRuntime &newTable() {
  static std::deque<runtime::CudaRuntime> tables;
  return tables.emplace_back();
}

Simulation::Simulation(const Options &options) : options(options), table(newTable()), random(options.seed) {
  theOne = this;
  fillTable(table);
  runtime::replaceCudaLibrary<runtime::CudaRuntime>(&table);
}

Simulation::~Simulation() {
  runtime::replaceCudaLibrary<runtime::CudaRuntime>(nullptr);
  theOne = nullptr;
  for (auto &[begin, allocation] : allocations)
    std::free(const_cast<std::byte *>(begin));
}

Simulation &Simulation::get() { return *theOne; }

cudaError_t Simulation::misuse(const std::string &what, cudaError_t code) {
  misuses.push_back(what);
  return fail(code);
}

cudaError_t Simulation::fail(cudaError_t code) {
  lastError = code;
  return code;
}

cudaError_t Simulation::begin() {
  if (currentGpu() < 0) {
    misuses.push_back("a call of a thread that has not chosen a GPU");
    currentGpu() = 0;
  }
  return lost == cudaSuccess ? cudaSuccess : fail(lost);
}

cudaError_t Simulation::beginUnsafe(const char *function) {
  for (auto &[handle, stream] : streams)
    if (stream->capture && stream->capture->thread == std::this_thread::get_id()) {
      stream->capture->isBroken = true;
      return misuse(std::string(function) + " while the thread captures", cudaErrorStreamCaptureUnsupported);
    }
  return begin();
}

/// How long the calling thread has waited for GPUs. What threads tell each other nobody sees here, and takes no time.
static double &waited(const runtime::CudaRuntime &table) {
  static thread_local const runtime::CudaRuntime *of = nullptr;
  static thread_local double seconds = 0;
  if (std::exchange(of, &table) != &table)
    seconds = 0;
  return seconds;
}

double Simulation::hostTime() { return waited(table) + passed; }

void Simulation::noteEnd(const Op &op) {
  double &seconds = waited(table);
  seconds = std::max(seconds, op.end - passed);
}

std::shared_ptr<Op> Simulation::put(int gpu, uint64_t priority, Task task,
                                    const std::vector<std::shared_ptr<Op>> &before) {
  auto op = std::make_shared<Op>();
  op->task = std::move(task);
  op->gpu = gpu;
  op->priority = priority;
  op->begin = hostTime();
  for (const auto &other : before) {
    if (!other)
      continue;
    op->begin = std::max(op->begin, other->end);
    if (!other->isDone) {
      ++op->missing;
      other->after.push_back(op);
    }
  }
  ++pending;
  if (op->missing == 0)
    ready.push_back(op);
  return op;
}

std::shared_ptr<Op> Simulation::put(Stream &stream, Task task) {
  if (stream.capture) {
    stream.capture->nodes.push_back({std::move(task), stream.gpu, stream.captured});
    stream.captured = {stream.capture->nodes.size() - 1};
    return nullptr;
  }
  if (random() % 16 == 0)
    stream.priority = random();
  stream.last = put(stream.gpu, stream.priority, std::move(task), {stream.last});
  auto op = stream.last;
  dawdle();
  return op;
}

void Simulation::finish(const std::shared_ptr<Op> &op) {
  op->isDone = true;
  --pending;
  for (const auto &next : op->after) {
    next->begin = std::max(next->begin, op->end);
    if (--next->missing == 0)
      ready.push_back(next);
  }
  op->after.clear();
}

/// Out of what is ready, what waits for others last.
std::shared_ptr<Op> Simulation::takeReady() {
  auto end = std::partition(ready.begin(), ready.end(), [](const auto &op) { return !op->isWaiting; });
  if (end == ready.begin())
    end = ready.end();
  auto chosen = ready.begin() + static_cast<ptrdiff_t>(random() % static_cast<uint64_t>(end - ready.begin()));
  if (options.seed % 2 == 1 && !(*chosen)->isWaiting)
    chosen = std::max_element(ready.begin(), end,
                              [](const auto &left, const auto &right) { return left->priority < right->priority; });
  std::shared_ptr<Op> op = *chosen;
  *chosen = ready.back();
  ready.pop_back();
  return op;
}

/// Whatever else is ready now could run at the same time.
void Simulation::checkLane(const Op &op) {
  for (const auto &other : ready)
    if (op.task.lane && other->task.lane && other->task.lane != op.task.lane)
      misuse("communications of two communicators that nothing orders");
}

Simulation::Progress Simulation::runOne() {
  if (ready.empty())
    return Progress::None;
  std::shared_ptr<Op> op = takeReady();
  checkLane(*op);
  auto begin = std::chrono::steady_clock::now();
  if (op->task.work && lost == cudaSuccess) {
    cudaError_t code = op->task.work();
    if (code == cudaErrorNotReady) {
      op->isWaiting = true;
      ready.push_back(op);
      return Progress::Waiting;
    }
    if (code != cudaSuccess)
      lost = code;
  }
  op->task = {};
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  op->end = op->begin + std::max(took.count(), 1e-6);
  finish(op);
  return Progress::Made;
}

/// While what is left waits for other processes, other threads get in between.
cudaError_t Simulation::await(const std::shared_ptr<Op> &given) {
  const std::shared_ptr<Op> op = given;
  if (!op)
    return begin();
  while (!op->isDone) {
    Progress progress = runOne();
    if (progress == Progress::None)
      return misuse("work that waits for itself", cudaErrorUnknown);
    if (progress == Progress::Waiting)
      letOthers();
  }
  noteEnd(*op);
  return begin();
}

cudaError_t Simulation::awaitAll() {
  for (Progress progress = runOne(); progress != Progress::None; progress = runOne())
    if (progress == Progress::Waiting)
      letOthers();
  return pending == 0 ? begin() : misuse("work that waits for itself", cudaErrorUnknown);
}

void Simulation::letOthers() {
  mutex.unlock();
  std::this_thread::yield();
  mutex.lock();
}

bool Simulation::poll(const std::shared_ptr<Op> &op) {
  if (!op || !op->isDone)
    (void)runOne();
  if (op && op->isDone)
    noteEnd(*op);
  return !op || op->isDone;
}

void Simulation::dawdle() {
  // By the seed: never, now and then, always.
  uint64_t chance = options.seed / 2 % 3;
  if (chance == 0 || (chance == 1 && random() % 3 != 0))
    return;
  for (uint64_t count = chance == 2 ? UINT64_MAX : random() % 4; count != 0; --count)
    if (runOne() != Progress::Made)
      break;
}

void Simulation::checkGraphs(const void *begin, const void *end, const char *what) {
  auto isIn = [&](const void *address) { return begin <= address && address < end; };
  for (const auto &[pointer, graph] : graphs)
    for (const Node &node : graph->nodes)
      if (std::ranges::any_of(node.task.uses, isIn)) {
        misuse(std::string(what) + " given back that a graph uses");
        return;
      }
}

Stream *Simulation::find(cudaStream_t handle) {
  auto found = streams.find(reinterpret_cast<Stream *>(handle));
  if (found == streams.end()) {
    misuse(handle ? "use of a stream that is gone" : "use of the default stream", cudaErrorInvalidResourceHandle);
    return nullptr;
  }
  return found->second.get();
}

Event *Simulation::find(cudaEvent_t handle) {
  auto found = events.find(reinterpret_cast<Event *>(handle));
  if (found == events.end()) {
    misuse("use of an event that is gone", cudaErrorInvalidResourceHandle);
    return nullptr;
  }
  return found->second.get();
}

//===-- devices and errors ----------------------------------------------------------------------------------------===//

static cudaError_t getDeviceCount(int *count) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  *count = simulation.options.gpus;
  return *count == 0 ? simulation.fail(cudaErrorNoDevice) : cudaSuccess;
}

static cudaError_t setDevice(int gpu) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (gpu < 0 || gpu >= simulation.options.gpus)
    return simulation.misuse("use of a GPU that there is not", cudaErrorInvalidDevice);
  currentGpu() = gpu;
  return simulation.begin();
}

static cudaError_t getDevice(int *gpu) {
  *gpu = std::max(currentGpu(), 0);
  return cudaSuccess;
}

static cudaError_t getAttribute(int *value, cudaDeviceAttr attribute, int) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor:
    *value = simulation.options.capability / 10;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    *value = simulation.options.capability % 10;
    return cudaSuccess;
  case cudaDevAttrMultiProcessorCount:
    *value = 4;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = 160 << 10;
    return cudaSuccess;
  case cudaDevAttrMaxPitch:
    *value = simulation.options.mostPitch;
    return cudaSuccess;
  default:
    return simulation.misuse("an attribute that the simulation does not know");
  }
}

static cudaError_t getProperties(cudaDeviceProp *properties, int) {
  std::strcpy(properties->name, "simulated");
  properties->totalGlobalMem = Simulation::get().options.bytesOfGpu;
  return cudaSuccess;
}

static cudaError_t getPciBusId(char *text, int bytes, int gpu) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", gpu);
  return cudaSuccess;
}

static cudaError_t getVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

static cudaError_t canAccessPeer(int *can, int from, int to) {
  *can = Simulation::get().options.peers && from != to;
  return cudaSuccess;
}

static cudaError_t enablePeerAccess(int to, unsigned) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (cudaError_t code = simulation.begin())
    return code;
  if (!simulation.options.peers || to == currentGpu())
    return simulation.misuse("peer access that there is not", cudaErrorPeerAccessUnsupported);
  if (!simulation.peers.insert({currentGpu(), to}).second)
    return simulation.misuse("peer access enabled twice", cudaErrorPeerAccessAlreadyEnabled);
  return cudaSuccess;
}

static cudaError_t getLastError() {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  cudaError_t code = std::exchange(lastError, cudaSuccess);
  return simulation.lost != cudaSuccess ? simulation.lost : code;
}

static cudaError_t peekAtLastError() {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  return simulation.lost != cudaSuccess ? simulation.lost : lastError;
}

static const char *getErrorName(cudaError_t code) {
  static const std::map<cudaError_t, const char *> names = {
      {cudaErrorIllegalAddress, "cudaErrorIllegalAddress"},
      {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
      {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
      {cudaErrorNoDevice, "cudaErrorNoDevice"},
      {cudaErrorInvalidPtx, "cudaErrorInvalidPtx"},
      {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound"},
      {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported"}};
  auto found = names.find(code);
  return found == names.end() ? "cudaErrorUnknown" : found->second;
}

static const char *getErrorString(cudaError_t) { return "as simulated"; }

void Simulation::fillTable(runtime::CudaRuntime &table) {
  table.cudaGetDeviceCount = getDeviceCount;
  table.cudaSetDevice = setDevice;
  table.cudaGetDevice = getDevice;
  table.cudaDeviceGetAttribute = getAttribute;
  table.cudaGetDeviceProperties = getProperties;
  table.cudaDeviceGetPCIBusId = getPciBusId;
  table.cudaDriverGetVersion = getVersion;
  table.cudaRuntimeGetVersion = getVersion;
  table.cudaDeviceCanAccessPeer = canAccessPeer;
  table.cudaDeviceEnablePeerAccess = enablePeerAccess;
  table.cudaGetLastError = getLastError;
  table.cudaPeekAtLastError = peekAtLastError;
  table.cudaGetErrorName = getErrorName;
  table.cudaGetErrorString = getErrorString;
  fillMemory(table);
  fillStreams(table);
  fillGraphs(table);
  fillKernels(table);
}

//===-- what tests see --------------------------------------------------------------------------------------------===//

Cuda::Cuda(Options options) : simulation(std::make_unique<Simulation>(options)) {}
Cuda::~Cuda() = default;

std::string Cuda::misuse() const {
  auto lock = simulation->lock();
  std::string text;
  for (const std::string &line : simulation->misuses)
    text += line + '\n';
  auto left = [&](size_t count, const char *what) {
    if (count != 0)
      text += std::to_string(count) + " " + what + " never given back\n";
  };
  left(simulation->allocations.size(), "allocations");
  left(simulation->streams.size(), "streams");
  left(simulation->events.size(), "events");
  left(simulation->graphs.size(), "graphs");
  left(simulation->codes.size(), "libraries");
  return text;
}

void Cuda::setKernel(const std::string &entry, HostKernel run) {
  auto lock = simulation->lock();
  simulation->hostKernels[entry] = std::move(run);
}

void Cuda::failKernel(const std::string &entry, cudaError_t code, bool late) {
  auto lock = simulation->lock();
  simulation->failures[entry] = {code, late};
}

void Cuda::hangKernel(const std::string &entry, uint64_t after) {
  auto lock = simulation->lock();
  simulation->hangs[entry] = after;
}

void meetHang(const std::string &entry) {
  auto &hangs = Simulation::get().hangs;
  auto found = hangs.find(entry);
  if (found != hangs.end() && found->second-- == 0)
    for (;;)
      pause();
}

void Cuda::pass(double seconds) {
  auto lock = simulation->lock();
  simulation->pass(seconds);
}

uint64_t Cuda::graphs() const {
  auto lock = simulation->lock();
  return simulation->graphsMade;
}

uint64_t Cuda::graphLaunches() const {
  auto lock = simulation->lock();
  return simulation->graphLaunches;
}

uint64_t Cuda::kernelLaunches() const {
  auto lock = simulation->lock();
  return simulation->kernelLaunches;
}

uint64_t Cuda::libraries() const {
  auto lock = simulation->lock();
  return simulation->codes.size();
}

void enqueue(cudaStream_t handle, std::function<void()> work) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  if (Stream *stream = simulation.find(handle))
    simulation.put(*stream, [work = std::move(work)] {
      work();
      return cudaSuccess;
    });
}

void enqueue(cudaStream_t handle, Communication communication) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Stream *stream = simulation.find(handle);
  if (!stream)
    return;
  if (stream->gpu != communication.gpu)
    simulation.misuse("a communication on another GPU's stream");
  for (const auto &[begin, bytes] : communication.buffers)
    if (bytes != 0 && !simulation.isAllocated(begin, bytes, stream->gpu))
      simulation.misuse("a communication beyond an allocation");
  Task task;
  task.work = [work = std::move(communication.work)] { return work() ? cudaSuccess : cudaErrorNotReady; };
  for (const auto &[begin, bytes] : communication.buffers)
    task.uses.push_back(begin);
  task.lane = communication.kept.get();
  task.kept = std::move(communication.kept);
  simulation.put(*stream, std::move(task));
}

const void *captureOf(cudaStream_t handle) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  Stream *stream = simulation.find(handle);
  return stream ? stream->capture.get() : nullptr;
}

void progress() {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  (void)simulation.poll(nullptr);
}

void noteMisuse(const std::string &what) {
  auto &simulation = Simulation::get();
  auto lock = simulation.lock();
  simulation.misuse(what);
}

} // namespace cleave::simulated
