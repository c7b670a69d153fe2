// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the operators between the products of attention, and the numbers of masks.

#include "dialects/dfg/PlainScores.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

/// Such numbers hide what they stand for, or are added to, for any scores there are; -1e9 in bfloat16 is one, too.
static constexpr double hides = -1e8;

/// The number of a constant without dimensions or with one element; none where it is something else.
static std::optional<double> numberOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto elements = dyn_cast<DenseFPElementsAttr>(constant.getValue());
      if (!elements || !elements.isSplat())
        return std::nullopt;
      APFloat number = elements.getSplatValue<APFloat>();
      bool loses = false;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      return number.convertToDouble();
    }
    if (!isa<CastOp, ReshapeOp, BroadcastOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

/// What a factor does to scores, and to the numbers of a mask before it.
static void scaleBy(double factor, PlainScores &scores) {
  scores.scale *= factor;
  if (scores.isCausal)
    scores.hidden *= factor;
}

/// The operand of a choice by a causal mask that is scores; null where it is none.
static Value readChoice(SelectOp select, PlainScores &scores) {
  CausalMask mask = getCausalMask(select.getCondition());
  if (mask != CausalMask::Seen && mask != CausalMask::Hidden)
    return {};
  bool isLhs = mask == CausalMask::Seen;
  auto fill = numberOf(isLhs ? select.getRhs() : select.getLhs());
  if (!fill)
    return {};
  scores.isCausal = true;
  scores.hidden = *fill;
  return isLhs ? select.getLhs() : select.getRhs();
}

Value readPlainScores(Operation *op, PlainScores &scores) {
  if (isa<ReshapeOp, CastOp, BarrierOp>(op))
    return op->getOperand(0);
  if (auto select = dyn_cast<SelectOp>(op))
    return readChoice(select, scores);
  if (auto quotient = dyn_cast<DivOp>(op)) {
    auto by = numberOf(quotient.getRhs());
    if (!by)
      return {};
    scaleBy(1 / *by, scores);
    return quotient.getLhs();
  }
  if (!isa<MulOp, AddOp>(op))
    return {};
  for (auto [own, other] : {std::pair(0, 1), std::pair(1, 0)}) {
    Value by = op->getOperand(other);
    if (isa<AddOp>(op) && getCausalMask(by) == CausalMask::Added) {
      scores.isCausal = true;
      scores.hidden = hides;
      return op->getOperand(own);
    }
    if (auto factor = isa<MulOp>(op) ? numberOf(by) : std::nullopt) {
      scaleBy(*factor, scores);
      return op->getOperand(own);
    }
  }
  return {};
}

std::optional<PlainScores> getPlainScores(Attention &attention, AttentionMiss *miss) {
  auto refuse = [&](Operation *op, StringRef reason) -> std::optional<PlainScores> {
    if (miss)
      *miss = {op, reason};
    return std::nullopt;
  };
  // As cuDNN has them.
  constexpr int64_t unit = 8, largest = 128;
  DotGeneralOp first = attention.scores, second = attention.result;
  PlainScores plain;
  plain.headSize = tensorType(first.getLhs()).getDimSize(first.getLhsContracting()[0]);
  if (first.getLhsFree().size() != 1)
    return refuse(first, "heads share keys");
  if (tensorType(second.getRhs()).getDimSize(second.getRhsFree()[0]) != plain.headSize)
    return refuse(second, "values have another size than keys");
  if (plain.headSize % unit != 0 || plain.headSize > largest)
    return refuse(first, "libraries have no kernel for heads of this size");
  Value scores = first.getResult();
  for (Operation *op : attention.chain) {
    // A factor behind the mask scales what hides, too.
    if (readPlainScores(op, plain) != scores || !(plain.hidden <= hides))
      return refuse(op, "libraries know a scale and a causal mask before the softmax");
    scores = op->getResult(0);
  }
  return plain;
}

//===-- causal masks ------------------------------------------------------------------------------------------===//

/// Reads an element of a tensor of booleans or floats.
static double numberAt(const HostTensor &tensor, int64_t index) {
  Type type = tensor.getElementType();
  if (type.isInteger(1))
    return tensor.data()[index] != 0;
  if (type.isF32())
    return tensor.as<float>()[index];
  if (type.isF64())
    return tensor.as<double>()[index];
  llvm::APFloat value(cast<FloatType>(type).getFloatSemantics(), llvm::APInt(16, tensor.as<uint16_t>()[index]));
  return value.convertToDouble();
}

CausalMask getCausalMask(const HostTensor &tensor) {
  Type type = tensor.getElementType();
  ArrayRef<int64_t> shape = tensor.getShape();
  bool isBool = type.isInteger(1);
  if (!(isBool || type.isF32() || type.isF64() || type.isF16() || type.isBF16()) || shape.size() < 2 ||
      shape.back() < 2 || llvm::any_of(shape.drop_back(2), [](int64_t size) { return size != 1; }))
    return CausalMask::None;
  double first = numberAt(tensor, 0);
  CausalMask mask = !isBool ? CausalMask::Added : first != 0 ? CausalMask::Seen : CausalMask::Hidden;
  int64_t keys = shape.back(), queries = shape[shape.size() - 2];
  for (int64_t query = 0; query != queries; ++query)
    for (int64_t key = 0; key != keys; ++key) {
      double value = numberAt(tensor, query * keys + key);
      bool isSeen = key <= query;
      bool fits = isBool ? value == (isSeen == (mask == CausalMask::Seen)) : isSeen ? value == 0 : value <= hides;
      if (!fits)
        return CausalMask::None;
    }
  return mask;
}

StringRef stringifyCausalMask(CausalMask mask) {
  switch (mask) {
  case CausalMask::Added:
    return "added";
  case CausalMask::Seen:
    return "seen";
  case CausalMask::Hidden:
    return "hidden";
  case CausalMask::None:
    break;
  }
  return "";
}

CausalMask readCausalMask(StringRef text) {
  for (CausalMask mask : {CausalMask::Added, CausalMask::Seen, CausalMask::Hidden})
    if (text == stringifyCausalMask(mask))
      return mask;
  return CausalMask::None;
}

CausalMask getCausalMask(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (!isa<FloatType>(tensorType(cast.getInput()).getElementType()) || !isa<FloatType>(cast.getTo()))
      return CausalMask::None;
    value = cast.getInput();
  }
  if (auto constant = value.getDefiningOp<ConstantOp>())
    if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue()))
      return getCausalMask(HostTensor::fromAttribute(elements));
  auto read = value.getDefiningOp<ReadOp>();
  if (!read)
    return CausalMask::None;
  auto parameter =
      SymbolTable::lookupNearestSymbolFrom<ParameterOp>(read, StringAttr::get(read.getContext(), read.getParameter()));
  // A part of it hides other keys.
  if (!parameter || parameter.getTensorType() != value.getType())
    return CausalMask::None;
  auto text = parameter->getAttrOfType<StringAttr>(causalMaskAttrName);
  return text ? readCausalMask(text.getValue()) : CausalMask::None;
}

} // namespace cleave::dfg
