// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes one iteration of a step.

#include "passes/codegen/GpuLaunchEmitter.h"

#include "passes/codegen/NestBody.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

/// The address without what moves inside a thread's width.
Value LaunchEmitter::offsetOf(const Access &access, const Round *round) {
  Value offset = access.offset ? n.constant(access.offset) : Value();
  for (auto [level, index] : llvm::zip(launch.outer, outerIndices))
    offset = n.add(offset, n.mul(index, level.step(access)));
  if (round)
    for (auto [level, index] : llvm::zip(launch.inner, round->indices))
      offset = n.add(offset, n.mul(index, level.step(access)));
  return n.toWide(offset);
}

/// Whether the first of the thread's elements lies at a multiple of their number: in ragged rows, where it is as far
/// from one as that by which they are divided.
bool LaunchEmitter::isAligned(const Access &access, size_t count) const {
  auto fits = [&](int64_t distance) { return distance % static_cast<int64_t>(count) == 0; };
  if (!fits(access.offset - (launch.ragged ? launch.ragged->offset : 0)))
    return false;
  const GpuLevel *fast = launch.fastLevel();
  for (const auto &levels : {launch.outer, launch.inner})
    for (const GpuLevel &level : levels)
      if (!(fast && level.dims == fast->dims) &&
          !fits(level.step(access) - (launch.ragged ? level.step(*launch.ragged) : 0)))
        return false;
  return true;
}

Elements LaunchEmitter::loadElements(const Access &access, const Round *round, size_t count) {
  const GpuLevel *fast = launch.fastLevel();
  int64_t step = fast && count > 1 ? fast->step(access) : 0;
  return memory().load(access.buffer, offsetOf(access, round), step, count, isAligned(access, count));
}

void LaunchEmitter::storeElements(const Access &access, const Round *round, ValueRange elements) {
  const GpuLevel *fast = launch.fastLevel();
  int64_t step = fast && elements.size() > 1 ? fast->step(access) : 0;
  memory().store(access.buffer, offsetOf(access, round), step, elements, isAligned(access, elements.size()));
}

/// The elements of an operand: those that the thread has computed, or else those in memory.
Elements LaunchEmitter::operandElements(const GpuStep &step, unsigned operand, const Round *round) {
  linalg::LinalgOp op = step.op;
  size_t count = widthOf(round);
  Value tensor = op->getOperand(operand);
  if (!isa<RankedTensorType>(tensor.getType()))
    return Elements(count, builder.clone(*tensor.getDefiningOp())->getResult(0));
  const auto &access = step.accesses[operand];
  if (!access) {
    // Nobody wrote the tensor: any value will do.
    Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
    return Elements(count, arith::ConstantOp::create(builder, location, builder.getZeroAttr(element)));
  }
  if (auto found = groupValues.find(access->buffer); found != groupValues.end())
    return found->second.size() == count ? found->second : Elements(count, found->second[0]);
  if (round) {
    auto &values = innerValues[round->number];
    if (auto found = values.find(access->buffer); found != values.end())
      return found->second;
  }
  for (const Turned &each : turned)
    if (each.access == *access)
      return {each.element};
  loaded.insert(access->buffer);
  return loadElements(*access, round, count);
}

Value LaunchEmitter::loopIndex(const GpuStep &step, unsigned loop, const Round *round, size_t element) {
  if (!step.dims[loop])
    return n.toIndex(Value());
  auto find = [&](ArrayRef<GpuLevel> levels, ArrayRef<Value> indices) -> std::optional<Value> {
    for (auto [level, index] : llvm::zip(levels, indices))
      if (level.dims.size() == 1 && level.dims[0] == *step.dims[loop])
        return &level == launch.fastLevel() ? n.add(index, static_cast<int64_t>(element)) : index;
    return std::nullopt;
  };
  std::optional<Value> index = find(launch.outer, outerIndices);
  if (!index && round)
    index = find(launch.inner, round->indices);
  assert(index && "levels of indexed loops are single loops");
  return n.toIndex(*index);
}

