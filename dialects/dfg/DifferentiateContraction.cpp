// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of matrix products, convolutions and pooling: the same kinds of operators, over other dimensions.

#include "dialects/dfg/Gradient.h"

using namespace mlir;

namespace cleave::dfg {

//===-- dot_general -------------------------------------------------------------------------------------------===//

namespace {
/// One operand of a product: its value, and which of its dimensions are batch, contracting and free ones. `free[i]` and
/// `contracting[i]` say how the cotangent and the other operand are asked for them.
struct ProductSide {
  Value value;
  SmallVector<int64_t> batch, contracting, free;
  /// The dimensions of the product's result that are this operand's free ones.
  SmallVector<int64_t> inResult;
};
} // namespace

static SmallVector<int64_t> positions(size_t first, size_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(static_cast<int64_t>(first), static_cast<int64_t>(first + count)));
}

/// The gradient of `side`: the cotangent times `other`, over the other's free dimensions. The factors stand in the
/// order in which the result needs not be transposed, where there is one.
static Value productGradient(const GradientBuilder &g, Value cotangent, const ProductSide &side,
                             const ProductSide &other) {
  // What the gradient's dimensions are when the cotangent stands first: batch, free, then the other's remaining ones.
  SmallVector<int64_t> left;
  for (size_t dim = 0; dim < shapeOf(other.value).size(); ++dim)
    if (auto *found = llvm::find(other.contracting, static_cast<int64_t>(dim)); found != other.contracting.end())
      left.push_back(side.contracting[found - other.contracting.begin()]);
  SmallVector<int64_t> cotangentFirst(side.batch), otherFirst(side.batch);
  cotangentFirst.append(side.free);
  cotangentFirst.append(left);
  otherFirst.append(left);
  otherFirst.append(side.free);
  SmallVector<int64_t> batch = positions(0, side.batch.size());
  bool swap = !llvm::is_sorted(cotangentFirst) && llvm::is_sorted(otherFirst);
  Value product = swap ? g.make<DotGeneralOp>(other.value, cotangent, other.batch, batch, other.free, other.inResult)
                       : g.make<DotGeneralOp>(cotangent, other.value, batch, other.batch, other.inResult, other.free);
  // Dimension i of the operand is where it stands in the product.
  SmallVector<int64_t> permutation(cotangentFirst.size());
  for (auto [index, dim] : llvm::enumerate(swap ? otherFirst : cotangentFirst))
    permutation[dim] = static_cast<int64_t>(index);
  return g.transpose(product, permutation);
}

Gradients DotGeneralOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(2);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, *this);
  cotangent = g.cast(cotangent, elementOf(getLhs()));
  size_t batch = getLhsBatch().size(), rows = getLhsFree().size();
  ProductSide lhs = {getLhs(), SmallVector<int64_t>(getLhsBatch()), SmallVector<int64_t>(getLhsContracting()),
                     getLhsFree(), positions(batch, rows)};
  ProductSide rhs = {getRhs(), SmallVector<int64_t>(getRhsBatch()), SmallVector<int64_t>(getRhsContracting()),
                     getRhsFree(), positions(batch + rows, getRhsFree().size())};
  if (request.needed[0])
    gradients[0] = productGradient(g, cotangent, lhs, rhs);
  if (request.needed[1])
    gradients[1] = productGradient(g, cotangent, rhs, lhs);
  return gradients;
}

//===-- gathered products -------------------------------------------------------------------------------------===//

Gradients GatherDotOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(3);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, *this);
  UnitAttr flipped = getTransposed() ? UnitAttr() : builder.getUnitAttr();
  if (request.needed[0])
    gradients[0] =
        g.sumTo(g.make<GatherDotOp>(cotangent, getRhs(), getIndices(), flipped, getTotalAttr()), shapeOf(getLhs()));
  if (request.needed[1])
    gradients[1] = g.make<ScatterDotOp>(getRhs().getType(), getTransposed() ? cotangent : getLhs(),
                                        getTransposed() ? getLhs() : cotangent, getIndices(), getTotalAttr());
  return gradients;
}

Gradients ScatterDotOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(3);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent)
    return gradients;
  GradientBuilder g(builder, *this);
  auto side = [&](Value operand, Value other, UnitAttr transposed) {
    return g.sumTo(g.make<GatherDotOp>(other, cotangent, getIndices(), transposed, getTotalAttr()), shapeOf(operand));
  };
  if (request.needed[0])
    gradients[0] = side(getLhs(), getRhs(), builder.getUnitAttr());
  if (request.needed[1])
    gradients[1] = side(getRhs(), getLhs(), UnitAttr());
  return gradients;
}

//===-- convolutions ------------------------------------------------------------------------------------------===//

namespace {
/// A convolution that leads from `wide`, the input, to `narrow`, its result.
struct Convolution {
  ArrayRef<int64_t> strides, pads, dilations;
  int64_t groups;

