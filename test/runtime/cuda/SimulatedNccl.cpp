// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group is one piece of work on its stream. Its sends and receives are under way together; its collectives come one
// after the other.

#include "SimulatedNccl.h"

#include "SimulatedCuda.h"

#include "runtime/Reduction.h"
#include "runtime/communicators/mpi/Mpi.h"

#include <map>
#include <optional>

struct ncclComm {
  MPI_Comm comm = MPI_COMM_NULL;
};

namespace cleave::simulated {
namespace {

using runtime::Combiner;
using runtime::ElementType;

/// What is done when the stream gets there.
struct Call {
  cudaStream_t stream = nullptr;
  /// Begins; sends and receives leave a request that ends them.
  std::function<void(std::vector<MPI_Request> &)> begin;
};

int theVersion = 0;
thread_local int depth = 0;
thread_local std::vector<Call> calls;

ncclResult_t flush() {
  std::map<cudaStream_t, std::vector<Call>> byStream;
  for (Call &call : calls)
    byStream[call.stream].push_back(std::move(call));
  calls.clear();
  for (auto &[stream, list] : byStream)
    enqueue(stream, [list = std::move(list)] {
      std::vector<MPI_Request> requests;
      for (const Call &call : list)
        call.begin(requests);
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    });
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
void reduce(MPI_Comm comm, const std::byte *source, std::byte *target, size_t all, size_t first, size_t elements,
            ElementType element, Combiner combiner) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  size_t bytes = all * elementBytes(element);
  std::vector<std::byte> gathered(bytes * static_cast<size_t>(size));
  MPI_Allgather(source, static_cast<int>(bytes), MPI_BYTE, gathered.data(), static_cast<int>(bytes), MPI_BYTE, comm);
  std::vector<const std::byte *> sources;
  for (int rank = 0; rank != size; ++rank)
    sources.push_back(gathered.data() + static_cast<size_t>(rank) * bytes + first * elementBytes(element));
  runtime::combine(element, combiner, sources, std::span(&target, 1), elements, /*streams=*/false);
}

ncclResult_t getVersion(int *version) {
  *version = theVersion;
  return ncclSuccess;
}
ncclResult_t getUniqueId(ncclUniqueId *id) {
  *id = {};
  return ncclSuccess;
}
const char *getErrorString(ncclResult_t) { return "simulated"; }
const char *getLastError(ncclComm_t) { return ""; }

ncclResult_t commInitRank(ncclComm_t *made, int count, ncclUniqueId, int rank) {
  meetHang("ncclCommInitRank");
  int size = 0, own = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  if (size != count || own != rank)
    return ncclInvalidArgument;
  *made = new ncclComm;
  MPI_Comm_dup(MPI_COMM_WORLD, &(*made)->comm);
  return ncclSuccess;
}

ncclResult_t commSplit(ncclComm_t from, int color, int key, ncclComm_t *made, ncclConfig_t *) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(from->comm, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &comm);
  *made = comm == MPI_COMM_NULL ? nullptr : new ncclComm{comm};
  return ncclSuccess;
}

ncclResult_t commDestroy(ncclComm_t comm) {
  MPI_Comm_free(&comm->comm);
  delete comm;
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
  return add({stream, [=](std::vector<MPI_Request> &requests) {
                MPI_Isend(source, static_cast<int>(bytes), MPI_BYTE, peer, 0, comm->comm, &requests.emplace_back());
              }});
}

ncclResult_t receiveFrom(void *target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream) {
  size_t bytes = count * elementBytes(elementOf(type));
  return add({stream, [=](std::vector<MPI_Request> &requests) {
                MPI_Irecv(target, static_cast<int>(bytes), MPI_BYTE, peer, 0, comm->comm, &requests.emplace_back());
              }});
}

ncclResult_t allReduce(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                       ncclComm_t comm, cudaStream_t stream) {
  return add({stream, [=](std::vector<MPI_Request> &) {
                reduce(comm->comm, static_cast<const std::byte *>(source), static_cast<std::byte *>(target), count, 0,
                       count, elementOf(type), combinerOf(operation));
              }});
}

ncclResult_t reduceScatter(const void *source, void *target, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({stream, [=](std::vector<MPI_Request> &) {
                int size = 0, rank = 0;
                MPI_Comm_size(comm->comm, &size);
                MPI_Comm_rank(comm->comm, &rank);
                reduce(comm->comm, static_cast<const std::byte *>(source), static_cast<std::byte *>(target),
                       count * static_cast<size_t>(size), count * static_cast<size_t>(rank), count, elementOf(type),
                       combinerOf(operation));
              }});
}

const runtime::Nccl &table() {
  static const runtime::Nccl made = [] {
    runtime::Nccl nccl;
    nccl.ncclAllReduce = allReduce;
    nccl.ncclCommDestroy = commDestroy;
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
  runtime::replaceCudaLibrary<runtime::Nccl>(&table());
}

NcclLibrary::~NcclLibrary() { runtime::replaceCudaLibrary<runtime::Nccl>(nullptr); }

} // namespace cleave::simulated
