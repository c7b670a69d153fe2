// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts a module's meshes and axes in the terms of the cost model.

#include "passes/cost/CostAnalysis.h"

#include "passes/cost/DefaultMachine.h"
#include "passes/cost/ModuleMachine.h"
#include "passes/cost/RoundedProducts.h"

using namespace mlir;

namespace cleave {

CostAnalysis::Inputs CostAnalysis::inputsOf(Operation *op) {
  auto module = cast<ModuleOp>(op);
  dist::MachineOp machine = dist::getMachine(module);
  SmallVector<Attribute> devices;
  // They decide how many devices the default machine has.
  if (!machine)
    for (auto mesh : module.getOps<dist::MeshOp>())
      devices.push_back(mesh.getDevicesAttr());
  return {machine ? machine.getDescription() : Attribute(), module->getAttr(dist::devicesAttrName), devices};
}

CostAnalysis::CostAnalysis(Operation *module)
    : module(module), inputs(inputsOf(module)), machine(costedMachine(moduleMachine(cast<ModuleOp>(module)))) {}

CostAnalysis::~CostAnalysis() = default;

//===-- communication -----------------------------------------------------------------------------------------===//

const MeshCost &CostAnalysis::meshCost(dist::MeshOp mesh) {
  std::unique_ptr<MeshCost> &known = meshes[{mesh.getDevicesAttr(), mesh.getAxisSizesAttr()}];
  if (!known) {
    if (!topology)
      topology = std::make_unique<Topology>(machine);
    SmallVector<unsigned> devices(mesh.getDevices());
    known = std::make_unique<MeshCost>(*topology, devices, mesh.getAxisSizes());
  }
  return *known;
}

SmallVector<unsigned> axisNumbers(ArrayRef<StringAttr> axes, const dist::MeshShape &mesh) {
  SmallVector<unsigned> numbers;
  for (auto [number, axis] : llvm::enumerate(mesh.getAxes()))
    if (llvm::is_contained(axes, axis))
      numbers.push_back(static_cast<unsigned>(number));
  return numbers;
}

namespace {

class MeshReshardCost : public dist::ReshardCost {
public:
  MeshReshardCost(const MeshCost &cost, const OperatorCost &memory, dist::MeshOp mesh)
      : cost(cost), memory(memory), shape(mesh) {}

  double allReduce(ArrayRef<StringAttr> axes, double bytes) const override {
    return cost.allReduce(bytes, axisNumbers(axes, shape));
  }
  double reduceScatter(ArrayRef<StringAttr> axes, double bytes) const override {
    return cost.reduceScatter(bytes, axisNumbers(axes, shape));
  }
  double allGather(ArrayRef<StringAttr> axes, double bytes) const override {
    return cost.allGather(bytes, axisNumbers(axes, shape));
  }
  double allToAll(ArrayRef<StringAttr> axes, double bytes) const override {
    return cost.allToAll(bytes, axisNumbers(axes, shape));
  }
  /// Read and written. Its launch is left out, as those of collectives are: see LinkSpec::start.
  double slice(double bytes) const override { return memory.memorySeconds(2 * bytes); }
  double exchange(ArrayRef<StringAttr> axes, double bytes, int64_t peers) const override {
    return cost.exchange(bytes, peers, axisNumbers(axes, shape));
  }
  double exchangeHalo(ArrayRef<StringAttr> axes, double bytes) const override {
    return cost.exchangeHalo(bytes, axisNumbers(axes, shape));
  }

private:
  const MeshCost &cost;
  const OperatorCost &memory;
  dist::MeshShape shape;
};

} // namespace

std::unique_ptr<dist::ReshardCost> CostAnalysis::reshardCost(dist::MeshOp mesh) {
  const MeshCost &cost = meshCost(mesh);
  return std::make_unique<MeshReshardCost>(cost, operatorCost(cost, "f32"), mesh);
}

double CostAnalysis::transferSeconds(dist::MeshOp from, dist::MeshOp to, double bytes) {
  const MeshCost &source = meshCost(from), &target = meshCost(to);
  return sendSeconds(bytes, topology->across(source.getDevices(), target.getDevices()));
}

double CostAnalysis::collectiveSeconds(dist::Collective collective, double bytes) {
  dist::MeshOp mesh = dist::getMesh(collective);
  dist::MeshShape shape(mesh);
  const MeshCost &cost = meshCost(mesh);
  SmallVector<unsigned> axes = axisNumbers(dist::joinedAxes(collective, 0, shape), shape);
  dist::LayoutAttr from = collective.getFromLayout(0), to = collective.getToLayout(0);
  if (from.getPartial() == to.getPartial())
    return cost.allGather(bytes, axes);
  return from.getDims() == to.getDims() ? cost.allReduce(bytes, axes) : cost.reduceScatter(bytes, axes);
}

//===-- kernels -----------------------------------------------------------------------------------------------===//

const OperatorCost &CostAnalysis::operatorCost(const MeshCost &mesh, StringRef elementType) {
  auto key = std::pair(&mesh, elementType.str());
  auto known = operators.find(key);
  if (known == operators.end())
    known = operators.emplace(key, OperatorCost(machine, mesh.getDevices(), elementType)).first;
  return known->second;
}

double CostAnalysis::callSeconds(dist::MeshOp mesh, const KernelWork &work, StringRef elementType) {
  return operatorCost(meshCost(mesh), elementType).seconds(work);
}

double CostAnalysis::copySeconds(dist::MeshOp mesh, double bytes) {
  return operatorCost(meshCost(mesh), "f32").seconds(CostClass::Movement, 0, bytes);
}

double CostAnalysis::hostSeconds(dist::MeshOp mesh, double bytes) {
  double slowest = 0;
  for (unsigned device : meshCost(mesh).getDevices())
    slowest = std::max(slowest, hostCopySeconds(deviceKindOf(machine, device), bytes));
  return slowest;
}

GpuModel CostAnalysis::gpuModel(ArrayRef<unsigned> devices) const {
  unsigned processors = 0;
  for (unsigned device : devices)
    processors = std::max(processors, deviceKindOf(machine, device).processors());
  if (!processors)
    processors = defaultKind("cuda", 1).processors();
  return {processors, OperatorCost(machine, devices, "f32")};
}

GpuModel CostAnalysis::gpuModel(dist::MeshOp mesh) { return gpuModel(meshCost(mesh).getDevices()); }

GpuModel CostAnalysis::gpuModel() const {
  SmallVector<unsigned> devices;
  for (auto [number, device] : llvm::enumerate(machine.devices))
    if (device.isGpu())
      devices.push_back(static_cast<unsigned>(number));
  if (!devices.empty())
    return gpuModel(devices);
  DeviceKind kind = defaultKind("cuda", 1);
  return {kind.processors(), OperatorCost(kind, "f32")};
}

} // namespace cleave
