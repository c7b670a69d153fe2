// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The algebra of layouts.

#include "dialects/dist/Layout.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave::dist {

//===-- mesh --------------------------------------------------------------------------------------------------===//

MeshShape::MeshShape(MeshOp mesh) : sizes(mesh.getAxisSizes()) {
  for (Attribute name : mesh.getAxisNames())
    names.push_back(cast<StringAttr>(name));
}

std::optional<int64_t> MeshShape::find(StringAttr axis) const {
  auto found = llvm::find(names, axis);
  if (found == names.end())
    return std::nullopt;
  return sizes[found - names.begin()];
}

int64_t MeshShape::ways(ArrayRef<StringAttr> axes) const {
  int64_t product = 1;
  for (StringAttr axis : axes)
    product *= find(axis).value_or(1);
  return product;
}

//===-- part --------------------------------------------------------------------------------------------------===//

SmallVector<int64_t> Part::blocks(const MeshShape &mesh) const {
  SmallVector<int64_t> blocks;
  int64_t block = reach ? reach->count : size;
  for (StringAttr axis : axes)
    blocks.push_back(block = llvm::divideCeil(block, mesh.ways(axis)));
  return blocks;
}

int64_t Part::localSize(const MeshShape &mesh) const {
  if (axes.empty() && !reach)
    return size;
  int64_t block = axes.empty() ? reach->count : blocks(mesh).back();
  return reach ? std::max<int64_t>(0, (block - 1) * reach->step + reach->extent) : block;
}

bool Part::isPadded(const MeshShape &mesh) const {
  int64_t whole = reach ? reach->count : size;
  for (auto [axis, block] : llvm::zip(axes, blocks(mesh))) {
    if (block * mesh.ways(axis) != whole)
      return true;
    whole = block;
  }
  return false;
}

Part Part::shifted(int64_t steps, const MeshShape &mesh) const {
  Part part = *this;
  part.shifts.assign(axes.size(), 0);
  for (size_t axis = axes.size(); axis-- != 0;) {
    int64_t ways = mesh.ways(axes[axis]);
    part.shifts[axis] = steps % ways;
    steps /= ways;
  }
  if (llvm::all_of(part.shifts, [](int64_t shift) { return shift == 0; }))
    part.shifts.clear();
  return part;
}

//===-- layout ------------------------------------------------------------------------------------------------===//

Layout Layout::whole(ShapedType type) {
  Layout layout;
  for (int64_t size : type.getShape())
    layout.dims.push_back({Part{size, {}, {}}});
  return layout;
}

Layout Layout::fromFactors(const SplitRule &rule, const TensorFactors &factors, ArrayRef<int64_t> shape,
                           ArrayRef<Axes> axes, const MeshShape &mesh) {
  Layout layout;
  for (auto [dim, size] : llvm::zip_equal(factors, shape)) {
    DimParts &parts = layout.dims.emplace_back();
    for (unsigned factor : dim)
      parts.push_back({rule.factors[factor].size, axes[factor], {}});
    // A dimension that nothing cuts need not be the product of its factors (what a window reads is not).
    if (llvm::all_of(parts, [](const Part &part) { return part.axes.empty(); }))
      parts = {Part{size, {}, {}}};
  }
  layout.canonicalize(mesh);
  return layout;
}

bool Layout::isWhole() const {
  return partial.empty() && llvm::all_of(dims, [](const DimParts &parts) {
           return llvm::all_of(parts, [](const Part &part) { return part.axes.empty() && !part.reach; });
         });
}

bool Layout::isPadded(const MeshShape &mesh) const {
  return llvm::any_of(dims, [&](const DimParts &parts) {
    return llvm::any_of(parts, [&](const Part &part) { return part.isPadded(mesh); });
  });
}

bool Layout::uses(StringAttr axis) const {
  return llvm::is_contained(partial, axis) || llvm::any_of(dims, [&](const DimParts &parts) {
           return llvm::any_of(parts, [&](const Part &part) { return llvm::is_contained(part.axes, axis); });
         });
}

SmallVector<int64_t> Layout::tensorShape() const {
  SmallVector<int64_t> shape;
  for (const DimParts &parts : dims) {
    shape.push_back(1);
    for (const Part &part : parts)
      shape.back() *= part.size;
  }
  return shape;
}

SmallVector<int64_t> Layout::localShape(const MeshShape &mesh) const {
  SmallVector<int64_t> shape;
  for (const DimParts &parts : dims) {
    int64_t size = 1;
    for (const Part &part : parts)
      size *= part.localSize(mesh);
    shape.push_back(size);
  }
  return shape;
}

RankedTensorType Layout::localType(RankedTensorType type, const MeshShape &mesh) const {
  return RankedTensorType::get(localShape(mesh), type.getElementType(), type.getEncoding());
}

int64_t Layout::localBytes(RankedTensorType type, const MeshShape &mesh) const {
  return tensorBytes(localType(type, mesh));
}

