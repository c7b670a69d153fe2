// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan's summary as JSON, version 1: keys are added, never renamed or removed.

#include "compiler/PlanMachine.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/KindSummary.h"

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using runtime::PlanDevice;

static void writeOperator(JsonStream &json, const PlanSummary &summary, const Operator &op) {
  json.object([&] {
    json.attribute("name", op.name);
    json.attribute("kind", op.kind);
    json.attributeArray("devices", [&] {
      for (uint32_t device : summary.plan.meshes[op.mesh].devices)
        json.value(summary.plan.devices[device].name);
    });
    json.attribute("mesh", summary.plan.meshes[op.mesh].name);
    json.attribute("split", op.split);
    json.attribute("ways", op.ways);
    json.attribute("decided_by", op.decidedBy);
    json.attribute("kernel", op.kernel);
    json.attribute("fused_with", op.fusedWith);
    json.attributeArray("inputs", [&] {
      for (uint32_t input : op.inputs)
        json.value(summary.entry.operators[input].name);
    });
    json.attribute("shape", json::Array(op.shape));
    json.attribute("flops", op.flops);
    json.attribute("bytes", op.bytes);
    json.attribute("received_bytes", op.receivedBytes);
    json.attribute("parameter_bytes", op.parameterBytes);
    json.attribute("result_bytes", op.resultBytes);
    if (summary.prediction() && !summary.prediction()->stages.empty())
      json.attribute("stage", op.stage);
    if (op.predictedSeconds >= 0)
      json.attribute("predicted_seconds", op.predictedSeconds);
    if (op.communicationSeconds >= 0)
      json.attribute("communication_seconds", op.communicationSeconds);
    if (op.keys)
      json.attributeObject("keys", [&] {
        json.attribute("exchange", op.keys->ring ? "ring" : "gather");
        json.attribute("devices", op.keys->devices);
        json.attribute("ring_seconds", op.keys->ringSeconds);
        json.attribute("gathered_seconds", op.keys->gatheredSeconds);
        json.attribute("ring_bytes", op.keys->ringBytes);
        json.attribute("gathered_bytes", op.keys->gatheredBytes);
      });
    if (op.alternative.empty())
      return;
    json.attributeObject("best_alternative", [&] {
      json.attribute("split", op.alternative);
      if (op.alternativeSeconds >= 0)
        json.attribute("step_seconds", op.alternativeSeconds);
    });
  });
}

static void writeDevice(JsonStream &json, const PlanDevice &device, const DeviceSummary &sums) {
  json.object([&] {
    json.attribute("name", device.name);
    json.attribute("driver", device.driver);
    json.attribute("cores", device.cores);
    json.attribute("operators", sums.operators);
    json.attribute("flops", sums.flops);
    json.attribute("bytes", sums.bytes);
    json.attribute("received_bytes", sums.receivedBytes);
    json.attribute("parameter_bytes", sums.parameterBytes);
    json.attribute("arena_bytes", sums.arenaBytes);
    json.attribute("live_bytes", sums.liveBytes);
  });
}

static void writeMesh(JsonStream &json, const PlanSummary &summary, const runtime::Mesh &mesh) {
  json.object([&] {
    json.attribute("name", mesh.name);
    json.attributeArray("axes", [&] {
      for (const runtime::Axis &axis : mesh.axes)
        json.object([&] {
          json.attribute("name", axis.name);
          json.attribute("size", axis.size);
        });
    });
    json.attributeArray("devices", [&] {
      for (uint32_t device : mesh.devices)
        json.value(summary.plan.devices[device].name);
    });
  });
}

static void writeDeviceNames(JsonStream &json, const PlanSummary &summary, uint32_t mesh) {
  json.attribute("mesh", summary.plan.meshes[mesh].name);
  json.attributeArray("devices", [&] {
    for (uint32_t device : summary.plan.meshes[mesh].devices)
      json.value(summary.plan.devices[device].name);
  });
}

