// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax and the normalizations.

#include "passes/import/NormalizationParts.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

Value layerNorm(NodeImporter &node, Value input, ArrayRef<int64_t> dims, double epsilon) {
  return node.emit<dfg::LayerNormOp>(input, {node.attr("dims", dims), node.real64("epsilon", epsilon)});
}

Value scaleAndShift(NodeImporter &node, Value value, Value scale, Value bias) {
  if (scale)
    value = node.emit<dfg::MulOp>({value, scale});
  return bias ? node.emit<dfg::AddOp>({value, bias}) : value;
}

/// Before operator set 13 the input is seen as a matrix whose columns begin at `axis`.
template <typename OpTy> static ImportResults importSoftmax(NodeImporter &node) {
  bool coerced = node.getVersion() < 13;
  int64_t rank = node.rank(0), given = node.integer("axis", coerced ? 1 : -1);
  if (coerced && given == rank)
    return node.unsupported("an axis behind the last is not known");
  FailureOr<int64_t> axis = node.axis(given, rank);
  if (failed(axis))
    return failure();
  ArrayRef<int64_t> shape = node.shape(0);
  if (!coerced || llvm::product_of(shape.drop_front(*axis + 1)) == 1)
    return oneResult(node.emit<OpTy>(node.input(0), node.attr("dim", *axis)));
  Value matrix = node.reshape(node.input(0),
                              {llvm::product_of(shape.take_front(*axis)), llvm::product_of(shape.drop_front(*axis))});
  return oneResult(node.reshape(node.emit<OpTy>(matrix, node.attr("dim", int64_t(1))), shape));
}

/// Mean and variance of the batch itself, by channel.
static std::pair<Value, Value> batchStatistics(NodeImporter &node) {
  Value input = node.input(0);
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim < node.rank(0); ++dim)
    if (dim != 1)
      dims.push_back(dim);
  Value mean = node.mean(input, dims, /*keepDims=*/false);
  Value centred = node.emit<dfg::SubOp>({input, node.perChannel(mean, node.rank(0))});
  return {mean, node.mean(node.emit<dfg::MulOp>({centred, centred}), dims, /*keepDims=*/false)};
}

/// Whether a node normalizes by the statistics of its batch. Before operator set 14 the results say it: those besides
/// the first are for training.
static bool isOfBatch(NodeImporter &node) {
  if (node.getVersion() >= 14)
    return node.integer("training_mode", 0);
  return llvm::any_of(llvm::seq(1u, 5u), [&](unsigned index) { return node.hasOutput(index); });
}

static ImportResults importBatchNorm(NodeImporter &node) {
  if (node.rank(0) < 2)
    return node.error("expects an input with channels");
  if (node.getVersion() < 9 && !node.integer("spatial", 1))
    return node.unsupported("statistics of single elements (\"spatial\" = 0) are not known");
  double epsilon = node.real("epsilon", 1e-5), momentum = node.real("momentum", 0.9);
  bool ofBatch = isOfBatch(node);
  if (node.hasOutput(1) && !ofBatch)
    return node.unsupported("results besides the first are not known at inference");
  Value mean, variance;
  if (ofBatch && (!node.isTraining() || node.hasOutput(3) || node.hasOutput(4)))
    std::tie(mean, variance) = batchStatistics(node);
  SmallVector<NamedAttribute> attributes = {node.real64("epsilon", epsilon)};
  SmallVector<NodeResult, 1> results;
  if (node.isTraining() || !ofBatch) {
    for (unsigned i : {3u, 4u})
      node.imported(i)->isState = true;
    if (node.isTraining() && node.hasAttribute("momentum"))
      attributes.push_back(node.real64("momentum", momentum));
    results.push_back(node.emit<dfg::BatchNormOp>(
        {node.input(0), node.input(1), node.input(2), node.input(3), node.input(4)}, attributes));
  } else {
    results.push_back(
        node.emit<dfg::BatchNormOp>({node.input(0), node.input(1), node.input(2), mean, variance}, attributes));
  }
  if (!ofBatch || node.getProto().output_size() == 1)
    return results;
  // In training the train stage has the running statistics follow; the graph sees those from before.
  auto blend = [&](Value running, Value current) {
    Type element = node.type(3).getElementType();
    Value kept = node.emit<dfg::MulOp>({running, node.scalar(element, momentum)});
    return node.emit<dfg::AddOp>({kept, node.emit<dfg::MulOp>({current, node.scalar(element, 1.0 - momentum)})});
  };
  results.push_back(node.isTraining() ? node.input(3) : blend(node.input(3), mean));
  results.push_back(node.isTraining() ? node.input(4) : blend(node.input(4), variance));
  if (mean) {
    results.push_back(mean);
    results.push_back(variance);
  }
  return results;
}

