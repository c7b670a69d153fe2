// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folds batch normalization with constant statistics into scaled filters and biases.

#include "passes/codegen/ConstantValues.h"
#include "passes/codegen/KernelPasses.h"

#include "dialects/dfg/TensorType.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_FOLDBATCHNORMPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// `value` (one element a channel) with `trailing` dimensions of size one behind it.
Value withTrailingOnes(OpBuilder &builder, Location loc, Value value, int64_t trailing) {
  SmallVector<int64_t> shape(tensorType(value).getShape());
  shape.append(trailing, 1);
  return dfg::ReshapeOp::create(builder, loc, RankedTensorType::get(shape, tensorType(value).getElementType()), value);
}

/// Channel by channel: x -> x * factor + offset.
struct Affine {
  Value factor, offset;
};

Affine affineOf(OpBuilder &builder, dfg::BatchNormOp norm) {
  Location loc = norm.getLoc();
  auto scalar = RankedTensorType::get({}, tensorType(norm.getVariance()).getElementType());
  APFloat epsilon = norm.getEpsilon();
  bool losesInfo = false;
  epsilon.convert(cast<FloatType>(scalar.getElementType()).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  Value shifted = dfg::AddOp::create(builder, loc, norm.getVariance(),
                                     dfg::ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, epsilon)));
  Value deviation = dfg::SqrtOp::create(builder, loc, shifted);
  Value factor = dfg::DivOp::create(builder, loc, norm.getScale(), deviation);
  Value moved = dfg::MulOp::create(builder, loc, norm.getMean(), factor);
  return {factor, dfg::SubOp::create(builder, loc, norm.getBias(), moved)};
}

/// The convolution whose result `value` is, and the constant that was added to it on the way, if nobody else sees
/// either.
dfg::ConvOp convolutionBehind(Value value, ConstantValues &constants, dfg::AddOp &bias) {
  if (!value.hasOneUse())
    return nullptr;
  if (auto add = value.getDefiningOp<dfg::AddOp>(); add && constants.contains(add.getRhs())) {
    auto shape = tensorType(add.getRhs()).getShape();
    int64_t rank = tensorType(value).getRank(), channels = tensorType(value).getDimSize(1);
    bool oneEach = static_cast<int64_t>(shape.size()) == rank - 1 && shape[0] == channels &&
                   llvm::all_of(shape.drop_front(), [](int64_t size) { return size == 1; });
    if (!oneEach || !add.getLhs().hasOneUse())
      return nullptr;
    bias = add;
    value = add.getLhs();
  }
  auto conv = value.getDefiningOp<dfg::ConvOp>();
  return conv && constants.contains(conv.getFilter()) ? conv : nullptr;
}

class FoldBatchNorm : public impl::FoldBatchNormPassBase<FoldBatchNorm> {
  void runOnOperation() override {
    ConstantValues constants;
    SmallVector<dfg::BatchNormOp> norms(getOperation().getOps<dfg::BatchNormOp>());
    for (dfg::BatchNormOp norm : norms)
      if (llvm::all_of(norm.getOperands().drop_front(), [&](Value value) { return constants.contains(value); }))
        fold(norm, constants);
  }

  void fold(dfg::BatchNormOp norm, ConstantValues &constants) {
    OpBuilder builder(norm);
    Location loc = norm.getLoc();
    int64_t spatial = tensorType(norm.getInput()).getRank() - 2;
    dfg::AddOp bias;
    dfg::ConvOp conv = convolutionBehind(norm.getInput(), constants, bias);
    Affine affine = affineOf(builder, norm);
    Type element = tensorType(norm.getInput()).getElementType(), statistic = tensorType(affine.factor).getElementType();
    auto as = [&](Value value, Type type) -> Value {
      return tensorType(value).getElementType() == type ? value : dfg::CastOp::create(builder, loc, value, type);
    };
    Value scaled;
    if (conv) {
      Value factor = withTrailingOnes(builder, loc, affine.factor, spatial + 1);
      Value filter = as(dfg::MulOp::create(builder, loc, as(conv.getFilter(), statistic), factor), element);
      auto replacement = cast<dfg::ConvOp>(builder.clone(*conv));
      replacement.getFilterMutable().assign(filter);
      scaled = replacement;
      if (bias) {
        auto flat = RankedTensorType::get(tensorType(affine.factor).getShape(), tensorType(scaled).getElementType());
        Value added = as(dfg::ReshapeOp::create(builder, loc, flat, bias.getRhs()), statistic);
        Value moved = dfg::MulOp::create(builder, loc, added, affine.factor);
        affine.offset = dfg::AddOp::create(builder, loc, affine.offset, moved);
      }
    } else {
      scaled = dfg::MulOp::create(builder, loc, norm.getInput(),
                                  withTrailingOnes(builder, loc, as(affine.factor, element), spatial));
    }
    Value result =
        dfg::AddOp::create(builder, loc, scaled, withTrailingOnes(builder, loc, as(affine.offset, element), spatial));
    norm.replaceAllUsesWith(result);
    norm.erase();
    if (bias)
      bias.erase();
    if (conv)
      conv.erase();
  }
};

} // namespace
} // namespace cleave
