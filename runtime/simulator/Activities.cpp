// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Speeds, and the order of ends. An end in the line that was computed with an earlier speed has an old version.

#include "runtime/simulator/Activities.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace cleave::runtime {

uint32_t Activities::addResource(double capacity) {
  resources.emplace_back().capacity = capacity;
  return static_cast<uint32_t>(resources.size() - 1);
}

double Activities::speedOf(const Activity &activity) const {
  double speed = activity.seconds > 0 ? 1 / activity.seconds : std::numeric_limits<double>::infinity();
  double overlap = 1, contention = 1;
  for (const ResourceUse &use : activity.uses) {
    const Resource &resource = resources[use.resource];
    auto users = [&](ResourceUse::Kind kind) { return resource.users[static_cast<size_t>(kind)]; };
    switch (use.kind) {
    case ResourceUse::Kind::Share:
      if (use.amount > 0)
        speed = std::min(speed, resource.capacity / users(use.kind) / use.amount);
      break;
    case ResourceUse::Kind::Computation:
      if (users(ResourceUse::Kind::Communication) > 0)
        overlap = std::max(overlap, use.amount);
      break;
    case ResourceUse::Kind::Communication:
      if (users(ResourceUse::Kind::Computation) > 0)
        overlap = std::max(overlap, use.amount);
      break;
    case ResourceUse::Kind::Neighbour:
      contention = std::max(contention, 1 + (use.amount - 1) * (users(use.kind) - 1));
      break;
    }
  }
  return speed / (overlap * contention);
}

/// Takes the work done so far off what is left, and works out the end anew if the speed is another.
void Activities::update(uint32_t number, double now) {
  Activity &activity = activities[number];
  double speed = speedOf(activity);
  if (speed == activity.speed)
    return;
  if (activity.speed > 0)
    activity.left = std::max(0.0, activity.left - (now - activity.updated) * activity.speed);
  activity.updated = now;
  activity.speed = speed;
  activity.version = ++versions;
  ends.push({now + activity.left / speed, activity.version, number});
}

void Activities::updateNeighbours(uint32_t number, double now) {
  for (const ResourceUse &use : activities[number].uses)
    for (uint32_t other : resources[use.resource].activities)
      if (other != number)
        update(other, now);
}

uint32_t Activities::begin(double now, double seconds, std::vector<ResourceUse> uses) {
  uint32_t number = unused.empty() ? static_cast<uint32_t>(activities.size()) : unused.back();
  if (unused.empty())
    activities.emplace_back();
  else
    unused.pop_back();
  activities[number] = {seconds, 1, 0, now, std::move(uses), 0};
  for (const ResourceUse &use : activities[number].uses) {
    resources[use.resource].users[static_cast<size_t>(use.kind)] += use.users;
    resources[use.resource].activities.push_back(number);
  }
  update(number, now);
  updateNeighbours(number, now);
  return number;
}

void Activities::dropStale() {
  while (!ends.empty() && activities[ends.top().activity].version != ends.top().version)
    ends.pop();
}

std::optional<double> Activities::nextEnd() {
  dropStale();
  return ends.empty() ? std::nullopt : std::optional(ends.top().time);
}

uint32_t Activities::end() {
  dropStale();
  End next = ends.top();
  ends.pop();
  Activity &activity = activities[next.activity];
  activity.version = 0;
  for (const ResourceUse &use : activity.uses) {
    Resource &resource = resources[use.resource];
    resource.users[static_cast<size_t>(use.kind)] -= use.users;
    auto place = std::ranges::find(resource.activities, next.activity);
    *place = resource.activities.back();
    resource.activities.pop_back();
  }
  updateNeighbours(next.activity, next.time);
  activities[next.activity].uses.clear();
  unused.push_back(next.activity);
  return next.activity;
}

} // namespace cleave::runtime
