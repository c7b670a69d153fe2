// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators on a chunk of the keys, by their split rules.

#include "passes/distribute/RingChunks.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave {

using dist::Layout;
using dist::Part;

/// Whether a gather of one tensor brings nothing but one dimension, a single part, together.
static bool bringsDim(dist::AllGatherOp gather, size_t dim) {
  if (gather.getInputs().size() != 1)
    return false;
  Layout from = Layout::of(gather.getFromLayout(0)), to = Layout::of(gather.getToLayout(0));
  if (dim >= from.dims.size() || from.dims[dim].size() != 1 || to.dims[dim].size() != 1 || !from.partial.empty() ||
      from.dims[dim] == to.dims[dim])
    return false;
  Part less = from.dims[dim].front();
  less.axes.truncate(to.dims[dim].front().axes.size());
  from.dims[dim] = {less};
  return from == to;
}

std::optional<Gathered> findGathered(Value value, int64_t dim) {
  auto gather = value.getDefiningOp<dist::AllGatherOp>();
  if (!gather || !bringsDim(gather, static_cast<size_t>(dim)) ||
      !Layout::of(gather.getToLayout(0)).dims[static_cast<size_t>(dim)].front().axes.empty())
    return std::nullopt;
  Gathered found{value, gather.getInputs().front(), gather.getFromLayout(0), dim};
  for (auto before = found.own.getDefiningOp<dist::AllGatherOp>();
       before && before->hasOneUse() && before.getToLayout(0) == found.layout &&
       bringsDim(before, static_cast<size_t>(dim));
       before = found.own.getDefiningOp<dist::AllGatherOp>()) {
    found.own = before.getInputs().front();
    found.layout = before.getFromLayout(0);
  }
  return found;
}

RingChunks::RingChunks(KeyRing &ring, OpBuilder &builder) : ring(ring), builder(builder) {
  own.insert_range(ring.attention.getAllOperators());
  // Sums over all keys are given.
  if (auto &gradient = ring.attention.gradient)
    own.erase(gradient->sums);
}

Value RingChunks::known(Value value) const {
  if (auto &gradient = ring.attention.gradient)
    if (Value first = gradient->repeated.lookup(value))
      return first;
  return value;
}

/// Whether an operator gives the same elements of positions and constants wherever it runs.
bool RingChunks::isComputed(Operation *op, unsigned &count) const {
  constexpr unsigned most = 16;
  if (!op || ++count > most)
    return false;
  if (auto constant = dyn_cast<dfg::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return isa<dfg::IotaOp>(op) || (isa<ElementwiseInterface>(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
                                    return tensorType(operand).getRank() == 0 ||
                                           isComputed(operand.getDefiningOp(), count);
                                  }));
}

bool RingChunks::isRepeated(Operation *op) {
  unsigned count = 0;
  return op && op->getNumResults() == 1 && isa<SplitInterface>(op) && (own.contains(op) || isComputed(op, count));
}

std::optional<unsigned> RingChunks::factorAt(const SplitRule &rule, const TensorFactors &factors, int64_t dim) const {
  const DimFactors &list = factors[static_cast<size_t>(dim)];
  if (list.size() != 1)
    return std::nullopt;
  const Factor &factor = rule.factors[list.front()];
  bool canBeCut =
      factor.kind == FactorKind::Parallel || (factor.kind == FactorKind::Reduction && factor.combiner == Combiner::Sum);
  return canBeCut && factor.size == ring.keys.size ? std::optional(list.front()) : std::nullopt;
}

bool RingChunks::canApply(Operation *op, unsigned factor) {
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operands))
    for (auto [dim, list] : llvm::enumerate(factors))
      if (llvm::is_contained(list, factor) && (list.size() != 1 || !canChunk(operand, static_cast<int64_t>(dim))))
        return false;
  return true;
}

bool RingChunks::canChunk(Value value, int64_t dim) {
  value = known(value);
  Operation *op = value.getDefiningOp();
  if (replaced.contains(value) || isGathered(value, dim) || !isRepeated(op) || isa<dfg::SoftmaxOp>(op))
    return tensorType(value).getDimSize(dim) == ring.keys.size;
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  std::optional<unsigned> factor = factorAt(rule, rule.results.front(), dim);
  return factor && canApply(op, *factor);
}

