// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan's decision as a file in Python, in the words of JAX or of PyTorch's DTensor: tables, and functions that make
// meshes and place tensors.

#include "compiler/Options.h"
#include "compiler/SettingDefaults.h"
#include "tools/cleave/ExportedPlan.h"
#include "tools/cleave/FrameworkSplit.h"

#include "runtime/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"

#include <sstream>

using namespace llvm;

namespace cleave::tool {

using namespace runtime;

namespace {

constexpr StringLiteral jaxBegin =
    R"("""Where the tensors of a plan lie, in the words of JAX. Made by cleave export --format jax.

Needs jax and numpy. Device number i of the plan is jax.devices()[i].
"""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
)";

constexpr StringLiteral torchBegin =
    R"("""Where the tensors of a plan lie, in the words of PyTorch's DTensor. Made by cleave export --format torch.

Needs torch, 2.5 or newer. Device number i of the plan is the process of rank i. A tensor has a placement for each axis
of its mesh.
"""

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
)";

constexpr StringLiteral jaxEnd = R"(

def mesh(name=next(iter(MESHES)), devices=None):
    """The mesh of that name, on `devices`, which are all of JAX's unless told otherwise."""
    axes, shape, members = MESHES[name]
    devices = jax.devices() if devices is None else devices
    if len(devices) < DEVICES:
        raise ValueError(f"the plan expects {DEVICES} devices, got {len(devices)}")
    return Mesh(np.array([devices[i] for i in members], dtype=object).reshape(shape), axes)


def shardings(mesh):
    """The sharding of every parameter and of the optimizer's state, by name, but for those in NOT_EXPRESSIBLE. `mesh` is
    what mesh() gives, or where there are several meshes a dictionary of them by name."""
    if isinstance(mesh, Mesh):
        if len(MESHES) > 1:
            raise ValueError(f"shardings expects a dictionary of the meshes {list(MESHES)}, got one mesh")
        mesh = {name: mesh for name in MESHES}
    specs = {**PARAMETERS, **OPTIMIZER}
    return {name: NamedSharding(mesh[MESH_OF[name]], spec) for name, spec in specs.items()}
)";

constexpr StringLiteral torchEnd = R"(

def device_mesh(device_type="cuda", name=next(iter(MESHES))):
    """The mesh of that name. All processes call it, for all meshes in the same order, those outside of a mesh, too."""
    axes, shape, members = MESHES[name]
    if members == tuple(range(DEVICES)):
        return init_device_mesh(device_type, shape, mesh_dim_names=axes)
    return DeviceMesh(device_type, torch.tensor(members).reshape(shape), mesh_dim_names=axes)


def distribute(name, tensor, mesh):
    """The whole parameter, or state of the optimizer, as a DTensor on `mesh`, which is that of MESH_OF[name]."""
    if name in NOT_EXPRESSIBLE["parameters"]:
        raise ValueError(f"{name} has no placements: {NOT_EXPRESSIBLE['parameters'][name]}")
    axes, _, members = MESHES[MESH_OF[name]]
    if tuple(tensor.shape) != SHAPES[name]:
        raise ValueError(f"{name} expects shape {SHAPES[name]}, got {tuple(tensor.shape)}")
    if tuple(mesh.mesh_dim_names) != axes or tuple(mesh.mesh.flatten().tolist()) != members:
        raise ValueError(f"{name} expects mesh {MESH_OF[name]!r}, got {mesh}")
    return distribute_tensor(tensor, mesh, PARAMETERS[name] if name in PARAMETERS else OPTIMIZER[name])
)";

/// A literal of a string; Python reads those of JSON.
std::string literal(std::string_view text) {
  std::ostringstream out;
  out << JsonString{text};
  return out.str();
}

/// "(1, 2)", "(1,)".
template <typename Range, typename Text> std::string tupleText(const Range &items, Text text) {
  std::string all;
  size_t count = 0;
  for (const auto &item : items)
    all += (count++ == 0 ? "" : ", ") + text(item);
  return "(" + all + (count == 1 ? ",)" : ")");
}

