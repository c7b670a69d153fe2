// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folds batch normalization with constant statistics, and constant factors, into scaled filters and biases.

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

/// Whether `value`, beside data of that shape, is one value a channel, or one for all.
bool isOneEach(Value value, ArrayRef<int64_t> data) {
  RankedTensorType type = tensorType(value);
  int64_t channelDim = type.getRank() - static_cast<int64_t>(data.size()) + 1;
  if (type.getNumElements() == 1)
    return true;
  return type.getNumElements() == data[1] && channelDim >= 0 && type.getDimSize(channelDim) == data[1];
}

/// One value a channel as a list.
Value flattened(OpBuilder &builder, Location loc, Value value) {
  RankedTensorType type = tensorType(value);
  return dfg::ReshapeOp::create(builder, loc, RankedTensorType::get({type.getNumElements()}, type.getElementType()),
                                value);
}

/// The convolution whose result `value` is, and the constant that was added to it on the way, if nobody else sees
/// either.
dfg::ConvOp convolutionBehind(Value value, ConstantValues &constants, dfg::AddOp &bias) {
  if (!value.hasOneUse())
    return nullptr;
  if (auto add = value.getDefiningOp<dfg::AddOp>(); add && constants.contains(add.getRhs())) {
    RankedTensorType data = tensorType(value);
    if (!isOneEach(add.getRhs(), data.getShape()) || tensorType(add.getRhs()).getNumElements() != data.getDimSize(1) ||
        add.getLhs().getType() != data || !add.getLhs().hasOneUse())
      return nullptr;
    bias = add;
    value = add.getLhs();
  }
  auto conv = value.getDefiningOp<dfg::ConvOp>();
  return conv && constants.contains(conv.getFilter()) ? conv : nullptr;
}

void erase(Operation *op, ConstantValues &constants) {
  constants.forget(op);
  op->erase();
}

class FoldBatchNorm : public impl::FoldBatchNormPassBase<FoldBatchNorm> {
  void runOnOperation() override {
    ConstantValues constants;
    SmallVector<dfg::BatchNormOp> norms(getOperation().getOps<dfg::BatchNormOp>());
    for (dfg::BatchNormOp norm : norms)
      if (llvm::all_of(norm.getOperands().drop_front(), [&](Value value) { return constants.contains(value); }))
        fold(norm, constants);
    // After normalizations, which Caffe's models have without a factor and a bias, before these.
    SmallVector<dfg::MulOp> factors(getOperation().getOps<dfg::MulOp>());
    for (dfg::MulOp factor : factors)
      if (constants.contains(factor.getRhs()))
        fold(factor, factor.getLhs(), factor.getRhs(), constants);
      else if (constants.contains(factor.getLhs()))
        fold(factor, factor.getRhs(), factor.getLhs(), constants);
  }

  /// The product of `data` and a constant `factor`, and what is added to it.
  void fold(dfg::MulOp product, Value data, Value factor, ConstantValues &constants) {
    RankedTensorType type = tensorType(product.getResult());
    dfg::AddOp bias;
    // In narrower types a product of weights would be rounded once more.
    if (constants.contains(data) || data.getType() != type || type.getRank() < 3 ||
        !(type.getElementType().isF32() || type.getElementType().isF64()) || !isOneEach(factor, type.getShape()))
      return;
    dfg::ConvOp conv = convolutionBehind(data, constants, bias);
    if (!conv)
      return;
    OpBuilder builder(product);
    Location loc = product.getLoc();
    int64_t spatial = type.getRank() - 2;
    Value flat = flattened(builder, loc, factor);
    Value filter =
        dfg::MulOp::create(builder, loc, conv.getFilter(), withTrailingOnes(builder, loc, flat, spatial + 1));
    auto scaled = cast<dfg::ConvOp>(builder.clone(*conv));
    scaled.getFilterMutable().assign(filter);
    Operation *last = product;
    Value result = scaled;
    if (bias) {
      Value moved = dfg::MulOp::create(builder, loc, flattened(builder, loc, bias.getRhs()), flat);
      // One sum stays, not two.
      if (auto add = product->hasOneUse() ? dyn_cast<dfg::AddOp>(*product->user_begin()) : nullptr;
          add && add.getType() == type && add.getLhs() == product && constants.contains(add.getRhs()) &&
          isOneEach(add.getRhs(), type.getShape())) {
        builder.setInsertionPoint(last = add);
        moved = dfg::AddOp::create(builder, loc, moved, flattened(builder, loc, add.getRhs()));
      }
      result = dfg::AddOp::create(builder, loc, scaled, withTrailingOnes(builder, loc, moved, spatial));
    }
    last->getResult(0).replaceAllUsesWith(result);
    if (last != product)
      erase(last, constants);
    erase(product, constants);
    if (bias)
      erase(bias, constants);
    erase(conv, constants);
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
    erase(norm, constants);
    if (bias)
      erase(bias, constants);
    if (conv)
      erase(conv, constants);
  }
};

} // namespace
} // namespace cleave
