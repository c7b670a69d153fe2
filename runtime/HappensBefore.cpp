// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the graph of a phase's events and walks it in topological order, carrying vector clocks along.

#include "runtime/HappensBefore.h"

#include <algorithm>
#include <map>

namespace cleave::runtime {

std::vector<Site> sitesOf(const PlanContents &plan, const Entry &entry) {
  std::vector<Site> sites;
  for (const Program &program : entry.programs)
    for (uint32_t device : plan.meshes[program.mesh].devices)
      sites.push_back({device, &program});
  return sites;
}

HappensBefore::HappensBefore(const PlanContents &plan, const std::vector<Site> &sites, Phase phase)
    : plan(plan), sites(sites), phase(phase) {
  number();
  pair();
  connect();
}

const Instruction &HappensBefore::instructionOf(Occurrence occurrence) const {
  return sites[occurrence.site].program->instructions(phase)[occurrence.instruction];
}

/// Numbers nodes and queues, and each node's value on its queue's timeline.
void HappensBefore::number() {
  for (uint32_t site = 0; site != sites.size(); ++site) {
    firstNode.push_back(static_cast<uint32_t>(queueOf.size()));
    firstQueue.push_back(numQueues);
    std::vector<uint32_t> values(sites[site].program->queues.size());
    for (const Instruction &instruction : sites[site].program->instructions(phase)) {
      queueOf.push_back(numQueues + instruction.queue);
      valueOf.push_back(++values[instruction.queue]);
      siteOf.push_back(site);
    }
    numQueues += values.size();
  }
}

/// Makes the events: one for each instruction, but one for a send with its receive.
void HappensBefore::pair() {
  std::map<uint32_t, uint32_t> eventOfChannel;
  eventOf.resize(queueOf.size());
  for (uint32_t node = 0; node != queueOf.size(); ++node) {
    Occurrence occurrence{siteOf[node], node - firstNode[siteOf[node]]};
    const Action &action = instructionOf(occurrence).action;
    auto next = static_cast<uint32_t>(events.size());
    const auto *send = std::get_if<Send>(&action);
    const auto *receive = std::get_if<Receive>(&action);
    eventOf[node] = send      ? eventOfChannel.try_emplace(send->channel, next).first->second
                    : receive ? eventOfChannel.try_emplace(receive->channel, next).first->second
                              : next;
    if (eventOf[node] == next)
      events.emplace_back();
    events[eventOf[node]].push_back(occurrence);
  }
}

/// Adds an edge to each event from the events that it waits for.
void HappensBefore::connect() {
  std::vector<std::vector<uint32_t>> nodesOfQueue(numQueues);
  for (uint32_t node = 0; node != queueOf.size(); ++node)
    nodesOfQueue[queueOf[node]].push_back(node);
  predecessors.resize(events.size());
  successors.resize(events.size());
  auto addEdge = [&](uint32_t from, uint32_t to) {
    predecessors[to].push_back(from);
    successors[from].push_back(to);
  };
  for (uint32_t node = 0; node != queueOf.size(); ++node) {
    if (valueOf[node] > 1)
      addEdge(eventOf[nodesOfQueue[queueOf[node]][valueOf[node] - 2]], eventOf[node]);
    Occurrence occurrence{siteOf[node], node - firstNode[siteOf[node]]};
    for (const Wait &wait : instructionOf(occurrence).waits)
      if (wait.value > 0)
        addEdge(eventOf[nodesOfQueue[firstQueue[siteOf[node]] + wait.queue][wait.value - 1]], eventOf[node]);
  }
}

Error HappensBefore::walk(const Visitor &visit) const {
  std::vector<uint32_t> missing(events.size()), unread(events.size()), ready;
  for (uint32_t event = 0; event != events.size(); ++event) {
    missing[event] = static_cast<uint32_t>(predecessors[event].size());
    unread[event] = static_cast<uint32_t>(successors[event].size());
    if (missing[event] == 0)
      ready.push_back(event);
  }
  // A clock says what is over before its event begins; it is dropped once every successor has merged it.
  std::vector<Clock> clocks(events.size());
  for (size_t next = 0; next != ready.size(); ++next) {
    uint32_t event = ready[next];
    Clock &clock = clocks[event];
    clock.assign(numQueues, 0);
    for (uint32_t earlier : predecessors[event]) {
      for (uint32_t queue = 0; queue != numQueues; ++queue)
        clock[queue] = std::max(clock[queue], clocks[earlier][queue]);
      for (Occurrence occurrence : events[earlier]) {
        uint32_t node = nodeOf(occurrence);
        clock[queueOf[node]] = std::max(clock[queueOf[node]], valueOf[node]);
      }
      if (--unread[earlier] == 0)
        Clock().swap(clocks[earlier]);
    }
    if (Error error = visit(events[event], clock))
      return error;
    if (unread[event] == 0)
      Clock().swap(clock);
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
  const Site &site = sites[occurrence.site];
  const Instruction &instruction = instructionOf(occurrence);
  return "device \"" + plan.devices[site.device].name + "\" " + queueKindName(site.program->queues[instruction.queue]) +
         " queue " + actionName(instruction.action) + " \"" + instruction.node + "\"";
}

} // namespace cleave::runtime