static void writeMemory(JsonStream &json, const runtime::MemoryUse &memory) {
  json.attribute("parameters", memory.parameters);
  json.attribute("gradients", memory.gradients);
  json.attribute("optimizer", memory.optimizer);
  json.attribute("activations", memory.activations);
  json.attribute("transient", memory.transient);
  json.attribute("host", memory.host);
  json.attribute("total", memory.total());
}

static void writePredictedStage(JsonStream &json, const runtime::PlanStage &stage) {
  json.attribute("forward_seconds", stage.forward);
  json.attribute("backward_input_seconds", stage.backwardInput);
  json.attribute("backward_weight_seconds", stage.backwardWeight);
  json.attribute("send_seconds", stage.send);
  json.attribute("per_step_seconds", stage.perStep);
  json.attribute("in_flight", stage.inFlight);
  json.attribute("recompute", stage.recompute);
  json.attribute("zero", stage.zero);
  json.attribute("optimizer_in_host", stage.optimizerInHost);
  json.attributeObject("memory_bytes", [&] { writeMemory(json, stage.memory); });
}

/// The planner's stages; where nobody planned any, a stage is what one mesh computes.
static void writeStages(JsonStream &json, const PlanSummary &summary) {
  auto writeOps = [&](function_ref<bool(const Operator &)> belongs) {
    json.attributeArray("ops", [&] {
      for (const Operator &op : summary.entry.operators)
        if (belongs(op))
          json.value(op.name);
    });
  };
  const runtime::Prediction *prediction = summary.prediction();
  if (prediction && !prediction->stages.empty()) {
    for (auto [i, stage] : enumerate(prediction->stages))
      json.object([&, index = i] {
        writeDeviceNames(json, summary, stage.mesh);
        writeOps([&](const Operator &op) { return op.stage == index; });
        writePredictedStage(json, stage);
      });
    return;
  }
  for (const runtime::Program &program : summary.entry.programs)
    json.object([&] {
      writeDeviceNames(json, summary, program.mesh);
      writeOps([&](const Operator &op) { return op.mesh == program.mesh; });
    });
}

static void writeKinds(JsonStream &json, const PlanSummary &summary) {
  std::vector<KindSummary> kinds = summarizeKinds(summary);
  if (kinds.empty())
    return;
  json.attributeArray("kinds", [&] {
    for (const KindSummary &kind : kinds)
      json.object([&] {
        json.attribute("name", kind.name);
        json.attribute("devices", kind.devices);
        json.attribute("busy_devices", kind.busy);
        json.attribute("flops", kind.flops);
        json.attribute("share_of_flops", kind.share);
      });
  });
}

/// What is known of the whole plan when somebody predicted it.
static void writePrediction(JsonStream &json, const PlanSummary &summary) {
  const runtime::Prediction *prediction = summary.prediction();
  if (!prediction)
    return;
  json.attribute("predicted_machine", prediction->machine);
  json.attribute("training", prediction->training);
  if (prediction->bestSeconds() >= 0)
    json.attribute("predicted_step_seconds", prediction->bestSeconds());
  if (prediction->stepSeconds >= 0)
    json.attribute("searched_step_seconds", prediction->stepSeconds);
  if (StepCalibration calibration = calibrationOf(*prediction); calibration.step != 1) {
    json.attribute("calibration_factor", calibration.step);
    if (prediction->bestSeconds() >= 0)
      json.attribute("uncalibrated_step_seconds", prediction->bestSeconds() / calibration.step);
  }
  if (prediction->lowerBoundSeconds >= 0)
    json.attribute("lower_bound_seconds", prediction->lowerBoundSeconds);
  if (auto gap = summary.gap())
    json.attribute("gap", *gap);
  if (prediction->modelFlops > 0)
    json.attribute("model_flops", prediction->modelFlops);
  if (auto rate = summary.modelFlopsRate())
    json.attribute("model_flops_per_device_per_second", *rate);
  if (size_t idle = summary.numIdle())
    json.attribute("idle_devices", static_cast<int64_t>(idle));
  if (auto price = summarizePrice(summary)) {
    json.attribute("usd_per_hour", price->perHour);
    json.attribute("usd_per_step", price->perStep);
  }
  json.attribute("microbatches", prediction->microbatches);
  json.attribute("schedule", prediction->schedule);
  json.attribute("chunks", prediction->chunks);
  if (prediction->memoryLimit > 0)
    json.attribute("memory_limit_bytes", prediction->memoryLimit);
  if (!summary.isSearched())
    return;
  json.attributeObject("degrees", [&] {
    for (const runtime::Degree &degree : prediction->degrees)
      json.attribute(degree.name, degree.ways);
  });
  json.attributeArray("alternatives", [&] {
    for (const runtime::Alternative &other : prediction->alternatives)
      json.object([&] {
        json.attribute("name", other.name);
        if (other.seconds >= 0)
          json.attribute("step_seconds", other.seconds);
        json.attribute("peak_bytes", other.peakBytes);
        json.attribute("why_not", other.whyNot);
      });
  });
}

