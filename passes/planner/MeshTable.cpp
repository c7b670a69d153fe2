// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names for meshes.

#include "passes/planner/MeshTable.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

static SmallVector<int64_t> devicesOf(const MeshSpec &mesh) { return llvm::to_vector_of<int64_t>(mesh.devices); }

static SmallVector<StringRef> axisNames(const MeshSpec &mesh) {
  SmallVector<StringRef> names;
  for (const MeshAxis &axis : mesh.axes)
    names.push_back(axis.name);
  return names;
}

static SmallVector<int64_t> axisSizes(const MeshSpec &mesh) {
  SmallVector<int64_t> sizes;
  for (const MeshAxis &axis : mesh.axes)
    sizes.push_back(axis.size);
  return sizes;
}

/// Null where no axis has shares.
static DictionaryAttr axisShares(const MeshSpec &mesh, MLIRContext *context) {
  Builder builder(context);
  NamedAttrList shares;
  for (const MeshAxis &axis : mesh.axes)
    if (!axis.shares.empty())
      shares.set(builder.getStringAttr(axis.name), builder.getDenseI64ArrayAttr(axis.shares));
  return shares.empty() ? DictionaryAttr() : shares.getDictionary(context);
}

static bool isSame(dist::MeshOp op, const MeshSpec &mesh) {
  return op.getDevices() == ArrayRef(devicesOf(mesh)) && op.getAxisSizes() == ArrayRef(axisSizes(mesh)) &&
         op.getAxisNames() == Builder(op.getContext()).getStrArrayAttr(axisNames(mesh)) &&
         op.getAxisSharesAttr() == axisShares(mesh, op.getContext());
}

FlatSymbolRefAttr MeshTable::get(const MeshSpec &mesh) {
  return mesh.axes.empty() ? getDevice(mesh.devices.front()) : getGrid(mesh);
}

FlatSymbolRefAttr MeshTable::getDevice(unsigned device) {
  auto found = devices.find(device);
  if (found != devices.end())
    return found->second;
  MeshSpec mesh = MeshSpec::ofDevice(device);
  if (Operation *symbol = module.lookupSymbol(mesh.name)) {
    auto existing = dyn_cast<dist::MeshOp>(symbol);
    if (!existing || !isSame(existing, mesh)) {
      symbol->emitError("expects the name \"") << mesh.name << "\" to be free for the mesh of device " << device;
      return nullptr;
    }
  }
  return devices[device] = FlatSymbolRefAttr::get(module.getContext(), mesh.name);
}

bool MeshTable::isFree(StringRef name, const MeshSpec &mesh) {
  StringRef digits = name;
  if (digits.consume_front("d") && !digits.empty() && llvm::all_of(digits, [](char c) { return llvm::isDigit(c); }))
    return false;
  if (llvm::any_of(grids, [&](auto &grid) { return grid.second.getValue() == name; }))
    return false;
  Operation *symbol = module.lookupSymbol(name);
  auto existing = dyn_cast_or_null<dist::MeshOp>(symbol);
  return !symbol || (existing && isSame(existing, mesh));
}

FlatSymbolRefAttr MeshTable::getGrid(const MeshSpec &mesh) {
  for (auto &[known, name] : grids)
    if (known.devices == mesh.devices && known.axes == mesh.axes)
      return name;
  std::string name = mesh.name;
  for (unsigned i = 0; !isFree(name, mesh); ++i)
    name = mesh.name + ".mesh" + (i ? std::to_string(i) : "");
  return grids.emplace_back(mesh, FlatSymbolRefAttr::get(module.getContext(), name)).second;
}

void MeshTable::write() {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto add = [&](const MeshSpec &mesh, FlatSymbolRefAttr name) {
    if (!module.lookupSymbol(name.getAttr()))
      dist::MeshOp::create(builder, module.getLoc(), name.getValue(), builder.getStrArrayAttr(axisNames(mesh)),
                           axisSizes(mesh), devicesOf(mesh), axisShares(mesh, module.getContext()));
  };
  for (auto &[device, name] : devices)
    add(MeshSpec::ofDevice(device), name);
  for (auto &[mesh, name] : grids)
    add(mesh, name);
}

} // namespace cleave
