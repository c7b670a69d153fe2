// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Goes through all lists at once: a command can come next when it is the first of its list that has not, and what it
// waits for has; a communication when that is so for all its ends.

#include "runtime/drivers/cuda/CudaSchedule.h"

#include <algorithm>
#include <map>

namespace cleave::runtime {

std::optional<uint32_t> channelOf(const Action &action) {
  return std::visit(
      [](const auto &any) -> std::optional<uint32_t> {
        if constexpr (requires { any.channel; })
          return any.channel;
        else
          return std::nullopt;
      },
      action);
}

namespace {

class Scheduler {
public:
  explicit Scheduler(const std::vector<std::vector<CudaStep>> &lists) : lists(lists), reached(lists.size()) {
    for (uint32_t list = 0; list != lists.size(); ++list)
      for (uint32_t index = 0; index != lists[list].size(); ++index)
        if (auto channel = lists[list][index].channel)
          meetings[*channel].push_back({list, index});
  }

  Expected<std::vector<CudaTurn>> run() {
    size_t left = 0;
    for (const auto &list : lists)
      left += list.size();
    std::vector<CudaTurn> turns;
    while (left != 0) {
      CudaTurn turn = next();
      if (turn.empty())
        return makeError(Status::Rejected, "the plan's commands wait for each other in a circle");
      for (const CudaPlace &place : turn)
        ++reached[place.list];
      left -= turn.size();
      turns.push_back(std::move(turn));
    }
    return turns;
  }

private:
  CudaTurn next() const {
    CudaTurn best;
    for (uint32_t list = 0; list != lists.size(); ++list) {
      CudaPlace place{list, reached[list]};
      if (place.index == lists[list].size() || !isReady(place))
        continue;
      if (!best.empty() && stepAt(best.front()).order <= stepAt(place).order)
        continue;
      if (auto channel = stepAt(place).channel) {
        const CudaTurn &ends = meetings.at(*channel);
        if (std::ranges::all_of(ends, [&](const CudaPlace &end) { return isReady(end); }))
          best = ends;
      } else {
        best = {place};
      }
    }
    return best;
  }

  bool isReady(const CudaPlace &place) const {
    return place.index == reached[place.list] && std::ranges::all_of(stepAt(place).waits, [&](const CudaPlace &wait) {
             return reached[wait.list] >= wait.index;
           });
  }
  const CudaStep &stepAt(const CudaPlace &place) const { return lists[place.list][place.index]; }

  const std::vector<std::vector<CudaStep>> &lists;
  std::vector<uint32_t> reached; ///< of each list, how many commands have had their turn
  std::map<uint32_t, CudaTurn> meetings;
};

} // namespace

Expected<std::vector<CudaTurn>> scheduleTurns(const std::vector<std::vector<CudaStep>> &lists) {
  return Scheduler(lists).run();
}

} // namespace cleave::runtime
