// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The step of a plan that is a decision without programs: its stages' predicted times in the order of its schedule.

#ifndef CLEAVE_TOOLS_CLEAVE_SIMULATESTAGES_H
#define CLEAVE_TOOLS_CLEAVE_SIMULATESTAGES_H

#include "tools/cleave/Diagnostics.h"

#include "passes/pipeline/Schedule.h"
#include "runtime/Plan.h"

namespace cleave::tool {

/// The schedule that a prediction is of.
pipeline::PipelineSchedule scheduleOf(const runtime::Prediction &prediction);

/// Prints the pipeline and its devices' memory, and writes the files that are asked for ("": none). Status::Usage where
/// the entry predicts no stages.
Error simulateStages(const runtime::Plan &plan, const runtime::Entry &entry, const std::string &traceFile,
                     const std::string &jsonFile);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_SIMULATESTAGES_H