std::string numbersText(const std::vector<uint32_t> &numbers) {
  bool inARow = numbers.size() > 8;
  for (size_t i = 1; i < numbers.size(); ++i)
    inARow = inARow && numbers[i] == numbers[i - 1] + 1;
  if (inARow)
    return "tuple(range(" + std::to_string(numbers.front()) + ", " + std::to_string(numbers.back() + 1) + "))";
  return tupleText(numbers, [](uint32_t number) { return std::to_string(number); });
}

/// A single device as a mesh of one axis, because both frameworks want one.
const Axis onlyDevice{"device", 1};

std::vector<Axis> axesOf(const Mesh &mesh) { return mesh.axes.empty() ? std::vector<Axis>{onlyDevice} : mesh.axes; }

/// Tensors of one kind, as they are sorted into the file's tables.
struct Tables {
  std::vector<std::pair<std::string, std::string>> specs, optimizer, meshOf, copies, microbatched, inexpressible;
};

class PythonFile {
public:
  PythonFile(raw_ostream &out, const ExportedPlan &exported, Framework framework)
      : out(out), exported(exported), plan(exported.plan), framework(framework) {}

  std::vector<Inexpressible> write() {
    out << (framework == Framework::Jax ? jaxBegin : torchBegin);
    // Private to PyTorch, which has it for what is cut by tensor parallelism first and then by FSDP.
    if (framework == Framework::Torch && hasStrides())
      out << "from torch.distributed.tensor.placement_types import _StridedShard\n";
    out << "\n";
    writeDecision();
    Tables parameters = sort(exported.parameters, "parameter"), inputs = sort(exported.inputs, "input"),
           outputs = sort(exported.outputs, "output");
    table("PARAMETERS", parameters.specs);
    out << "# State of the optimizer, where steps train.\n";
    table("OPTIMIZER", parameters.optimizer);
    table("INPUTS", inputs.specs);
    table("OUTPUTS", outputs.specs);
    out << "# Inputs of which a step takes so many microbatches, one after the other along dimension 0: INPUTS says "
           "how "
           "each of\n# them is split.\n";
    table("MICROBATCHED", inputs.microbatched);
    std::vector<std::pair<std::string, std::string>> shapes;
    for (const PlacedTensor &tensor : exported.parameters)
      if (tensor.role != TensorRole::Constant)
        shapes.emplace_back(tensor.name,
                            tupleText(tensor.type->shape, [](int64_t size) { return std::to_string(size); }));
    table("SHAPES", shapes);
    out << "# Which mesh a tensor is on: first parameters and state of the optimizer.\n";
    table("MESH_OF", parameters.meshOf);
    table("INPUT_MESH_OF", inputs.meshOf);
    table("OUTPUT_MESH_OF", outputs.meshOf);
    out << "# What else devices hold of a tensor: meshes, and how it is split there.\n";
    table("COPIES", parameters.copies);
    table("INPUT_COPIES", inputs.copies);
    out << "# What these tables cannot say, and why.\n";
    out << "NOT_EXPRESSIBLE = {\n";
    for (const auto &[kind, tables] :
         {std::pair("parameters", &parameters), {"inputs", &inputs}, {"outputs", &outputs}}) {
      out << "    \"" << kind << "\": {\n";
      for (const auto &[name, reason] : tables->inexpressible)
        out << "        " << literal(name) << ": " << literal(reason) << ",\n";
      out << "    },\n";
    }
    out << "}\n\n";
    writeStages();
    out << (framework == Framework::Jax ? jaxEnd : torchEnd);
    return std::move(inexpressible);
  }

private:
  void writeDecision() {
    out << "MODEL = " << literal(plan.model) << "\nSTRATEGY = " << literal(plan.strategy)
        << "\nENTRY = " << literal(exported.entry.name) << "\nDEVICES = " << plan.devices.size() << "\nDEGREES = {";
    for (auto [i, degree] : enumerate(exported.degrees))
      out << (i == 0 ? "" : ", ") << literal(degree.name) << ": " << degree.ways;
    out << "}\nBATCH = " << exported.batch << "\nMICROBATCHES = " << exported.microbatches
        << "\nSCHEDULE = " << literal(exported.schedule) << "\nCHUNKS = " << exported.chunks << "\n";
    out << "# What the steps compute besides the model.\nSETTINGS = [";
    for (auto [i, setting] : enumerate(exported.settings))
      out << (i == 0 ? "" : ", ") << "(" << literal(setting.name) << ", " << literal(setting.value) << ")";
    out << "]\n# The optimizer's numbers.\nHYPERPARAMETERS = {";
    for (auto [i, entry] : enumerate(exported.hyperparameters))
      out << (i == 0 ? "" : ", ") << literal(entry.first) << ": " << shortestText(entry.second);
    out << "}\n\n# Of each mesh its axes, their sizes, and its devices, the last axis varying fastest.\n";
    std::vector<std::pair<std::string, std::string>> meshes;
    for (uint32_t index : exported.meshes) {
      const Mesh &mesh = plan.meshes[index];
      std::string axes = tupleText(axesOf(mesh), [](const Axis &axis) { return literal(axis.name); });
      std::string shape = tupleText(axesOf(mesh), [](const Axis &axis) { return std::to_string(axis.size); });
      meshes.emplace_back(mesh.name, "(" + axes + ", " + shape + ", " + numbersText(mesh.devices) + ")");
    }
    table("MESHES", meshes);
  }

