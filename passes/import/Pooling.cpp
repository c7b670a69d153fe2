// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling.

#include "passes/import/OperatorTable.h"
#include "passes/import/Window.h"

using namespace mlir;

namespace cleave {

static Value pool(NodeImporter &node, Value input, dfg::PoolKind kind, const Window &window, bool includePad) {
  SmallVector<NamedAttribute> attributes = {
      node.getBuilder().getNamedAttr("kind", dfg::PoolKindAttr::get(node.getContext(), kind)),
      node.attr("window", window.sizes), node.attr("strides", window.strides), node.attr("pads", window.pads),
      node.attr("dilations", window.dilations)};
  if (includePad)
    attributes.push_back(node.flag("count_include_pad"));
  return node.emit<dfg::PoolOp>(input, attributes);
}

/// Moves the window's pads into a `dfg.pad` with zeros.
static Value padWithZeros(NodeImporter &node, Value input, Window &window) {
  size_t rank = window.sizes.size();
  SmallVector<int64_t> low(rank + 2, 0), high(rank + 2, 0);
  for (size_t i = 0; i < rank; ++i) {
    low[i + 2] = window.pads[i];
    high[i + 2] = window.pads[rank + i];
  }
  window.pads.assign(2 * rank, 0);
  Value zero = node.scalar(NodeImporter::elementOf(input), 0.0);
  return node.emit<dfg::PadOp>({input, zero}, {node.attr("low", low), node.attr("high", high)});
}

static ImportResults importPool(NodeImporter &node, dfg::PoolKind kind) {
  if (node.rank(0) < 3)
    return node.error("expects an input of rank 3 at least");
  if (node.hasOutput(1))
    return node.unsupported("the result \"Indices\" is not known");
  ArrayRef<int64_t> spatial = node.shape(0).drop_front(2);
  FailureOr<Window> window = readWindow(node, spatial, {});
  if (failed(window))
    return failure();
  Value input = node.input(0);
  bool includePad = kind == dfg::PoolKind::Average && node.integer("count_include_pad", 0);
  if (node.integer("ceil_mode", 0)) {
    SmallVector<int64_t> extra = extendForCeil(*window, spatial);
    // The declared pads count, those that only complete the last window never do.
    if (includePad && llvm::any_of(extra, [](int64_t pad) { return pad > 0; })) {
      input = padWithZeros(node, input, *window);
      includePad = false;
    }
    for (size_t i = 0; i < extra.size(); ++i)
      window->pads[extra.size() + i] += extra[i];
  }
  return oneResult(pool(node, input, kind, *window, includePad));
}

static ImportResults importMaxPool(NodeImporter &node) { return importPool(node, dfg::PoolKind::Max); }
static ImportResults importAveragePool(NodeImporter &node) { return importPool(node, dfg::PoolKind::Average); }

/// One window as large as the image.
template <dfg::PoolKind kind> static ImportResults importGlobalPool(NodeImporter &node) {
  if (node.rank(0) < 3 || node.type(0).getNumElements() == 0)
    return node.error("expects an input of rank 3 at least that is not empty");
  Window window;
  window.sizes.assign(node.shape(0).begin() + 2, node.shape(0).end());
  window.strides.assign(window.sizes.size(), 1);
  window.dilations = window.strides;
  window.pads.assign(2 * window.sizes.size(), 0);
  return oneResult(pool(node, node.input(0), kind, window, false));
}

void addPoolingOperators(OperatorTable &table) {
  table.add("MaxPool", {importMaxPool, 1, 1, Elements::Number});
  table.add("AveragePool", {importAveragePool, 1, 1, Elements::Float});
  table.add("GlobalMaxPool", {importGlobalPool<dfg::PoolKind::Max>, 1, 1, Elements::Float});
  table.add("GlobalAveragePool", {importGlobalPool<dfg::PoolKind::Average>, 1, 1, Elements::Float});
}

} // namespace cleave
