// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between a dictionary and a structure.

#include "dialects/dist/Replicas.h"

#include "dialects/dist/Dist.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace cleave::dist {

static std::optional<uint64_t> numberOf(DictionaryAttr from, StringRef name) {
  auto number = from.getAs<IntegerAttr>(name);
  if (!number || !number.getType().isInteger(64) || number.getInt() < 0)
    return std::nullopt;
  return static_cast<uint64_t>(number.getInt());
}

static std::optional<Replicas> read(Attribute attribute) {
  auto from = dyn_cast_or_null<DictionaryAttr>(attribute);
  if (!from)
    return std::nullopt;
  auto count = numberOf(from, "count"), devices = numberOf(from, "devices"), local = numberOf(from, "local_steps");
  bool isBound = from.contains("bound"), overlaps = from.contains("overlap");
  auto bound = numberOf(from, "bound"), overlap = numberOf(from, "overlap");
  if (!count || !devices || !local || (isBound && !bound) || (overlaps && !overlap) ||
      from.size() != 3u + (isBound ? 1 : 0) + (overlaps ? 1 : 0))
    return std::nullopt;
  return Replicas{static_cast<unsigned>(*count), static_cast<unsigned>(*devices), bound, *local, overlap.value_or(0)};
}

std::optional<Replicas> getReplicas(ModuleOp module) { return read(module->getAttr(replicasAttrName)); }

void setReplicas(ModuleOp module, const Replicas &replicas) {
  Builder builder(module.getContext());
  auto number = [&](StringRef name, uint64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(static_cast<int64_t>(value)));
  };
  SmallVector<NamedAttribute> list = {number("count", replicas.count), number("devices", replicas.devices),
                                      number("local_steps", replicas.localSteps)};
  if (replicas.bound)
    list.push_back(number("bound", *replicas.bound));
  if (replicas.overlap != 0)
    list.push_back(number("overlap", replicas.overlap));
  module->setAttr(replicasAttrName, builder.getDictionaryAttr(list));
}

LogicalResult verifyReplicas(Operation *op, Attribute attribute) {
  auto module = dyn_cast<ModuleOp>(op);
  auto replicas = read(attribute);
  if (!module || !replicas)
    return op->emitOpError("expects '") << replicasAttrName
                                        << "' to be a dictionary of i64 on a module: count, devices, local_steps and "
                                           "perhaps bound and overlap; got "
                                        << attribute;
  size_t devices = getDevices(module).size();
  if (replicas->count < 2 || replicas->devices == 0 || replicas->devices > devices / replicas->count)
    return op->emitOpError("expects two replicas at least, with devices that are among the module's ")
           << devices << ", got " << attribute;
  if (replicas->overlap != 0 && replicas->overlap >= replicas->localSteps)
    return op->emitOpError("expects an overlap of fewer steps than local_steps, got ") << attribute;
  return success();
}

} // namespace cleave::dist