  void writeStages() {
    out << "# The mesh of each stage, and the stage of each operator of the model.\nSTAGE_MESHES = [";
    for (auto [i, stage] : enumerate(exported.stages))
      out << (i == 0 ? "" : ", ") << literal(plan.meshes[stage.mesh].name);
    out << "]\n";
    std::vector<std::pair<std::string, std::string>> stages;
    for (auto [i, stage] : enumerate(exported.stages))
      for (uint32_t op : stage.operators)
        stages.emplace_back(exported.entry.operators[op].name, std::to_string(i));
    table("STAGES", stages);
    std::vector<std::pair<std::string, std::string>> parameters;
    for (auto [i, stage] : enumerate(exported.stages))
      for (size_t parameter : stage.parameters)
        parameters.emplace_back(exported.parameters[parameter].name, std::to_string(i));
    out << "# The stage whose operators are the first to read a parameter.\n";
    table("PARAMETER_STAGES", parameters);
    out << "# The operators with which the model goes on in another stage, and which.\n";
    std::vector<std::pair<std::string, std::string>> points;
    for (auto [op, stage] : exported.splitPoints())
      points.emplace_back(exported.entry.operators[op].name, std::to_string(stage));
    table("SPLIT_POINTS", points);
    out << "# What is computed again in the backward pass (none, selective, full; offload: all is kept in the host's "
           "memory),\n# and what replicas share (ZeRO), by stage; empty where the planner did not choose it.\n";
    planned("RECOMPUTE", [](const PlanStage &stage) { return literal(stage.recompute); });
    planned("ZERO", [](const PlanStage &stage) { return std::to_string(stage.zero); });
  }

  /// What the planner chose for each stage.
  template <typename Text> void planned(StringRef name, Text text) {
    out << name << " = [";
    for (auto [i, stage] : enumerate(exported.stages))
      if (stage.planned)
        out << (i == 0 ? "" : ", ") << text(*stage.planned);
    out << "]\n";
  }

  void table(StringRef name, const std::vector<std::pair<std::string, std::string>> &rows) {
    out << name << " = {";
    for (const auto &[key, value] : rows)
      out << "\n    " << literal(key) << ": " << value << ",";
    out << (rows.empty() ? "}\n\n" : "\n}\n\n");
  }

