// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bootstraps over the processes' own communicator.

#include "runtime/drivers/cuda/nccl/NcclWorld.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>
#include <unistd.h>

namespace cleave::runtime {

/// The first version that lets several ranks share a GPU, if it is told to.
static constexpr int sharingVersion = 23000;

/// A GPU as it is told from all others: its host and its place on the bus; and, behind a line break, what tells the
/// host from others of that name, as containers may have it.
static std::string identity(const CudaRuntime &cuda, int gpu) {
  std::array<char, 256> host{};
  std::array<char, 64> bus{};
  gethostname(host.data(), host.size() - 1);
  std::string name = std::string(host.data()) + ", GPU ", boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  bool isKnown = cuda.cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size() - 1), gpu) == cudaSuccess;
  return name + (isKnown ? std::string(bus.data()) : std::to_string(gpu)) + "\n" + boot;
}

static bool maySharePhysicalGpu(int version) {
  const char *asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return version >= sharingVersion && asked && std::string(asked) == "1";
}

Error NcclWorld::checkGpus(Processes &processes, int gpu) const {
  int version = 0;
  Error error = checkNccl(nccl, nccl.ncclGetVersion(&version), "asking for its version", Status::Unsupported);
  std::string own = identity(cuda, gpu);
  auto all = processes.gather(std::as_bytes(std::span(own)));
  std::map<std::string, size_t> firstRank;
  for (size_t rank = 0; rank != all.size() && !error && !maySharePhysicalGpu(version); ++rank) {
    std::string each(reinterpret_cast<const char *>(all[rank].data()), all[rank].size());
    auto [known, isNew] = firstRank.try_emplace(each, rank);
    if (!isNew)
      error = makeError(Status::Unsupported, "NCCL expects a GPU for each rank, got one for ranks ", known->second,
                        " and ", rank, " (", each.substr(0, each.find('\n')),
                        "); run the plan without mpirun, where the devices of a plan share GPUs as logical devices",
                        version >= sharingVersion ? ", or set NCCL_MULTI_RANK_GPU_ENABLE=1" : "");
  }
  return processes.agree(error);
}

Error NcclWorld::connect(Processes &processes) {
  ncclUniqueId id{};
  Error error;
  if (ownRank == 0)
    error = checkNccl(nccl, nccl.ncclGetUniqueId(&id), "opening a meeting place");
  if (Error failed = processes.agree(error))
    return failed;
  processes.broadcast(std::as_writable_bytes(std::span(id.internal)));
  return processes.agree(
      checkNccl(nccl, nccl.ncclCommInitRank(&world, static_cast<int>(processes.count()), id, static_cast<int>(ownRank)),
                "connecting GPUs of several processes"));
}

/// Splitting is done by all ranks together, also by those that are in no group.
Error NcclWorld::divide(const std::vector<NcclGroup> &groups, uint32_t count) {
  NcclGroup everybody(count);
  std::iota(everybody.begin(), everybody.end(), 0);
  if (groups == std::vector<NcclGroup>{everybody}) {
    comms[everybody] = world;
    return Error::success();
  }
  int color = NCCL_SPLIT_NOCOLOR, key = 0;
  for (size_t group = 0; group != groups.size(); ++group)
    if (auto own = std::ranges::find(groups[group], ownRank); own != groups[group].end()) {
      color = static_cast<int>(group);
      key = static_cast<int>(own - groups[group].begin());
    }
  ncclComm_t made = nullptr;
  Error error = checkNccl(nccl, nccl.ncclCommSplit(world, color, key, &made, nullptr), "dividing the ranks");
  if (made && !comms.try_emplace(groups[static_cast<size_t>(color)], made).second)
    (void)nccl.ncclCommDestroy(made);
  return error;
}

Expected<std::unique_ptr<NcclWorld>> NcclWorld::create(const CudaRuntime &cuda, Processes &processes, int gpu,
                                                       const std::vector<std::vector<NcclGroup>> &divisions) {
  auto library = runtime::nccl();
  Error error = library ? checkCuda(cuda, cuda.cudaSetDevice(gpu), "using a GPU") : library.error();
  if (Error failed = processes.agree(error))
    return failed;
  std::unique_ptr<NcclWorld> made(new NcclWorld(cuda, **library, gpu, processes.rank()));
  auto event = createCudaEvent(cuda, gpu);
  if (Error failed = processes.agree(event.error()))
    return failed;
  made->last = std::move(*event);
  if (Error failed = made->checkGpus(processes, gpu))
    return failed;
  if (Error failed = made->connect(processes))
    return failed;
  for (const std::vector<NcclGroup> &groups : divisions)
    if (Error failed = processes.agree(made->divide(groups, processes.count())))
      return failed;
  return made;
}

