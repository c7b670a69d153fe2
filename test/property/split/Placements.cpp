// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Meshes and splits.

#include "test/property/split/Placements.h"

#include "dialects/dfg/Dfg.h"

#include <numeric>

using namespace mlir;

namespace cleave::test {

void addDevices(ModuleOp module, unsigned count) {
  Builder builder(module.getContext());
  SmallVector<Attribute> devices;
  for (unsigned i = 0; i < count; ++i)
    devices.push_back(builder.getDictionaryAttr({
        builder.getNamedAttr("name", builder.getStringAttr("cpu" + std::to_string(i))),
        builder.getNamedAttr("driver", builder.getStringAttr("cpu")),
        builder.getNamedAttr("cores", builder.getI64IntegerAttr(1)),
        builder.getNamedAttr("memory", builder.getI64IntegerAttr(0)),
    }));
  module->setAttr("dist.devices", builder.getArrayAttr(devices));
}

std::vector<dist::MeshOp> addMeshes(ModuleOp module, Dice &dice) {
  addDevices(module, numDevices);
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  std::vector<dist::MeshOp> meshes;
  auto add = [&](StringRef name, ArrayRef<StringRef> axes, ArrayRef<int64_t> sizes, ArrayRef<int64_t> devices) {
    meshes.push_back(dist::MeshOp::create(builder, builder.getUnknownLoc(), name, builder.getStrArrayAttr(axes),
                                          builder.getDenseI64ArrayAttr(sizes), builder.getDenseI64ArrayAttr(devices),
                                          DictionaryAttr()));
  };
  SmallVector<int64_t> all(numDevices);
  std::iota(all.begin(), all.end(), 0);
  auto some = [&](size_t count) {
    dice.shuffle(all);
    return ArrayRef<int64_t>(all).take_front(count);
  };
  add("pair", {"x"}, {2}, some(2));
  add("three", {"x"}, {3}, some(3));
  add("four", {"x"}, {4}, some(4));
  add("grid", {"a", "b"}, {2, 2}, some(4));
  add("cube", {"a", "b", "c"}, {2, 2, 2}, some(8));
  add("one", {"x"}, {1}, some(1));
  for (int64_t i = 0; i < 4; ++i)
    add("d" + std::to_string(i), {}, {}, i);
  return meshes;
}

/// Calls `visit` with every way to give the axes from `next` on to `factors`.
static void assignAxes(ArrayRef<Attribute> axes, size_t next, SmallVectorImpl<SmallVector<Attribute>> &factors,
                       llvm::function_ref<void()> visit) {
  if (next == axes.size())
    return visit();
  assignAxes(axes, next + 1, factors, visit);
  for (SmallVector<Attribute> &factor : factors)
    for (size_t position = 0; position <= factor.size(); ++position) {
      factor.insert(factor.begin() + position, axes[next]);
      assignAxes(axes, next + 1, factors, visit);
      factor.erase(factor.begin() + position);
    }
}

std::vector<dist::SplitAttr> allSplits(Operation *op, dist::MeshOp mesh) {
  auto splittable = dyn_cast<SplitInterface>(op);
  if (!splittable)
    return {dist::SplitAttr()};
  SplitRule rule = splittable.getSplitRule();
  SmallVector<StringRef> names;
  for (const Factor &factor : rule.factors)
    if (factor.kind != FactorKind::Unsplittable && (factor.kind != FactorKind::Stepwise || isa<DecomposeInterface>(op)))
      names.push_back(factor.name);
  Builder builder(op->getContext());
  std::vector<dist::SplitAttr> splits;
  SmallVector<SmallVector<Attribute>> factors(names.size());
  assignAxes(mesh.getAxisNames().getValue(), 0, factors, [&] {
    SmallVector<NamedAttribute> entries;
    for (auto [name, axes] : llvm::zip_equal(names, factors))
      if (!axes.empty())
        entries.push_back(builder.getNamedAttr(name, builder.getArrayAttr(axes)));
    splits.push_back(entries.empty() ? dist::SplitAttr()
                                     : dist::SplitAttr::get(op->getContext(), builder.getDictionaryAttr(entries)));
  });
  return splits;
}

bool isPlaced(Operation *op) { return !isa<dfg::ReadOp>(op) && !op->hasTrait<OpTrait::ConstantLike>(); }

void place(Operation *op, dist::MeshOp mesh, dist::SplitAttr split) {
  if (isPlaced(op))
    op->setAttr(dist::placeAttrName,
                dist::PlaceAttr::get(op->getContext(), FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
                                     StringAttr::get(op->getContext(), "test"), split));
}

void placeAtRandom(Operation *op, dist::MeshOp mesh, Dice &dice) {
  std::vector<dist::SplitAttr> splits = allSplits(op, mesh);
  place(op, mesh, splits[dice.below(splits.size())]);
}

void removeUnusedMeshes(ModuleOp module) {
  llvm::DenseSet<Attribute> used;
  module.walk([&](Operation *op) {
    if (dist::PlaceAttr place = dist::getPlace(op))
      used.insert(place.getMesh().getAttr());
  });
  SmallVector<dist::MeshOp> meshes(module.getOps<dist::MeshOp>());
  for (dist::MeshOp mesh : ArrayRef(meshes).drop_back(used.empty() ? 1 : 0))
    if (!used.contains(mesh.getSymNameAttr()))
      mesh.erase();
}

} // namespace cleave::test
