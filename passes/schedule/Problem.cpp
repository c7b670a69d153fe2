// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who writes and reads which value.

#include "passes/schedule/Problem.h"

#include <algorithm>

namespace cleave::schedule {

std::vector<ValueUses> usesOf(const Problem &problem) {
  std::vector<ValueUses> uses(problem.values.size());
  for (unsigned task = 0; task != problem.tasks.size(); ++task) {
    for (unsigned value : problem.tasks[task].writes)
      uses[value].writer = task;
    for (unsigned value : problem.tasks[task].reads)
      if (uses[value].readers.empty() || uses[value].readers.back() != task)
        uses[value].readers.push_back(task);
  }
  return uses;
}

std::vector<std::vector<unsigned>> dependenciesOf(const Problem &problem, const std::vector<ValueUses> &uses) {
  std::vector<std::vector<unsigned>> dependencies(problem.tasks.size());
  for (unsigned task = 0; task != problem.tasks.size(); ++task) {
    std::vector<unsigned> &list = dependencies[task];
    auto add = [&](unsigned earlier) {
      if (std::find(list.begin(), list.end(), earlier) == list.end())
        list.push_back(earlier);
    };
    for (unsigned value : problem.tasks[task].reads)
      add(uses[value].writer);
    for (unsigned earlier : problem.tasks[task].after)
      add(earlier);
  }
  return dependencies;
}

} // namespace cleave::schedule
