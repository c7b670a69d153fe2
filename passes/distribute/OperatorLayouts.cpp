// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads splits against split rules.

#include "passes/distribute/OperatorLayouts.h"

using namespace mlir;

namespace cleave {

using dist::Axes;
using dist::Layout;
using dist::MeshShape;
using dist::Part;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

static StringRef whyNotCut(FactorKind kind) {
  return kind == FactorKind::Stepwise ? "only once the operator is taken apart"
                                      : "because every device needs all of it";
}

/// The axes by factor, as the split says.
static FailureOr<SmallVector<Axes>> readSplit(Operation *op, const SplitRule &rule, const MeshShape &mesh) {
  SmallVector<Axes> axes(rule.factors.size());
  dist::PlaceAttr place = dist::getPlace(op);
  if (!place || !place.getSplit())
    return axes;
  llvm::SmallPtrSet<Attribute, 4> seen;
  for (NamedAttribute entry : place.getSplit().getFactors()) {
    auto factor = rule.find(entry.getName());
    if (!factor) {
      InFlightDiagnostic diagnostic = op->emitOpError("expects its split to name its factors (");
      llvm::interleaveComma(rule.factors, diagnostic,
                            [&](const Factor &known) { diagnostic << known.name << " of " << known.size; });
      return diagnostic << "), got '" << entry.getName().getValue() << "'";
    }
    FactorKind kind = rule.factors[*factor].kind;
    for (auto axis : cast<ArrayAttr>(entry.getValue()).getAsRange<StringAttr>()) {
      if (!mesh.find(axis))
        return op->emitOpError("expects axes of its mesh, got ") << axis;
      if (!seen.insert(axis).second)
        return op->emitOpError("expects an axis to cut one factor, got ") << axis << " twice";
      if (*mesh.find(axis) > 1)
        axes[*factor].push_back(axis);
    }
    if (!axes[*factor].empty() && (kind == FactorKind::Unsplittable || kind == FactorKind::Stepwise))
      return op->emitOpError("cannot be cut along '")
             << rule.factors[*factor].name << "', " << whyNotCut(kind) << "; cut another factor, or none";
  }
  return axes;
}

/// Along a window factor the first operand's part is what the device's results read.
static void addReach(Layout &layout, const OperatorLayouts &made, ArrayRef<int64_t> shape) {
  for (auto [dim, factors] : llvm::enumerate(made.rule.operands[0])) {
    if (factors.size() != 1)
      continue;
    const Factor &factor = made.rule.factors[factors.front()];
    const Axes &axes = made.axes[factors.front()];
    if (factor.kind == FactorKind::Window && !axes.empty())
      layout.dims[dim] = {
          Part{shape[dim], axes,
               dist::Reach{factor.size, factor.step, factor.haloBefore, factor.haloBefore + factor.haloAfter + 1}}};
  }
}

FailureOr<OperatorLayouts> findLayouts(Operation *op, const MeshShape &mesh) {
  OperatorLayouts made;
  auto splittable = dyn_cast<SplitInterface>(op);
  if (splittable)
    made.rule = splittable.getSplitRule();
  auto axes = readSplit(op, made.rule, mesh);
  if (failed(axes))
    return failure();
  made.axes = std::move(*axes);
  for (auto [factor, cut] : llvm::zip_equal(made.rule.factors, made.axes)) {
    made.ways.push_back(mesh.ways(cut));
    made.sizes.push_back(Part{factor.size, cut, {}}.localSize(mesh));
  }
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (!splittable) {
      made.operands.push_back(Layout::whole(cast<ShapedType>(operand.getType())));
      continue;
    }
    made.operands.push_back(
        Layout::fromFactors(made.rule, made.rule.operands[index], shapeOf(operand), made.axes, mesh));
    if (index == 0)
      addReach(made.operands.back(), made, shapeOf(operand));
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    if (!splittable) {
      made.results.push_back(Layout::whole(cast<ShapedType>(result.getType())));
      continue;
    }
    Layout &layout = made.results.emplace_back(
        Layout::fromFactors(made.rule, made.rule.results[index], shapeOf(result), made.axes, mesh));
    for (auto [factor, cut] : llvm::zip_equal(made.rule.factors, made.axes)) {
      if (factor.kind != FactorKind::Reduction || cut.empty())
        continue;
      layout.partial.append(cut);
      layout.combiner = factor.combiner;
    }
    layout.canonicalize(mesh);
  }
  return made;
}

