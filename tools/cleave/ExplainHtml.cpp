// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as a page: the files of page/, which the build has joined, with the plan's data as JSON in the middle.

#include "compiler/Figures.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/GraphView.h"
#include "tools/cleave/KindSummary.h"
#include "tools/cleave/ScheduleNames.h"
#include "tools/cleave/TextTable.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using runtime::PlanStage;
using runtime::Prediction;

/// `pageBegin` and `pageEnd`: the page before and after the data.
#include "tools/cleave/page/Page.inc"

namespace {

/// Writes what page/*.js read. Names are short where there is one an operator; numbers are seconds and bytes.
class PageData {
public:
  PageData(JsonStream &json, const PlanSummary &summary, const TimelineData &timeline)
      : json(json), summary(summary), timeline(timeline) {}

  void run() {
    json.object([&] {
      writePlan();
      json.attributeArray("meshes", [&] { writeMeshes(); });
      json.attributeArray("ops", [&] {
        for (const Operator &op : summary.entry.operators)
          writeOperator(op);
      });
      json.attributeObject("graph", [&] { writeGraph(); });
      json.attributeArray("stages", [&] { writeStages(); });
      json.attributeArray("alternatives", [&] { writeAlternatives(); });
      json.attributeObject("devices", [&] { writeDevices(); });
      json.attributeArray("memory", [&] { writeMemory(); });
      json.attributeObject("timeline", [&] { writeTimeline(); });
    });
  }

private:
  /// Text of a plan need not be UTF-8; a page must be.
  static std::string text(StringRef value) { return json::isUTF8(value) ? value.str() : json::fixUTF8(value); }

  void fact(StringRef name, const std::string &value) {
    if (!value.empty())
      json.array([&] {
        json.value(name);
        json.value(text(value));
      });
  }

  void writePlan() {
    const Prediction *prediction = summary.prediction();
    json.attribute("model", text(summary.plan.model));
    json.attribute("training", prediction && prediction->training);
    // What the search's alternatives are compared with.
    json.attribute("stepSeconds", prediction ? prediction->stepSeconds : -1);
    json.attribute("memoryLimit", prediction ? prediction->memoryLimit : 0);
    std::string lead = "strategy " + summary.plan.strategy + ", " + countText(summary.plan.devices.size(), "device") +
                       ", " + countText(summary.entry.operators.size(), "operator");
    if (prediction && prediction->bestSeconds() >= 0)
      lead += ", predicted step " + secondsText(prediction->bestSeconds());
    json.attribute("lead", text(lead));
    json.attributeArray("facts", [&] { writeFacts(prediction); });
  }

  void writeFacts(const Prediction *prediction) {
    auto ports = [](const std::vector<runtime::Port> &ports) {
      std::string names;
      for (const runtime::Port &port : ports)
        names += (names.empty() ? "" : ", ") + port.name + " " + port.type.text();
      return names;
    };
    fact("inputs", ports(summary.entry.inputs));
    fact("outputs", ports(summary.entry.outputs));
    fact("work of a step", decimalText(summary.flops) + "flop");
    fact("peak memory", bytesText(summary.peakBytes()) + " a device");
    if (const runtime::Processor &processor = summary.plan.processor; !processor.name.empty())
      fact("processor", processor.name);
    fact("written by", summary.plan.producer);
    if (!prediction)
      return;
    fact("machine", prediction->machine);
    fact("degrees", degreesText(prediction->degrees));
    if (summary.isSearched() && prediction->simulatedSeconds >= 0)
      fact("by the search", secondsText(prediction->stepSeconds) + " a step");
    if (summary.isSearched() || prediction->microbatches != 1)
      fact("microbatches", std::to_string(prediction->microbatches));
    fact("schedule", scheduleText(*prediction));
    fact("rate", summary.modelFlopsText());
    fact("idle devices", summary.idleText());
    for (const auto &[kind, busy] : kindTexts(summary))
      fact(text("kind " + kind), busy);
    fact("cost of a step", priceText(summary));
    fact("lower bound", summary.boundText());
  }

  void writeMeshes() {
    for (auto [i, mesh] : enumerate(summary.plan.meshes))
      json.object([&, i = i, &mesh = mesh] {
        json.attribute("name", text(meshText(mesh)));
        json.attribute("devices", text(summary.deviceNames(mesh.devices)));
        json.attribute("color", meshColor(static_cast<uint32_t>(i)));
      });
  }

  void writeOperator(const Operator &op) {
    json.object([&] {
      json.attribute("name", text(op.name));
      json.attribute("kind", text(op.kind));
      json.attribute("shape", shapeText(op.shape));
      json.attribute("mesh", op.mesh);
      json.attribute("stage", op.stage);
      json.attribute("split", text(op.split));
      json.attribute("by", text(op.decidedBy));
      json.attribute("kernel", summary.entry.isDecision() ? "" : text(summary.computedBy(op)));
      json.attribute("own", summary.hasOwnKernel(op));
      json.attribute("flops", op.flops);
      json.attribute("bytes", op.bytes);
      json.attribute("received", op.receivedBytes);
      json.attribute("parameters", op.parameterBytes);
      json.attribute("result", op.resultBytes);
      json.attribute("seconds", op.predictedSeconds);
      json.attribute("communication", op.communicationSeconds);
      json.attribute("alternative", text(op.alternative));
      json.attribute("alternativeSeconds", op.alternativeSeconds);
      json.attribute("inputs", json::Array(op.inputs));
    });
  }

