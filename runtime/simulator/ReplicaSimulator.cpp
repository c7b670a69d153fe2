// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Event by event: between two events every activity goes on at a rate of its own.

#include "runtime/simulator/ReplicaSimulator.h"

#include "runtime/training/asynchronous/ReplicaClocks.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

namespace cleave::runtime {

namespace {

/// What a replica or the keeper does.
enum class Doing { Waits, Computes, Pauses, Queues };

class Simulation {
public:
  Simulation(const Replicas &replicas, const std::vector<SimulatedReplica> &each, const SimulatedReplica &keeper,
             const std::vector<double> &cores)
      : replicas(replicas), each(each), keeper(keeper), cores(cores), clocks(replicas.count, replicas.bound),
        states(replicas.count) {}

  ReplicaSimulation run(uint64_t steps) {
    // What the first steps do is not what the others do.
    uint64_t all = steps * replicas.count, warm = all / 4;
    begin();
    while (finished < all) {
      if (finished >= warm && !isWarm) {
        isWarm = true;
        from = now;
        fromFinished = finished;
        fromVersions = versions;
        for (State &state : states)
          state.waited = 0;
        result.ahead.clear();
        result.between.clear();
      }
      if (!advance())
        break;
    }
    double seconds = now - from;
    auto made = static_cast<double>(finished - fromFinished);
    result.stepSeconds = made > 0 ? seconds / made * replicas.count : 0;
    result.versionsPerSecond = seconds > 0 ? static_cast<double>(versions - fromVersions) / seconds : 0;
    for (std::vector<double> *counts : {&result.ahead, &result.between}) {
      double all = std::accumulate(counts->begin(), counts->end(), 0.0);
      for (double &count : *counts)
        count /= std::max(1.0, all);
    }
    for (const State &state : states)
      result.waiting.push_back(seconds > 0 ? state.waited / seconds : 0);
    return result;
  }

private:
  struct State {
    Doing doing = Doing::Waits;
    double left = 0;        ///< seconds of it
    double began = 0;       ///< when the step began
    double waited = 0;      ///< seconds
    uint64_t steps = 0;     ///< of an exchange, that are to be done after this one
    bool exchanges = false; ///< computes what an exchange needs
    uint64_t version = 0;   ///< with which it began
    bool sends = false;     ///< is on the links to the keeper
    // Where steps hide an exchange.
    uint64_t since = 0;      ///< steps since it gave
    bool isBehind = false;   ///< it is still to merge the version of its last exchange
    bool hasVersion = false; ///< which has come
    double linkLeft = 0;     ///< seconds that the exchange is still on the links, beside steps
  };

  uint64_t stepsOfExchange() const { return std::max<uint64_t>(1, replicas.localSteps); }
  bool overlaps() const { return replicas.overlap != 0; }

  void begin() {
    for (uint32_t replica = 0; replica != replicas.count; ++replica) {
      State &state = states[replica];
      if (overlaps()) {
        if (state.doing == Doing::Waits)
          beginBeside(replica);
        continue;
      }
      if (state.doing != Doing::Waits || !clocks.mayBegin(replica))
        continue;
      uint64_t ahead = clocks.ahead(replica);
      result.ahead.resize(std::max<size_t>(result.ahead.size(), ahead + 1));
      result.ahead[ahead] += 1;
      state = {Doing::Computes, each[replica].step, now, state.waited, stepsOfExchange() - 1, false, versions};
    }
  }

  /// Begins a step where exchanges overlap with them, unless it needs a version first that has not come.
  void beginBeside(uint32_t replica) {
    State &state = states[replica];
    state.doing = Doing::Waits;
    if (state.isBehind && state.since == replicas.overlap) {
      if (!state.hasVersion)
        return;
      state.isBehind = state.hasVersion = false;
    }
    state.doing = Doing::Computes;
    state.left = each[replica].step;
    state.began = now;
  }

  /// A step has ended, or what an exchange needs of the devices.
  void endBeside(uint32_t replica) {
    State &state = states[replica];
    const SimulatedReplica &own = each[replica];
    if (!state.exchanges && ++state.since == replicas.localSteps) {
      state.exchanges = true;
      state.doing = Doing::Computes;
      state.left = own.exchange;
      return;
    }
    if (state.exchanges) {
      state.exchanges = false;
      state.isBehind = true;
      state.since = 0;
      state.version = versions;
      state.linkLeft = own.link;
      state.sends = own.link > 0;
      if (!state.sends)
        queue.push_back(replica);
    }
    beginBeside(replica);
  }

  /// Seconds of work that an activity does a second.
  double rate(uint32_t host) const {
    double busy = isMaking && keeper.host == host ? keeper.threads : 0;
    for (uint32_t replica = 0; replica != replicas.count; ++replica)
      if (states[replica].doing == Doing::Computes && each[replica].host == host)
        busy += each[replica].threads;
    double own = host < cores.size() ? cores[host] : std::numeric_limits<double>::infinity();
    return busy > own ? own / busy : 1;
  }

