// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a program holds, and how it gets what it does not hold yet.

#include "passes/distribute/ProgramWriter.h"

#include <limits>

using namespace mlir;

namespace cleave {

using dist::Layout;
using dist::Part;
using dist::StepKind;

bool showsParameter(dfg::BarrierOp barrier) { return barrier.getInput().getDefiningOp<dfg::ReadOp>() != nullptr; }

void LocalProgram::hold(Value value, const Layout &layout, Value part, bool isZero) {
  held[value].push_back({layout, part});
  if (isZero || !layout.isPadded(shape))
    zeroPadded.insert(part);
}

Value LocalProgram::get(Value value, const Layout &layout, double fill) {
  for (const Held &known : held[value])
    if (known.layout == layout)
      return known.part;
  // What a window reads is not held: with another fill it is something else.
  Layout plain = layout;
  bool overlaps = false;
  for (dist::DimParts &parts : plain.dims)
    for (Part &part : parts)
      overlaps |= std::exchange(part.reach, std::nullopt).has_value();
  if (overlaps && held[value].empty() && value.getDefiningOp<dfg::ReadOp>())
    load(value, plain);
  if (!overlaps)
    if (Value loaded = load(value, layout))
      return loaded;
  return reshard(value, layout, fill);
}

/// Parameters are read in any layout, those that have a home in that of their first read; a constant is there whole.
Value LocalProgram::load(Value value, const Layout &layout) {
  OpBuilder builder = atEnd();
  if (auto read = value.getDefiningOp<dfg::ReadOp>(); read && (held[value].empty() || !dist::getPlace(read))) {
    Value part;
    if (layout.isWhole())
      part = builder.clone(*read)->getResult(0);
    else
      part = dist::ShardOfOp::create(builder, read.getLoc(),
                                     layout.localType(cast<RankedTensorType>(value.getType()), shape),
                                     read.getParameterAttr(), attributeOf(layout));
    part.getDefiningOp()->removeDiscardableAttr(dist::groupAttrName);
    part.getDefiningOp()->removeDiscardableAttr(dist::placeAttrName);
    if (dist::getPlace(read))
      part.getDefiningOp()->setAttr(dist::changesAttrName, builder.getUnitAttr());
    hold(value, layout, part, true);
    return part;
  }
  if (Operation *constant = value.getDefiningOp(); constant && constant->hasTrait<OpTrait::ConstantLike>()) {
    if (held[value].empty()) {
      Operation *copy = builder.clone(*constant);
      copy->removeDiscardableAttr(dist::groupAttrName);
      hold(value, Layout::whole(cast<ShapedType>(value.getType())), copy->getResult(0), true);
    }
    return layout.isWhole() ? held[value].front().part : Value();
  }
  return {};
}

Value LocalProgram::reshard(Value value, const Layout &layout, double fill) {
  if (held[value].empty())
    load(value, Layout::whole(cast<ShapedType>(value.getType())));
  auto type = cast<RankedTensorType>(value.getType());
  Held best;
  dist::ReshardPath path;
  for (const Held &known : held[value]) {
    dist::ReshardPath other = dist::findReshard(known.layout, layout, type, shape, *cost);
    if (!best.part || other.seconds < path.seconds) {
      best = known;
      path = std::move(other);
    }
  }
  for (const dist::ReshardStep &step : path.steps) {
    best.part = addStep(value, best.part, best.layout, step, fill);
    best.layout = step.to;
  }
  return best.part;
}

Value LocalProgram::addStep(Value value, Value part, const Layout &from, const dist::ReshardStep &step, double fill) {
  OpBuilder builder = atEnd();
  Location location = value.getLoc();
  Type type = step.to.localType(cast<RankedTensorType>(value.getType()), shape);
  dist::LayoutAttr before = attributeOf(from), after = attributeOf(step.to);
  Value made;
  switch (step.kind) {
  case StepKind::AllReduce:
    made = dist::AllReduceOp::create(builder, location, type, part, before, after).getResult(0);
    break;
  case StepKind::ReduceScatter:
    made = dist::ReduceScatterOp::create(builder, location, type, part, before, after).getResult(0);
    break;
  case StepKind::AllGather:
    made = dist::AllGatherOp::create(builder, location, type, part, before, after).getResult(0);
    break;
  case StepKind::AllToAll:
    made = dist::AllToAllOp::create(builder, location, type, part, before, after);
    break;
  case StepKind::Slice:
    made = dist::SliceOp::create(builder, location, type, part, before, after);
    break;
  case StepKind::Permute:
    made = dist::PermuteOp::create(builder, location, type, part, before, after);
    break;
  case StepKind::HaloExchange:
    return dist::HaloExchangeOp::create(builder, location, type, part, before, after, builder.getF64FloatAttr(fill));
  }
  if (auto again = value.getDefiningOp<dfg::BarrierOp>(); again && showsParameter(again))
    made.getDefiningOp()->setAttr(dist::againAttrName, again.getNumberAttr());
  // Reductions join whatever the padding of their operands holds; all else fills padding with zero.
  bool joins = step.kind == StepKind::AllReduce || step.kind == StepKind::ReduceScatter;
  hold(value, step.to, made, !joins || zeroPadded.contains(part));
  return made;
}

//===-- padding -----------------------------------------------------------------------------------------------===//

/// The layout of a factor by itself.
static Layout layoutOf(const Part &part) {
  Layout layout;
  layout.dims.push_back({part});
  return layout;
}

/// The scalar that `Op` gives for a factor, made once.
template <typename Op>
static Value scalarOf(Value &made, OpBuilder builder, Location location, dist::LayoutAttr layout) {
  if (!made)
    made = Op::create(builder, location, RankedTensorType::get({}, builder.getI64Type()), layout,
                      builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(0));
  return made;
}

Value LocalProgram::start(Location location, const Part &part) {
  dist::LayoutAttr layout = attributeOf(layoutOf(part));
  return scalarOf<dist::StartOp>(starts[layout], atEnd(), location, layout);
}

Value LocalProgram::extent(Location location, const Part &part) {
  dist::LayoutAttr layout = attributeOf(layoutOf(part));
  return scalarOf<dist::ExtentOp>(extents[layout], atEnd(), location, layout);
}

static double neutralOf(Combiner combiner) {
  switch (combiner) {
  case Combiner::None:
  case Combiner::Sum:
    return 0;
  case Combiner::Product:
    return 1;
  case Combiner::Max:
    return -std::numeric_limits<double>::infinity();
  case Combiner::Min:
    return std::numeric_limits<double>::infinity();
  }
  llvm_unreachable("all combiners are listed");
}

Value LocalProgram::getOperand(OpOperand &operand, const OperatorLayouts &layouts) {
  unsigned index = operand.getOperandNumber();
  double fill = 0;
  if (index == 0 && !layouts.rule.operands.empty())
    for (const DimFactors &dim : layouts.rule.operands[0])
      for (unsigned factor : dim)
        if (layouts.rule.factors[factor].kind == FactorKind::Window && layouts.ways[factor] > 1)
          fill = layouts.rule.factors[factor].fill;
  Value part = get(operand.get(), layouts.operands[index], fill);
  if (layouts.rule.operands.empty())
    return part;

  SmallVector<int64_t> dims, inner, sizes;
  SmallVector<Part, 2> padded;
  Combiner combiner = Combiner::None;
  for (auto [dim, factors] : llvm::enumerate(layouts.rule.operands[index])) {
    int64_t behind = 1;
    for (unsigned factor : llvm::reverse(factors)) {
      const Factor &rule = layouts.rule.factors[factor];
      Part cut{rule.size, layouts.axes[factor], {}};
      if (rule.kind == FactorKind::Reduction && layouts.ways[factor] > 1 && cut.isPadded(shape)) {
        dims.push_back(static_cast<int64_t>(dim));
        inner.push_back(behind);
        sizes.push_back(layouts.sizes[factor]);
        padded.push_back(cut);
        combiner = rule.combiner;
      }
      behind *= layouts.sizes[factor];
    }
  }
  double neutral = neutralOf(combiner);
  if (dims.empty() || (neutral == 0 && zeroPadded.contains(part)))
    return part;
  Location location = operand.getOwner()->getLoc();
  SmallVector<Value> bounds;
  for (const Part &cut : padded)
    bounds.push_back(extent(location, cut));
  OpBuilder builder = atEnd();
  return dfg::MaskOp::create(builder, location, part.getType(), part, bounds, builder.getDenseI64ArrayAttr(dims),
                             builder.getDenseI64ArrayAttr(inner), builder.getDenseI64ArrayAttr(sizes),
                             builder.getF64FloatAttr(neutral));
}

} // namespace cleave
