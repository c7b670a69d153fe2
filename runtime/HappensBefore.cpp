// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the graph of a phase's events and walks it in topological order, carrying vector clocks along.

#include "runtime/HappensBefore.h"

#include <algorithm>
#include <map>

namespace cleave::runtime {

HappensBefore::HappensBefore(const PlanContents &plan, const Entry &entry, Phase phase)
    : plan(plan), entry(entry), phase(phase) {
  number();
  pair();
  connect();
}

const Instruction &HappensBefore::instructionOf(Occurrence occurrence) const {
  return entry.programs[occurrence.program].instructions(phase)[occurrence.instruction];
}

bool HappensBefore::isSingle(uint32_t program) const {
  return plan.meshes[entry.programs[program].mesh].devices.size() == 1;
}

/// Numbers nodes and queues, and each node's value on its queue's timeline.
void HappensBefore::number() {
  for (uint32_t index = 0; index != entry.programs.size(); ++index) {
    const Program &program = entry.programs[index];
    firstNode.push_back(static_cast<uint32_t>(queueOf.size()));
    firstQueue.push_back(numQueues);
    std::vector<uint32_t> values(program.queues.size());
    for (const Instruction &instruction : program.instructions(phase)) {
      queueOf.push_back(numQueues + instruction.queue);
      valueOf.push_back(++values[instruction.queue]);
      programOf.push_back(index);
    }
    numQueues += values.size();
  }
}

/// Makes the events: one for each instruction, but one for a send with its receive.
void HappensBefore::pair() {
  std::map<uint32_t, uint32_t> eventOfChannel;
  eventOf.resize(queueOf.size());
  for (uint32_t node = 0; node != queueOf.size(); ++node) {
    Occurrence occurrence{programOf[node], node - firstNode[programOf[node]]};
    const Action &action = instructionOf(occurrence).action;
    auto next = static_cast<uint32_t>(events.size());
    const auto *send = std::get_if<Send>(&action);
    const auto *receive = std::get_if<Receive>(&action);
    eventOf[node] = send      ? eventOfChannel.try_emplace(send->channel, next).first->second
                    : receive ? eventOfChannel.try_emplace(receive->channel, next).first->second
                              : next;
    if (eventOf[node] == next) {
      events.emplace_back();
      merges.push_back(true);
    }
    events[eventOf[node]].push_back(occurrence);
    merges[eventOf[node]] = merges[eventOf[node]] && isSingle(occurrence.program);
  }
}

/// Adds an edge to each node and event from those that it waits for.
void HappensBefore::connect() {
  std::vector<std::vector<uint32_t>> nodesOfQueue(numQueues);
  for (uint32_t node = 0; node != queueOf.size(); ++node)
    nodesOfQueue[queueOf[node]].push_back(node);
  nodesBefore.resize(queueOf.size());
  predecessors.resize(events.size());
  successors.resize(events.size());
  auto addEdge = [&](uint32_t from, uint32_t to) {
    nodesBefore[to].push_back(from);
    predecessors[eventOf[to]].push_back(eventOf[from]);
    successors[eventOf[from]].push_back(eventOf[to]);
  };
  for (uint32_t node = 0; node != queueOf.size(); ++node) {
    if (valueOf[node] > 1)
      addEdge(nodesOfQueue[queueOf[node]][valueOf[node] - 2], node);
    Occurrence occurrence{programOf[node], node - firstNode[programOf[node]]};
    for (const Wait &wait : instructionOf(occurrence).waits)
      if (wait.value > 0)
        addEdge(nodesOfQueue[firstQueue[programOf[node]] + wait.queue][wait.value - 1], node);
  }
}

HappensBefore::Clock HappensBefore::clockOf(uint32_t node, const std::vector<std::vector<Clock>> &clocks) const {
  Clock clock(numQueues);
  for (uint32_t earlier : nodesBefore[node]) {
    uint32_t event = eventOf[earlier];
    for (size_t member = 0; member != events[event].size(); ++member) {
      uint32_t other = nodeOf(events[event][member]);
      if (other != earlier && !merges[event])
        continue;
      for (uint32_t queue = 0; queue != numQueues; ++queue)
        clock[queue] = std::max(clock[queue], clocks[event][member][queue]);
      clock[queueOf[other]] = std::max(clock[queueOf[other]], valueOf[other]);
    }
  }
  return clock;
}

Error HappensBefore::walk(const Visitor &visit) const {
  std::vector<uint32_t> missing(events.size()), unread(events.size()), ready;
  for (uint32_t event = 0; event != events.size(); ++event) {
    missing[event] = static_cast<uint32_t>(predecessors[event].size());
    unread[event] = static_cast<uint32_t>(successors[event].size());
    if (missing[event] == 0)
      ready.push_back(event);
  }
  // A clock says what is over before its instruction begins; it is dropped once every successor has merged it.
  std::vector<std::vector<Clock>> clocks(events.size());
  for (size_t next = 0; next != ready.size(); ++next) {
    uint32_t event = ready[next];
    for (Occurrence occurrence : events[event])
      clocks[event].push_back(clockOf(nodeOf(occurrence), clocks));
    for (uint32_t earlier : predecessors[event])
      if (--unread[earlier] == 0)
        std::vector<Clock>().swap(clocks[earlier]);
    if (merges[event] && clocks[event].size() == 2)
      for (uint32_t queue = 0; queue != numQueues; ++queue)
        clocks[event][0][queue] = clocks[event][1][queue] = std::max(clocks[event][0][queue], clocks[event][1][queue]);
    if (Error error = visit(events[event], clocks[event]))
      return error;
    if (unread[event] == 0)
      std::vector<Clock>().swap(clocks[event]);
    for (uint32_t later : successors[event])
      if (--missing[later] == 0)
        ready.push_back(later);
  }
  return ready.size() == events.size() ? Error::success() : deadlock(missing);
}

/// Every event that is left waits for another that is left: following those waits ends in a circle.
Error HappensBefore::deadlock(const std::vector<uint32_t> &missing) const {
  std::vector<uint32_t> path, placeOf(events.size(), UINT32_MAX);
  auto event = static_cast<uint32_t>(std::find_if(missing.begin(), missing.end(), [](uint32_t n) { return n > 0; }) -
                                     missing.begin());
  while (placeOf[event] == UINT32_MAX) {
    placeOf[event] = static_cast<uint32_t>(path.size());
    path.push_back(event);
    event = *std::find_if(predecessors[event].begin(), predecessors[event].end(),
                          [&](uint32_t earlier) { return missing[earlier] > 0; });
  }
  std::ostringstream circle;
  for (size_t i = placeOf[event]; i != path.size(); ++i) {
    for (size_t member = 0; member != events[path[i]].size(); ++member)
      circle << (member ? " with " : "") << describe(events[path[i]][member]);
    circle << " waits for ";
  }
  circle << "the first of these";
  const std::string &node = instructionOf(events[event].front()).node;
  return Error(Status::Rejected, "deadlock: " + circle.str(), node);
}

std::string HappensBefore::describe(Occurrence occurrence) const {
  const Program &program = entry.programs[occurrence.program];
  const Mesh &mesh = plan.meshes[program.mesh];
  const Instruction &instruction = instructionOf(occurrence);
  std::string place =
      isSingle(occurrence.program) ? "device \"" + plan.devices[mesh.devices.front()].name : "mesh \"" + mesh.name;
  return place + "\" " + queueKindName(program.queues[instruction.queue]) + " queue " + kindName(instruction.action) +
         " \"" + instruction.node + "\"";
}

} // namespace cleave::runtime