/// Gives the axes of a dimension's parts to its factors. Whether every axis found a factor of its own.
static void followDim(const dist::DimParts &parts, const DimFactors &factors, const SplitRule &rule,
                      const MeshShape &mesh, SmallVectorImpl<Axes> &axes, llvm::SmallPtrSetImpl<Attribute> &used) {
  size_t next = 0, nextPart = 0;
  while (nextPart != parts.size()) {
    // Parts and factors that make up the same. The first factor is the one that is cut, as the first part is: where
    // there are several parts, only nearly at the same places if these are not equally large.
    const Part &part = parts[nextPart++];
    while (part.size > 1 && next != factors.size() && rule.factors[factors[next]].size == 1)
      ++next;
    size_t first = next;
    int64_t ofParts = part.size, ofFactors = 1;
    while (next == first || ofFactors != ofParts) {
      bool takesPart = next != first && ofParts < ofFactors;
      if (takesPart ? nextPart == parts.size() : next == factors.size())
        return;
      takesPart ? ofParts *= parts[nextPart++].size : ofFactors *= rule.factors[factors[next++]].size;
    }
    const Factor &factor = rule.factors[factors[first]];
    bool fits = part.axes.empty() || factor.size == ofParts || !Part{factor.size, part.axes, {}}.isPadded(mesh);
    bool allowed = factor.kind == FactorKind::Parallel || factor.kind == FactorKind::Reduction;
    bool isFree =
        axes[factors[first]].empty() && llvm::none_of(part.axes, [&](StringAttr axis) { return used.contains(axis); });
    if (!fits || !allowed || !isFree || part.reach)
      continue;
    axes[factors[first]] = part.axes;
    used.insert(part.axes.begin(), part.axes.end());
  }
}

dist::SplitAttr followOperands(Operation *op, ArrayRef<const Layout *> operands, const MeshShape &mesh) {
  return followLayouts(op, operands, SmallVector<const Layout *>(op->getNumResults()), mesh);
}

dist::SplitAttr followLayouts(Operation *op, ArrayRef<const Layout *> operands, ArrayRef<const Layout *> results,
                              const MeshShape &mesh) {
  auto splittable = dyn_cast<SplitInterface>(op);
  if (!splittable)
    return {};
  SplitRule rule = splittable.getSplitRule();
  SmallVector<Axes> axes(rule.factors.size());
  llvm::SmallPtrSet<Attribute, 4> used;
  auto follow = [&](ArrayRef<const Layout *> layouts, ArrayRef<TensorFactors> tensors) {
    for (auto [layout, factors] : llvm::zip_equal(layouts, tensors))
      if (layout)
        for (auto [parts, dimFactors] : llvm::zip_equal(layout->dims, factors))
          followDim(parts, dimFactors, rule, mesh, axes, used);
  };
  follow(operands, rule.operands);
  follow(results, rule.results);
  Builder builder(op->getContext());
  SmallVector<NamedAttribute> entries;
  for (auto [factor, cut] : llvm::zip_equal(rule.factors, axes))
    if (!cut.empty()) {
      SmallVector<Attribute> names(cut.begin(), cut.end());
      entries.push_back(builder.getNamedAttr(factor.name, builder.getArrayAttr(names)));
    }
  return entries.empty() ? dist::SplitAttr()
                         : dist::SplitAttr::get(op->getContext(), builder.getDictionaryAttr(entries));
}

Layout shareReplicas(Layout layout, const dist::MeshShape &mesh, bool mayPad) {
  for (StringAttr axis : mesh.getAxes()) {
    int64_t ways = *mesh.find(axis);
    if (layout.uses(axis) || ways == 1)
      continue;
    dist::Part *best = nullptr;
    for (dist::DimParts &parts : layout.dims) {
      if (parts.size() != 1 || parts.front().isPadded(mesh))
        continue;
      int64_t size = parts.front().localSize(mesh);
      if (size % ways == 0) {
        best = &parts.front();
        break;
      }
      // The longer a dimension, the less of it is padding.
      if (mayPad && size > ways && (!best || size > best->localSize(mesh)))
        best = &parts.front();
    }
    if (best)
      best->axes.push_back(axis);
  }
  layout.canonicalize(mesh);
  return layout;
}

} // namespace cleave