static ImportResults importLrn(NodeImporter &node) {
  if (!node.hasAttribute("size"))
    return node.error("expects \"size\"");
  int64_t size = node.integer("size", 1);
  double alpha = node.real("alpha", 1e-4);
  // A window wider than all channels on both sides sums the same elements; only the mean divides by its width. Without
  // the bound, kernels would pad the channels by whatever number a file gives.
  int64_t widest = node.rank(0) > 1 ? std::max<int64_t>(2 * node.shape(0)[1] - 1, 1) : 1;
  if (size > widest) {
    alpha *= static_cast<double>(widest) / static_cast<double>(size);
    size = widest;
  }
  return oneResult(node.emit<dfg::LrnOp>(node.input(0), {node.attr("size", size), node.real64("alpha", alpha),
                                                         node.real64("beta", node.real("beta", 0.75)),
                                                         node.real64("k", node.real("bias", 1.0))}));
}

SmallVector<int64_t> dimsFrom(int64_t first, int64_t rank) { return llvm::to_vector(llvm::seq<int64_t>(first, rank)); }

std::pair<Value, Value> layerNormStatistics(NodeImporter &node, Value value, ArrayRef<int64_t> dims, double epsilon) {
  Value mean = node.mean(value, dims, /*keepDims=*/true);
  Value centred = node.emit<dfg::SubOp>({value, mean});
  Value variance = node.mean(node.emit<dfg::MulOp>({centred, centred}), dims, /*keepDims=*/true);
  if (!variance)
    return {};
  Value safe = node.emit<dfg::AddOp>({variance, node.scalar(NodeImporter::elementOf(variance), epsilon)});
  return {mean, node.emit<dfg::ReciprocalOp>(node.emit<dfg::SqrtOp>(safe))};
}

static ImportResults importLayerNorm(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(0));
  if (failed(axis))
    return failure();
  double epsilon = node.real("epsilon", 1e-5);
  SmallVector<int64_t> dims = dimsFrom(*axis, node.rank(0));
  Value input = node.input(0);
  SmallVector<NodeResult, 1> results = {
      scaleAndShift(node, layerNorm(node, input, dims, epsilon), node.input(1), node.input(2))};
  if (!node.hasOutput(1) && !node.hasOutput(2))
    return results;
  auto [mean, inverseDeviation] = layerNormStatistics(node, input, dims, epsilon);
  results.push_back(mean);
  results.push_back(inverseDeviation);
  return results;
}

Value rootMeanSquare(NodeImporter &node, Value value, ArrayRef<int64_t> dims, double epsilon) {
  Value square = node.mean(node.emit<dfg::MulOp>({value, value}), dims, /*keepDims=*/true);
  if (!square)
    return {};
  return node.emit<dfg::SqrtOp>(node.emit<dfg::AddOp>({square, node.scalar(NodeImporter::elementOf(square), epsilon)}));
}

/// Root mean square normalization. ONNX Runtime, where it is SimplifiedLayerNormalization, can show the factor, too.
static ImportResults importRmsNorm(NodeImporter &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(0));
  if (failed(axis))
    return failure();
  Value input = node.input(0);
  Value root = rootMeanSquare(node, input, dimsFrom(*axis, node.rank(0)), node.real("epsilon", 1e-5));
  SmallVector<NodeResult, 1> results = {
      scaleAndShift(node, node.emit<dfg::DivOp>({input, root}), node.input(1), node.input(2))};
  if (node.hasOutput(1))
    results.push_back(node.emit<dfg::ReciprocalOp>(root));
  return results;
}