void Layout::canonicalize(const MeshShape &mesh) {
  for (DimParts &parts : dims) {
    DimParts joined;
    for (Part &part : parts) {
      for (size_t axis = part.axes.size(); axis-- != 0;)
        if (mesh.ways(part.axes[axis]) == 1) {
          part.axes.erase(part.axes.begin() + static_cast<std::ptrdiff_t>(axis));
          if (!part.shifts.empty())
            part.shifts.erase(part.shifts.begin() + static_cast<std::ptrdiff_t>(axis));
        }
      if (llvm::all_of(part.shifts, [](int64_t shift) { return shift == 0; }))
        part.shifts.clear();
      if (!joined.empty() && !part.reach && part.axes.empty()) {
        // What follows an evenly cut part goes with its blocks; what follows an uncut one makes a larger uncut one.
        Part &last = joined.back();
        if (part.size == 1 || (!last.reach && !last.isPadded(mesh))) {
          last.size *= part.size;
          continue;
        }
      }
      if (!joined.empty() && joined.back().size == 1 && joined.back().axes.empty() && !joined.back().reach)
        joined.pop_back();
      joined.push_back(part);
    }
    if (joined.empty())
      joined.push_back(Part{});
    parts = std::move(joined);
  }
  llvm::erase_if(partial, [&](StringAttr axis) { return mesh.ways(axis) == 1; });
  // Partial over several axes is one set: keep the mesh's order.
  llvm::sort(partial, [&](StringAttr left, StringAttr right) {
    return llvm::find(mesh.getAxes(), left) < llvm::find(mesh.getAxes(), right);
  });
  if (partial.empty())
    combiner = Combiner::None;
}

//===-- attribute ---------------------------------------------------------------------------------------------===//

LayoutAttr Layout::toAttribute(MLIRContext *context) const {
  SmallVector<Attribute> dimList;
  for (const DimParts &parts : dims) {
    SmallVector<Attribute> list;
    for (const Part &part : parts) {
      Reach reach = part.reach.value_or(Reach());
      list.push_back(PartAttr::get(context, part.size, part.axes, part.reach.has_value(), reach.count, reach.step,
                                   reach.before, reach.extent, part.shifts));
    }
    dimList.push_back(ArrayAttr::get(context, list));
  }
  return LayoutAttr::get(context, ArrayAttr::get(context, dimList), partial, combiner);
}

Layout Layout::of(LayoutAttr attribute) {
  Layout layout;
  for (Attribute dim : attribute.getDims()) {
    DimParts &parts = layout.dims.emplace_back();
    for (auto part : cast<ArrayAttr>(dim).getAsRange<PartAttr>()) {
      Part &made = parts.emplace_back(Part{part.getSize(), Axes(part.getAxes()), {}});
      if (part.getHasReach())
        made.reach = Reach{part.getCount(), part.getStep(), part.getBefore(), part.getExtent()};
      made.shifts.assign(part.getShifts().begin(), part.getShifts().end());
    }
  }
  layout.partial.assign(attribute.getPartial().begin(), attribute.getPartial().end());
  layout.combiner = attribute.getCombiner();
  return layout;
}

Axes joinedAxes(Collective collective, unsigned index, const MeshShape &mesh) {
  Layout from = Layout::of(collective.getFromLayout(index)), to = Layout::of(collective.getToLayout(index));
  Axes joined;
  for (StringAttr axis : mesh.getAxes()) {
    bool joins = llvm::is_contained(from.partial, axis) ? !llvm::is_contained(to.partial, axis)
                                                        : from.uses(axis) && !to.uses(axis);
    if (joins)
      joined.push_back(axis);
  }
  return joined;
}

/// Where an axis cuts a layout, in terms of elements of the dimension: all that decides which of them its coordinate
/// selects. Nothing where it cuts none.
static std::optional<std::tuple<size_t, int64_t, Part>> cutBy(const Layout &layout, StringAttr axis) {
  for (auto [dim, parts] : llvm::enumerate(layout.dims)) {
    int64_t slower = 1;
    for (const Part &part : parts) {
      if (auto found = llvm::find(part.axes, axis); found != part.axes.end()) {
        Part upToAxis = part;
        upToAxis.axes.truncate(found - part.axes.begin() + 1);
        if (!upToAxis.shifts.empty())
          upToAxis.shifts.truncate(upToAxis.axes.size());
        return std::tuple(dim, slower, std::move(upToAxis));
      }
      slower *= part.size;
    }
  }
  return std::nullopt;
}

Axes movedAxes(const Layout &from, const Layout &to, const MeshShape &mesh) {
  Axes moved;
  for (StringAttr axis : mesh.getAxes())
    if (llvm::is_contained(from.partial, axis) != llvm::is_contained(to.partial, axis) ||
        cutBy(from, axis) != cutBy(to, axis))
      moved.push_back(axis);
  return moved;
}

MeshOp getMesh(Operation *op) {
  auto program = op->getParentOfType<ProgramOp>();
  return program ? SymbolTable::lookupNearestSymbolFrom<MeshOp>(program, program.getMeshAttr()) : MeshOp();
}

static constexpr StringLiteral combinerNames[] = {"none", "sum", "product", "max", "min"};

StringRef combinerName(Combiner combiner) { return combinerNames[static_cast<unsigned>(combiner)]; }

std::optional<Combiner> findCombiner(StringRef name) {
  auto found = llvm::find(combinerNames, name);
  if (found == std::end(combinerNames))
    return std::nullopt;
  return static_cast<Combiner>(found - std::begin(combinerNames));
}

} // namespace cleave::dist