  void writeGraph() {
    GraphView view = viewGraph(summary, graphNodeLimit);
    json.attribute("note", text(view.note));
    json.attributeArray("nodes", [&] {
      for (const GraphNode &node : view.nodes)
        json.object([&] {
          json.attribute("label", text(node.label));
          json.attribute("single", node.single);
          json.attribute("mesh", node.mesh);
          json.attribute("stage", node.stage);
          json.attribute("ops", json::Array(node.operators));
        });
    });
    json.attributeArray("edges", [&] {
      for (const GraphEdge &edge : view.edges)
        json.value(json::Array{edge.from, edge.to, edge.bytes});
    });
  }

  void writeStages() {
    const Prediction *prediction = summary.prediction();
    if (!prediction)
      return;
    std::vector<uint32_t> counts(prediction->stages.size());
    for (const Operator &op : summary.entry.operators)
      if (op.stage < counts.size())
        ++counts[op.stage];
    for (auto [i, stage] : enumerate(prediction->stages))
      writeStage(stage, i, counts[i]);
  }

  void writeStage(const PlanStage &stage, size_t index, uint32_t operators) {
    json.object([&] {
      json.attribute("name", "stage " + std::to_string(index));
      json.attribute("mesh", stage.mesh);
      json.attribute("operators", operators);
      json.attribute("forward", stage.forward);
      json.attribute("input", stage.backwardInput);
      json.attribute("weights", stage.backwardWeight);
      json.attribute("send", stage.send);
      json.attribute("step", stage.perStep);
      json.attribute("inFlight", static_cast<double>(stage.inFlight) / summary.prediction()->chunks);
      json.attribute("recompute", text(recomputeCell(stage)));
      json.attribute("zero", stage.zero);
      const runtime::MemoryUse &memory = stage.memory;
      if (memory.total() > 0)
        json.attribute("memory", json::Array{memory.parameters, memory.gradients, memory.optimizer, memory.activations,
                                             memory.transient});
    });
  }

  void writeAlternatives() {
    if (!summary.prediction())
      return;
    for (const runtime::Alternative &other : summary.prediction()->alternatives)
      json.object([&] {
        json.attribute("name", text(other.name));
        json.attribute("seconds", other.seconds);
        json.attribute("bytes", other.peakBytes);
        json.attribute("whyNot", text(other.whyNot));
      });
  }

  void writeDevices() {
    json.attribute("columns", json::Array(deviceTitles(summary)));
    json.attributeArray("rows", [&] {
      for (const EqualRows &row : deviceRows(summary, summary.devices.size() > 8))
        json.array([&] {
          for (const std::string &cell : row.cells)
            json.value(text(cell));
        });
    });
  }

  /// Devices with equal peaks together.
  void writeMemory() {
    std::map<double, std::vector<uint32_t>> devices;
    for (uint32_t i = 0; i != summary.devices.size(); ++i)
      devices[summary.peakBytes(i)].push_back(i);
    for (const auto &[bytes, indices] : reverse(devices))
      json.object([&, bytes = bytes, &indices = indices] {
        json.attribute("name", text(summary.deviceNames(indices)));
        json.attribute("bytes", bytes);
      });
  }

  void writeTimeline() {
    json.attribute("seconds", timeline.seconds);
    json.attribute("source", text(timeline.source));
    json.attribute("note", text(timeline.note));
    auto writeNames = [&](StringRef key, const std::vector<std::string> &names) {
      json.attributeArray(key, [&] {
        for (const std::string &name : names)
          json.value(text(name));
      });
    };
    writeNames("tracks", timeline.tracks);
    writeNames("memoryTracks", timeline.memoryTracks);
    json.attributeArray("events", [&] {
      for (const TimelineData::Event &event : timeline.events)
        json.value(
            json::Array{event.track, static_cast<unsigned>(event.kind), event.begin, event.end, text(event.label)});
    });
    json.attributeArray("memory", [&] {
      for (const TimelineData::MemoryPoint &point : timeline.memory)
        json.value(json::Array{point.track, point.seconds, point.bytes});
    });
  }

  JsonStream &json;
  const PlanSummary &summary;
  const TimelineData &timeline;
};

} // namespace

void explainAsHtml(raw_ostream &out, const PlanSummary &summary, const TimelineData &timeline) {
  std::string data;
  raw_string_ostream stream(data);
  JsonStream json(stream);
  PageData(json, summary, timeline).run();
  json.flush();
  out << pageBegin;
  // "<" occurs in strings only; written like this it can neither end the element nor begin a comment in it.
  for (char c : data)
    if (c == '<')
      out << "\\u003c";
    else
      out << c;
  out << pageEnd;
}

} // namespace cleave::tool
