// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requests and their replies.

#include "runtime/training/asynchronous/RemoteReplica.h"

#include "runtime/Processes.h"
#include "runtime/training/StopSignals.h"

#include <utility>

namespace cleave::runtime {

Error RemoteReplica::create() {
  auto made = allocateGifts(plan);
  if (!made)
    return made.error();
  given = std::move(*made);
  return Error::success();
}

Error RemoteReplica::rememberState() {
  remembers = true;
  return ownState().error();
}

Error RemoteReplica::lost(const Error &error) {
  isLost = true;
  return Error(error.status(), "is gone: " + error.message(), error.node());
}

Error RemoteReplica::send(const Messages::Parts &parts) {
  Error error = messages.send(rank, number, {parts.begin(), parts.end()});
  return error ? lost(error) : error;
}

Error RemoteReplica::receive(const Messages::Parts &parts) {
  Error error = messages.receive(rank, number, parts);
  return error ? lost(error) : error;
}

Error RemoteReplica::receiveReply() {
  if (Error error = receive({partOf(reply)}))
    return error;
  if (reply.signal != 0)
    StopSignals::ask(static_cast<int>(reply.signal));
  if (reply.errorBytes == 0)
    return Error::success();
  packed.resize(reply.errorBytes);
  Error error = receive({partOf(packed)});
  return error ? error : unpackError(packed);
}

Expected<std::vector<ReplicaOutcome>> RemoteReplica::run(const ReplicaWork &work) {
  request = {};
  request.hasVersion = work.version ? 1 : 0;
  request.merges = work.merges ? 1 : 0;
  request.gives = work.gives ? 1 : 0;
  request.exchanges = work.exchangesAfter ? 1 : 0;
  request.exchangesAfter = work.exchangesAfter.value_or(0);
  request.steps = work.samples.size();
  numbers.clear();
  for (const std::vector<uint64_t> &step : work.samples)
    numbers.push_back(step.size());
  for (const std::vector<uint64_t> &step : work.samples)
    numbers.insert(numbers.end(), step.begin(), step.end());
  request.samples = numbers.size() - request.steps;
  Messages::Parts parts = {partOf(numbers)};
  if (work.version)
    addParts(parts, *work.version);
  if (Error error = send({partOf(request)}))
    return error;
  if (Error error = send(parts))
    return error;
  if (work.exchangesAfter)
    if (Error error = exchange(work))
      return error;
  if (Error error = receiveReply())
    return error;
  outcomes.resize(request.steps);
  Messages::Parts results = {partOf(outcomes)};
  if (work.gives)
    addParts(results, given);
  if (Error error = receive(results))
    return error;
  return outcomes;
}

Error RemoteReplica::exchange(const ReplicaWork &work) {
  if (Error error = receiveReply())
    return error;
  Messages::Parts gifts;
  addParts(gifts, given);
  if (Error error = receive(gifts))
    return error;
  auto made = work.exchange(given);
  answer.isMade = made ? 1 : 0;
  if (Error error = send({partOf(answer)}))
    return error;
  if (!made) {
    // It replies that it has no version; why is known here.
    (void)receiveReply();
    return made.error();
  }
  version = std::move(*made);
  Messages::Parts parts;
  addParts(parts, *version);
  return send(parts);
}

Expected<std::vector<NamedTensor>> RemoteReplica::ownState() {
  if (remembers && isLost)
    return own;
  request = {};
  request.kind = ReplicaRequest::Kind::OwnState;
  Messages::Parts parts;
  asked.clear();
  for (uint32_t index : ownParameters(plan)) {
    const Parameter &parameter = plan->parameters[index];
    auto tensor = HostTensor::allocate(parameter.type);
    if (!tensor)
      return tensor.error();
    asked.push_back({ownStateName(number, parameter.name), *tensor});
    parts.push_back(tensor->bytes());
  }
  Error error = send({partOf(request)});
  if (!error)
    error = receiveReply();
  if (!error)
    error = receive(parts);
  if (remembers && isLost)
    return own;
  if (error)
    return error;
  if (remembers)
    own = asked;
  return std::exchange(asked, {});
}

void RemoteReplica::end(const ReplicaEnd &how) {
  request = {};
  request.kind = ReplicaRequest::Kind::End;
  request.end = how;
  // One that is gone needs no end.
  if (!isLost)
    (void)send({partOf(request)});
}

} // namespace cleave::runtime
