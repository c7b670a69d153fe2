// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Topological order, the part that runs once, and list scheduling of the rest.

#include "passes/schedule/Order.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace cleave::schedule {

static std::vector<std::vector<unsigned>> invert(const std::vector<std::vector<unsigned>> &dependencies) {
  std::vector<std::vector<unsigned>> dependents(dependencies.size());
  for (unsigned task = 0; task != dependencies.size(); ++task)
    for (unsigned earlier : dependencies[task])
      dependents[earlier].push_back(task);
  return dependents;
}

std::optional<std::vector<unsigned>> topologicalOrder(const Problem &problem) {
  auto dependencies = dependenciesOf(problem, usesOf(problem));
  auto dependents = invert(dependencies);
  std::vector<size_t> missing;
  std::vector<unsigned> order;
  for (unsigned task = 0; task != dependencies.size(); ++task) {
    missing.push_back(dependencies[task].size());
    if (missing.back() == 0)
      order.push_back(task);
  }
  for (size_t next = 0; next != order.size(); ++next)
    for (unsigned later : dependents[order[next]])
      if (--missing[later] == 0)
        order.push_back(later);
  if (order.size() != dependencies.size())
    return std::nullopt;
  return order;
}

std::vector<bool> tasksOfPrepare(const Problem &problem, const std::vector<unsigned> &topological) {
  auto dependencies = dependenciesOf(problem, usesOf(problem));
  std::vector<bool> prepare(problem.tasks.size());
  for (unsigned task : topological) {
    const std::vector<unsigned> &reads = problem.tasks[task].reads;
    bool changes =
        std::any_of(reads.begin(), reads.end(), [&](unsigned value) { return problem.values[value].changes; });
    prepare[task] = !problem.tasks[task].everyStep && !changes &&
                    std::all_of(dependencies[task].begin(), dependencies[task].end(),
                                [&](unsigned earlier) { return prepare[earlier]; });
  }
  return prepare;
}

namespace {

/// The simulated clock of one step.
class Simulation {
public:
  Simulation(const Problem &problem, const std::vector<unsigned> &topological, const std::vector<bool> &prepare)
      : tasks(problem.tasks) {
    findQueues(problem);
    for (const ValueUses &uses : usesOf(problem))
      writers.push_back(uses.writer);
    dependents = invert(dependenciesOf(problem, usesOf(problem)));
    addOrder(problem, prepare);
    missing.resize(tasks.size());
    timetable.ready.resize(tasks.size());
    timetable.start.resize(tasks.size());
    timetable.finish.resize(tasks.size());
    rate(topological);
    for (unsigned task = 0; task != tasks.size(); ++task)
      if (!prepare[task])
        for (unsigned later : dependents[task])
          ++missing[later];
    for (unsigned task = 0; task != tasks.size(); ++task)
      if (!prepare[task] && missing[task] == 0)
        makeReady(task);
  }

  Timetable run() {
    for (startAll(); !running.empty(); startAll()) {
      now = running.top().first;
      for (; !running.empty() && running.top().first == now; running.pop())
        end(running.top().second);
    }
    return std::move(timetable);
  }

private:
  struct Before {
    const Simulation *simulation;
    bool operator()(unsigned left, unsigned right) const {
      const Task &a = simulation->tasks[left], &b = simulation->tasks[right];
      if (a.early != b.early)
        return a.early;
      double urgencyA = simulation->urgency[left], urgencyB = simulation->urgency[right];
      return urgencyA != urgencyB ? urgencyA > urgencyB : left < right;
    }
  };
  using TaskSet = std::set<unsigned, Before>;

