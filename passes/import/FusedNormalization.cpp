// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Normalizations that ONNX Runtime fuses (domain com.microsoft) with what stands in front of them: skip connections,
// embeddings, activations behind them.

#include "passes/import/NormalizationParts.h"
#include "passes/import/OperatorTable.h"

using namespace mlir;

namespace cleave {

/// What ONNX Runtime adds to variances where the node does not say it.
static constexpr double fusedEpsilon = 1e-12;

/// Whether an input, where it is there, is a vector with one element for each of the last dimension of input `of`.
static bool isLastVector(NodeImporter &node, unsigned index, unsigned of) {
  return !node.hasInput(index) || (node.rank(index) == 1 && node.shape(index)[0] == node.shape(of).back());
}

/// Input, skip connection and, where it is there, the bias in input `bias`.
static FailureOr<Value> sumWithSkip(NodeImporter &node, unsigned bias) {
  ArrayRef<int64_t> shape = node.shape(0);
  auto joined = dfg::broadcastShapes(shape, node.shape(1));
  if (shape.empty() || failed(joined) || ArrayRef<int64_t>(*joined) != shape)
    return FailureOr<Value>(node.error("expects a skip connection that broadcasts to the input"));
  for (unsigned i = 2; i < node.getNumInputs(); ++i)
    if (!isLastVector(node, i, 0))
      return FailureOr<Value>(node.error("expects vectors of " + Twine(shape.back()) + " elements behind input 1"));
  Value sum = node.emit<dfg::AddOp>({node.input(0), node.input(1)});
  return node.hasInput(bias) ? node.emit<dfg::AddOp>({sum, node.input(bias)}) : sum;
}

static ImportResults importSkipLayerNorm(NodeImporter &node) {
  FailureOr<Value> sum = sumWithSkip(node, /*bias=*/4);
  if (failed(sum))
    return failure();
  double epsilon = node.real("epsilon", fusedEpsilon);
  SmallVector<int64_t> dims = {node.rank(0) - 1};
  SmallVector<NodeResult, 1> results = {
      scaleAndShift(node, layerNorm(node, *sum, dims, epsilon), node.input(2), node.input(3)), *sum, *sum, *sum};
  if (node.hasOutput(1) || node.hasOutput(2)) {
    auto [mean, inverseDeviation] = layerNormStatistics(node, *sum, dims, epsilon);
    results[1] = mean;
    results[2] = inverseDeviation;
  }
  return results;
}

static ImportResults importSkipRmsNorm(NodeImporter &node) {
  if (node.hasOutput(1))
    return node.unsupported("the mean as a result is not known: nothing subtracts it");
  FailureOr<Value> sum = sumWithSkip(node, /*bias=*/3);
  if (failed(sum))
    return failure();
  Value root = rootMeanSquare(node, *sum, {node.rank(0) - 1}, node.real("epsilon", fusedEpsilon));
  SmallVector<NodeResult, 1> results = {
      scaleAndShift(node, node.emit<dfg::DivOp>({*sum, root}), node.input(2), Value()), *sum, *sum, *sum};
  if (node.hasOutput(2))
    results[2] = node.emit<dfg::ReciprocalOp>(root);
  return results;
}

//===-- embeddings --------------------------------------------------------------------------------------------===//

/// How many words each sequence has before the padding; nothing is padding where there is no mask, and then ONNX
/// Runtime says zero.
static Value countWords(NodeImporter &node) {
  Type element = node.type(0).getElementType();
  int64_t batch = node.shape(0)[0];
  if (!node.hasInput(7))
    return node.splat(RankedTensorType::get({batch}, element), 0.0);
  Value isWord = node.compare(node.input(7), node.scalar(node.type(7).getElementType(), 1.0), dfg::Comparison::Equal);
  return node.reduce(node.cast(isWord, element), dfg::ReduceKind::Sum, {1}, /*keepDims=*/false);
}

/// Rows of the tables of words, positions and, where sentences are told apart, segments.
static FailureOr<Value> sumOfEmbeddings(NodeImporter &node) {
  if (node.rank(0) != 2)
    return FailureOr<Value>(node.error("expects words of rank 2"));
  int64_t length = node.shape(0)[1];
  if (node.hasInput(1) != node.hasInput(4))
    return FailureOr<Value>(node.error("expects segments and their embedding together"));
  for (unsigned table : {2u, 3u, 4u})
    if (node.hasInput(table) && (node.rank(table) != 2 || node.shape(table)[1] != node.shape(2)[1]))
      return FailureOr<Value>(node.error("expects embeddings of rank 2 and one width"));
  for (unsigned index : {1u, 7u})
    if (node.hasInput(index) && node.shape(index) != node.shape(0))
      return FailureOr<Value>(node.error("expects segments and mask of the words' shape"));
  if (node.hasInput(8) && (node.rank(8) != 2 || node.shape(8)[1] != length ||
                           (node.shape(8)[0] != 1 && node.shape(8)[0] != node.shape(0)[0])))
    return FailureOr<Value>(node.error("expects positions of each sequence, or of one for all"));
  auto rows = [&](unsigned table, Value places) {
    return node.emit<dfg::GatherOp>({node.input(table), places}, node.attr("dim", int64_t(0)));
  };
  if (!node.hasInput(8) && length > node.shape(3)[0])
    return FailureOr<Value>(
        node.error("expects embeddings of " + Twine(length) + " positions, got " + Twine(node.shape(3)[0])));
  Value positions = node.hasInput(8) ? rows(3, node.input(8)) : node.slice(node.input(3), 0, 0, length);
  Value sum = node.emit<dfg::AddOp>({rows(2, node.input(0)), positions});
  return node.hasInput(1) ? node.emit<dfg::AddOp>({sum, rows(4, node.input(1))}) : sum;
}

static ImportResults importEmbedLayerNorm(NodeImporter &node) {
  for (unsigned index : {2u, 3u, 5u, 6u})
    if (!node.hasInput(index))
      return node.error("expects input " + Twine(index));
  FailureOr<Value> sum = sumOfEmbeddings(node);
  if (failed(sum))
    return failure();
  if (!isLastVector(node, 5, 2) || !isLastVector(node, 6, 2))
    return node.error("expects vectors of " + Twine(node.shape(2)[1]) + " elements as scale and bias");
  Value normal = layerNorm(node, *sum, {2}, node.real("epsilon", fusedEpsilon));
  SmallVector<NodeResult, 1> results = {scaleAndShift(node, normal, node.input(5), node.input(6))};
  if (node.hasOutput(1) || node.hasOutput(2)) {
    results.push_back(countWords(node));
    results.push_back(*sum);
  }
  return results;
}

//===-- groups of channels ------------------------------------------------------------------------------------===//

/// Moves the last dimension to place 1, or back from there.
static Value moveChannels(NodeImporter &node, Value value, bool toFront) {
  if (!value)
    return {};
  int64_t rank = NodeImporter::typeOf(value).getRank();
  SmallVector<int64_t> permutation = {0};
  if (toFront)
    permutation.push_back(rank - 1);
  llvm::append_range(permutation, llvm::seq<int64_t>(toFront ? 1 : 2, toFront ? rank - 1 : rank));
  if (!toFront)
    permutation.push_back(1);
  return node.transpose(value, permutation);
}

/// Group normalization with scale and bias a channel, perhaps of a sum with a skip connection and a bias, perhaps with
/// an activation behind it; channels are last by default.
static ImportResults importFusedGroupNorm(NodeImporter &node) {
  int64_t rank = node.rank(0), activation = node.integer("activation", 0);
  if (activation != 0 && activation != 1)
    return node.unsupported("the \"activation\" " + Twine(activation) + " is not known");
  if (rank < 3)
    return node.error("expects an input of rank 3 at least");
  bool isLast = node.integer("channels_last", 1);
  auto inPlace = [&](Value value) { return isLast ? moveChannels(node, value, /*toFront=*/true) : value; };
  Type element = node.type(0).getElementType();
  int64_t channels = node.shape(0)[isLast ? rank - 1 : 1];
  for (unsigned index : {1u, 2u, 4u})
    if (node.hasInput(index) && node.shape(index) != ArrayRef<int64_t>(channels))
      return node.error("expects vectors of " + Twine(channels) + " elements as scale and bias");
  auto perChannel = [&](unsigned index) { return node.perChannel(node.cast(node.input(index), element), rank); };

  Value sum = inPlace(node.input(0));
  if (node.hasInput(3)) {
    if (node.rank(3) != rank && (node.rank(3) != 2 || node.shape(3)[1] != channels))
      return node.error("expects a skip connection of the input's rank, or one number a channel");
    SmallVector<int64_t> single(rank, 1);
    single[0] = node.shape(3)[0], single[1] = channels;
    sum = node.emit<dfg::AddOp>(
        {sum, node.rank(3) == rank ? inPlace(node.input(3)) : node.reshape(node.input(3), single)});
  }
  if (node.hasInput(4))
    sum = node.emit<dfg::AddOp>({sum, perChannel(4)});
  if (!sum)
    return failure();
  if (NodeImporter::typeOf(sum).getNumElements() != node.type(0).getNumElements())
    return node.error("expects a skip connection that broadcasts to the input");
  Value normal = groupNorm(node, sum, node.integer("groups", 0), node.real("epsilon", 1e-5));
  Value result =
      scaleAndShift(node, node.reshape(normal, NodeImporter::typeOf(sum).getShape()), perChannel(1), perChannel(2));
  if (activation == 1)
    result = node.emit<dfg::MulOp>({result, node.emit<dfg::SigmoidOp>(result)});
  auto back = [&](Value value) { return isLast ? moveChannels(node, value, /*toFront=*/false) : value; };
  SmallVector<NodeResult, 1> results = {back(result)};
  if (node.hasOutput(1))
    results.push_back(back(sum));
  return results;
}

void addFusedNormalizationOperators(OperatorTable &table) {
  table.add("com.microsoft.SkipLayerNormalization", {importSkipLayerNorm, 3, 5, Elements::Float, 1});
  table.add("com.microsoft.SkipSimplifiedLayerNormalization", {importSkipRmsNorm, 3, 4, Elements::Float, 1});
  table.add("com.microsoft.EmbedLayerNormalization", {importEmbedLayerNorm, 1, 9, Elements::Number, 1});
  table.add("com.microsoft.GroupNorm", {importFusedGroupNorm, 3, 3, Elements::Float, 1});
  table.add("com.microsoft.SkipGroupNorm", {importFusedGroupNorm, 4, 5, Elements::Float, 1});
}

} // namespace cleave
