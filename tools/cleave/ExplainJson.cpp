// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan's summary as JSON, version 1: keys are added, never renamed or removed.

#include "tools/cleave/Explain.h"

using namespace llvm;

namespace cleave::tool {

using runtime::Operator;
using runtime::PlanDevice;

static void writeOperator(json::OStream &json, const PlanSummary &summary, const Operator &op) {
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
    if (op.predictedSeconds >= 0)
      json.attribute("predicted_seconds", op.predictedSeconds);
  });
}

static void writeDevice(json::OStream &json, const PlanDevice &device, const DeviceSummary &sums) {
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

static void writeMesh(json::OStream &json, const PlanSummary &summary, const runtime::Mesh &mesh) {
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

/// A stage is what one mesh computes.
static void writeStages(json::OStream &json, const PlanSummary &summary) {
  for (const runtime::Program &program : summary.entry.programs)
    json.object([&] {
      const runtime::Mesh &mesh = summary.plan.meshes[program.mesh];
      json.attribute("mesh", mesh.name);
      json.attributeArray("devices", [&] {
        for (uint32_t device : mesh.devices)
          json.value(summary.plan.devices[device].name);
      });
      json.attributeArray("ops", [&] {
        for (const Operator &op : summary.entry.operators)
          if (op.mesh == program.mesh)
            json.value(op.name);
      });
    });
}

void writeSummary(json::OStream &json, const PlanSummary &summary) {
  json.attribute("version", 1);
  json.attribute("producer", summary.plan.producer);
  json.attribute("model", summary.plan.model);
  json.attribute("strategy", summary.plan.strategy);
  json.attribute("entry", summary.entry.name);
  json.attributeArray("predicted_peak_bytes", [&] {
    for (const DeviceSummary &device : summary.devices)
      json.value(device.arenaBytes);
  });
  json.attributeArray("devices", [&] {
    for (auto [device, sums] : zip(summary.plan.devices, summary.devices))
      writeDevice(json, device, sums);
  });
  json.attributeArray("meshes", [&] {
    for (const runtime::Mesh &mesh : summary.plan.meshes)
      writeMesh(json, summary, mesh);
  });
  json.attributeArray("stages", [&] { writeStages(json, summary); });
  json.attributeArray("ops", [&] {
    for (const Operator &op : summary.entry.operators)
      writeOperator(json, summary, op);
  });
  json.attributeArray("collectives", [&] {
    for (const CollectiveSummary &collective : summary.collectives)
      json.object([&] {
        json.attribute("node", collective.node);
        json.attribute("kind", collective.kind);
        json.attribute("mesh", summary.plan.meshes[collective.mesh].name);
        json.attribute("bytes", collective.bytes);
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
}

} // namespace cleave::tool
