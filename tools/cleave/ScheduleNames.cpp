// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names from the table of schedules.

#include "tools/cleave/ScheduleNames.h"

#include "passes/pipeline/Schedule.h"

namespace cleave::tool {

std::vector<std::string> scheduleNames(const std::string &first) {
  std::vector<std::string> names;
  if (!first.empty())
    names.push_back(first);
  for (const pipeline::ScheduleRow &row : pipeline::scheduleTable())
    names.emplace_back(row.name);
  return names;
}

std::string scheduleText(const runtime::Prediction &prediction) {
  if (prediction.chunks == 1)
    return prediction.schedule;
  return prediction.schedule + " with " + std::to_string(prediction.chunks) + " chunks a stage";
}

} // namespace cleave::tool
