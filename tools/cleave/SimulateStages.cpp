// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hands the prediction's stages to the simulator of pipelines.

#include "tools/cleave/SimulateStages.h"
#include "compiler/Figures.h"

#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PipelineReport.h"
#include "tools/cleave/TextTable.h"

#include "llvm/Support/FormatVariadic.h"

namespace cleave::tool {

pipeline::PipelineSchedule scheduleOf(const runtime::Prediction &prediction) {
  pipeline::PipelineSchedule schedule;
  schedule.schedule = pipeline::findSchedule(prediction.schedule).value_or(pipeline::Schedule());
  schedule.microbatches = prediction.microbatches;
  schedule.chunks = prediction.chunks;
  for (const runtime::PlanStage &stage : prediction.stages)
    schedule.memoryLimits.push_back(std::max(1u, stage.inFlight));
  return schedule;
}

namespace {

/// Tasks that are timed in a moment and fit into memory.
constexpr uint64_t mostTimedTasks = 50'000'000;

PipelineReport reportOf(const runtime::Prediction &prediction) {
  PipelineReport report;
  std::vector<pipeline::StageTimes> times;
  for (const runtime::PlanStage &stage : prediction.stages) {
    times.push_back({stage.forward, stage.backwardInput, stage.backwardWeight, stage.send});
    report.activations.push_back(stage.memory.activations * prediction.chunks / std::max(1u, stage.inFlight));
  }
  report.schedule = scheduleOf(prediction);
  report.timeline = pipeline::simulatePipeline(times, report.schedule);
  return report;
}

/// The pipeline, and what a stage does besides before its next step can begin. Where steps follow each other without
/// draining, the busiest stage never waits.
double stepSeconds(const runtime::Prediction &prediction, const PipelineReport &report) {
  double seconds = 0;
  for (size_t i = 0; i != report.timeline.stages.size(); ++i) {
    const pipeline::StageTimeline &stage = report.timeline.stages[i];
    double end = stage.tasks.empty() ? 0 : stage.tasks.back().end;
    if (!report.schedule.schedule.drains())
      end = stage.busy;
    seconds = std::max(seconds, end + prediction.stages[i].perStep);
  }
  return seconds;
}

void writeStages(JsonStream &json, const runtime::Plan &plan, const runtime::Prediction &prediction,
                 const PipelineReport &report) {
  json.attribute("machine", prediction.machine);
  json.attribute("predicted_step_seconds", stepSeconds(prediction, report));
  std::vector<double> peaks(plan->devices.size());
  for (const runtime::PlanStage &stage : prediction.stages)
    for (uint32_t device : plan->meshes[stage.mesh].devices)
      peaks[device] += stage.memory.total();
  json.attributeArray("predicted_peak_bytes", [&] {
    for (double bytes : peaks)
      json.value(bytes);
  });
  writePipeline(json, report);
}

} // namespace

Error simulateStages(const runtime::Plan &plan, const runtime::Entry &entry, const std::string &traceFile,
                     const std::string &jsonFile) {
  if (!entry.prediction || entry.prediction->stages.empty())
    return makeError(Status::Usage, "entry \"", entry.name,
                     "\" expects programs or predicted stages to simulate, got neither");
  const runtime::Prediction &prediction = *entry.prediction;
  if (prediction.stages.size() * uint64_t(prediction.microbatches) * prediction.chunks * 3 > mostTimedTasks)
    return makeError(Status::Infeasible, "simulating expects at most ", mostTimedTasks, " tasks of stages, got ",
                     prediction.stages.size(), " stages with ", prediction.microbatches, " microbatches");
  PipelineReport report = reportOf(prediction);
  if (report.timeline.stages.empty())
    return makeError(Status::Rejected, "entry \"", entry.name, "\": the tasks of its schedule wait for each other");
  if (!traceFile.empty())
    if (Error error = writeJson(traceFile, [&](JsonStream &json) { tracePipeline(json, report); }))
      return error;
  if (!jsonFile.empty())
    if (Error error = writeJson(jsonFile, [&](JsonStream &json) { writeStages(json, plan, prediction, report); }))
      return error;
  return writeText(jsonFile, [&](llvm::raw_ostream &out) {
    out << plan->model << "\n"
        << llvm::formatv("on {0}: predicted {1:f3} ms a training step\n\n", prediction.machine,
                         stepSeconds(prediction, report) * 1e3);
    printPipeline(out, report);
    TextTable table({{"stage", TextTable::Align::Right},
                     {"devices", TextTable::Align::Right},
                     {"per step ms", TextTable::Align::Right},
                     {"memory of a device", TextTable::Align::Right}});
    for (size_t i = 0; i != prediction.stages.size(); ++i) {
      const runtime::PlanStage &stage = prediction.stages[i];
      table.addRow({std::to_string(i), std::to_string(plan->meshes[stage.mesh].devices.size()),
                    llvm::formatv("{0:f3}", stage.perStep * 1e3), bytesText(stage.memory.total())});
    }
    out << "\n";
    table.print(out);
  });
}

} // namespace cleave::tool
