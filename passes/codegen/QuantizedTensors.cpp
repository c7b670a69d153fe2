// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks back from a value through the operators that say it.

#include "passes/codegen/QuantizedTensors.h"

using namespace mlir;

namespace cleave {

std::optional<int64_t> integerOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    bool keepsNumbers = isa<dfg::ReshapeOp>(op) || (isa<dfg::CastOp>(op) && isa<IntegerType>(elementOf(value)));
    if (!keepsNumbers)
      break;
    value = op->getOperand(0);
  }
  auto constant = value.getDefiningOp<dfg::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat())
    return std::nullopt;
  APInt number = elements.getSplatValue<APInt>();
  return elementOf(value).isUnsignedInteger() ? static_cast<int64_t>(number.getZExtValue()) : number.getSExtValue();
}

std::optional<Quantized> centred(Value value) {
  Quantized found;
  if (auto sub = value.getDefiningOp<dfg::SubOp>(); sub && sub.getLhs().getType() == value.getType()) {
    if (integerOf(sub.getRhs()) != 0)
      found.zero = sub.getRhs();
    value = sub.getLhs();
  }
  auto cast = value.getDefiningOp<dfg::CastOp>();
  if (!cast || !elementOf(value).isSignlessInteger(32) || !isByte(elementOf(cast.getInput())))
    return std::nullopt;
  found.numbers = cast.getInput();
  return found;
}

std::optional<Quantized> dequantized(Value value) {
  auto mul = value.getDefiningOp<dfg::MulOp>();
  if (!mul || !elementOf(value).isF32())
    return std::nullopt;
  for (auto [numbers, scale] : {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
    auto cast = numbers.getDefiningOp<dfg::CastOp>();
    if (!cast || numbers.getType() != value.getType())
      continue;
    if (auto found = centred(cast.getInput())) {
      found->scale = scale;
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Quantization> quantization(dfg::CastOp cast) {
  if (!isByte(elementOf(cast.getResult())) || !elementOf(cast.getInput()).isF32())
    return std::nullopt;
  Quantization found{cast, {}, {}, {}};
  Value value = cast.getInput();
  if (auto add = value.getDefiningOp<dfg::AddOp>()) {
    auto zero = add.getRhs().getDefiningOp<dfg::CastOp>();
    auto constant = add.getRhs().getDefiningOp<dfg::ConstantOp>();
    if ((!zero || !isa<IntegerType>(elementOf(zero.getInput()))) && !constant)
      return std::nullopt;
    found.zero = add.getRhs();
    value = add.getLhs();
  }
  auto round = value.getDefiningOp<dfg::RoundOp>();
  auto div = round ? round.getInput().getDefiningOp<dfg::DivOp>() : nullptr;
  if (!div || div.getLhs().getType() != cast.getInput().getType())
    return std::nullopt;
  found.real = div.getLhs();
  found.scale = div.getRhs();
  return found;
}

std::optional<int64_t> wholeOf(Value value) {
  if (!value)
    return 0;
  if (auto cast = value.getDefiningOp<dfg::CastOp>())
    return integerOf(cast.getInput());
  auto constant = value.getDefiningOp<dfg::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || !elements.isSplat() || !elements.getSplatValue<APFloat>().isInteger())
    return std::nullopt;
  double number = elements.getSplatValue<APFloat>().convertToDouble();
  return std::abs(number) <= 255 ? std::optional<int64_t>(static_cast<int64_t>(number)) : std::nullopt;
}

} // namespace cleave
