// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses of classification.

#include "passes/import/OperatorTable.h"
#include "passes/import/Positions.h"

using namespace mlir;

namespace cleave {

namespace {
/// What both losses ask for: which class each element has, how classes weigh, and how the losses are joined.
struct Classes {
  /// i64, one an element, of the shape of the loss; those that do not count name class 0.
  Value target;
  /// i1, whether an element counts; null where all do.
  Value counts;
  /// One an element; null where all weigh one.
  Value weights;
  std::string reduction;
};
} // namespace

static FailureOr<Classes> readClasses(NodeImporter &node) {
  ArrayRef<int64_t> scores = node.shape(0), target = node.shape(1);
  if (scores.size() < 2 || scores.size() != target.size() + 1 || scores[0] != target[0] ||
      scores.drop_front(2) != target.drop_front())
    return FailureOr<Classes>(node.error("expects a class for each vector of scores along dimension 1"));
  if (node.hasInput(2) && node.shape(2) != scores.slice(1, 1))
    return FailureOr<Classes>(node.error("expects one weight a class"));
  Classes classes;
  classes.reduction = node.text("reduction", "mean");
  if (classes.reduction != "none" && classes.reduction != "sum" && classes.reduction != "mean")
    return FailureOr<Classes>(
        node.error("expects \"reduction\" to be none, sum or mean, got \"" + classes.reduction + "\""));
  Type index = node.getBuilder().getI64Type();
  classes.target = node.cast(node.input(1), index);
  if (node.hasAttribute("ignore_index")) {
    Value ignored = integerConstant(node, node.integer("ignore_index", 0), {});
    Value isIgnored = compare(node, classes.target, dfg::Comparison::Equal, ignored);
    classes.counts = node.emit<dfg::NotOp>(isIgnored);
    classes.target = node.emit<dfg::SelectOp>({classes.counts, classes.target, node.scalar(index, 0)});
  }
  if (node.hasInput(2))
    classes.weights = node.emit<dfg::GatherOp>({node.input(2), classes.target}, node.attr("dim", int64_t(0)));
  return classes;
}

/// The negative score of each element's class, weighed and joined.
static Value negativeLogLikelihood(NodeImporter &node, Value scores, const Classes &classes) {
  if (!scores || !classes.target)
    return {};
  Type element = NodeImporter::elementOf(scores);
  ArrayRef<int64_t> shape = NodeImporter::typeOf(classes.target).getShape();
  SmallVector<int64_t> lines(shape), all = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  lines.insert(lines.begin() + 1, 1);
  Value chosen =
      node.emit<dfg::GatherElementsOp>({scores, node.reshape(classes.target, lines)}, node.attr("dim", int64_t(1)));
  Value loss = node.emit<dfg::NegOp>(node.reshape(chosen, shape)), weights = classes.weights;
  if (weights)
    loss = node.emit<dfg::MulOp>({loss, weights});
  if (classes.counts) {
    Value zero = node.scalar(element, 0.0);
    loss = node.emit<dfg::SelectOp>({classes.counts, loss, zero});
    weights = weights ? node.emit<dfg::SelectOp>({classes.counts, weights, zero}) : node.cast(classes.counts, element);
  }
  if (classes.reduction == "none")
    return loss;
  if (classes.reduction == "mean" && !weights)
    return node.mean(loss, all, /*keepDims=*/false);
  Value sum = node.reduce(loss, dfg::ReduceKind::Sum, all, /*keepDims=*/false);
  if (classes.reduction == "sum")
    return sum;
  return node.emit<dfg::DivOp>({sum, node.reduce(weights, dfg::ReduceKind::Sum, all, /*keepDims=*/false)});
}

static ImportResults importNegativeLogLikelihoodLoss(NodeImporter &node) {
  FailureOr<Classes> classes = readClasses(node);
  if (failed(classes))
    return failure();
  return oneResult(negativeLogLikelihood(node, node.input(0), *classes));
}

static ImportResults importSoftmaxCrossEntropyLoss(NodeImporter &node) {
  FailureOr<Classes> classes = readClasses(node);
  if (failed(classes))
    return failure();
  Value scores = node.emit<dfg::LogSoftmaxOp>(node.input(0), node.attr("dim", int64_t(1)));
  SmallVector<NodeResult, 1> results = {negativeLogLikelihood(node, scores, *classes)};
  if (node.hasOutput(1))
    results.push_back(scores);
  return results;
}

void addLossOperators(OperatorTable &table) {
  table.add("NegativeLogLikelihoodLoss", {importNegativeLogLikelihoodLoss, 2, 3, Elements::Float, 12});
  table.add("SoftmaxCrossEntropyLoss", {importSoftmaxCrossEntropyLoss, 2, 3, Elements::Float, 12});
}

} // namespace cleave
