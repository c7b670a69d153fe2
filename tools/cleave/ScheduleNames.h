// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules as command lines and explanations name them.

#ifndef CLEAVE_TOOLS_CLEAVE_SCHEDULENAMES_H
#define CLEAVE_TOOLS_CLEAVE_SCHEDULENAMES_H

#include "runtime/Plan.h"

#include <string>
#include <vector>

namespace cleave::tool {

/// What `--schedule` takes: `first`, if it is not empty, and the names of all schedules.
std::vector<std::string> scheduleNames(const std::string &first = "");

/// "interleaved with 4 chunks a stage"; "" where there is nothing to schedule.
std::string scheduleText(const runtime::Prediction &prediction);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_SCHEDULENAMES_H
