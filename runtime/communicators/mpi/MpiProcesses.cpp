// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Agreeing, gathering and comparing clocks over a communicator of their own.

#include "runtime/communicators/mpi/MpiProcesses.h"
#include "runtime/watch/Watch.h"

#include "runtime/Clock.h"
#include "runtime/communicators/mpi/MpiCommunicator.h"
#include "runtime/communicators/mpi/MpiMessages.h"
#include "runtime/communicators/mpi/MpiPeer.h"
#include "runtime/communicators/sockets/SocketMessages.h"
#include "runtime/watch/Logbook.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace cleave::runtime {
namespace {

constexpr uint64_t largestPart = uint64_t(1) << 30;

class MpiProcesses : public Processes {
public:
  MpiProcesses() {
    MPI_Comm_dup(MPI_COMM_WORLD, &control);
    MPI_Comm_rank(control, &ownRank);
    MPI_Comm_size(control, &size);
    compareClocks();
  }
  ~MpiProcesses() override {
    // Both wait for all processes where these are on several hosts.
    if (isSomebodyGone)
      return;
    MPI_Comm_free(&control);
    MPI_Finalize();
  }

  uint32_t rank() const override { return static_cast<uint32_t>(ownRank); }
  uint32_t count() const override { return static_cast<uint32_t>(size); }
  int64_t clockOffset() const override { return offset; }

  Error agree(const Error &error) override {
    // The smallest counts: an own error before one that has come from another process, that before none; and whether
    // there is a process without an error of its own. Of signals the largest counts.
    bool own = error && !namesRank(error);
    smallest = {!error ? 2 * size : own ? ownRank : size + ownRank, own ? 1 : 0, -ownStop};
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, smallest.data(), 3, MPI_INT, MPI_MIN, control, &request);
    if (!waiter.wait(std::span(&request, 1)))
      return Logbook::own()->firstLoss();
    commonStop = -smallest[2];
    if (smallest[0] == 2 * size)
      return Error::success();
    int root = smallest[0] % size;
    std::vector<std::byte> packed;
    if (root == ownRank)
      packed = packError(smallest[1] == 1 ? error : atRank(error, rank()));
    auto bytes = static_cast<int>(packed.size());
    MPI_Bcast(&bytes, 1, MPI_INT, root, control);
    packed.resize(static_cast<size_t>(bytes));
    MPI_Bcast(packed.data(), bytes, MPI_BYTE, root, control);
    return unpackError(packed);
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes) override {
    uint64_t own = bytes.size();
    std::vector<uint64_t> sizes(static_cast<size_t>(size));
    MPI_Gather(&own, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, 0, control);
    if (ownRank != 0) {
      for (uint64_t begin = 0; begin < own; begin += largestPart)
        MPI_Send(bytes.data() + begin, static_cast<int>(std::min(largestPart, own - begin)), MPI_BYTE, 0, 0, control);
      return {};
    }
    std::vector<std::vector<std::byte>> all;
    for (int from = 0; from != size; ++from) {
      std::vector<std::byte> &received = all.emplace_back();
      if (from == 0) {
        received.assign(bytes.begin(), bytes.end());
        continue;
      }
      received.resize(sizes[static_cast<size_t>(from)]);
      for (uint64_t begin = 0; begin < received.size(); begin += largestPart)
        MPI_Recv(received.data() + begin, static_cast<int>(std::min(largestPart, received.size() - begin)), MPI_BYTE,
                 from, 0, control, MPI_STATUS_IGNORE);
    }
    return all;
  }

  void broadcast(std::span<std::byte> bytes) override {
    for (uint64_t begin = 0; begin < bytes.size(); begin += largestPart)
      MPI_Bcast(bytes.data() + begin, static_cast<int>(std::min(largestPart, bytes.size() - begin)), MPI_BYTE, 0,
                control);
  }

