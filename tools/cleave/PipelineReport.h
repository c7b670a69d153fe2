// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shows the timeline of a pipeline: as text, as a picture, as JSON, and as trace events.

#ifndef CLEAVE_TOOLS_CLEAVE_PIPELINEREPORT_H
#define CLEAVE_TOOLS_CLEAVE_PIPELINEREPORT_H

#include "passes/pipeline/PipelineSimulator.h"
#include "tools/cleave/JsonStream.h"

#include "llvm/Support/raw_ostream.h"

#include <vector>

namespace cleave::tool {

struct PipelineReport {
  pipeline::PipelineSchedule schedule;
  pipeline::PipelineTimeline timeline;
  /// By stage: the bytes of a microbatch's activations; 0 where unknown.
  std::vector<double> activations;
};

/// A summary, a table with a row a stage, and a drawing with a line a stage, within 100 columns.
void printPipeline(llvm::raw_ostream &out, const PipelineReport &report);
/// The drawing as SVG: a row a stage, microbatches numbered where there is room.
void drawPipeline(llvm::raw_ostream &out, const PipelineReport &report);
/// Attributes of the JSON object: docs/formats.md.
void writePipeline(JsonStream &json, const PipelineReport &report);
/// Trace events for Perfetto and Chrome: a thread a stage.
void tracePipeline(JsonStream &json, const PipelineReport &report);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_PIPELINEREPORT_H
