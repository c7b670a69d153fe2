// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan's decision as JSON, version 1: keys are added, never renamed or removed.

#include "tools/cleave/ExportedPlan.h"
#include "tools/cleave/PlanSummary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;

namespace cleave::tool {

using namespace runtime;

namespace {

StringRef roleName(TensorRole role) {
  return role == TensorRole::Optimizer ? "optimizer" : role == TensorRole::Constant ? "constant" : "parameter";
}

/// Writes the parts that a plan has several of.
class ExportJson {
public:
  ExportJson(JsonStream &json, const ExportedPlan &exported) : json(json), exported(exported), plan(exported.plan) {}

  void device(const PlanDevice &device) {
    json.object([&] {
      json.attribute("name", device.name);
      json.attribute("driver", device.driver);
      json.attribute("cores", device.cores);
    });
  }

  void mesh(const Mesh &mesh) {
    json.object([&] {
      json.attribute("name", mesh.name);
      json.attributeArray("axes", [&] {
        for (const Axis &axis : mesh.axes)
          json.object([&] {
            json.attribute("name", axis.name);
            json.attribute("size", axis.size);
          });
      });
      json.attributeArray("devices", [&] {
        for (uint32_t device : mesh.devices)
          json.value(device);
      });
    });
  }

  void tensor(const PlacedTensor &tensor, bool isParameter) {
    json.object([&] {
      json.attribute("name", tensor.name);
      json.attribute("type", StringRef(elementName(tensor.type->element)));
      json.attribute("shape", json::Array(tensor.type->shape));
      if (isParameter) {
        json.attribute("trained", tensor.isTrained);
        json.attribute("role", roleName(tensor.role));
      }
      json.attributeArray("placements", [&] {
        for (const Placement &placement : tensor.placements)
          this->placement(placement);
      });
    });
  }

  void op(const Operator &op) {
    json.object([&] {
      json.attribute("name", op.name);
      json.attribute("kind", op.kind);
      json.attribute("mesh", plan.meshes[op.mesh].name);
      json.attributeObject("split", [&] { split(op.split); });
      json.attribute("decided_by", op.decidedBy);
    });
  }

  void stage(const ExportedStage &stage) {
    json.object([&] {
      json.attribute("mesh", plan.meshes[stage.mesh].name);
      json.attributeArray("operators", [&] {
        for (uint32_t op : stage.operators)
          json.value(exported.entry.operators[op].name);
      });
      json.attributeArray("parameters", [&] {
        for (size_t parameter : stage.parameters)
          json.value(exported.parameters[parameter].name);
      });
      if (!stage.planned)
        return;
      json.attribute("recompute", stage.planned->recompute);
      json.attribute("zero", stage.planned->zero);
    });
  }

private:
  /// The axes that cut a dimension, or how far a coordinate on each of them advances; null where nothing cuts it.
  void cuts(const std::vector<TileDim> &dims, const Mesh &mesh, bool blocks) {
    for (const TileDim &dim : dims) {
      if (dim.cuts.empty()) {
        json.value(nullptr);
        continue;
      }
      json.array([&] {
        for (const Cut &cut : dim.cuts)
          if (blocks)
            json.value(cut.block);
          else
            json.value(mesh.axes[cut.axis].name);
      });
    }
  }

  void placement(const Placement &placement) {
    const Mesh &mesh = plan.meshes[placement.mesh];
    json.object([&] {
      json.attribute("mesh", mesh.name);
      json.attribute("device_bytes", placement.bytes);
      if (placement.dims) {
        json.attributeArray("split", [&] { cuts(*placement.dims, mesh, /*blocks=*/false); });
        json.attributeArray("blocks", [&] { cuts(*placement.dims, mesh, /*blocks=*/true); });
        if (placement.microbatches > 1)
          json.attribute("microbatches", placement.microbatches);
        return;
      }
      if (placement.tile)
        tile("tile", *placement.tile, mesh);
      if (placement.within)
        tile("within", *placement.within, mesh);
    });
  }

  void tile(StringRef key, const Tile &tile, const Mesh &mesh) {
    json.attributeArray(key, [&] {
      for (const TileDim &dim : tile.dims)
        tileDim(dim, mesh);
    });
  }

  void tileDim(const TileDim &dim, const Mesh &mesh) {
    json.object([&] {
      json.attribute("size", dim.size);
      json.attribute("length", dim.length);
      json.attribute("step", dim.step);
      json.attribute("before", dim.before);
      json.attributeArray("axes", [&] {
        for (const Cut &cut : dim.cuts)
          json.value(mesh.axes[cut.axis].name);
      });
      json.attributeArray("blocks", [&] {
        for (const Cut &cut : dim.cuts)
          json.value(cut.block);
      });
    });
  }

  /// "batch/data 2, out_channel/model 4/x 2" as {"batch": ["data"], "out_channel": ["model", "x"]}.
  void split(StringRef text) {
    for (const SplitFactor &cut : readSplit(text))
      json.attributeArray(cut.factor, [&] {
        for (StringRef axis : cut.axes)
          json.value(axis);
      });
  }

  JsonStream &json;
  const ExportedPlan &exported;
  const PlanContents &plan;
};

} // namespace

void writeExport(JsonStream &json, const ExportedPlan &exported) {
  const PlanContents &plan = exported.plan;
  ExportJson parts(json, exported);
  json.attribute("version", 1);
  json.attribute("producer", plan.producer);
  json.attribute("model", plan.model);
  json.attribute("strategy", plan.strategy);
  json.attribute("entry", exported.entry.name);
  auto list = [&](StringRef key, const auto &items, auto write) {
    json.attributeArray(key, [&] {
      for (const auto &item : items)
        write(item);
    });
  };
  list("devices", plan.devices, [&](const PlanDevice &device) { parts.device(device); });
  list("meshes", exported.meshes, [&](uint32_t mesh) { parts.mesh(plan.meshes[mesh]); });
  if (exported.placesParameters())
    list("parameters", exported.parameters, [&](const PlacedTensor &tensor) { parts.tensor(tensor, true); });
  // A decision without programs knows nothing of inputs and outputs: that is not the same as having none.
  if (!exported.entry.programs.empty()) {
    list("inputs", exported.inputs, [&](const PlacedTensor &tensor) { parts.tensor(tensor, false); });
    list("outputs", exported.outputs, [&](const PlacedTensor &tensor) { parts.tensor(tensor, false); });
  }
  list("operators", exported.entry.operators, [&](const Operator &op) { parts.op(op); });
  list("stages", exported.stages, [&](const ExportedStage &stage) { parts.stage(stage); });
  json.attributeArray("split_points", [&] {
    for (auto [op, stage] : exported.splitPoints())
      json.object([&, op = op, stage = stage] {
        json.attribute("operator", exported.entry.operators[op].name);
        json.attribute("stage", static_cast<uint64_t>(stage));
      });
  });
  json.attributeObject("degrees", [&] {
    for (const Degree &degree : exported.degrees)
      json.attribute(degree.name, degree.ways);
  });
  json.attribute("microbatches", exported.microbatches);
  json.attribute("schedule", exported.schedule);
  json.attribute("chunks", exported.chunks);
  json.attribute("batch", exported.batch);
  json.attributeObject("hyperparameters", [&] {
    for (const auto &[name, number] : exported.hyperparameters)
      json.attribute(name, number);
  });
  list("settings", exported.settings, [&](const Setting &setting) {
    json.object([&] {
      json.attribute("name", setting.name);
      json.attribute("value", setting.value);
    });
  });
}

} // namespace cleave::tool
