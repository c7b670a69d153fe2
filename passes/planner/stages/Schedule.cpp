// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of schedules, and their microbatches in flight.

#include "passes/planner/stages/Schedule.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cleave::stages {

static constexpr std::pair<Schedule, std::string_view> names[] = {{Schedule::GPipe, "gpipe"},
                                                                  {Schedule::OneForwardOneBackward, "1f1b"},
                                                                  {Schedule::Interleaved, "interleaved"},
                                                                  {Schedule::ZeroBubbleH1, "zb-h1"},
                                                                  {Schedule::ZeroBubbleH2, "zb-h2"},
                                                                  {Schedule::ZeroBubbleAutomatic, "zb-auto"}};

std::string_view scheduleName(Schedule schedule) {
  return std::find_if(std::begin(names), std::end(names), [&](auto &entry) { return entry.first == schedule; })->second;
}

std::optional<Schedule> findSchedule(std::string_view name) {
  auto found = std::find_if(std::begin(names), std::end(names), [&](auto &entry) { return entry.second == name; });
  return found == std::end(names) ? std::nullopt : std::optional(found->first);
}

unsigned delayedWeights(Schedule schedule) {
  switch (schedule) {
  case Schedule::GPipe:
  case Schedule::OneForwardOneBackward:
  case Schedule::Interleaved:
    return 0;
  case Schedule::ZeroBubbleH1:
  case Schedule::ZeroBubbleAutomatic:
    return 2;
  case Schedule::ZeroBubbleH2:
    return 3;
  }
  return 0;
}

double fillingSeconds(Schedule schedule, double seconds, double backwardWeight) {
  return std::max(seconds - delayedWeights(schedule) * backwardWeight, 0.0);
}

bool keepsEqually(Schedule schedule) {
  return schedule == Schedule::ZeroBubbleH1 || schedule == Schedule::ZeroBubbleH2 ||
         schedule == Schedule::ZeroBubbleAutomatic;
}

unsigned microbatchesInFlight(Schedule schedule, unsigned stage, unsigned stages, unsigned microbatches) {
  switch (schedule) {
  case Schedule::GPipe:
    return microbatches;
  case Schedule::OneForwardOneBackward:
  case Schedule::Interleaved:
    return std::min(stages - stage, microbatches);
  case Schedule::ZeroBubbleH1:
  case Schedule::ZeroBubbleAutomatic:
    return std::min(stages, microbatches);
  case Schedule::ZeroBubbleH2:
    return std::min(2 * stages - 1, microbatches);
  }
  return microbatches;
}

} // namespace cleave::stages
