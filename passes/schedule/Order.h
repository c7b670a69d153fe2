// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order tasks run: which of them once before the first step, and one order of all devices' tasks that keeps
// devices busy at the same time.

#ifndef CLEAVE_PASSES_SCHEDULE_ORDER_H
#define CLEAVE_PASSES_SCHEDULE_ORDER_H

#include "passes/schedule/Problem.h"

namespace cleave::schedule {

/// The tasks in an order in which each follows what it depends on; nothing when they depend on each other in a circle.
std::optional<std::vector<unsigned>> topologicalOrder(const Problem &problem);

/// For each task whether it depends on nothing that changes from step to step, so that once is enough.
/// `topological` is an order as topologicalOrder gives.
std::vector<bool> tasksOfPrepare(const Problem &problem, const std::vector<unsigned> &topological);

/// An order of tasks, and when each is expected to run, in seconds from the beginning of the step.
struct Timetable {
  /// Sorted by start.
  std::vector<unsigned> order;
  /// By task; of meaning only for tasks of `order`. `ready` is when all is done that it waits for, other tasks of its
  /// queue aside.
  std::vector<double> ready, start, finish;
};

/// Orders the tasks that are not in `prepare`. List scheduling (Graham 1969) on a simulated clock: whenever a queue is
/// free, the most urgent task that is ready starts on it. Urgency is the longest way, in seconds, from the next
/// transfer or collective that the task leads to, to the end of the step. Tasks that lead to none, and tasks that lead
/// to the same one, keep the model's order, in which intermediate values die soonest. On ordered devices all tasks keep
/// it that do not communicate, and so do those that send to the same device. A collective of what lasts from step to
/// step begins behind what stands before the collective before it. Time: O(n log n).
Timetable scheduleBody(const Problem &problem, const std::vector<unsigned> &topological,
                       const std::vector<bool> &prepare);

/// Orders those tasks of `prepare` whose results `body` needs: result by result, each with all that it depends on, so
/// that temporaries die before the next ones come. Results that take the most temporary bytes come first, while few
/// others are there (jobs in the order of peak minus residue, Liu 1987, "An application of generalized tree pebbling to
/// sparse matrix factorization"); equal ones in the order in which the body needs them.
std::vector<unsigned> orderPrepare(const Problem &problem, const std::vector<unsigned> &body,
                                   const std::vector<bool> &prepare);

} // namespace cleave::schedule

#endif // CLEAVE_PASSES_SCHEDULE_ORDER_H
