// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products over more rows, and concatenations.

#include "passes/train/CotangentTerms.h"

#include "dialects/dfg/Dfg.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The one dimension of which the operator surrounds its operand with zeros.
static std::optional<int64_t> dimBetweenZeros(dfg::PadOp pad) {
  DenseElementsAttr value;
  if (!matchPattern(pad.getValue(), m_Constant(&value)) || !isa<FloatType>(value.getElementType()) ||
      !value.getSplatValue<APFloat>().isZero())
    return std::nullopt;
  std::optional<int64_t> found;
  for (auto [dim, low, high] : llvm::enumerate(pad.getLow(), pad.getHigh())) {
    if (low == 0 && high == 0)
      continue;
    if (found)
      return std::nullopt;
    found = static_cast<int64_t>(dim);
  }
  return found;
}

bool mayBeJoined(Value term) {
  Operation *op = term.getDefiningOp();
  if (!op || !dist::getPlace(op))
    return false;
  if (auto dot = dyn_cast<dfg::DotGeneralOp>(op))
    return !dot.getLhsContracting().empty() &&
           tensorType(dot.getLhs()).getNumElements() + tensorType(dot.getRhs()).getNumElements() <
               tensorType(term).getNumElements();
  auto pad = dyn_cast<dfg::PadOp>(op);
  return pad && dimBetweenZeros(pad);
}

namespace {

/// Joins terms of one kind that have one place.
class Joining {
public:
  Joining(GradientPlaces &places, OpBuilder &builder, SmallVectorImpl<Operation *> &created)
      : places(places), builder(builder), created(created) {}

  FailureOr<Value> join(ArrayRef<dfg::DotGeneralOp> products) {
    dfg::DotGeneralOp first = products.front();
    FailureOr<OperatorLayouts> layouts = begin(first);
    if (failed(layouts))
      return failure();
    SmallVector<Value> lhs, rhs;
    for (dfg::DotGeneralOp product : products) {
      lhs.push_back(product.getLhs());
      rhs.push_back(product.getRhs());
    }
    FailureOr<Value> rowsOfLhs = stack(lhs, layouts->operands[0], first.getLoc());
    FailureOr<Value> rowsOfRhs = stack(rhs, layouts->operands[1], first.getLoc());
    if (failed(rowsOfLhs) || failed(rowsOfRhs))
      return failure();
    auto behindRows = [](ArrayRef<int64_t> dims) {
      SmallVector<int64_t> moved;
      for (int64_t dim : dims)
        moved.push_back(dim + 1);
      return moved;
    };
    SmallVector<int64_t> lhsContracting = behindRows(first.getLhsContracting()),
                         rhsContracting = behindRows(first.getRhsContracting());
    lhsContracting.insert(lhsContracting.begin(), 0);
    rhsContracting.insert(rhsContracting.begin(), 0);
    return place(dfg::DotGeneralOp::create(builder, first.getLoc(), *rowsOfLhs, *rowsOfRhs,
                                           behindRows(first.getLhsBatch()), behindRows(first.getRhsBatch()),
                                           lhsContracting, rhsContracting, first.getWide()),
                 layouts->results[0]);
  }

  /// Slices that follow each other without a gap, first to last.
  FailureOr<Value> join(ArrayRef<dfg::PadOp> slices) {
    dfg::PadOp first = slices.front(), last = slices.back();
    FailureOr<OperatorLayouts> layouts = begin(first);
    if (failed(layouts))
      return failure();
    SmallVector<Value> parts;
    for (dfg::PadOp slice : slices) {
      parts.push_back(slice.getInput());
      // The slice may have been cut in the dimension in which it could not be padded so.
      Operation *producer = slice.getInput().getDefiningOp();
      dist::PlaceAttr there = producer ? dist::getPlace(producer) : dist::PlaceAttr();
      if (there && there.getMesh() == dist::getPlace(first).getMesh()) {
        FailureOr<OperatorLayouts> made = places.layoutsOf(producer);
        if (failed(made))
          return failure();
        places.hint(slice.getInput(), made->results[cast<OpResult>(slice.getInput()).getResultNumber()]);
      }
      places.hint(slice.getInput(), layouts->operands[0]);
    }
    int64_t dim = *dimBetweenZeros(first);
    FailureOr<Value> joined = place(dfg::ConcatOp::create(builder, first.getLoc(), parts, dim), std::nullopt);
    if (failed(joined) || joined->getType() == first.getType())
      return joined;
    SmallVector<int64_t> low(first.getLow()), high(last.getHigh());
    return place(dfg::PadOp::create(builder, first.getLoc(), *joined, first.getValue(), low, high),
                 layouts->results[0]);
  }

private:
  /// New operators stand where this one does.
  FailureOr<OperatorLayouts> begin(Operation *op) {
    dist::PlaceAttr where = dist::getPlace(op);
    places.begin(where.getMesh(), where.getBy());
    return places.layoutsOf(op);
  }

