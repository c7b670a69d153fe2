// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as the planner writes it, for tests of the reports: a pipeline of equal layers with predictions. Its numbers
// are made up, each so that it can be told from the others.

#ifndef CLEAVE_TEST_TOOLS_CLEAVE_PREDICTEDPLAN_H
#define CLEAVE_TEST_TOOLS_CLEAVE_PREDICTEDPLAN_H

#include "test/runtime/PlanBuilder.h"

namespace cleave::runtime::test {

struct PipelineShape {
  uint32_t stages = 4, devicesPerStage = 2, layersPerStage = 3, microbatches = 8;
  std::string schedule = "1f1b";
  /// What operators' names begin with.
  std::string prefix;
  /// Without programs: a decision as compilers wrote it that did not keep where parameters are.
  bool isDecision = false;
};

/// embedding, `stages` x `layersPerStage` layers "block<i>" of norm, fc1, act, fc2 and add, head. Stage i has a mesh of
/// its own; fc1 and fc2 are split over it. A microbatch takes 2 ms forward, 3 + 1 ms backward in every stage.
PlanBuilder pipelinePrediction(const PipelineShape &shape);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_TOOLS_CLEAVE_PREDICTEDPLAN_H
