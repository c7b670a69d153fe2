// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts come from the operator that reads the conversion, or from the one that it reads.

#include "passes/train/PlacedCasts.h"

using namespace mlir;

namespace cleave {

using dist::Layout;

Type elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }

FailureOr<Value> PlacedCasts::before(OpOperand &operand, Value value, Type element) {
  Operation *user = operand.getOwner();
  bool isPlaced = dist::getPlace(user) != nullptr;
  if (!isPlaced && value.getDefiningOp() && dist::getPlace(value.getDefiningOp()))
    return behind(value, element);
  OpBuilder builder(user);
  Value made = builder.createOrFold<dfg::CastOp>(user->getLoc(), value, element);
  if (!isPlaced || made.getDefiningOp()->hasTrait<OpTrait::ConstantLike>())
    return made;
  if (failed(places.follow(user, SmallVector<Value>(user->getNumResults()))))
    return failure();
  Layout layout = *places.find(operand.get());
  places.hint(value, layout);
  places.hint(made, layout);
  if (failed(places.place(made.getDefiningOp())))
    return failure();
  return made;
}

FailureOr<Value> PlacedCasts::behind(Value result, Type element) {
  Operation *producer = result.getDefiningOp();
  OpBuilder builder(producer->getContext());
  builder.setInsertionPointAfter(producer);
  auto made = dfg::CastOp::create(builder, producer->getLoc(), result, element);
  if (!dist::getPlace(producer))
    return made.getResult();
  if (failed(places.follow(producer, SmallVector<Value>(producer->getNumResults()))))
    return failure();
  places.hint(made, *places.find(result));
  if (failed(places.place(made.getOperation())))
    return failure();
  return made.getResult();
}

SmallVector<Value> cloneRetyped(OpBuilder &builder, Operation *op, ValueRange operands, Type from, Type to) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    types.push_back(tensor.getElementType() == from ? tensor.clone(to) : tensor);
  }
  OperationState state(op->getLoc(), op->getName(), operands, types, op->getAttrs());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return SmallVector<Value>(builder.create(state)->getResults());
}

} // namespace cleave
