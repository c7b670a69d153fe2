// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several processes that run one plan together. Each has the whole plan and runs the devices that are its own.

#ifndef CLEAVE_RUNTIME_PROCESSES_H
#define CLEAVE_RUNTIME_PROCESSES_H

#include "runtime/Communicator.h"
#include "runtime/Messages.h"

#include <functional>
#include <memory>
#include <string>

namespace cleave::runtime {

struct WatchOptions;

/// The processes of a run, as one of them sees them. Every method but rank, count, clockOffset, claimReport, abort,
/// setSomebodyGone and those about a signal is called by all processes together, in the same order, from one thread of
/// each; what peerOf gives as well.
class Processes {
public:
  virtual ~Processes() = default;
  /// This process's number, from 0.
  virtual uint32_t rank() const = 0;
  virtual uint32_t count() const = 0;
  /// Success if every process brings success. Otherwise all get the error of the first process that failed by itself,
  /// which then names its rank, unless all processes failed and none is to be told from the others.
  virtual Error agree(const Error &error) = 0;
  /// Tells the others, with each agreement from here on, that a signal has asked this process to end; 0: none has.
  void setStopSignal(int signal) { ownStop = signal; }
  /// The largest such signal of all processes, in all of them as of their last agreement.
  int stopSignal() const { return commonStop; }
  /// Said by all before they create communicators or messages: rank 0 may go on when others are lost
  /// (Logbook::setAfterLoss). What it waits for from others is over then, with nothing in it; memory that is on its way
  /// to or from them must live on.
  void expectLosses() { expectsLosses = true; }
  /// One of the processes is gone, and the run has gone on without it: the end of this object then waits for none.
  void setSomebodyGone() { isSomebodyGone = true; }
  /// The bytes of every process, by rank, at rank 0; nothing at the others.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes) = 0;
  /// Gives rank 0's bytes to all; the others have as many.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  /// The largest of the processes' values.
  virtual double maximum(double value) = 0;
  /// Does once what the transport itself has for a collective of runtime/CollectiveBench.h on f32, with a device in
  /// each process, to be measured beside ours. Empty where it has none.
  virtual std::function<void()> peerOf(std::string_view collective, std::span<const std::byte> source,
                                       std::span<std::byte> target) = 0;
  /// What to add to this process's steady clock to have rank 0's, in nanoseconds; 0 if they cannot be told apart.
  virtual int64_t clockOffset() const = 0;
  /// A communicator for the sites of this process: those with rankOfSite[site] == rank(). `channels`, which must
  /// outlive it, has been made for these sites. Status::Unsupported when the transport cannot carry a channel.
  virtual Expected<std::unique_ptr<Communicator>> createCommunicator(const Channels &channels,
                                                                     const std::vector<uint32_t> &rankOfSite) = 0;
  /// Messages between any two of the processes. The error, if they do not find each other, is agreed on.
  virtual Expected<std::unique_ptr<Messages>> createMessages() = 0;
  /// From here on all end when one of them dies or stops (Watch.h); without effect on processes that have no guard. The
  /// error, if their guards do not find each other, is agreed on.
  virtual Error watch(const WatchOptions &options) = 0;
  /// Whether nobody else says what is wrong; rank 0 asks before it does.
  virtual bool claimReport() = 0;
  /// Ends all processes at once with the error's exit code. The error, which the others do not know, is said once.
  [[noreturn]] virtual void abort(const Error &error) = 0;

protected:
  int ownStop = 0, commonStop = 0;
  bool expectsLosses = false, isSomebodyGone = false;
};

/// Whether a launcher has started this process together with others: what Open MPI, MPICH and PMIx tell their
/// processes.
bool isStartedWithOthers();
/// The rank that the launcher has given it; 0 if it has not said.
uint32_t rankOfLauncher();

/// The same error with "rank N: " before its message, unless it names a rank already.
Error atRank(const Error &error, uint32_t rank);
/// Whether the error has been through atRank.
bool namesRank(const Error &error);

/// An error, success included, as bytes for another process.
std::vector<std::byte> packError(const Error &error);
Error unpackError(std::span<const std::byte> bytes);

/// Which process runs each device. `lists` has an element for each process, its devices as "0,2,4-7"; without lists
/// each process gets a block of as equal a size as possible. Status::Usage unless each device has one process and each
/// process a device.
Expected<std::vector<uint32_t>> divideDevices(uint32_t devices, uint32_t processes,
                                              const std::vector<std::string> &lists);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROCESSES_H
