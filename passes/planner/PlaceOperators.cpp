// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the devices that a strategy chose on the operators.

#include "passes/planner/PlaceOperators.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/planner/Passes.h"
#include "passes/planner/PlaceByHand.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_PLACEOPERATORSPASS
#include "passes/planner/Passes.h.inc"

namespace {

/// A place in a file as a location; the module's where there is none.
Location locationOf(const FilePosition &position, ModuleOp module) {
  if (!position.line)
    return module.getLoc();
  return FileLineColLoc::get(module.getContext(), position.file, position.line, position.column);
}

/// All groups and the default must name devices of the machine.
LogicalResult checkDevices(const Placement &placement, const Machine &machine, ModuleOp module) {
  auto check = [&](unsigned device, const FilePosition &position, const Twine &subject) -> LogicalResult {
    if (device < machine.devices.size())
      return success();
    return emitError(locationOf(position, module)) << subject << " expects a device below " << machine.devices.size()
                                                   << " of machine \"" << machine.name << "\", got " << device;
  };
  for (const PlacementGroup &group : placement.groups)
    if (failed(check(group.device, group.position, "group \"" + group.name + "\"")))
      return failure();
  if (placement.defaultDevice)
    return check(*placement.defaultDevice, placement.defaultPosition, "\"default\"");
  return success();
}

/// Reports what of a placement had no effect. A group that neither the file nor the model defines is an error.
LogicalResult report(const PlacedByHand &placed, ModuleOp module) {
  for (auto [group, pattern] : placed.unusedPatterns)
    emitWarning(locationOf(pattern->position, module))
        << "pattern \"" << pattern->text << "\" of group \"" << group->name << "\" fits no operator of the model";
  for (StringRef group : placed.unplacedGroups)
    emitWarning(module.getLoc()) << "the model's group \"" << group
                                 << "\" has no device: give it one in the placement's \"devices\"";
  for (const PlacementGroup *group : placed.unknownGroups)
    emitError(locationOf(group->position, module))
        << "group \"" << group->name
        << "\" expects patterns in \"groups\", or operators of the model with this ctx_group; found neither";
  return success(placed.unknownGroups.empty());
}

FailureOr<std::vector<NodePlace>> choosePlaces(ArrayRef<ModelNode> nodes, const PlaceOptions &options,
                                               ModuleOp module) {
  if (options.strategy == PlaceStrategy::Place) {
    PlacedByHand placed = placeByHand(nodes, *options.placement);
    if (failed(report(placed, module)))
      return failure();
    return std::move(placed.places);
  }
  std::vector<NodePlace> places;
  for (size_t index = 0; index < nodes.size(); ++index) {
    if (options.strategy == PlaceStrategy::Single)
      places.push_back({0, "strategy single"});
    else
      places.push_back({static_cast<unsigned>(index % options.machine.devices.size()), "strategy alternate"});
  }
  return places;
}

/// The meshes of single devices, made when first asked for and kept in the order of their devices.
class DeviceMeshes {
public:
  explicit DeviceMeshes(ModuleOp module) : module(module) {}

  /// The mesh of a device; null, with an error, where another symbol has its name.
  FlatSymbolRefAttr get(unsigned device) {
    auto found = meshes.find(device);
    if (found != meshes.end())
      return found->second;
    std::string name = "d" + std::to_string(device);
    if (Operation *symbol = module.lookupSymbol(name)) {
      auto mesh = dyn_cast<dist::MeshOp>(symbol);
      if (!mesh || mesh.getDevices() != ArrayRef<int64_t>(device)) {
        symbol->emitError("expects the name \"") << name << "\" to be free for the mesh of device " << device;
        return nullptr;
      }
    }
    return meshes[device] = FlatSymbolRefAttr::get(module.getContext(), name);
  }

  /// Adds the meshes that the module lacks at its beginning.
  void write() {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    for (auto &[device, name] : meshes)
      if (!module.lookupSymbol(name.getAttr()))
        dist::MeshOp::create(builder, module.getLoc(), name.getValue(), builder.getArrayAttr({}), ArrayRef<int64_t>(),
                             ArrayRef<int64_t>(device));
  }

private:
  ModuleOp module;
  std::map<unsigned, FlatSymbolRefAttr> meshes;
};

} // namespace

LogicalResult placeOperators(ModuleOp module, const PlaceOptions &options) {
  bool byHand = options.strategy == PlaceStrategy::Place;
  if (options.machine.devices.empty())
    return module.emitError("expects a machine with at least one device, got none");
  if (byHand != options.placement.has_value())
    return module.emitError(byHand ? "strategy place expects a placement file, got none"
                                   : "a placement file expects strategy place, got another strategy");
  if (byHand && failed(checkDevices(*options.placement, options.machine, module)))
    return failure();

  DeviceMeshes meshes(module);
  // A graph without operators gives its inputs and parameters out: some device has to.
  if (!meshes.get(0))
    return failure();
  Builder builder(module.getContext());
  for (auto graph : module.getOps<dfg::GraphOp>()) {
    std::vector<ModelNode> nodes = collectModelNodes(graph);
    auto places = choosePlaces(nodes, options, module);
    if (failed(places))
      return failure();
    for (auto [node, place] : llvm::zip(nodes, *places)) {
      FlatSymbolRefAttr mesh = meshes.get(place.device);
      if (!mesh)
        return failure();
      auto attribute =
          dist::PlaceAttr::get(module.getContext(), mesh, builder.getStringAttr(place.by), dist::SplitAttr());
      for (Operation *op : node.operators)
        op->setAttr(dist::placeAttrName, attribute);
    }
  }
  meshes.write();
  SmallVector<dist::Device> devices;
  for (const DeviceSpec &device : options.machine.devices)
    devices.push_back({device.name, device.driver, device.cores, static_cast<int64_t>(device.memoryLimit)});
  dist::setDevices(module, devices);
  return success();
}

namespace {

class PlaceOperators : public impl::PlaceOperatorsPassBase<PlaceOperators> {
public:
  using PlaceOperatorsPassBase::PlaceOperatorsPassBase;

private:
  void runOnOperation() override {
    PlaceOptions options;
    options.strategy = strategy;
    if (failed(take(parseMachine(machine), options.machine)))
      return signalPassFailure();
    if (!placement.empty() && failed(take(readPlacementFile(placement), options.placement)))
      return signalPassFailure();
    if (failed(placeOperators(getOperation(), options)))
      signalPassFailure();
  }

  /// Moves a value out, or reports why there is none.
  template <typename Value, typename Target> LogicalResult take(llvm::Expected<Value> value, Target &target) {
    if (value) {
      target = std::move(*value);
      return success();
    }
    llvm::handleAllErrors(
        value.takeError(),
        [&](const FileError &error) {
          const FilePosition &position = error.getPosition();
          InFlightDiagnostic diagnostic = emitError(locationOf(position, getOperation()));
          if (!position.line && !position.file.empty())
            diagnostic << position.file << ": ";
          diagnostic << error.getMessage();
        },
        [&](const llvm::ErrorInfoBase &error) { getOperation().emitError(error.message()); });
    return failure();
  }
};

} // namespace
} // namespace cleave