static void writeCuts(JsonStream &json, const PlanSummary &summary) {
  for (const MeshCut &cut : summary.cuts)
    json.object([&] {
      json.attribute("from_stage", cut.fromStage);
      json.attribute("to_stage", cut.toStage);
      json.attribute("from_mesh", summary.plan.meshes[cut.fromMesh].name);
      json.attribute("to_mesh", summary.plan.meshes[cut.toMesh].name);
      json.attribute("bytes", cut.bytes);
      json.attributeArray("ops", [&] {
        for (uint32_t producer : cut.producers)
          json.value(summary.entry.operators[producer].name);
      });
    });
}

static void writeCommunication(JsonStream &json, const PlanSummary &summary) {
  json.attributeArray("collectives", [&] {
    for (const CollectiveSummary &collective : summary.collectives)
      json.object([&] {
        json.attribute("node", collective.node);
        json.attribute("kind", collective.kind);
        json.attribute("mesh", summary.plan.meshes[collective.mesh].name);
        json.attribute("bytes", collective.bytes);
        json.attribute("tensors", collective.nodes.size());
      });
  });
  json.attributeArray("transfers", [&] {
    for (const Transfer &transfer : summary.transfers)
      json.object([&] {
        json.attribute("node", transfer.node);
        json.attribute("from", summary.plan.devices[transfer.from].name);
        json.attribute("to", summary.plan.devices[transfer.to].name);
        json.attribute("bytes", transfer.bytes);
        json.attributeArray("consumers", [&] {
          for (const std::string &consumer : transfer.consumers)
            json.value(consumer);
        });
      });
  });
  json.attributeArray("cuts", [&] { writeCuts(json, summary); });
}

void writeSummary(JsonStream &json, const PlanSummary &summary) {
  json.attribute("version", 1);
  json.attribute("producer", summary.plan.producer);
  json.attribute("model", summary.plan.model);
  json.attribute("strategy", summary.plan.strategy);
  if (const runtime::Processor &processor = summary.plan.processor; !processor.name.empty())
    json.attributeObject("processor", [&] {
      json.attribute("name", processor.name);
      json.attributeArray("features", [&] {
        for (const std::string &feature : processor.features)
          json.value(feature);
      });
    });
  json.attribute("entry", summary.entry.name);
  writePrediction(json, summary);
  json.attributeArray("predicted_peak_bytes", [&] {
    for (uint32_t device = 0; device != summary.devices.size(); ++device)
      json.value(summary.peakBytes(device));
  });
  json.attributeArray("devices", [&] {
    for (auto [device, sums] : zip(summary.plan.devices, summary.devices))
      writeDevice(json, device, sums);
  });
  writeKinds(json, summary);
  json.attributeArray("meshes", [&] {
    for (const runtime::Mesh &mesh : summary.plan.meshes)
      writeMesh(json, summary, mesh);
  });
  json.attributeArray("stages", [&] { writeStages(json, summary); });
  json.attributeArray("ops", [&] {
    for (const Operator &op : summary.entry.operators)
      writeOperator(json, summary, op);
  });
  writeCommunication(json, summary);
}

} // namespace cleave::tool
