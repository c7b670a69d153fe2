// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulated CUDA as a whole, and its functions about devices and errors.

#include "Simulation.h"

#include <algorithm>
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