/// How long is waited for communicators that are given up. NCCL frees them when the graphs are gone that have captured
/// them, which a GPU that is lost may never say.
static constexpr std::chrono::seconds patience(2);

struct NcclWorld::Aborting {
  std::mutex mutex;
  std::condition_variable changed;
  size_t left = 0;
};

/// Whoever has recorded communications in graphs has destroyed these: NCCL waits for it.
NcclWorld::~NcclWorld() {
  if (!lost) {
    for (auto &[group, comm] : comms)
      if (comm != world)
        (void)nccl.ncclCommDestroy(comm);
    if (world)
      (void)nccl.ncclCommDestroy(world);
    return;
  }
  abortAll();
  std::unique_lock waiting(aborting->mutex);
  aborting->changed.wait_for(waiting, patience, [&] { return aborting->left == 0; });
}

/// Each in a thread of its own: all flags are set at once, which lets everything end that waits on the GPU, and then
/// each waits for its graphs.
void NcclWorld::abortAll() {
  if (aborting)
    return;
  aborting = std::make_shared<Aborting>();
  std::set<ncclComm_t> all;
  for (auto &[group, comm] : comms)
    all.insert(comm);
  if (world)
    all.insert(world);
  aborting->left = all.size();
  for (ncclComm_t comm : all)
    std::thread([&nccl = nccl, &cuda = cuda, gpu = gpu, comm, state = aborting] {
      (void)cuda.cudaSetDevice(gpu);
      (void)nccl.ncclCommAbort(comm);
      std::lock_guard lock(state->mutex);
      --state->left;
      state->changed.notify_all();
    }).detach();
}

/// The error that counts, which is the first.
Error NcclWorld::lose(const Error &why, bool aborts) {
  std::lock_guard lock(mutex);
  if (!lost)
    lost = Error(Status::Lost, why.message(), why.node());
  if (aborts)
    abortAll();
  return lost;
}

/// Whoever is in NCCL should come out before its communicators go; if not, this is what lets it.
void NcclWorld::abort(const Error &why) {
  std::unique_lock lock(calling, patience);
  (void)lose(why, /*aborts=*/true);
}

Error NcclWorld::check() {
  std::unique_lock lock(calling, std::try_to_lock);
  if (!lock)
    return Error::success(); // a call is under way, and says itself what fails
  {
    std::lock_guard state(mutex);
    if (lost)
      return lost;
  }
  std::vector<ncclComm_t> all = {world};
  for (auto &[group, comm] : comms)
    all.push_back(comm);
  for (ncclComm_t comm : all) {
    ncclResult_t state = ncclSuccess, code = nccl.ncclCommGetAsyncError(comm, &state);
    if (code == ncclSuccess)
      code = state == ncclInProgress ? ncclSuccess : state;
    if (Error error = checkNccl(nccl, code, "communicating with other processes"))
      return lose(error, /*aborts=*/true);
  }
  return Error::success();
}

/// What a graph records cannot wait for what it does not, and need not: between the two everything has come to a stop.
void NcclWorld::beginStep(bool isCaptured) {
  if (isCaptured || wasCaptured)
    hasLast = false;
  wasCaptured = isCaptured;
}

Error NcclWorld::communicate(cudaStream_t stream, const char *what, const std::function<void(NcclCalls &calls)> &put) {
  std::lock_guard lock(calling);
  {
    std::lock_guard state(mutex);
    if (lost)
      return lost;
  }
  if (hasLast)
    if (Error error = checkCuda(cuda, cuda.cudaStreamWaitEvent(stream, last.get(), 0), "waiting for an event"))
      return error;
  NcclCalls calls(nccl);
  put(calls);
  if (Error error = calls.end(what))
    return lose(error, /*aborts=*/false);
  hasLast = true;
  return checkCuda(cuda, cuda.cudaEventRecord(last.get(), stream), "recording an event");
}

} // namespace cleave::runtime
