// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the operators between the products of attention.

#include "dialects/dfg/PlainScores.h"

#include "dialects/dfg/TensorType.h"

using namespace mlir;

namespace cleave::dfg {

/// What a factor does to scores, and to the numbers of a mask before it.
static void scaleBy(double factor, PlainScores &scores) {
  scores.scale *= factor;
  if (scores.isCausal)
    scores.hidden *= factor;
}

/// The operand of a choice by a causal mask that is scores; null where it is none.
static Value readChoice(SelectOp select, PlainScores &scores) {
  bool isExact = false;
  auto band = findBand(select.getCondition(), &isExact);
  bool isLhs = band == ScoreBand{0, std::nullopt};
  if (!isExact || !(isLhs || band == ScoreBand{std::nullopt, -1}))
    return {};
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
    auto mask = isa<AddOp>(op) ? findScoreMask(by) : std::nullopt;
    if (mask && mask->kind == MaskKind::Added && mask->isCausal()) {
      scores.isCausal = true;
      scores.hidden = hiding;
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
    if (readPlainScores(op, plain) != scores || !(plain.hidden <= hiding))
      return refuse(op, "libraries know a scale and a causal mask before the softmax");
    scores = op->getResult(0);
  }
  return plain;
}

} // namespace cleave::dfg
