// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the timeline of a pipeline for people and programs.

#include "tools/cleave/PipelineReport.h"

#include "compiler/Figures.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace cleave::tool {

using pipeline::StageTimeline;
using pipeline::TaskKind;
using pipeline::TimedTask;

namespace {

/// How a kind of task is shown.
struct TaskLook {
  char letter;
  StringLiteral name, color;
};

TaskLook lookOf(TaskKind kind) {
  switch (kind) {
  case TaskKind::Forward:
    return {'F', "forward", "#9ecae1"};
  case TaskKind::BackwardInput:
    return {'B', "backward_input", "#a1d99b"};
  case TaskKind::BackwardWeight:
    return {'W', "backward_weight", "#fdd49e"};
  case TaskKind::Backward:
    return {'B', "backward", "#a1d99b"};
  }
  return {'?', "", ""};
}

double keptBytes(const PipelineReport &report, size_t stage) {
  return report.timeline.stages[stage].inFlight * report.activations[stage];
}

} // namespace

//===-- text --------------------------------------------------------------------------------------------------===//

static void printTable(raw_ostream &out, const PipelineReport &report) {
  bool hasBytes = any_of(report.activations, [](double bytes) { return bytes > 0; });
  std::vector<TextTable::Column> columns = {
      {"stage", TextTable::Align::Right},   {"begin ms", TextTable::Align::Right},
      {"end ms", TextTable::Align::Right},  {"busy ms", TextTable::Align::Right},
      {"idle ms", TextTable::Align::Right}, {"in flight", TextTable::Align::Right}};
  if (hasBytes)
    columns.push_back({"activations", TextTable::Align::Right});
  TextTable table(columns);
  for (auto [i, stage] : enumerate(report.timeline.stages)) {
    std::string inFlight = fixedText(stage.inFlight, std::floor(stage.inFlight) == stage.inFlight ? 0 : 2);
    table.addRow({std::to_string(i), millisecondsText(stage.tasks.front().begin),
                  millisecondsText(stage.tasks.back().end), millisecondsText(stage.busy),
                  millisecondsText(std::max(stage.span() - stage.busy, 0.0)), inFlight,
                  hasBytes ? bytesText(keptBytes(report, i)) : std::string()});
  }
  table.print(out);
}

/// One letter for each slice of time: what the stage does in the middle of it.
static std::string drawLine(const StageTimeline &stage, double end, unsigned width) {
  std::string line(width, '.');
  auto task = stage.tasks.begin();
  for (unsigned column = 0; column < width; ++column) {
    double time = (column + 0.5) * end / width;
    while (task != stage.tasks.end() && task->end <= time)
      ++task;
    if (task != stage.tasks.end() && task->begin <= time)
      line[column] = lookOf(task->kind).letter;
  }
  return line;
}

static void printDrawing(raw_ostream &out, const PipelineReport &report) {
  constexpr size_t mostLines = 32;
  size_t count = report.timeline.stages.size(), digits = std::to_string(count - 1).size();
  // A picture fills its width: where lines may be of any length it keeps to what fits on a screen.
  constexpr unsigned widest = 100;
  unsigned width = std::min(lineWidth(), widest) - digits - 6;
  out << "\n";
  for (auto [i, stage] : enumerate(report.timeline.stages)) {
    if (count > mostLines && i >= mostLines / 2 && i < count - mostLines / 2) {
      if (i == mostLines / 2)
        out << "  … " << count - mostLines << " more\n";
      continue;
    }
    out << "  " << right_justify(std::to_string(i), digits) << " |" << drawLine(stage, report.timeline.end(), width)
        << "|\n";
  }
  out << "  F forward, B backward"
      << (report.timeline.stages.front().tasks.back().kind == TaskKind::BackwardWeight
              ? " for the input, W for the weights"
              : "")
      << ", . idle\n";
}

void printPipeline(raw_ostream &out, const PipelineReport &report) {
  out << report.schedule.schedule->name << ", " << report.timeline.stages.size() << " stages, "
      << report.schedule.microbatches << " microbatches";
  if (report.schedule.chunks > 1)
    out << ", " << report.schedule.chunks << " chunks a stage";
  out << "\nmakespan " << millisecondsText(report.timeline.longestSpan())
      << " ms (the longest stage from begin to end), " << millisecondsText(report.timeline.end())
      << " ms from first begin to last end\nbubble rate " << fixedText(report.timeline.bubbleRate(), 4) << "\n\n";
  printTable(out, report);
  printDrawing(out, report);
}

//===-- picture -----------------------------------------------------------------------------------------------===//