  double maximum(double value) override {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, control, &request);
    waiter.wait(std::span(&request, 1));
    return value;
  }

  std::function<void()> peerOf(std::string_view collective, std::span<const std::byte> source,
                               std::span<std::byte> target) override {
    return mpiPeerOf(collective, source, target, control);
  }

  Expected<std::unique_ptr<Communicator>> createCommunicator(const Channels &channels,
                                                             const std::vector<uint32_t> &rankOfSite) override {
    return createMpiCommunicator(channels, rankOfSite, control, waiter, expectsLosses);
  }

  Expected<std::unique_ptr<Messages>> createMessages() override {
    if (!expectsLosses)
      return createMpiMessages(control);
    bool everywhere = areOnSeveralHosts();
    Listener listener = listenForProcesses(everywhere);
    Error error;
    if (listener.socket < 0)
      error = makeError(Status::Failure, "messages between processes expect a TCP port, got none: ", listener.error);
    if (Error failed = agree(error))
      return failed;
    MessageAddress own = messageAddress(listener, everywhere);
    std::vector<MessageAddress> all(count());
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, control);
    return createSocketMessages(rank(), std::move(listener), std::move(all));
  }

  Error watch(const WatchOptions &options) override {
    int guarded = isGuarded() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &guarded, 1, MPI_INT, MPI_MIN, control);
    if (guarded == 0)
      return Error::success();
    WatchAddress address;
    Error error;
    bool everywhere = areOnSeveralHosts();
    if (ownRank == 0) {
      auto opened = openWatch(everywhere);
      if (opened)
        address = *opened;
      error = opened.error();
    }
    if (Error failed = agree(error))
      return failed;
    uint64_t numbers[] = {address.port, address.token, address.addresses.size()};
    MPI_Bcast(numbers, 3, MPI_UINT64_T, 0, control);
    address.port = static_cast<uint16_t>(numbers[0]);
    address.token = numbers[1];
    address.addresses.resize(numbers[2]);
    MPI_Bcast(address.addresses.data(), static_cast<int>(numbers[2]), MPI_CHAR, 0, control);
    return agree(joinWatch(rank(), count(), address, options));
  }

  bool claimReport() override { return !Logbook::own() || Logbook::own()->claimReport(); }

  void abort(const Error &error) override {
    if (Logbook *book = Logbook::own()) {
      book->leaveBy(error);
      std::_Exit(static_cast<int>(error.status()));
    }
    std::fprintf(stderr, "error: rank %d: %s\n", ownRank, error.text().c_str());
    MPI_Abort(control, static_cast<int>(error.status()));
    std::_Exit(static_cast<int>(error.status()));
  }

private:
  bool areOnSeveralHosts() const {
    MPI_Comm host;
    int here = 0;
    MPI_Comm_split_type(control, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &here);
    MPI_Comm_free(&host);
    MPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_INT, MPI_MIN, control);
    return here != size;
  }

  /// Asks rank 0 for its time some times; the fastest answer counts, and only if it shows a difference (F. Cristian,
  /// "Probabilistic clock synchronization", 1989).
  void compareClocks() {
    constexpr int rounds = 10;
    for (int other = 1; other != size; ++other) {
      int64_t shortest = INT64_MAX;
      for (int round = 0; round != rounds && (ownRank == 0 || ownRank == other); ++round) {
        int64_t theirs = 0, asked = now();
        if (ownRank == 0) {
          MPI_Recv(&theirs, 1, MPI_INT64_T, other, 0, control, MPI_STATUS_IGNORE);
          theirs = now();
          MPI_Send(&theirs, 1, MPI_INT64_T, other, 0, control);
          continue;
        }
        MPI_Send(&theirs, 1, MPI_INT64_T, 0, 0, control);
        MPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, control, MPI_STATUS_IGNORE);
        int64_t answered = now();
        if (answered - asked >= shortest)
          continue;
        shortest = answered - asked;
        bool apart = theirs < asked || theirs > answered;
        offset = apart ? theirs - asked - shortest / 2 : 0;
      }
    }
  }

  MPI_Comm control = MPI_COMM_NULL;
  int ownRank = 0, size = 1;
  int64_t offset = 0;
  std::array<int, 3> smallest{}; ///< of agree: outlives a wait that is given up
  MpiWaiter waiter{{}, [this] { return expectsLosses && Logbook::own() && Logbook::own()->firstLoss(); }};
};

} // namespace

Expected<std::unique_ptr<Processes>> startMpi() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return makeError(Status::Unsupported,
                     "runs on several processes expect an MPI that several threads may call at "
                     "the same time (MPI_THREAD_MULTIPLE), got level ",
                     provided, "; use an MPI built with threads");
  }
  return std::unique_ptr<Processes>(std::make_unique<MpiProcesses>());
}

} // namespace cleave::runtime
