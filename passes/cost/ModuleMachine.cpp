// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machine files as attributes and back.

#include "passes/cost/ModuleMachine.h"

#include "passes/cost/DefaultMachine.h"
#include "passes/cost/MachineFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

using namespace mlir;

namespace cleave {

//===-- values ------------------------------------------------------------------------------------------------===//

static Attribute toAttribute(const YamlValue &value, Builder &builder) {
  switch (value.kind) {
  case YamlValue::Kind::Empty:
    break;
  case YamlValue::Kind::Text:
    return builder.getStringAttr(value.text);
  case YamlValue::Kind::List:
    return builder.getArrayAttr(
        llvm::map_to_vector(value.items, [&](const YamlValue &item) { return toAttribute(item, builder); }));
  case YamlValue::Kind::Map:
    return builder.getDictionaryAttr(llvm::map_to_vector(value.entries, [&](const YamlEntry &entry) {
      return builder.getNamedAttr(entry.key.text, toAttribute(entry.value, builder));
    }));
  }
  return builder.getStringAttr("");
}

static YamlValue toYaml(Attribute attribute) {
  YamlValue value;
  if (auto text = dyn_cast<StringAttr>(attribute)) {
    value.kind = YamlValue::Kind::Text;
    value.text = text.str();
  } else if (auto list = dyn_cast<ArrayAttr>(attribute)) {
    value.kind = YamlValue::Kind::List;
    for (Attribute item : list)
      value.items.push_back(toYaml(item));
  } else if (auto map = dyn_cast<DictionaryAttr>(attribute)) {
    value.kind = YamlValue::Kind::Map;
    for (NamedAttribute entry : map) {
      YamlValue key;
      key.kind = YamlValue::Kind::Text;
      key.text = entry.getName().str();
      value.entries.push_back({std::move(key), toYaml(entry.getValue())});
    }
  }
  return value;
}

/// A machine file as a dictionary. What the writer writes parses.
static DictionaryAttr describe(const Machine &machine, Builder &builder) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeMachineFile(machine, stream);
  return cast<DictionaryAttr>(toAttribute(llvm::cantFail(parseYaml(text, machine.name)), builder));
}

//===-- machines ----------------------------------------------------------------------------------------------===//

void setMachine(ModuleOp module, const Machine &machine) {
  if (dist::MachineOp known = dist::getMachine(module))
    known.erase();
  std::string name = "machine";
  for (unsigned number = 0; module.lookupSymbol(name); ++number)
    name = "machine." + std::to_string(number);
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MachineOp::create(builder, module.getLoc(), name, describe(machine, builder));
  SmallVector<dist::Device> devices;
  for (const DeviceSpec &device : machine.devices)
    devices.push_back(
        {device.name, device.driver, device.cores, static_cast<int64_t>(device.memoryLimit), device.chip});
  dist::setDevices(module, devices);
}

/// Gives a device what the runtime knows of it.
static void takeOver(DeviceSpec &spec, const dist::Device &device) {
  spec.name = device.name.str();
  spec.driver = device.driver.str();
  spec.cores = static_cast<unsigned>(device.cores);
  spec.memoryLimit = static_cast<uint64_t>(device.memory);
  spec.chip = device.chip.str();
}

llvm::Expected<Machine> readMachine(dist::MachineOp op) {
  auto machine = readMachine(toYaml(op.getDescription()), op.getSymName());
  if (!machine)
    return machine.takeError();
  auto module = op->getParentOfType<ModuleOp>();
  if (!module->hasAttr(dist::devicesAttrName))
    return machine;
  SmallVector<dist::Device> devices = dist::getDevices(module);
  if (devices.size() != machine->devices.size())
    return llvm::createStringError("expects the " + llvm::Twine(devices.size()) +
                                   " devices of the module's 'dist.devices' on its hosts, got " +
                                   llvm::Twine(machine->devices.size()));
  for (auto [spec, device] : llvm::zip_equal(machine->devices, devices))
    takeOver(spec, device);
  return machine;
}

/// One more than the largest index of a device that a mesh names.
static size_t numDevicesOfMeshes(ModuleOp module) {
  size_t count = 0;
  for (auto mesh : module.getOps<dist::MeshOp>())
    for (int64_t device : mesh.getDevices())
      count = std::max(count, static_cast<size_t>(device) + 1);
  return count;
}

Machine moduleMachine(ModuleOp module) {
  if (dist::MachineOp op = dist::getMachine(module))
    return llvm::cantFail(readMachine(op));
  std::vector<DeviceSpec> specs;
  for (const dist::Device &device : dist::getDevices(module))
    takeOver(specs.emplace_back(), device);
  for (size_t index = specs.size(), count = numDevicesOfMeshes(module); index < count; ++index)
    specs.push_back({"cpu" + std::to_string(index), "cpu"});
  return defaultMachine(specs);
}

//===-- verification ------------------------------------------------------------------------------------------===//

namespace {

class MachineVerifier : public dist::MachineReaderInterface {
public:
  using MachineReaderInterface::MachineReaderInterface;

  LogicalResult verify(dist::MachineOp op) const override {
    auto module = op->getParentOfType<ModuleOp>();
    std::pair<Attribute, Attribute> said(op.getDescription(), module->getAttr(dist::devicesAttrName));
    std::lock_guard lock(mutex);
    if (said != lastValid) {
      auto machine = readMachine(op);
      if (!machine)
        return op.emitOpError(llvm::toString(machine.takeError()));
      lastValid = said;
      numDevices = static_cast<int64_t>(machine->devices.size());
    }
    for (auto mesh : module.getOps<dist::MeshOp>())
      for (int64_t device : mesh.getDevices())
        if (device >= numDevices)
          return mesh.emitOpError("expects indices of the ")
                 << numDevices << " devices of 'dist.machine', got " << device;
    return success();
  }

private:
  /// Modules are verified after every pass: what was valid need not be read again.
  mutable std::mutex mutex;
  mutable std::pair<Attribute, Attribute> lastValid;
  mutable int64_t numDevices = 0;
};

} // namespace

void registerMachineReader(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *, dist::DistDialect *dialect) { dialect->addInterfaces<MachineVerifier>(); });
}

} // namespace cleave