void drawPipeline(raw_ostream &out, const PipelineReport &report) {
  constexpr double width = 1200, left = 60, row = 24, top = 30;
  double end = report.timeline.end(), scale = end > 0 ? width / end : 0;
  double height = top + row * report.timeline.stages.size() + 10;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << format("%.0f", left + width + 10) << "\" height=\""
      << format("%.0f", height) << "\" font-family=\"sans-serif\" font-size=\"10\">\n"
      << "<text x=\"4\" y=\"16\" font-size=\"12\">" << report.schedule.schedule->name << ", "
      << report.schedule.microbatches << " microbatches: " << millisecondsText(report.timeline.longestSpan())
      << " ms, bubble rate " << fixedText(report.timeline.bubbleRate(), 4) << "</text>\n";
  for (auto [i, stage] : enumerate(report.timeline.stages)) {
    double y = top + row * i;
    out << "<text x=\"4\" y=\"" << format("%.1f", y + 15) << "\">stage " << i << "</text>\n";
    for (const TimedTask &task : stage.tasks) {
      double x = left + task.begin * scale, wide = (task.end - task.begin) * scale;
      TaskLook look = lookOf(task.kind);
      out << "<rect x=\"" << format("%.2f", x) << "\" y=\"" << format("%.1f", y) << "\" width=\""
          << format("%.2f", wide) << "\" height=\"" << format("%.0f", row - 3) << "\" fill=\"" << look.color
          << "\" stroke=\"#555555\" stroke-width=\"0.4\"><title>" << look.name << " of microbatch " << task.microbatch;
      if (report.schedule.chunks > 1)
        out << ", chunk " << task.chunk;
      out << ", " << millisecondsText(task.begin) << " to " << millisecondsText(task.end) << " ms</title></rect>\n";
      if (wide >= 14)
        out << "<text x=\"" << format("%.2f", x + wide / 2) << "\" y=\"" << format("%.1f", y + 14)
            << "\" text-anchor=\"middle\" pointer-events=\"none\">" << task.microbatch << "</text>\n";
    }
  }
  out << "</svg>\n";
}

//===-- programs ----------------------------------------------------------------------------------------------===//

void writePipeline(JsonStream &json, const PipelineReport &report) {
  json.attribute("version", 1);
  json.attribute("schedule", StringRef(report.schedule.schedule->name));
  json.attribute("microbatches", report.schedule.microbatches);
  json.attribute("chunks", report.schedule.chunks);
  json.attribute("makespan_ms", report.timeline.longestSpan() * 1e3);
  json.attribute("end_ms", report.timeline.end() * 1e3);
  json.attribute("bubble_rate", report.timeline.bubbleRate());
  json.attributeArray("stages", [&] {
    for (auto [i, stage] : enumerate(report.timeline.stages))
      json.object([&, i = i, &stage = stage] {
        json.attribute("begin_ms", stage.tasks.front().begin * 1e3);
        json.attribute("end_ms", stage.tasks.back().end * 1e3);
        json.attribute("busy_ms", stage.busy * 1e3);
        json.attribute("in_flight", stage.inFlight);
        if (report.activations[i] > 0)
          json.attribute("activation_bytes", keptBytes(report, i));
      });
  });
}

static void writeName(JsonStream &json, StringRef kind, size_t thread, std::string name) {
  json.object([&] {
    json.attribute("ph", "M");
    json.attribute("name", kind);
    json.attribute("pid", 0);
    json.attribute("tid", thread);
    json.attributeObject("args", [&] { json.attribute("name", name); });
  });
}

void tracePipeline(JsonStream &json, const PipelineReport &report) {
  json.attribute("displayTimeUnit", "ns");
  json.attributeArray("traceEvents", [&] {
    writeName(json, "process_name", 0, "pipeline " + std::string(report.schedule.schedule->name));
    for (auto [i, stage] : enumerate(report.timeline.stages)) {
      writeName(json, "thread_name", i, "stage " + std::to_string(i));
      for (const TimedTask &task : stage.tasks)
        json.object([&, i = i] {
          TaskLook look = lookOf(task.kind);
          json.attribute("ph", "X");
          json.attribute("name", std::string(1, look.letter) + std::to_string(task.microbatch));
          json.attribute("cat", look.name);
          json.attribute("pid", 0);
          json.attribute("tid", i);
          json.attribute("ts", task.begin * 1e6);
          json.attribute("dur", (task.end - task.begin) * 1e6);
          json.attributeObject("args", [&] {
            json.attribute("microbatch", task.microbatch);
            json.attribute("chunk", task.chunk);
          });
        });
    }
  });
}

} // namespace cleave::tool
