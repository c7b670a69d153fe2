// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The predicted step, from what the planner expects of stages and operators.

#include "tools/cleave/TimelineData.h"

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using runtime::Prediction;

/// One operator after the other, what each waits for first: one stage that does everything once.
static void addOperators(TimelineData &timeline, const PlanSummary &summary) {
  timeline.tracks = {"operators"};
  for (const Operator &op : summary.entry.operators) {
    double communication = std::max(0.0, op.communicationSeconds), all = std::max(0.0, op.predictedSeconds);
    if (communication > 0)
      timeline.events.push_back(
          {0, TimelineData::Kind::Communication, timeline.seconds, timeline.seconds + communication, op.name});
    if (all > communication)
      timeline.events.push_back(
          {0, TimelineData::Kind::Forward, timeline.seconds + communication, timeline.seconds + all, op.name});
    timeline.seconds += std::max(all, communication);
  }
  timeline.source = "the predicted times of the operators, one after the other";
}

TimelineData predictedTimeline(const PlanSummary &summary) {
  TimelineData timeline;
  addOperators(timeline, summary);
  return timeline;
}

} // namespace cleave::tool