Value LaunchEmitter::loadAt(Value tensor, ValueRange indices) {
  const View *view = storage.find(tensor);
  NumberBuilder wide(builder, 64);
  Value offset = view->offset ? wide.constant(view->offset) : Value();
  for (auto [position, stride] : llvm::zip(indices, view->strides)) {
    if (stride == 0)
      continue;
    Value number = arith::IndexCastOp::create(builder, location, builder.getI64Type(), position);
    offset = wide.add(offset, wide.mul(number, stride));
  }
  return memory().load(view->buffer, offset, 0, 1, false)[0];
}

/// One iteration of a step that joins what splits have left.
void LaunchEmitter::joinPartials(const GpuStep &step, const Round &round, Sums &sums) {
  for (auto [result, values] : llvm::enumerate(sums)) {
    Elements more = loadElements(step.partials[result], &round, launch.width);
    for (size_t j = 0; j < more.size(); ++j) {
      Value &sum = values[launch.innerFast ? 0 : j];
      Value joined = joiner->combine(step.joinOf(result), sum, more[j]);
      sum = round.isValid ? arith::SelectOp::create(builder, location, round.isValid, joined, sum).getResult() : joined;
    }
  }
}

void LaunchEmitter::emitStep(const GpuStep &step, const Round *round, Sums *sums) {
  if (step.joinsPartials)
    return joinPartials(step, *round, *sums);
  linalg::LinalgOp op = step.op;
  size_t width = widthOf(round);
  unsigned inputs = op.getNumDpsInputs();
  SmallVector<Elements> operands(op->getNumOperands());
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (op.getMatchingBlockArgument(&operand).use_empty())
      continue;
    bool isSummed = number >= inputs && sums && !sums->empty() && !(*sums)[number - inputs].empty();
    if (number >= inputs && !isSummed && step.starts[number - inputs])
      operands[number] = Elements(width, arith::ConstantOp::create(builder, location, step.starts[number - inputs]));
    else if (!isSummed)
      operands[number] = operandElements(step, number, round);
  }
  SmallVector<Elements> results(op->getNumResults());
  for (size_t j = 0; j < width; ++j) {
    IRMapping mapping;
    size_t group = launch.innerFast ? 0 : j;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      if (!operands[number].empty())
        mapping.map(op.getMatchingBlockArgument(&operand), operands[number][j]);
      else if (number >= inputs && sums && !sums->empty() && !(*sums)[number - inputs].empty())
        mapping.map(op.getMatchingBlockArgument(&operand), (*sums)[number - inputs][group]);
    }
    auto index = [&](unsigned loop) { return loopIndex(step, loop, round, j); };
    auto element = [&](Value tensor, ValueRange indices) { return loadAt(tensor, indices); };
    SmallVector<Value> values = writeBody(builder, op, mapping, {index, element});
    for (auto [result, value] : llvm::enumerate(values)) {
      if (!sums || sums->empty() || (*sums)[result].empty()) {
        results[result].push_back(value);
        continue;
      }
      Value &sum = (*sums)[result][group];
      sum = round->isValid ? arith::SelectOp::create(builder, location, round->isValid, value, sum).getResult() : value;
    }
  }
  for (auto [result, values] : llvm::enumerate(results)) {
    if (values.empty())
      continue;
    const Access &access = *step.accesses[inputs + result];
    if (!round) {
      groupValues[access.buffer] = values;
      if (step.stored[result])
        pendingStores.push_back({access, values});
      continue;
    }
    if (step.kind == GpuStep::Map)
      innerValues[round->number][access.buffer] = values;
    if (step.stored[result])
      onlyIf(both(round->isValid, isInside), [&] { storeElements(access, round, values); });
  }
}

} // namespace cleave
