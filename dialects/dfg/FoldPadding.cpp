// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Padding that stands in front of a window joins the window's own, as exporters write it apart: zeros in front of
// convolutions and averages, which count them then, and the smallest number in front of maxima.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace cleave::dfg {
namespace {

/// The number that all padding is, if it is known.
std::optional<APFloat> paddingOf(PadOp pad) {
  auto constant = pad.getValue().getDefiningOp<ConstantOp>();
  if (!constant)
    return std::nullopt;
  if (auto reals = dyn_cast<DenseFPElementsAttr>(constant.getValue()); reals && reals.isSplat())
    return reals.getSplatValue<APFloat>();
  auto integers = dyn_cast<DenseIntElementsAttr>(constant.getValue());
  if (!integers || !integers.isSplat() || !integers.getSplatValue<APInt>().isZero())
    return std::nullopt;
  return APFloat(0.0);
}

/// The pads of a window with those of `pad` around them; none where batch or channels are padded, too.
std::optional<SmallVector<int64_t>> joinedPads(PadOp pad, ArrayRef<int64_t> pads) {
  ArrayRef<int64_t> low = pad.getLow(), high = pad.getHigh();
  if (low[0] != 0 || low[1] != 0 || high[0] != 0 || high[1] != 0)
    return std::nullopt;
  size_t space = pads.size() / 2;
  SmallVector<int64_t> joined(pads);
  for (size_t i = 0; i < space; ++i) {
    joined[i] += low[i + 2];
    joined[space + i] += high[i + 2];
  }
  return joined;
}

struct ConvolutionOfPadding : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConvOp conv, PatternRewriter &rewriter) const override {
    auto pad = conv.getInput().getDefiningOp<PadOp>();
    auto value = pad ? paddingOf(pad) : std::nullopt;
    auto pads = value && value->isZero() ? joinedPads(pad, conv.getPads()) : std::nullopt;
    if (!pads)
      return failure();
    rewriter.modifyOpInPlace(conv, [&] {
      conv.getInputMutable().assign(pad.getInput());
      conv.setPads(*pads);
    });
    return success();
  }
};

struct PoolOfPadding : OpRewritePattern<PoolOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PoolOp pool, PatternRewriter &rewriter) const override {
    auto pad = pool.getInput().getDefiningOp<PadOp>();
    auto value = pad ? paddingOf(pad) : std::nullopt;
    if (!value)
      return failure();
    bool isMax = pool.getKind() == PoolKind::Max;
    // Padding of its own that an average does not count lies around what it counts.
    bool countsAll = pool.getCountIncludePad() || llvm::all_of(pool.getPads(), [](int64_t size) { return size == 0; });
    if (isMax ? !value->isInfinity() || !value->isNegative() : !value->isZero() || !countsAll)
      return failure();
    auto pads = joinedPads(pad, pool.getPads());
    // A window that sees nothing but padding has no largest element of its own.
    for (size_t i = 0, space = pool.getPads().size() / 2; pads && i < space; ++i)
      if (std::max((*pads)[i], (*pads)[space + i]) >= pool.getDilations()[i] * (pool.getWindow()[i] - 1) + 1)
        return failure();
    if (!pads)
      return failure();
    rewriter.modifyOpInPlace(pool, [&] {
      pool.getInputMutable().assign(pad.getInput());
      pool.setPads(*pads);
      if (!isMax)
        pool.setCountIncludePad(true);
    });
    return success();
  }
};

} // namespace

void ConvOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ConvolutionOfPadding>(context);
}

void PoolOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<PoolOfPadding>(context);
}

} // namespace cleave::dfg
