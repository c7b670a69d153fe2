// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the attributes of window operators.

#include "passes/import/Window.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave {

/// Larger windows, strides and pads overflow sums of products of them.
static constexpr int64_t largestNumber = int64_t(1) << 30;

/// A list of one number a spatial dimension, within [low, largestNumber].
static FailureOr<SmallVector<int64_t>> readList(NodeImporter &node, StringRef name, size_t count, int64_t fallback,
                                                int64_t low) {
  std::optional<SmallVector<int64_t>> given = node.integers(name);
  SmallVector<int64_t> list = given ? *given : SmallVector<int64_t>(count, fallback);
  if (list.size() != count)
    return FailureOr<SmallVector<int64_t>>(
        node.error("expects " + Twine(count) + " numbers in \"" + name + "\", got " + Twine(list.size())));
  for (int64_t value : list)
    if (value < low || value > largestNumber)
      return FailureOr<SmallVector<int64_t>>(
          node.error("expects numbers from " + Twine(low) + " on in \"" + name + "\", got " + Twine(value)));
  return list;
}

FailureOr<Window> readWindow(NodeImporter &node, ArrayRef<int64_t> spatial, ArrayRef<int64_t> sizes, bool transposed) {
  Window window;
  size_t rank = spatial.size();
  if (node.hasAttribute("kernel_shape")) {
    FailureOr<SmallVector<int64_t>> given = readList(node, "kernel_shape", rank, 1, 1);
    if (failed(given))
      return failure();
    if (!sizes.empty() && sizes != ArrayRef<int64_t>(*given))
      return FailureOr<Window>(node.error("expects \"kernel_shape\" to be the filter's"));
    window.sizes = *given;
  } else {
    if (sizes.size() != rank)
      return FailureOr<Window>(node.error("expects \"kernel_shape\""));
    window.sizes.assign(sizes.begin(), sizes.end());
  }
  FailureOr<SmallVector<int64_t>> strides = readList(node, "strides", rank, 1, 1);
  FailureOr<SmallVector<int64_t>> dilations = readList(node, "dilations", rank, 1, 1);
  FailureOr<SmallVector<int64_t>> pads = readList(node, "pads", 2 * rank, 0, -largestNumber);
  if (failed(strides) || failed(dilations) || failed(pads))
    return failure();
  if (llvm::any_of(*pads, [](int64_t pad) { return pad < 0; }))
    return FailureOr<Window>(node.unsupported("negative pads are not known"));
  for (int64_t size : window.sizes)
    if (size < 1 || size > largestNumber)
      return FailureOr<Window>(node.error("expects a window of positive size"));
  window.strides = *strides;
  window.dilations = *dilations;
  window.pads = *pads;
  window.autoPad = node.text("auto_pad", "NOTSET");
  if (window.autoPad.empty() || window.autoPad == "NOTSET" || transposed)
    return window;
  if (window.autoPad != "VALID" && window.autoPad != "SAME_UPPER" && window.autoPad != "SAME_LOWER")
    return FailureOr<Window>(node.error("expects \"auto_pad\" to be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got \"" +
                                        window.autoPad + "\""));
  window.pads.assign(2 * rank, 0);
  if (window.autoPad == "VALID")
    return window;
  for (size_t i = 0; i < rank; ++i) {
    int64_t positions = (spatial[i] + window.strides[i] - 1) / window.strides[i];
    int64_t total = std::max<int64_t>((positions - 1) * window.strides[i] + window.span(i) - spatial[i], 0);
    int64_t less = total / 2, more = total - less;
    window.pads[i] = window.autoPad == "SAME_UPPER" ? less : more;
    window.pads[rank + i] = window.autoPad == "SAME_UPPER" ? more : less;
  }
  return window;
}

SmallVector<int64_t> extendForCeil(const Window &window, ArrayRef<int64_t> spatial) {
  size_t rank = spatial.size();
  SmallVector<int64_t> extra(rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    int64_t padded = spatial[i] + window.pads[i] + window.pads[rank + i], stride = window.strides[i];
    // Less than a stride too small, the input still has one window.
    int64_t positions = llvm::divideCeilSigned(padded - window.span(i), stride) + 1;
    if (positions <= 0)
      continue;
    // A last window that starts in the pads after the input would see no element of it.
    if ((positions - 1) * stride >= spatial[i] + window.pads[i])
      --positions;
    extra[i] = std::max<int64_t>((positions - 1) * stride + window.span(i) - padded, 0);
  }
  return extra;
}

} // namespace cleave
