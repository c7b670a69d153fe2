// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the linalg operations that lowerings are made of.

#include "dialects/dfg/LowerGenerics.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

using namespace mlir;

namespace cleave::dfg {

Value LinalgBuilder::empty(ArrayRef<int64_t> shape, Type element) const {
  return tensor::EmptyOp::create(builder, location, shape, element);
}

Value LinalgBuilder::filled(ArrayRef<int64_t> shape, Value scalar) const {
  Value target = empty(shape, scalar.getType());
  return linalg::FillOp::create(builder, location, scalar, target).getResult(0);
}

SmallVector<Value> LinalgBuilder::generic(ValueRange inputs, ValueRange targets, ArrayRef<AffineMap> maps,
                                          ArrayRef<utils::IteratorType> iterators, Body body) const {
  auto op = linalg::GenericOp::create(builder, location, targets.getTypes(), inputs, targets, maps, iterators,
                                      [&](OpBuilder &nested, Location, ValueRange elements) {
                                        ElementBuilder e(nested, location);
                                        linalg::YieldOp::create(nested, location, body(e, elements));
                                      });
  return SmallVector<Value>(op.getResults());
}

Value LinalgBuilder::map(ArrayRef<int64_t> shape, Type element, ValueRange inputs, ArrayRef<AffineMap> maps,
                         ElementBody body) const {
  return update(empty(shape, element), inputs, maps, body);
}

Value LinalgBuilder::update(Value target, ValueRange inputs, ArrayRef<AffineMap> maps, ElementBody body) const {
  unsigned rank = tensorType(target).getRank();
  SmallVector<AffineMap> allMaps(maps);
  allMaps.push_back(identity(rank));
  SmallVector<utils::IteratorType> iterators(rank, utils::IteratorType::parallel);
  auto single = [&](const ElementBuilder &e, ValueRange elements) { return SmallVector<Value>{body(e, elements)}; };
  return generic(inputs, target, allMaps, iterators, single).front();
}

SmallVector<Value> LinalgBuilder::reduce(ValueRange targets, ValueRange inputs, ArrayRef<AffineMap> maps,
                                         ArrayRef<int64_t> reduced, Body body) const {
  SmallVector<utils::IteratorType> iterators(maps.front().getNumDims(), utils::IteratorType::parallel);
  for (int64_t loop : reduced)
    iterators[loop] = utils::IteratorType::reduction;
  return generic(inputs, targets, maps, iterators, body);
}

Value LinalgBuilder::reduceInto(Value target, ValueRange inputs, ArrayRef<AffineMap> maps, ArrayRef<int64_t> reduced,
                                ElementBody body) const {
  auto single = [&](const ElementBuilder &e, ValueRange elements) { return SmallVector<Value>{body(e, elements)}; };
  return reduce(target, inputs, maps, reduced, single).front();
}

Value LinalgBuilder::converted(Value tensor, Type element) const {
  RankedTensorType type = tensorType(tensor);
  if (type.getElementType() == element)
    return tensor;
  return map(type.getShape(), element, tensor, identity(type.getRank()),
             [&](const ElementBuilder &e, ValueRange elements) { return e.convert(elements[0], element); });
}

Value LinalgBuilder::reshaped(Value tensor, ArrayRef<int64_t> shape) const {
  RankedTensorType from = tensorType(tensor), to = from.clone(shape);
  if (from == to)
    return tensor;
  if (auto groups = getReassociationIndicesForReshape(from, to)) {
    if (from.getRank() > to.getRank())
      return tensor::CollapseShapeOp::create(builder, location, to, tensor, *groups);
    if (from.getRank() < to.getRank())
      return tensor::ExpandShapeOp::create(builder, location, to, tensor, *groups);
  }
  // By way of one dimension.
  ReassociationIndices fromDims, toDims;
  for (int64_t i = 0; i < from.getRank(); ++i)
    fromDims.push_back(i);
  for (int64_t i = 0; i < to.getRank(); ++i)
    toDims.push_back(i);
  RankedTensorType flat = from.clone({from.getNumElements()});
  if (from.getRank() != 1)
    tensor = from.getRank() == 0
                 ? tensor::ExpandShapeOp::create(builder, location, flat, tensor, ArrayRef<ReassociationIndices>{})
                       .getResult()
                 : tensor::CollapseShapeOp::create(builder, location, flat, tensor, ArrayRef{fromDims}).getResult();
  if (to.getRank() == 1)
    return tensor;
  if (to.getRank() == 0)
    return tensor::CollapseShapeOp::create(builder, location, to, tensor, ArrayRef<ReassociationIndices>{});
  return tensor::ExpandShapeOp::create(builder, location, to, tensor, ArrayRef{toDims});
}

Value LinalgBuilder::sliced(Value tensor, ArrayRef<int64_t> offsets, ArrayRef<int64_t> shape,
                            ArrayRef<int64_t> strides) const {
  return tensor::ExtractSliceOp::create(builder, location, tensor, getAsIndexOpFoldResult(getContext(), offsets),
                                        getAsIndexOpFoldResult(getContext(), shape),
                                        getAsIndexOpFoldResult(getContext(), strides));
}

Value LinalgBuilder::inserted(Value source, Value target, ArrayRef<int64_t> offsets) const {
  ArrayRef<int64_t> shape = tensorType(source).getShape();
  SmallVector<int64_t> ones(shape.size(), 1);
  return tensor::InsertSliceOp::create(builder, location, source, target, getAsIndexOpFoldResult(getContext(), offsets),
                                       getAsIndexOpFoldResult(getContext(), shape),
                                       getAsIndexOpFoldResult(getContext(), ones));
}

Value LinalgBuilder::padded(Value tensor, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Value scalar) const {
  SmallVector<int64_t> shape(tensorType(tensor).getShape());
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] += low[i] + high[i];
  if (llvm::equal(shape, tensorType(tensor).getShape()))
    return tensor;
  Value target = filled(shape, scalar);
  if (tensorType(tensor).getNumElements() == 0)
    return target;
  return inserted(tensor, target, low);
}

AffineMap LinalgBuilder::without(unsigned rank, ArrayRef<int64_t> dropped) const {
  SmallVector<AffineExpr> results;
  for (unsigned i = 0; i < rank; ++i)
    if (!llvm::is_contained(dropped, static_cast<int64_t>(i)))
      results.push_back(dim(i));
  return mapOf(rank, results);
}

AffineMap LinalgBuilder::broadcast(ArrayRef<int64_t> shape, ArrayRef<int64_t> target) const {
  SmallVector<AffineExpr> results;
  size_t missing = target.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    results.push_back(shape[i] == target[missing + i] ? dim(missing + i) : builder.getAffineConstantExpr(0));
  return mapOf(target.size(), results);
}

} // namespace cleave::dfg