  /// The convolution of `wide`, which must have been made with these attributes.
  Value apply(const GradientBuilder &g, Value wide, Value filter) const {
    return g.make<ConvOp>(wide, filter, strides, pads, dilations, groups);
  }

  /// The adjoint: what reaches each element of an input of the shape `wide` from `narrow`.
  Value transpose(const GradientBuilder &g, Value narrow, Value filter, ArrayRef<int64_t> wide) const {
    size_t space = strides.size();
    SmallVector<int64_t> rest;
    for (size_t i = 0; i < space; ++i) {
      int64_t reach = (shapeOf(narrow)[i + 2] - 1) * strides[i] + dilations[i] * (shapeOf(filter)[i + 2] - 1) + 1;
      rest.push_back(wide[i + 2] - (reach - pads[i] - pads[space + i]));
    }
    return g.make<ConvTransposeOp>(narrow, filter, strides, pads, dilations, rest, groups);
  }

  Value filterGradient(const GradientBuilder &g, Value wide, Value narrow, Type filter) const {
    return g.make<ConvFilterGradientOp>(filter, wide, narrow, strides, pads, dilations, groups);
  }
};
} // namespace

Gradients ConvOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(2);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || getType().getNumElements() == 0)
    return gradients;
  GradientBuilder g(builder, *this);
  Convolution convolution = {getStrides(), getPads(), getDilations(), static_cast<int64_t>(getGroups())};
  if (request.needed[0])
    gradients[0] = convolution.transpose(g, cotangent, getFilter(), shapeOf(getInput()));
  if (request.needed[1])
    gradients[1] = convolution.filterGradient(g, getInput(), cotangent, getFilter().getType());
  return gradients;
}

/// The adjoint of a convolution that leads from the result to the input. What the output padding adds at the ends is
/// less padding there; what is more than the padding nothing reaches, and it is cut off.
Gradients ConvTransposeOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(2);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || getType().getNumElements() == 0 || getInput().getType().getNumElements() == 0)
    return gradients;
  GradientBuilder g(builder, *this);
  size_t space = getStrides().size();
  SmallVector<int64_t> pads(getPads()), starts(space + 2, 0), limits(shapeOf(cotangent)), ones(space + 2, 1);
  for (size_t i = 0; i < space; ++i) {
    int64_t &after = pads[space + i];
    after -= getOutputPadding()[i];
    limits[i + 2] += std::min<int64_t>(after, 0);
    after = std::max<int64_t>(after, 0);
  }
  if (ArrayRef<int64_t>(limits) != shapeOf(cotangent))
    cotangent = g.make<SliceOp>(cotangent, starts, limits, ones);
  Convolution convolution = {getStrides(), pads, getDilations(), static_cast<int64_t>(getGroups())};
  if (request.needed[0])
    gradients[0] = convolution.apply(g, cotangent, getFilter());
  if (request.needed[1])
    gradients[1] = convolution.filterGradient(g, cotangent, getInput(), getFilter().getType());
  return gradients;
}

/// Linear in both operands.
Gradients ConvFilterGradientOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  SmallVector<Value> gradients(2);
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || getCotangent().getType().getNumElements() == 0)
    return gradients;
  GradientBuilder g(builder, *this);
  cotangent = g.cast(cotangent, elementOf(getInput()));
  Convolution convolution = {getStrides(), getPads(), getDilations(), static_cast<int64_t>(getGroups())};
  if (request.needed[0])
    gradients[0] = convolution.transpose(g, getCotangent(), cotangent, shapeOf(getInput()));
  if (request.needed[1])
    gradients[1] = convolution.apply(g, getInput(), cotangent);
  return gradients;
}

//===-- pooling -----------------------------------------------------------------------------------------------===//

Gradients PoolOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || !request.needed[0])
    return noGradients(*this);
  GradientBuilder g(builder, *this);
  Value input = getKind() == PoolKind::Max ? getInput() : Value();
  return SmallVector<Value>{g.make<PoolGradientOp>(getInput().getType(), cotangent, input, getKind(), getWindow(),
                                                   getStrides(), getPads(), getDilations(), getCountIncludePad())};
}

/// Averages are linear. Where a largest element lies does not depend smoothly on the input; taking the elements that
/// lie there has no operator.
Gradients PoolGradientOp::differentiate(OpBuilder &builder, const GradientRequest &request) {
  Value cotangent = cotangentOf(*this, request);
  if (!cotangent || !request.needed[0])
    return noGradients(*this);
  if (getKind() == PoolKind::Max)
    return emitOpError("expects average pooling to differentiate twice, got max");
  GradientBuilder g(builder, *this);
  return SmallVector<Value>{
      g.make<PoolOp>(cotangent, getKind(), getWindow(), getStrides(), getPads(), getDilations(), getCountIncludePad())};
}

} // namespace cleave::dfg