  double rateOf(uint32_t replica) const {
    return states[replica].doing == Doing::Computes && each[replica].threads > 0 ? rate(each[replica].host) : 1;
  }

  /// To the next event; false where there is none.
  bool advance() {
    double next = std::numeric_limits<double>::infinity();
    auto isBusy = [&](uint32_t replica) {
      return states[replica].doing == Doing::Computes || states[replica].doing == Doing::Pauses;
    };
    for (uint32_t replica = 0; replica != replicas.count; ++replica)
      if (isBusy(replica))
        next = std::min(next, states[replica].left / rateOf(replica));
    for (const State &state : states)
      if (overlaps() && state.sends)
        next = std::min(next, state.linkLeft);
    double making = keeper.threads > 0 ? rate(keeper.host) : 1;
    if (isMaking)
      next = std::min(next, left / making);
    if (next == std::numeric_limits<double>::infinity())
      return false;
    std::vector<uint32_t> ended;
    for (uint32_t replica = 0; replica != replicas.count; ++replica) {
      State &state = states[replica];
      if (!isBusy(replica)) {
        state.waited += next;
        continue;
      }
      bool ends = state.left / rateOf(replica) <= next * (1 + 1e-12);
      state.left -= next * rateOf(replica);
      if (ends)
        ended.push_back(replica);
    }
    bool isMade = isMaking && left / making <= next * (1 + 1e-12);
    left -= next * making;
    now += next;
    for (uint32_t replica = 0; overlaps() && replica != replicas.count; ++replica) {
      State &state = states[replica];
      bool arrives = state.sends && state.linkLeft <= next * (1 + 1e-12);
      state.linkLeft -= next;
      if (!arrives)
        continue;
      state.sends = false;
      queue.push_back(replica);
    }
    for (uint32_t replica : ended)
      end(replica);
    if (isMade)
      endVersion();
    makeVersion();
    begin();
    return true;
  }

  void end(uint32_t replica) {
    State &state = states[replica];
    const SimulatedReplica &own = each[replica];
    if (state.doing == Doing::Computes && !state.exchanges && own.slowdown > 1) {
      state.doing = Doing::Pauses;
      state.left = (now - state.began) * (own.slowdown - 1);
      return;
    }
    if (overlaps())
      return endBeside(replica);
    if (state.steps > 0) {
      --state.steps;
      state.doing = Doing::Computes;
      state.left = own.step;
      state.began = now;
      return;
    }
    if (own.exchange > 0 && !state.exchanges) {
      state.exchanges = true;
      state.doing = Doing::Computes;
      state.left = own.exchange;
      return;
    }
    if (own.link > 0 && !state.sends) {
      state.sends = true;
      state.doing = Doing::Pauses;
      state.left = own.link;
      return;
    }
    state.doing = Doing::Queues;
    queue.push_back(replica);
  }

  void makeVersion() {
    uint32_t together = replicas.areTogether() ? replicas.count : 1;
    if (isMaking || queue.size() < together)
      return;
    isMaking = true;
    left = keeper.step;
    making.assign(queue.begin(), queue.begin() + together);
    queue.erase(queue.begin(), queue.begin() + together);
  }

  void endVersion() {
    isMaking = false;
    for (uint32_t replica : making) {
      uint64_t between = versions - states[replica].version;
      result.between.resize(std::max<size_t>(result.between.size(), between + 1));
      result.between[between] += 1;
      for (uint64_t step = 0; step != stepsOfExchange(); ++step)
        clocks.advance(replica);
      finished += stepsOfExchange();
      if (overlaps())
        states[replica].hasVersion = true;
      else
        states[replica].doing = Doing::Waits;
    }
    ++versions;
  }

  const Replicas &replicas;
  const std::vector<SimulatedReplica> &each;
  const SimulatedReplica &keeper;
  const std::vector<double> &cores;
  ReplicaClocks clocks;
  std::vector<State> states;
  std::deque<uint32_t> queue;
  std::vector<uint32_t> making;
  bool isMaking = false, isWarm = false;
  double now = 0, from = 0, left = 0;
  uint64_t finished = 0, versions = 0, fromFinished = 0, fromVersions = 0;
  ReplicaSimulation result;
};

} // namespace

ReplicaSimulation simulateReplicas(const Replicas &replicas, const std::vector<SimulatedReplica> &each,
                                   const SimulatedReplica &keeper, const std::vector<double> &coresOfHost,
                                   uint64_t steps) {
  // Some exchanges at least.
  uint64_t least = 20 * std::max<uint64_t>(1, replicas.localSteps);
  return Simulation(replicas, each, keeper, coresOfHost).run(std::max(steps, least));
}

} // namespace cleave::runtime
