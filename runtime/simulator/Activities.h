// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Work that goes on at the same time and holds itself up: transfers that share links, queues that share a device's
// cores, devices that share a host's memory. Every activity has a share of its work left and a speed, which changes
// whenever another activity on one of its resources begins or ends.

#ifndef CLEAVE_RUNTIME_SIMULATOR_ACTIVITIES_H
#define CLEAVE_RUNTIME_SIMULATOR_ACTIVITIES_H

#include <array>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace cleave::runtime {

/// How an activity uses a resource.
struct ResourceUse {
  enum class Kind {
    /// All users get the same part of the capacity; the activity needs `amount` of it.
    Share,
    /// While there are users of the other of these two kinds, the activity takes `amount` times as long.
    Computation,
    Communication,
    /// For each further user the activity takes (`amount` - 1) times as long in addition.
    Neighbour
  };
  uint32_t resource = 0;
  Kind kind = Kind::Share;
  double amount = 0;
  /// As how many users the activity counts.
  double users = 1;
};

class Activities {
public:
  /// The number of a new resource.
  uint32_t addResource(double capacity = 1);
  /// Begins an activity that takes `seconds` alone, and longer where its resources hold it up. Times never go back.
  uint32_t begin(double now, double seconds, std::vector<ResourceUse> uses);
  /// When the next activity ends, if any is going on.
  std::optional<double> nextEnd();
  /// The activity that ends then, which is over; its number may be given out again.
  uint32_t end();

private:
  static constexpr size_t numKinds = 4;
  struct Resource {
    double capacity = 1;
    std::array<double, numKinds> users = {};
    std::vector<uint32_t> activities;
  };
  struct Activity {
    double seconds = 0, left = 1, speed = 0, updated = 0; ///< left: the share of the work; speed: share a second
    std::vector<ResourceUse> uses;
    uint64_t version = 0;
  };
  struct End {
    double time;
    uint64_t version;
    uint32_t activity;
    bool operator>(const End &other) const { return time != other.time ? time > other.time : version > other.version; }
  };

  double speedOf(const Activity &activity) const;
  void update(uint32_t activity, double now);
  void updateNeighbours(uint32_t activity, double now);
  void dropStale();

  std::vector<Resource> resources;
  std::vector<Activity> activities;
  std::vector<uint32_t> unused;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  uint64_t versions = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SIMULATOR_ACTIVITIES_H