  /// A device's compute queue, its collective queue, those to and from the host's memory, and a queue for each pair of
  /// devices of which one sends to the other: its transfers use the send queue of the one and the receive queue of the
  /// other, and no others do.
  void findQueues(const Problem &problem) {
    std::map<std::tuple<unsigned, unsigned, HostCopy>, unsigned> pairs;
    for (const Task &task : tasks) {
      unsigned queue = 2 * task.device + task.collective;
      if (task.target || task.hostCopy != HostCopy::None) {
        auto next = static_cast<unsigned>(2 * problem.numDevices + pairs.size());
        std::tuple pair(task.device, task.target.value_or(task.device), task.hostCopy);
        queue = pairs.try_emplace(pair, next).first->second;
      }
      queueOf.push_back(queue);
    }
    ready.assign(2 * problem.numDevices + pairs.size(), TaskSet(Before{this}));
    free.assign(ready.size(), true);
  }

  /// Where a compute queue keeps the order of the tasks, each follows the one before, and what is sent to a device
  /// follows what was sent there before: it is there in that order, whatever tasks take. A collective could begin with
  /// the step if it carries what lasts from step to step, and its result would wait for its readers all the time: it
  /// follows what stands before the collective before it, so that one is on its way while the device works with
  /// another.
  void addOrder(const Problem &problem, const std::vector<bool> &prepare) {
    std::vector<ValueUses> uses = usesOf(problem);
    std::vector<std::optional<unsigned>> last(problem.numDevices), beforeCollective(problem.numDevices);
    std::vector<std::optional<unsigned>> sent(ready.size());
    auto follow = [&](std::optional<unsigned> before, unsigned task) {
      if (before &&
          std::find(dependents[*before].begin(), dependents[*before].end(), task) == dependents[*before].end())
        dependents[*before].push_back(task);
    };
    for (unsigned task = 0; task != tasks.size(); ++task) {
      unsigned device = tasks[task].device;
      // What is copied to the host's memory and back goes by when it is needed (HostCopies.h).
      if (prepare[task] || tasks[task].early || tasks[task].hostCopy != HostCopy::None)
        continue;
      if (tasks[task].target) {
        if (problem.isOrdered(device))
          follow(sent[queueOf[task]], task);
        sent[queueOf[task]] = task;
        continue;
      }
      if (!tasks[task].collective) {
        if (problem.isOrdered(device))
          follow(last[device], task);
        last[device] = task;
        continue;
      }
      const std::vector<unsigned> &reads = tasks[task].reads;
      if (std::all_of(reads.begin(), reads.end(), [&](unsigned value) { return prepare[uses[value].writer]; }))
        follow(beforeCollective[device], task);
      beforeCollective[device] = last[device];
    }
  }

  /// Communication is as urgent as the way from it to the end is long, any other task as the most urgent communication
  /// that it leads to on its own device.
  void rate(const std::vector<unsigned> &topological) {
    std::vector<double> way(tasks.size());
    urgency.resize(tasks.size());
    for (auto task = topological.rbegin(); task != topological.rend(); ++task) {
      for (unsigned later : dependents[*task]) {
        way[*task] = std::max(way[*task], way[later]);
        urgency[*task] = std::max(urgency[*task], urgency[later]);
      }
      way[*task] += tasks[*task].seconds;
      if (tasks[*task].communicates())
        urgency[*task] = way[*task];
    }
  }

  void makeReady(unsigned task) {
    ready[queueOf[task]].insert(task);
    double &time = timetable.ready[task];
    // What waits for nothing but its turn among what is sent is ready since it was made.
    time = now;
    for (unsigned value : tasks[task].target ? tasks[task].reads : std::vector<unsigned>())
      if (writers[value] < tasks.size())
        time = std::min(time, timetable.finish[writers[value]]);
  }

  void begin(unsigned task) {
    timetable.order.push_back(task);
    timetable.start[task] = now;
    timetable.finish[task] = now + tasks[task].seconds;
    running.emplace(timetable.finish[task], task);
  }

  void startAll() {
    for (unsigned queue = 0; queue != ready.size(); ++queue)
      if (free[queue] && !ready[queue].empty()) {
        begin(*ready[queue].begin());
        ready[queue].erase(ready[queue].begin());
        free[queue] = false;
      }
  }