dist::LayoutAttr RingChunks::layoutAt(dist::LayoutAttr attribute, int64_t dim, int64_t at) const {
  Layout layout = Layout::of(attribute);
  layout.dims[static_cast<size_t>(dim)] = {ring.keys.shifted(at, ring.mesh)};
  return layout.toAttribute(builder.getContext());
}

void RingChunks::begin(int64_t number, ArrayRef<Gathered> gathered) {
  step = number;
  made.clear();
  startOfChunk = {};
  for (const Gathered &tensor : gathered) {
    Value whole = tensor.whole;
    Value now = here[whole] = step == 0 ? tensor.own : next.lookup(whole);
    if (step + 1 != ring.numSteps())
      next[whole] = dist::PermuteOp::create(builder, whole.getLoc(), now.getType(), now,
                                            layoutAt(tensor.layout, tensor.dim, step),
                                            layoutAt(tensor.layout, tensor.dim, step + 1));
  }
}

bool RingChunks::isGathered(Value value, int64_t dim) const {
  std::optional<Gathered> gathered = findGathered(value, dim);
  return gathered && gathered->getPart() == ring.keys;
}

Value RingChunks::start() {
  if (!startOfChunk) {
    Layout layout;
    layout.dims.push_back({ring.keys.shifted(step, ring.mesh)});
    startOfChunk = dist::StartOp::create(
        builder, ring.attention.softmax.getLoc(), RankedTensorType::get({}, builder.getI64Type()),
        layout.toAttribute(builder.getContext()), builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(0));
  }
  return startOfChunk;
}

/// A device has all of the value, or all that it needs of it but for the keys.
Value RingChunks::slice(Value value, int64_t dim) {
  RankedTensorType type = tensorType(value);
  SmallVector<int64_t> shape(type.getShape());
  shape[static_cast<size_t>(dim)] = ring.chunkSize();
  RankedTensorType part = type.clone(shape);
  auto constant = value.getDefiningOp<dfg::ConstantOp>();
  if (auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr())
    return dfg::ConstantOp::create(builder, value.getLoc(), splat.resizeSplat(part));
  dist::LayoutAttr whole = Layout::whole(type).toAttribute(builder.getContext());
  return dist::SliceOp::create(builder, value.getLoc(), part, value, whole, layoutAt(whole, dim, step));
}

Value RingChunks::chunk(Value value, int64_t dim) {
  value = known(value);
  if (Value given = replaced.lookup(value))
    return given;
  if (Value known = made.lookup({value, dim}))
    return known;
  Operation *op = value.getDefiningOp();
  Value result;
  if (isGathered(value, dim)) {
    result = here.lookup(value);
  } else if (isRepeated(op) && !isa<dfg::ConstantOp>(op)) {
    SplitRule rule = cast<SplitInterface>(op).getSplitRule();
    result = apply(op, *factorAt(rule, rule.results.front(), dim));
  } else {
    result = slice(value, dim);
  }
  made[{value, dim}] = result;
  return result;
}

Value RingChunks::apply(Operation *op, unsigned keysFactor) {
  SplitRule rule = cast<SplitInterface>(op).getSplitRule();
  SmallVector<Value> operands;
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    auto found = llvm::find(factors, DimFactors{keysFactor});
    Value first = known(operand), given = replaced.lookup(first);
    if (found != factors.end())
      operands.push_back(chunk(operand, found - factors.begin()));
    else
      operands.push_back(given ? given : first);
  }
  RankedTensorType type = resultType(op);
  SmallVector<int64_t> shape(type.getShape()), ways(rule.factors.size(), 1), sizes;
  for (auto [dim, factors] : llvm::enumerate(rule.results.front()))
    if (llvm::is_contained(factors, keysFactor))
      shape[dim] = ring.chunkSize();
  for (const Factor &factor : rule.factors)
    sizes.push_back(factor.size);
  ways[keysFactor] = ring.numSteps();
  sizes[keysFactor] = ring.chunkSize();
  SmallVector<Type> types = {type.clone(shape)};
  auto startOf = [&](unsigned) { return start(); };
  auto local = cast<SplitInterface>(op).localize(builder, {operands, types, ways, sizes, startOf});
  assert(succeeded(local) && "a factor that can be cut");
  return local->front();
}

} // namespace cleave
