// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers, and dropout outside of training.

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/LowerElements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace cleave::dfg {

//===-- random ------------------------------------------------------------------------------------------------===//

namespace {
/// Words of 32 bits in i64, whose high half is zero: their products need it.
class Words {
public:
  Words(OpBuilder &builder, Location location) : builder(builder), e(builder, location), location(location) {}

  Value number(int64_t value) const { return e.integer(builder.getI64Type(), value); }
  Value low(Value value) const { return arith::AndIOp::create(builder, location, value, number(0xffffffff)); }
  Value shifted(Value value, int64_t bits) const {
    return arith::ShRUIOp::create(builder, location, value, number(bits));
  }
  Value high(Value value) const { return shifted(value, 32); }
  Value exclusiveOr(Value a, Value b) const { return arith::XOrIOp::create(builder, location, a, b); }
  Value add(Value a, Value b) const { return e.add(a, b); }
  Value mul(Value a, Value b) const { return e.mul(a, b); }
  /// Of a number that an i32 can hold; only those are converted several at once.
  Value toFloat(Value word) const {
    Value narrow = arith::TruncIOp::create(builder, location, builder.getI32Type(), word);
    return arith::SIToFPOp::create(builder, location, builder.getF32Type(), narrow);
  }

private:
  OpBuilder &builder;
  ElementBuilder e;
  Location location;
};
} // namespace

/// The multiplier and the key's increment of Philox 2x32.
static constexpr int64_t philoxMultiplier = 0xd256d193, philoxIncrement = 0x9e3779b9;
static constexpr unsigned philoxRounds = 10;

Value RandomOp::buildElement(OpBuilder &builder, ValueRange x) {
  Words words(builder, getLoc());
  Value left = words.low(x[0]), right = words.high(x[0]), key = words.low(x[1]);
  for (unsigned round = 0; round < philoxRounds; ++round) {
    Value product = words.mul(left, words.number(philoxMultiplier));
    left = words.exclusiveOr(words.exclusiveOr(words.high(product), key), right);
    right = words.low(product);
    key = words.low(words.add(key, words.number(philoxIncrement)));
  }
  // As many bits as an f32 can hold exactly.
  Value bits = words.toFloat(words.shifted(left, 8));
  ElementBuilder e(builder, getLoc());
  return e.mul(bits, e.constant(builder.getF32Type(), 0x1p-24));
}

FailureOr<SmallVector<Value>> RandomOp::differentiate(OpBuilder &, const GradientRequest &) {
  return SmallVector<Value>(2);
}

//===-- dropout -----------------------------------------------------------------------------------------------===//

LogicalResult DropoutOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  double ratio = adaptor.getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio <= 1))
    return emitOptionalError(location, "'dfg.dropout' expects a ratio from 0 to 1, got ", ratio);
  types.push_back(adaptor.getInput().getType());
  return success();
}

SplitRule DropoutOp::getSplitRule() { return elementwiseSplitRule(*this, {{0}}); }

FailureOr<SmallVector<Value>> DropoutOp::lowerToLinalg(OpBuilder &, ValueRange operands) {
  return SmallVector<Value>{operands.front()};
}

FailureOr<SmallVector<Value>> DropoutOp::differentiate(OpBuilder &, const GradientRequest &request) {
  return SmallVector<Value>{request.cotangents.front()};
}

/// What it costs in training, which is what it is planned for: the element is made and chosen.
OpCost DropoutOp::getCost() {
  constexpr double operationsPerRound = 7;
  return elementwiseCost(*this, philoxRounds * operationsPerRound);
}

} // namespace cleave::dfg