static ImportResults importInstanceNorm(NodeImporter &node) {
  int64_t rank = node.rank(0);
  if (rank < 3)
    return node.error("expects an input of rank 3 at least");
  Value normal = layerNorm(node, node.input(0), dimsFrom(2, rank), node.real("epsilon", 1e-5));
  return oneResult(
      scaleAndShift(node, normal, node.perChannel(node.input(1), rank), node.perChannel(node.input(2), rank)));
}

Value groupNorm(NodeImporter &node, Value value, int64_t groups, double epsilon) {
  ArrayRef<int64_t> shape = NodeImporter::typeOf(value).getShape();
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0) {
    (void)node.error("expects channels in groups of equal size");
    return {};
  }
  int64_t perGroup = llvm::product_of(shape.drop_front(1)) / groups;
  return layerNorm(node, node.reshape(value, {shape[0], groups, perGroup}), {2}, epsilon);
}

/// Before operator set 21 scale and bias had one value a group, later one a channel.
static ImportResults importGroupNorm(NodeImporter &node) {
  int64_t rank = node.rank(0);
  ArrayRef<int64_t> shape = node.shape(0);
  Value normal = groupNorm(node, node.input(0), node.integer("num_groups", 0), node.real("epsilon", 1e-5));
  if (node.getVersion() < 21)
    return oneResult(node.reshape(
        scaleAndShift(node, normal, node.perChannel(node.input(1), 3), node.perChannel(node.input(2), 3)), shape));
  Value result = node.reshape(normal, shape);
  return oneResult(
      scaleAndShift(node, result, node.perChannel(node.input(1), rank), node.perChannel(node.input(2), rank)));
}

static ImportResults importMeanVarianceNorm(NodeImporter &node) {
  FailureOr<SmallVector<int64_t>> axes =
      node.axes(node.integers("axes").value_or(SmallVector<int64_t>{0, 2, 3}), node.rank(0));
  if (failed(axes))
    return failure();
  Value input = node.input(0);
  Value centred = node.emit<dfg::SubOp>({input, node.mean(input, *axes, /*keepDims=*/true)});
  Value variance = node.mean(node.emit<dfg::MulOp>({centred, centred}), *axes, /*keepDims=*/true);
  Value deviation =
      node.emit<dfg::AddOp>({node.emit<dfg::SqrtOp>(variance), node.scalar(node.type(0).getElementType(), 1e-9)});
  return oneResult(node.emit<dfg::DivOp>({centred, deviation}));
}

static ImportResults importLpNorm(NodeImporter &node) {
  int64_t power = node.integer("p", 2);
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(0));
  if (failed(axis))
    return failure();
  if (power != 1 && power != 2)
    return node.error("expects \"p\" to be 1 or 2, got " + Twine(power));
  Value input = node.input(0);
  Value terms = power == 1 ? node.emit<dfg::AbsOp>(input) : node.emit<dfg::MulOp>({input, input});
  Value norm = node.reduce(terms, dfg::ReduceKind::Sum, *axis, /*keepDims=*/true);
  if (power == 2)
    norm = node.emit<dfg::SqrtOp>(norm);
  return oneResult(node.emit<dfg::DivOp>({input, norm}));
}

void addNormalizationOperators(OperatorTable &table) {
  table.add("Softmax", {importSoftmax<dfg::SoftmaxOp>, 1, 1, Elements::Float});
  table.add("LogSoftmax", {importSoftmax<dfg::LogSoftmaxOp>, 1, 1, Elements::Float});
  table.add("BatchNormalization", {importBatchNorm, 5, 5, Elements::Float});
  table.add("LRN", {importLrn, 1, 1, Elements::Float});
  // ONNX Runtime writes layer normalization into graphs of older operator sets, too, and the simplified one into all.
  table.add("LayerNormalization", {importLayerNorm, 2, 3, Elements::Float, 1});
  table.add("SimplifiedLayerNormalization", {importRmsNorm, 2, 3, Elements::Float, 1});
  table.add("RMSNormalization", {importRmsNorm, 2, 2, Elements::Float, 23});
  table.add("InstanceNormalization", {importInstanceNorm, 3, 3, Elements::Float});
  table.add("GroupNormalization", {importGroupNorm, 3, 3, Elements::Float, 18});
  table.add("MeanVarianceNormalization", {importMeanVarianceNorm, 1, 1, Elements::Float, 9});
  table.add("LpNormalization", {importLpNorm, 1, 1, Elements::Float});
}

} // namespace cleave