  /// `kind` is "parameter", "input" or "output".
  Tables sort(const std::vector<PlacedTensor> &tensors, const std::string &kind) {
    Tables tables;
    for (const PlacedTensor &tensor : tensors) {
      if (tensor.role == TensorRole::Constant)
        continue;
      std::string copies, reasons;
      if (tensor.placements.empty() && exported.entry.isDecision() && kind == "parameter")
        reasons = "an axis of unequal parts cuts it, and the plan does not say them";
      for (auto [i, placement] : enumerate(tensor.placements)) {
        const Mesh &mesh = plan.meshes[placement.mesh];
        std::string reason = i != 0 && placement.microbatches != tensor.placements.front().microbatches
                                 ? "it is in other microbatches than elsewhere"
                                 : whyNot(placement, mesh);
        if (!reason.empty())
          reasons += (reasons.empty() ? "on mesh \"" : "; on mesh \"") + mesh.name + "\" " + reason;
        else if (i == 0)
          (tensor.role == TensorRole::Optimizer ? tables.optimizer : tables.specs)
              .emplace_back(tensor.name, spec(placement, mesh));
        else
          copies += (copies.empty() ? "(" : ", (") + literal(mesh.name) + ", " + spec(placement, mesh) + ")";
        if (i == 0)
          tables.meshOf.emplace_back(tensor.name, literal(mesh.name));
        if (i == 0 && placement.microbatches > 1)
          tables.microbatched.emplace_back(tensor.name, std::to_string(placement.microbatches));
      }
      if (!copies.empty())
        tables.copies.emplace_back(tensor.name, "[" + copies + "]");
      if (!reasons.empty()) {
        tables.inexpressible.emplace_back(tensor.name, reasons);
        inexpressible.push_back({kind + " " + literal(tensor.name), reasons});
      }
    }
    return tables;
  }

  bool hasStrides() const {
    auto isStrided = [&](const Placement &placement) {
      const Mesh &mesh = plan.meshes[placement.mesh];
      return whyNotShard(placement, mesh).empty() && any_of(*placement.dims, [&](const TileDim &dim) {
               return any_of(seq<size_t>(0, dim.cuts.size()),
                             [&](size_t place) { return splitFactor(dim, place, mesh) != 1; });
             });
    };
    return any_of(concat<const PlacedTensor>(exported.parameters, exported.inputs, exported.outputs),
                  [&](const PlacedTensor &tensor) { return any_of(tensor.placements, isStrided); });
  }

  std::string whyNot(const Placement &placement, const Mesh &mesh) const {
    return framework == Framework::Jax ? whyNotPartitionSpec(placement, mesh) : whyNotShard(placement, mesh);
  }

  std::string spec(const Placement &placement, const Mesh &mesh) const {
    return framework == Framework::Jax ? partitionSpec(*placement.dims, mesh) : shards(*placement.dims, mesh);
  }

  static std::string partitionSpec(const std::vector<TileDim> &dims, const Mesh &mesh) {
    std::vector<std::string> parts;
    for (const TileDim &dim : dims) {
      auto name = [&](const Cut &cut) { return literal(mesh.axes[cut.axis].name); };
      parts.push_back(dim.cuts.empty()       ? "None"
                      : dim.cuts.size() == 1 ? name(dim.cuts.front())
                                             : tupleText(dim.cuts, name));
    }
    return "PartitionSpec(" + join(parts, ", ") + ")";
  }

  static std::string shards(const std::vector<TileDim> &dims, const Mesh &mesh) {
    std::vector<std::string> placements(axesOf(mesh).size(), "Replicate()");
    for (auto [number, dim] : enumerate(dims))
      for (auto [place, cut] : enumerate(dim.cuts)) {
        int64_t factor = splitFactor(dim, place, mesh);
        placements[cut.axis] =
            factor == 1 ? "Shard(" + std::to_string(number) + ")"
                        : "_StridedShard(" + std::to_string(number) + ", split_factor=" + std::to_string(factor) + ")";
      }
    return "[" + join(placements, ", ") + "]";
  }

  raw_ostream &out;
  const ExportedPlan &exported;
  const PlanContents &plan;
  Framework framework;
  std::vector<Inexpressible> inexpressible;
};

} // namespace

std::vector<Inexpressible> writePython(raw_ostream &out, const ExportedPlan &plan, Framework framework) {
  return PythonFile(out, plan, framework).write();
}

} // namespace cleave::tool
