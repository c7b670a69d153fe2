// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group is one piece of work on its stream, that begins and is asked for until it is over.

#include "SimulatedNccl.h"

#include "SimulatedCuda.h"

#include "runtime/Reduction.h"
#include "runtime/communicators/mpi/Mpi.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

struct ncclComm {
  int rank = 0, size = 1, gpu = 0;
  MPI_Comm comm = MPI_COMM_NULL; ///< none for a rank alone
  std::atomic<bool> isAborted{false};
};

namespace cleave::simulated {
namespace {

using runtime::Combiner;
using runtime::ElementType;

/// Shared with work on its way, and with the graphs that it is captured in: who else has it is who uses it.
using Comm = std::shared_ptr<ncclComm>;

/// What is under way of a group.
struct Underway {
  std::vector<MPI_Request> requests;
  std::vector<std::function<void()>> atTheEnd;
  std::deque<std::pair<const void *, size_t>> toItself; ///< sent, and not received yet
};

/// A call of a group.
struct Call {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<std::pair<const void *, uint64_t>> buffers;
  /// Sends and receives are under way together; a collective is over when all requests are.
  std::function<void(const ncclComm &comm, Underway &underway)> begin;
};

int theVersion = 0;
thread_local int depth = 0;
thread_local std::vector<Call> calls;
std::mutex mutex;
std::map<ncclComm_t, Comm> comms; ///< that there are
/// How many groups still run before the network is lost, and whether it is.
std::optional<uint64_t> groupsLeft;
std::atomic<bool> isNetworkLost{false};

Comm find(ncclComm_t comm) {
  std::lock_guard lock(mutex);
  auto found = comms.find(comm);
  if (found != comms.end())
    return found->second;
  noteMisuse("use of a communicator that is gone");
  return nullptr;
}

/// Whether the network goes on.
bool meetNetwork() {
  std::lock_guard lock(mutex);
  if (groupsLeft && (*groupsLeft == 0 || (*groupsLeft)-- == 0))
    isNetworkLost = true;
  return !isNetworkLost;
}

/// A group on a stream; copies begin anew, as replays of a graph do.
class Group {
public:
  Group(Comm comm, std::vector<Call> calls) : comm(std::move(comm)), calls(std::move(calls)) {}
  Group(const Group &other) : comm(other.comm), calls(other.calls) {}

