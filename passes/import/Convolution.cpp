// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions and transposed convolutions.

#include "passes/import/ActivationFunctions.h"
#include "passes/import/OperatorTable.h"
#include "passes/import/Window.h"

using namespace mlir;

namespace cleave {

/// Adds input 2, one value a channel, where the node has it.
static Value addBias(NodeImporter &node, Value result) {
  if (!result || !node.hasInput(2))
    return result;
  if (node.rank(2) != 1 || node.shape(2)[0] != NodeImporter::typeOf(result).getDimSize(1)) {
    (void)node.error("expects one bias a result channel");
    return {};
  }
  return node.emit<dfg::AddOp>({result, node.perChannel(node.input(2), NodeImporter::typeOf(result).getRank())});
}

Value buildConvolution(NodeImporter &node, Value input, Value filter) {
  if (!input || !filter)
    return {};
  RankedTensorType image = NodeImporter::typeOf(input), window = NodeImporter::typeOf(filter);
  if (image.getRank() < 3 || image.getRank() != window.getRank()) {
    (void)node.error("expects input and filter of one rank of at least 3");
    return {};
  }
  FailureOr<Window> given = readWindow(node, image.getShape().drop_front(2), window.getShape().drop_front(2));
  if (failed(given))
    return {};
  return node.emit<dfg::ConvOp>({input, filter}, {node.attr("strides", given->strides), node.attr("pads", given->pads),
                                                  node.attr("dilations", given->dilations),
                                                  node.attr("groups", node.integer("group", 1))});
}

static ImportResults importConv(NodeImporter &node) {
  return oneResult(addBias(node, buildConvolution(node, node.input(0), node.input(1))));
}

/// Conv, a sum with input 3, and then the function that "activation" names.
static ImportResults importFusedConv(NodeImporter &node) {
  ImportResults convolved = importConv(node);
  if (failed(convolved) || !convolved->front().value)
    return failure();
  Value sum = convolved->front().value;
  if (node.hasInput(3)) {
    if (node.shape(3) != NodeImporter::typeOf(sum).getShape())
      return node.error("expects input 3 to have the result's shape");
    sum = node.emit<dfg::AddOp>({sum, node.input(3)});
  }
  FailureOr<Value> result = applyActivation(node, sum, node.reals("activation_params").value_or(SmallVector<float>()));
  if (failed(result))
    return failure();
  return oneResult(*result);
}

/// Pads of a transposed convolution that give a result of `shape`, by the operator's specification; where the input
/// reaches less far than that, the rest is output padding.
static void fitOutput(Window &window, ArrayRef<int64_t> spatial, ArrayRef<int64_t> shape,
                      SmallVectorImpl<int64_t> &outputPadding) {
  size_t rank = spatial.size();
  for (size_t i = 0; i < rank; ++i) {
    int64_t total = window.strides[i] * (spatial[i] - 1) + outputPadding[i] + window.span(i) - shape[i];
    if (total < 0)
      outputPadding[i] -= total;
    total = std::max<int64_t>(total, 0);
    int64_t less = total / 2, more = total - less;
    window.pads[i] = window.autoPad == "SAME_UPPER" ? less : more;
    window.pads[rank + i] = window.autoPad == "SAME_UPPER" ? more : less;
  }
}

static ImportResults importConvTranspose(NodeImporter &node) {
  if (node.rank(0) < 3 || node.rank(1) != node.rank(0))
    return node.error("expects input and filter of one rank of at least 3");
  ArrayRef<int64_t> spatial = node.shape(0).drop_front(2);
  FailureOr<Window> window = readWindow(node, spatial, node.shape(1).drop_front(2), /*transposed=*/true);
  if (failed(window))
    return failure();
  SmallVector<int64_t> outputPadding(spatial.size(), 0);
  if (std::optional<SmallVector<int64_t>> given = node.integers("output_padding"))
    outputPadding = *given;
  std::optional<SmallVector<int64_t>> shape = node.integers("output_shape");
  // Some writers list batch and channels, too.
  if (shape && shape->size() == spatial.size() + 2)
    shape->erase(shape->begin(), shape->begin() + 2);
  auto inRange = [](int64_t value) { return value >= 0 && value < int64_t(1) << 40; };
  if (outputPadding.size() != spatial.size() || !llvm::all_of(outputPadding, inRange) ||
      (shape && (shape->size() != spatial.size() || !llvm::all_of(*shape, inRange))))
    return node.error("expects one non-negative \"output_padding\" and \"output_shape\" a spatial dimension");
  if (!shape && StringRef(window->autoPad).starts_with("SAME")) {
    shape.emplace();
    for (auto [size, stride] : llvm::zip(spatial, window->strides))
      shape->push_back(size * stride);
  }
  if (shape)
    fitOutput(*window, spatial, *shape, outputPadding);
  Value result = node.emit<dfg::ConvTransposeOp>(
      {node.input(0), node.input(1)},
      {node.attr("strides", window->strides), node.attr("pads", window->pads),
       node.attr("dilations", window->dilations), node.attr("output_padding", outputPadding),
       node.attr("groups", node.integer("group", 1))});
  return oneResult(addBias(node, result));
}

void addConvolutionOperators(OperatorTable &table) {
  table.add("Conv", {importConv, 2, 3, Elements::Float});
  table.add("com.microsoft.FusedConv", {importFusedConv, 2, 4, Elements::Float, 1});
  table.add("ConvTranspose", {importConvTranspose, 2, 3, Elements::Float});
}

} // namespace cleave
