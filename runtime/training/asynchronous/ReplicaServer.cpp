// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread for each replica of the process.

#include "runtime/training/asynchronous/ReplicaServer.h"

#include "runtime/Processes.h"
#include "runtime/training/StopSignals.h"
#include "runtime/watch/Logbook.h"

#include <thread>

namespace cleave::runtime {

/// The process of the keeper.
constexpr uint32_t keeperRank = 0;

Error ReplicaServer::add(uint32_t number, ParameterSource &parameters, std::span<const NamedTensor> restored,
                         ReplicaTrial trial) {
  auto version = allocateVersion(plan);
  if (!version)
    return version.error();
  auto replica = std::make_unique<LocalReplica>(plan, number, data, trial);
  if (Error error = replica->create(parameters, restored, true))
    return error;
  all.push_back({number, std::move(replica), std::move(*version)});
  return Error::success();
}

std::vector<DeviceMemory> ReplicaServer::memory() const {
  std::vector<DeviceMemory> devices;
  for (const Served &served : all)
    for (const DeviceMemory &device : served.replica->memory())
      devices.push_back(device);
  return devices;
}

Expected<ReplicaEnd> ReplicaServer::serve() {
  std::vector<Expected<ReplicaEnd>> ends(all.size(), ReplicaEnd());
  std::vector<std::thread> threads;
  for (size_t i = 0; i != all.size(); ++i)
    threads.emplace_back([&, i] { ends[i] = serve(all[i]); });
  for (std::thread &thread : threads)
    thread.join();
  return ends.front();
}

Expected<ReplicaEnd> ReplicaServer::serve(Served &served) {
  // What is said of it when it dies between instructions.
  NotedActivity noted(ActivityKind::Between, "as " + served.replica->text());
  for (;;) {
    ReplicaRequest request;
    if (Error error = messages.receive(keeperRank, served.number, {partOf(request)}))
      return error;
    if (request.kind == ReplicaRequest::Kind::End)
      return request.end;
    bool works = request.kind == ReplicaRequest::Kind::Work;
    if (Error error = works ? work(served, request) : sendState(served))
      return error;
  }
}

Error ReplicaServer::work(Served &served, const ReplicaRequest &request) {
  std::vector<uint64_t> numbers(request.steps + request.samples);
  Messages::Parts parts = {partOf(numbers)};
  if (request.hasVersion != 0)
    addParts(parts, served.version);
  if (Error error = messages.receive(keeperRank, served.number, parts))
    return error;
  ReplicaWork work;
  work.version = request.hasVersion != 0 ? &served.version : nullptr;
  work.steps = request.steps;
  work.fetches = request.hasVersion != 0;
  work.merges = request.merges != 0;
  work.gives = request.gives != 0;
  if (request.exchanges != 0)
    work.exchangesAfter = request.exchangesAfter;
  work.exchange = [&](const Gifts &gifts) { return exchange(served, gifts); };
  auto next = numbers.begin() + static_cast<ptrdiff_t>(request.steps);
  for (uint64_t step = 0; step != request.steps; ++step) {
    auto end = next + static_cast<ptrdiff_t>(numbers[step]);
    work.samples.emplace_back(next, end);
    next = end;
  }
  auto done = served.replica->run(work);
  if (!done)
    return reply(served, done.error(), {});
  Messages::Parts answer = {partOf(*done)};
  if (work.gives)
    addParts(answer, served.replica->gifts());
  return reply(served, Error::success(), answer);
}

Expected<Version> ReplicaServer::exchange(Served &served, const Gifts &gifts) {
  Messages::Parts parts;
  addParts(parts, gifts);
  if (Error error = reply(served, Error::success(), parts))
    return error;
  VersionAnswer answer;
  if (Error error = messages.receive(keeperRank, served.number, {partOf(answer)}))
    return error;
  if (answer.isMade == 0)
    return makeError(Status::Lost, "has no version to go on with: the run has failed elsewhere");
  parts.clear();
  addParts(parts, served.version);
  if (Error error = messages.receive(keeperRank, served.number, parts))
    return error;
  // It lies there until it is merged, at the beginning of the next work.
  return Version(std::shared_ptr<void>(), &served.version);
}

Error ReplicaServer::sendState(Served &served) {
  auto state = served.replica->ownState();
  if (!state)
    return reply(served, state.error(), {});
  Messages::Parts parts;
  for (const NamedTensor &each : *state)
    parts.push_back(each.tensor.bytes());
  return reply(served, Error::success(), parts);
}

Error ReplicaServer::reply(const Served &served, const Error &error, const Messages::Parts &parts) {
  std::vector<std::byte> packed;
  if (error)
    packed = packError(error);
  ReplicaReply reply{packed.size(), StopSignals::asked()};
  if (Error failed = messages.send(keeperRank, served.number, {partOf(reply)}))
    return failed;
  if (error)
    return messages.send(keeperRank, served.number, {partOf(packed)});
  return messages.send(keeperRank, served.number, {parts.begin(), parts.end()});
}

} // namespace cleave::runtime
