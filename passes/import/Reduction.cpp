// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Reduce family, ArgMax and ArgMin.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

namespace {
/// Over which dimensions a node reduces.
struct Reduced {
  SmallVector<int64_t> dims;
  bool keepDims = true;
  /// The node reduces over no dimension: each element by itself is what is reduced.
  bool isElementwise = false;
};
} // namespace

/// Axes are an attribute in older operator sets and an input in newer ones.
static FailureOr<Reduced> readReduced(NodeImporter &node) {
  auto given = node.attributeOrInput("axes", 1);
  if (failed(given))
    return failure();
  Reduced reduced;
  reduced.keepDims = node.integer("keepdims", 1);
  if (!*given || (*given)->empty()) {
    reduced.isElementwise = node.integer("noop_with_empty_axes", 0);
    reduced.dims = llvm::to_vector(llvm::seq<int64_t>(0, node.rank(0)));
    return reduced;
  }
  FailureOr<SmallVector<int64_t>> dims = node.axes(**given, node.rank(0));
  if (failed(dims))
    return failure();
  reduced.dims = *dims;
  return reduced;
}

static Value square(NodeImporter &node, Value value) { return node.emit<dfg::MulOp>({value, value}); }

/// A reduction of kind `kind` between what is done to the elements before it and after it.
template <dfg::ReduceKind kind, Value (*before)(NodeImporter &, Value), Value (*after)(NodeImporter &, Value)>
static ImportResults importReduce(NodeImporter &node) {
  FailureOr<Reduced> reduced = readReduced(node);
  if (failed(reduced))
    return failure();
  Value input = node.input(0);
  if (reduced->isElementwise)
    return oneResult(after(node, before(node, input)));
  return oneResult(after(node, node.reduce(before(node, input), kind, reduced->dims, reduced->keepDims)));
}

static Value keep(NodeImporter &, Value value) { return value; }
static Value absolute(NodeImporter &node, Value value) { return node.emit<dfg::AbsOp>(value); }
static Value logarithm(NodeImporter &node, Value value) { return node.emit<dfg::LogOp>(value); }

static Value root(NodeImporter &node, Value value) {
  if (!value || isa<FloatType>(NodeImporter::elementOf(value)))
    return node.emit<dfg::SqrtOp>(value);
  Type real = node.getBuilder().getF64Type();
  return node.cast(node.emit<dfg::SqrtOp>(node.cast(value, real)), NodeImporter::elementOf(value));
}

static ImportResults importReduceMean(NodeImporter &node) {
  FailureOr<Reduced> reduced = readReduced(node);
  if (failed(reduced))
    return failure();
  if (reduced->isElementwise)
    return oneResult(node.input(0));
  return oneResult(node.mean(node.input(0), reduced->dims, reduced->keepDims));
}

/// The largest element is taken out of the sum, so that no exponential overflows.
static ImportResults importReduceLogSumExp(NodeImporter &node) {
  FailureOr<Reduced> reduced = readReduced(node);
  if (failed(reduced))
    return failure();
  Value input = node.input(0);
  if (reduced->isElementwise)
    return oneResult(input);
  Value largest = node.reduce(input, dfg::ReduceKind::Max, reduced->dims, /*keepDims=*/true);
  // Of infinities only, the difference would be NaN: they are shifted by a finite number.
  double bound = node.type(0).getElementType().isF16() ? 65504.0 : 3.38e38;
  largest = node.emit<dfg::ClampOp>(largest, {node.real64("low", -bound), node.real64("high", bound)});
  Value exponentials = node.emit<dfg::ExpOp>(node.emit<dfg::SubOp>({input, largest}));
  Value sum = node.emit<dfg::LogOp>(node.reduce(exponentials, dfg::ReduceKind::Sum, reduced->dims, reduced->keepDims));
  if (!sum)
    return failure();
  return oneResult(node.emit<dfg::AddOp>({sum, node.reshape(largest, NodeImporter::typeOf(sum).getShape())}));
}

template <dfg::ArgKind kind> static ImportResults importArgReduce(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(0));
  if (failed(axis))
    return failure();
  if (node.shape(0)[*axis] == 0)
    return node.error("expects elements along the axis");
  SmallVector<NamedAttribute> attributes = {
      node.getBuilder().getNamedAttr("kind", dfg::ArgKindAttr::get(node.getContext(), kind)), node.attr("dim", *axis)};
  if (node.integer("keepdims", 1))
    attributes.push_back(node.flag("keep_dims"));
  if (node.integer("select_last_index", 0))
    attributes.push_back(node.flag("last"));
  return oneResult(node.emit<dfg::ArgReduceOp>(node.input(0), attributes));
}

void addReductionOperators(OperatorTable &table) {
  using dfg::ReduceKind;
  table.add("ReduceSum", {importReduce<ReduceKind::Sum, keep, keep>, 1, 2, Elements::Number});
  table.add("ReduceProd", {importReduce<ReduceKind::Product, keep, keep>, 1, 2, Elements::Number});
  table.add("ReduceMax", {importReduce<ReduceKind::Max, keep, keep>, 1, 2});
  table.add("ReduceMin", {importReduce<ReduceKind::Min, keep, keep>, 1, 2});
  table.add("ReduceMean", {importReduceMean, 1, 2, Elements::Number});
  table.add("ReduceL1", {importReduce<ReduceKind::Sum, absolute, keep>, 1, 2, Elements::Number});
  table.add("ReduceL2", {importReduce<ReduceKind::Sum, square, root>, 1, 2, Elements::Number});
  table.add("ReduceLogSum", {importReduce<ReduceKind::Sum, keep, logarithm>, 1, 2, Elements::Float});
  table.add("ReduceSumSquare", {importReduce<ReduceKind::Sum, square, keep>, 1, 2, Elements::Number});
  table.add("ReduceLogSumExp", {importReduceLogSumExp, 1, 2, Elements::Float});
  table.add("ArgMax", {importArgReduce<dfg::ArgKind::Max>, 1, 1, Elements::Number});
  table.add("ArgMin", {importArgReduce<dfg::ArgKind::Min>, 1, 1, Elements::Number});
}

} // namespace cleave