  /// Values of one type as rows of a new first dimension, which nothing cuts.
  FailureOr<Value> stack(ArrayRef<Value> values, const Layout &layout, Location location) {
    RankedTensorType type = tensorType(values.front());
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin(), 1);
    Layout row = layout;
    row.dims.insert(row.dims.begin(), {dist::Part{1, {}, {}}});
    SmallVector<Value> rows;
    for (Value value : values) {
      places.hint(value, layout);
      FailureOr<Value> made = place(
          dfg::ReshapeOp::create(builder, location, RankedTensorType::get(shape, type.getElementType()), value), row);
      if (failed(made))
        return failure();
      rows.push_back(*made);
    }
    return place(dfg::ConcatOp::create(builder, location, rows, 0), std::nullopt);
  }

  FailureOr<Value> place(Operation *op, const std::optional<Layout> &layout) {
    if (layout)
      places.hint(op->getResult(0), *layout);
    if (failed(places.place(op)))
      return failure();
    created.push_back(op);
    return op->getResult(0);
  }

  GradientPlaces &places;
  OpBuilder &builder;
  SmallVectorImpl<Operation *> &created;
};

/// What terms must have in common: the place, what they do, and the types of what they are made of or make.
using Kind = std::tuple<Attribute, Attribute, Type, Type>;

Kind kindOf(Operation *op) {
  if (auto pad = dyn_cast<dfg::PadOp>(op))
    return {dist::getPlace(op), Builder(op->getContext()).getI64IntegerAttr(*dimBetweenZeros(pad)), pad.getType(),
            Type()};
  return {dist::getPlace(op), op->getPropertiesAsAttribute(), op->getOperand(0).getType(), op->getOperand(1).getType()};
}

/// The slices in the order of the dimension, in runs without gaps. Slices that overlap are in runs of their own.
SmallVector<SmallVector<dfg::PadOp>> runsOf(SmallVector<dfg::PadOp> slices) {
  int64_t dim = *dimBetweenZeros(slices.front());
  llvm::stable_sort(slices, [&](dfg::PadOp a, dfg::PadOp b) { return a.getLow()[dim] < b.getLow()[dim]; });
  SmallVector<SmallVector<dfg::PadOp>> runs;
  int64_t end = -1;
  for (dfg::PadOp slice : slices) {
    if (slice.getLow()[dim] != end)
      runs.emplace_back();
    runs.back().push_back(slice);
    end = slice.getLow()[dim] + tensorType(slice.getInput()).getDimSize(dim);
  }
  return runs;
}

} // namespace

FailureOr<SmallVector<Value>> joinTerms(ArrayRef<Value> terms, GradientPlaces &places, OpBuilder &builder,
                                        SmallVectorImpl<Operation *> &created) {
  llvm::MapVector<Kind, SmallVector<Operation *>> groups;
  for (Value term : terms)
    groups[kindOf(term.getDefiningOp())].push_back(term.getDefiningOp());
  Joining joining(places, builder, created);
  SmallVector<Value> left;
  auto add = [&](auto group) -> LogicalResult {
    Operation *first = group.front();
    FailureOr<Value> joined = group.size() == 1 ? FailureOr<Value>(first->getResult(0)) : joining.join(group);
    if (succeeded(joined))
      left.push_back(*joined);
    return joined;
  };
  auto as = [](auto kind, ArrayRef<Operation *> operators) {
    SmallVector<decltype(kind)> group;
    for (Operation *op : operators)
      group.push_back(cast<decltype(kind)>(op));
    return group;
  };
  for (const auto &[kind, operators] : groups) {
    if (isa<dfg::DotGeneralOp>(operators.front())) {
      if (failed(add(ArrayRef<dfg::DotGeneralOp>(as(dfg::DotGeneralOp(), operators)))))
        return failure();
      continue;
    }
    for (const SmallVector<dfg::PadOp> &run : runsOf(as(dfg::PadOp(), operators)))
      if (failed(add(ArrayRef<dfg::PadOp>(run))))
        return failure();
  }
  return left;
}

} // namespace cleave
