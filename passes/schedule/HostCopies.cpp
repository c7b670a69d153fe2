// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// There: a window of bytes. Back: forwards to find how long readers wait, backwards to find the latest begins.

#include "passes/schedule/HostCopies.h"

#include "passes/schedule/Order.h"

#include <algorithm>
#include <limits>

namespace cleave::schedule {
namespace {

/// A fetch on its device. Places are numbers of calls: what is at place c comes before call c.
struct Fetch {
  unsigned task = 0;
  size_t reader = 0;  ///< The place of its first reader.
  size_t release = 0; ///< The place of the last value that is moved away before that.
  double due = 0;     ///< When its first reader begins.
};

/// What a device does, by estimated times.
class DeviceClock {
public:
  void addCall(unsigned task, double seconds) {
    calls.push_back(task);
    begins.push_back(begins.back() + seconds);
  }
  size_t place() const { return calls.size(); }
  void addOffload() { offloads.push_back(place()); }

  void delay(std::vector<Fetch> &fetches, std::vector<Task> &tasks) {
    std::stable_sort(fetches.begin(), fetches.end(),
                     [](const Fetch &left, const Fetch &right) { return left.reader < right.reader; });
    findWaits(fetches, tasks);
    double next = std::numeric_limits<double>::infinity();
    for (auto fetch = fetches.rbegin(); fetch != fetches.rend(); ++fetch) {
      Task &task = tasks[fetch->task];
      next = std::min(next, fetch->due) - task.seconds;
      // The last call that has ended by then.
      auto ended = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), next) - ends.begin());
      if (size_t behind = std::max(ended, fetch->release); behind != 0)
        task.after.push_back(calls[behind - 1]);
    }
  }

private:
  /// When readers begin if fetches come as early as they may, and when calls end then.
  void findWaits(std::vector<Fetch> &fetches, const std::vector<Task> &tasks) {
    std::vector<double> waited(calls.size() + 1);
    double wait = 0, free = 0;
    for (Fetch &fetch : fetches) {
      auto last = std::upper_bound(offloads.begin(), offloads.end(), fetch.reader);
      fetch.release = last == offloads.begin() ? 0 : *std::prev(last);
      free = std::max(free, begins[fetch.release] + wait) + tasks[fetch.task].seconds;
      fetch.due = std::max(begins[fetch.reader] + wait, free);
      wait = waited[fetch.reader] = fetch.due - begins[fetch.reader];
    }
    double sum = 0;
    for (size_t call = 0; call != calls.size(); ++call) {
      sum = std::max(sum, waited[call]);
      ends.push_back(begins[call + 1] + sum);
    }
  }

  std::vector<unsigned> calls;
  /// By call, if none waits; at last, when the last one ends.
  std::vector<double> begins = {0};
  std::vector<double> ends;     ///< By call.
  std::vector<size_t> offloads; ///< Places, ascending.
};

/// Lets makers of values that are moved away, in the order of `offloads`, follow the moving of those before.
void limitOffloads(Problem &problem, const std::vector<unsigned> &offloads, const std::vector<ValueUses> &uses) {
  auto movedBy = [&](unsigned offload) { return problem.tasks[offload].reads.front(); };
  uint64_t largest = 0, onTheWay = 0;
  for (unsigned offload : offloads)
    largest = std::max(largest, problem.values[movedBy(offload)].bytes);
  size_t oldest = 0;
  for (unsigned offload : offloads) {
    onTheWay += problem.values[movedBy(offload)].bytes;
    bool isFull = false;
    for (; onTheWay > 2 * largest; ++oldest) {
      onTheWay -= problem.values[movedBy(offloads[oldest])].bytes;
      isFull = true;
    }
    unsigned maker = uses[movedBy(offload)].writer;
    if (isFull && !problem.tasks[maker].communicates())
      problem.tasks[maker].after.push_back(offloads[oldest - 1]);
  }
}

} // namespace

void paceHostCopies(Problem &problem) {
  if (std::none_of(problem.tasks.begin(), problem.tasks.end(),
                   [](const Task &task) { return task.hostCopy == HostCopy::Fetch; }))
    return;
  auto topological = topologicalOrder(problem);
  if (!topological)
    return; // Solving it is refused.
  std::vector<bool> prepare = tasksOfPrepare(problem, *topological);
  std::vector<DeviceClock> clocks(problem.numDevices);
  // By task: how many of its device's calls come before it.
  std::vector<size_t> places(problem.tasks.size());
  std::vector<std::vector<Fetch>> fetches(problem.numDevices);
  std::vector<std::vector<unsigned>> offloads(problem.numDevices);
  for (unsigned number = 0; number != problem.tasks.size(); ++number) {
    const Task &task = problem.tasks[number];
    places[number] = clocks[task.device].place();
    if (task.hostCopy == HostCopy::Fetch) {
      fetches[task.device].push_back({number});
    } else if (task.hostCopy == HostCopy::Offload) {
      clocks[task.device].addOffload();
      offloads[task.device].push_back(number);
    } else if (!task.communicates() && !task.early && !prepare[number]) {
      clocks[task.device].addCall(number, task.seconds);
    }
  }
  std::vector<ValueUses> uses = usesOf(problem);
  for (unsigned device = 0; device != problem.numDevices; ++device) {
    for (Fetch &fetch : fetches[device]) {
      fetch.reader = clocks[device].place();
      for (unsigned reader : uses[problem.tasks[fetch.task].writes.front()].readers)
        fetch.reader = std::min(fetch.reader, places[reader]);
    }
    if (!problem.isOrdered(device))
      continue;
    clocks[device].delay(fetches[device], problem.tasks);
    limitOffloads(problem, offloads[device], uses);
  }
}

} // namespace cleave::schedule