  void end(unsigned task) {
    free[queueOf[task]] = true;
    for (unsigned later : dependents[task])
      if (--missing[later] == 0)
        makeReady(later);
  }

  const std::vector<Task> &tasks;
  /// By value.
  std::vector<unsigned> writers;
  std::vector<std::vector<unsigned>> dependents;
  std::vector<double> urgency;
  std::vector<size_t> missing;
  /// By task: its queue.
  std::vector<unsigned> queueOf;
  /// By queue.
  std::vector<TaskSet> ready;
  std::vector<bool> free;
  std::priority_queue<std::pair<double, unsigned>, std::vector<std::pair<double, unsigned>>, std::greater<>> running;
  Timetable timetable;
  double now = 0;
};

} // namespace

Timetable scheduleBody(const Problem &problem, const std::vector<unsigned> &topological,
                       const std::vector<bool> &prepare) {
  return Simulation(problem, topological, prepare).run();
}

namespace {

/// The walk over what the body needs of prepare.
class PrepareOrder {
public:
  PrepareOrder(const Problem &problem, const std::vector<bool> &prepare)
      : problem(problem), prepare(prepare), uses(usesOf(problem)), dependencies(dependenciesOf(problem, uses)) {}

  std::vector<unsigned> run(const std::vector<unsigned> &body) {
    std::vector<unsigned> roots;
    std::vector<bool> isRoot(problem.tasks.size());
    for (unsigned task : body)
      for (unsigned earlier : dependencies[task])
        if (prepare[earlier] && !isRoot[earlier]) {
          isRoot[earlier] = true;
          roots.push_back(earlier);
        }
    std::vector<uint64_t> temporaries(problem.tasks.size());
    for (unsigned root : roots) {
      std::vector<bool> entered(problem.tasks.size());
      for (unsigned task : behind(root, entered))
        temporaries[root] += temporaryBytes(task);
    }
    std::stable_sort(roots.begin(), roots.end(),
                     [&](unsigned left, unsigned right) { return temporaries[left] > temporaries[right]; });
    std::vector<unsigned> order;
    std::vector<bool> entered(problem.tasks.size());
    for (unsigned root : roots) {
      std::vector<unsigned> tasks = behind(root, entered);
      order.insert(order.end(), tasks.begin(), tasks.end());
    }
    return order;
  }

private:
  uint64_t temporaryBytes(unsigned task) const {
    uint64_t bytes = 0;
    for (unsigned value : problem.tasks[task].writes) {
      const std::vector<unsigned> &readers = uses[value].readers;
      if (std::all_of(readers.begin(), readers.end(), [&](unsigned reader) { return prepare[reader]; }))
        bytes += problem.values[value].bytes;
    }
    return bytes;
  }

  /// The task and all that it depends on and that was not entered before, each before what depends on it. The path is
  /// on a stack of its own: parameters may feed chains of any length.
  std::vector<unsigned> behind(unsigned root, std::vector<bool> &entered) const {
    struct Visit {
      unsigned task;
      size_t next = 0;
    };
    std::vector<unsigned> order;
    std::vector<Visit> path;
    auto enter = [&](unsigned task) {
      if (!entered[task]) {
        entered[task] = true;
        path.push_back({task});
      }
    };
    for (enter(root); !path.empty();) {
      Visit &visit = path.back();
      if (visit.next != dependencies[visit.task].size()) {
        enter(dependencies[visit.task][visit.next++]);
        continue;
      }
      order.push_back(visit.task);
      path.pop_back();
    }
    return order;
  }

  const Problem &problem;
  const std::vector<bool> &prepare;
  std::vector<ValueUses> uses;
  std::vector<std::vector<unsigned>> dependencies;
};

} // namespace

std::vector<unsigned> orderPrepare(const Problem &problem, const std::vector<unsigned> &body,
                                   const std::vector<bool> &prepare) {
  return PrepareOrder(problem, prepare).run(body);
}

} // namespace cleave::schedule
