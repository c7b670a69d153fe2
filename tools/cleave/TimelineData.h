// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When what happens in a predicted step, for pictures.

#ifndef CLEAVE_TOOLS_CLEAVE_TIMELINEDATA_H
#define CLEAVE_TOOLS_CLEAVE_TIMELINEDATA_H

#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/PlanSummary.h"

namespace cleave::tool {

struct TimelineData {
  enum class Kind { Forward, BackwardInput, BackwardWeight, Communication, PerStep, Compute, Host };
  /// Seconds from the beginning of the step.
  struct Event {
    uint32_t track = 0;
    Kind kind = Kind::Forward;
    double begin = 0, end = 0;
    std::string label; ///< an operator, or which microbatch
  };
  /// Bytes on each device of a row of the memory's chart from `seconds` on.
  struct MemoryPoint {
    uint32_t track = 0;
    double seconds = 0, bytes = 0;
  };
  std::vector<std::string> tracks, memoryTracks;
  std::vector<Event> events;       ///< by begin
  std::vector<MemoryPoint> memory; ///< by seconds
  double seconds = 0;              ///< of the whole
  std::string source;              ///< where the times come from, for people
  std::string note;                ///< what is left out, or ""
};

/// Events that a page can draw.
inline constexpr size_t timelineEventLimit = 20000;

/// The step that the planner expects: in training, or with several stages or microbatches, the stages' schedule,
/// otherwise its operators one after the other. No events where nobody predicted times.
TimelineData predictedTimeline(const PlanSummary &summary);

/// One step of a verified plan with programs, simulated on the machine for which it was made: a row a queue. Devices
/// that are alike share rows. An error where the machine is not known here.
Expected<TimelineData> simulatedTimeline(const runtime::Plan &plan, const PlanSummary &summary);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_TIMELINEDATA_H