  bool operator()() {
    if (comm->isAborted)
      return true;
    if (!hasBegun) {
      hasBegun = true;
      goesOn = meetNetwork();
      for (const Call &call : calls)
        if (goesOn)
          call.begin(*comm, underway);
    }
    int areOver = goesOn && underway.toItself.empty();
    if (areOver && !underway.requests.empty())
      MPI_Testall(static_cast<int>(underway.requests.size()), underway.requests.data(), &areOver, MPI_STATUSES_IGNORE);
    for (auto &end : underway.atTheEnd)
      if (areOver)
        end();
    return areOver;
  }

private:
  Comm comm;
  std::vector<Call> calls;
  Underway underway;
  bool hasBegun = false, goesOn = true;
};

/// What NCCL refuses of a group.
bool isSound(const std::vector<Call> &group) {
  for (const Call &call : group)
    if (captureOf(call.stream) != captureOf(group.front().stream)) {
      noteMisuse("a group of calls of which some are captured, or in different graphs");
      return false;
    }
  return true;
}

ncclResult_t flush() {
  std::vector<Call> group = std::exchange(calls, {});
  if (!isSound(group))
    return ncclInvalidUsage;
  std::map<std::pair<ncclComm_t, cudaStream_t>, std::vector<Call>> lists;
  for (Call &call : group)
    lists[{call.comm, call.stream}].push_back(std::move(call));
  for (auto &[place, list] : lists) {
    Comm comm = find(place.first);
    if (!comm || comm->isAborted)
      return ncclInvalidArgument;
    Communication communication;
    communication.gpu = comm->gpu;
    communication.kept = comm;
    for (const Call &call : list)
      communication.buffers.insert(communication.buffers.end(), call.buffers.begin(), call.buffers.end());
    communication.work = Group(comm, std::move(list));
    enqueue(place.second, std::move(communication));
  }
  return ncclSuccess;
}

ncclResult_t add(Call call) {
  calls.push_back(std::move(call));
  return depth == 0 ? flush() : ncclSuccess;
}

ElementType elementOf(ncclDataType_t type) {
  static const std::map<ncclDataType_t, ElementType> known = {
      {ncclInt8, ElementType::I8},     {ncclUint8, ElementType::U8},      {ncclInt32, ElementType::I32},
      {ncclInt64, ElementType::I64},   {ncclUint32, ElementType::U32},    {ncclUint64, ElementType::U64},
      {ncclFloat16, ElementType::F16}, {ncclBfloat16, ElementType::BF16}, {ncclFloat32, ElementType::F32},
      {ncclFloat64, ElementType::F64}};
  return known.at(type);
}

Combiner combinerOf(ncclRedOp_t operation) {
  static const std::map<ncclRedOp_t, Combiner> known = {
      {ncclSum, Combiner::Sum}, {ncclProd, Combiner::Product}, {ncclMax, Combiner::Max}, {ncclMin, Combiner::Min}};
  return known.at(operation);
}

/// Writes the combination of `elements` elements, from `first` on, of all ranks' `all` elements.
void reduce(const ncclComm &comm, Underway &underway, const std::byte *source, std::byte *target, size_t all,
            size_t first, size_t elements, ElementType element, Combiner combiner) {
  size_t bytes = all * elementBytes(element);
  auto gathered = std::make_shared<std::vector<std::byte>>(bytes * static_cast<size_t>(comm.size));
  if (comm.size == 1)
    std::memcpy(gathered->data(), source, bytes);
  else
    MPI_Iallgather(source, static_cast<int>(bytes), MPI_BYTE, gathered->data(), static_cast<int>(bytes), MPI_BYTE,
                   comm.comm, &underway.requests.emplace_back());
  underway.atTheEnd.push_back([=, size = static_cast<size_t>(comm.size)] {
    std::vector<const std::byte *> sources;
    for (size_t rank = 0; rank != size; ++rank)
      sources.push_back(gathered->data() + rank * bytes + first * elementBytes(element));
    runtime::combine(element, combiner, sources, std::span(&target, 1), elements, /*streams=*/false);
  });
}

ncclResult_t getVersion(int *version) {
  *version = theVersion;
  return ncclSuccess;
}
ncclResult_t getUniqueId(ncclUniqueId *id) {
  *id = {};
  return ncclSuccess;
}
const char *getErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited or there was a network error" : "simulated";
}
const char *getLastError(ncclComm_t) { return ""; }

ncclComm_t make(int rank, int size, MPI_Comm comm) {
  auto made = std::make_shared<ncclComm>();
  made->rank = rank;
  made->size = size;
  made->comm = comm;
  (*runtime::cudaRuntime())->cudaGetDevice(&made->gpu);
  std::lock_guard lock(mutex);
  return comms.emplace(made.get(), made).first->first;
}

ncclResult_t commInitRank(ncclComm_t *made, int count, ncclUniqueId, int rank) {
  meetHang("ncclCommInitRank");
  if (count == 1) {
    *made = make(0, 1, MPI_COMM_NULL);
    return ncclSuccess;
  }
  int size = 0, own = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  if (size != count || own != rank)
    return ncclInvalidArgument;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  *made = make(rank, count, comm);
  return ncclSuccess;
}

ncclResult_t commSplit(ncclComm_t handle, int color, int key, ncclComm_t *made, ncclConfig_t *) {
  Comm from = find(handle);
  if (!from)
    return ncclInvalidArgument;
  *made = nullptr;
  if (from->size == 1) {
    if (color != NCCL_SPLIT_NOCOLOR)
      *made = make(0, 1, MPI_COMM_NULL);
    return ncclSuccess;
  }
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(from->comm, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &comm);
  if (comm == MPI_COMM_NULL)
    return ncclSuccess;
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  *made = make(rank, size, comm);
  return ncclSuccess;
}

/// Out of the list of those that there are.
Comm take(ncclComm_t handle) {
  Comm comm = find(handle);
  std::lock_guard lock(mutex);
  comms.erase(handle);
  return comm;
}

/// NCCL waits for what is on its way, and then for the graphs, without end.
ncclResult_t commDestroy(ncclComm_t handle) {
  Comm comm = take(handle);
  if (!comm)
    return ncclInvalidArgument;
  (*runtime::cudaRuntime())->cudaSetDevice(comm->gpu);
  (*runtime::cudaRuntime())->cudaDeviceSynchronize();
  if (comm.use_count() != 1)
    noteMisuse("a communicator destroyed before the graphs that captured it, for which NCCL waits without end");
  if (comm->comm != MPI_COMM_NULL)
    MPI_Comm_free(&comm->comm);
  return ncclSuccess;
}

/// Ends what is on its way, and waits for the graphs as well. MPI keeps what it has: others do not free theirs with it.
ncclResult_t commAbort(ncclComm_t handle) {
  Comm comm = find(handle);
  if (!comm)
    return ncclInvalidArgument;
  comm->isAborted = true;
  while (comm.use_count() > 2) {
    progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  (void)take(handle);
  return ncclSuccess;
}

ncclResult_t commGetAsyncError(ncclComm_t handle, ncclResult_t *error) {
  if (!find(handle))
    return ncclInvalidArgument;
  *error = isNetworkLost ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t groupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t groupEnd() { return --depth == 0 ? flush() : ncclSuccess; }

ncclResult_t sendTo(const void *source, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                    cudaStream_t stream) {
  size_t bytes = count * elementBytes(elementOf(type));
  return add({comm, stream, {{source, bytes}}, [=](const ncclComm &on, Underway &underway) {
                if (on.size == 1)
                  underway.toItself.emplace_back(source, bytes);
                else
                  MPI_Isend(source, static_cast<int>(bytes), MPI_BYTE, peer, 0, on.comm,
                            &underway.requests.emplace_back());
              }});
}

/// From itself: what was sent before, in the same group.
ncclResult_t receiveFrom(void *target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream) {
  size_t bytes = count * elementBytes(elementOf(type));
  return add({comm, stream, {{target, bytes}}, [=](const ncclComm &on, Underway &underway) {
                if (on.size != 1) {
                  MPI_Irecv(target, static_cast<int>(bytes), MPI_BYTE, peer, 0, on.comm,
                            &underway.requests.emplace_back());
                } else if (underway.toItself.empty() || underway.toItself.front().second != bytes) {
                  noteMisuse("a message to itself that is not sent in the group in which it is received");
                } else {
                  std::memcpy(target, underway.toItself.front().first, bytes);
                  underway.toItself.pop_front();
                }
              }});
}

ncclResult_t allReduce(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                       ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * elementBytes(elementOf(type));
  return add({comm, stream, {{source, bytes}, {target, bytes}}, [=](const ncclComm &on, Underway &underway) {
                reduce(on, underway, static_cast<const std::byte *>(source), static_cast<std::byte *>(target), count, 0,
                       count, elementOf(type), combinerOf(operation));
              }});
}

ncclResult_t reduceScatter(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * elementBytes(elementOf(type));
  Comm on = find(comm);
  auto ranks = static_cast<size_t>(on ? on->size : 1);
  return add({comm, stream, {{source, bytes * ranks}, {target, bytes}}, [=](const ncclComm &on, Underway &underway) {
                auto rank = static_cast<size_t>(on.rank);
                reduce(on, underway, static_cast<const std::byte *>(source), static_cast<std::byte *>(target),
                       count * ranks, count * rank, count, elementOf(type), combinerOf(operation));
              }});
}

const runtime::Nccl &table() {
  static const runtime::Nccl made = [] {
    runtime::Nccl nccl;
    nccl.ncclAllReduce = allReduce;
    nccl.ncclCommAbort = commAbort;
    nccl.ncclCommDestroy = commDestroy;
    nccl.ncclCommGetAsyncError = commGetAsyncError;
    nccl.ncclCommInitRank = commInitRank;
    nccl.ncclCommSplit = commSplit;
    nccl.ncclGetErrorString = getErrorString;
    nccl.ncclGetLastError = getLastError;
    nccl.ncclGetUniqueId = getUniqueId;
    nccl.ncclGetVersion = getVersion;
    nccl.ncclGroupEnd = groupEnd;
    nccl.ncclGroupStart = groupStart;
    nccl.ncclRecv = receiveFrom;
    nccl.ncclReduceScatter = reduceScatter;
    nccl.ncclSend = sendTo;
    return nccl;
  }();
  return made;
}

} // namespace

NcclLibrary::NcclLibrary(int version) {
  theVersion = version;
  groupsLeft.reset();
  isNetworkLost = false;
  runtime::replaceCudaLibrary<runtime::Nccl>(&table());
}

NcclLibrary::~NcclLibrary() { runtime::replaceCudaLibrary<runtime::Nccl>(nullptr); }

void NcclLibrary::loseNetwork(uint64_t after) {
  std::lock_guard lock(mutex);
  groupsLeft = after;
}

size_t NcclLibrary::communicators() const {
  std::lock_guard lock(mutex);
  return comms.size();
}

} // namespace cleave::simulated
