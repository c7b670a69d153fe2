// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a thread stands, then phase by phase what belongs to its group and the loop over its inner iterations, then
// what belongs to groups and goes to memory.

#include "passes/codegen/GpuLaunchEmitter.h"

#include "passes/codegen/NativeNestEmitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

void LaunchEmitter::run() {
  findBases();
  if (launch.squares)
    return emitSquares();
  findThread();
  // Threads that have to wait for others stay, and compute what others do.
  bool mayLeave = launch.lanes == 1 && isInside;
  if (mayLeave) {
    auto branch = scf::IfOp::create(builder, location, isInside, /*withElseRegion=*/false);
    isInside = Value();
    builder.setInsertionPointToStart(branch.thenBlock());
    outerIndices = n.takeApart(firstGroup, launch.outer);
  } else {
    if (isInside)
      firstGroup = n.min(firstGroup, n.constant((launch.outerUnits() - 1) * launch.groupWidth()));
    outerIndices = n.takeApart(firstGroup, launch.outer);
  }
  if (launch.ragged)
    findRaggedUnits();
  emitPhases();
  storeGroupValues();
}

Value LaunchEmitter::constantBuffer(const Buffer &buffer, unsigned index) {
  DenseElementsAttr value = buffer.value;
  Type element = memoryType(buffer.element);
  if (element != buffer.element)
    value = value.mapValues(element, [](const APInt &bit) { return bit.zext(8); });
  value = value.reshape(RankedTensorType::get({buffer.size}, element));
  OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
  auto global =
      LLVM::GlobalOp::create(atStart, location, LLVM::LLVMArrayType::get(element, buffer.size),
                             /*isConstant=*/true, LLVM::Linkage::Internal, (symbol + "_constant" + Twine(index)).str(),
                             value, /*alignment=*/64, globalSpace);
  return LLVM::AddressOfOp::create(builder, location, global);
}

/// Only constants that the launch reads become a part of the module.
void LaunchEmitter::findBases() {
  unsigned inputs = llvm::count_if(storage.getBuffers(), [](const Buffer &b) { return b.kind == Buffer::Input; });
  SmallVector<bool> isRead(plan.buffers.size(), false);
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (const std::optional<Access> &access : step.accesses)
      if (access)
        isRead[access->buffer] = true;
    op.getBlock()->walk([&](tensor::ExtractOp extract) {
      if (const View *view = storage.find(extract.getTensor()))
        isRead[view->buffer] = true;
    });
  }
  bases.assign(plan.buffers.size(), Value());
  for (auto [index, buffer] : llvm::enumerate(plan.buffers)) {
    if (buffer.kind == Buffer::Input) {
      bases[index] = function.getArgument(buffer.index);
    } else if (buffer.kind == Buffer::Output) {
      bases[index] = function.getArgument(inputs + buffer.index);
    } else if (buffer.kind == Buffer::Temporary && plan.scratchOffsets[index]) {
      Value offset = arith::ConstantOp::create(
          builder, location, builder.getI64IntegerAttr(static_cast<int64_t>(*plan.scratchOffsets[index])));
      Value scratch = function.getArgument(function.getNumArguments() - 1);
      bases[index] = LLVM::GEPOp::create(builder, location, scratch.getType(), builder.getI8Type(), scratch,
                                         ArrayRef<LLVM::GEPArg>{offset}, LLVM::GEPNoWrapFlags::inbounds);
    } else if (buffer.kind == Buffer::Constant && !buffer.value.isSplat() && isRead[index] && buffer.size > 0) {
      bases[index] = constantBuffer(buffer, index);
    }
  }
}

void LaunchEmitter::findThread() {
  Type i32 = builder.getI32Type();
  NumberBuilder small(builder, 32);
  Value thread = NVVM::ThreadIdXOp::create(builder, location, i32);
  Value group, laneInGroup;
  if (launch.innerFast) {
    laneInGroup = small.orZero(small.rem(thread, launch.lanes));
    group = launch.groups == 1 ? small.constant(0) : small.div(thread, launch.lanes);
  } else {
    group = small.orZero(small.rem(thread, launch.groups));
    laneInGroup = launch.lanes == 1 ? small.constant(0) : small.div(thread, launch.groups);
  }
  joiner.emplace(builder, shared, launch, group, laneInGroup);
  auto widened = [&](Value value) -> Value {
    return value.getType() == n.getType() ? value
                                          : arith::ExtUIOp::create(builder, location, n.getType(), value).getResult();
  };
  lane = launch.lanes == 1 ? Value() : widened(laneInGroup);
  int64_t blocksOfGroups = launch.blocks / launch.splits;
  split = launch.splits == 1 ? Value() : widened(small.div(block, blocksOfGroups));
  Value blockOfGroups = launch.splits == 1 ? block : small.rem(block, blocksOfGroups);
  Value position = n.add(n.mul(blockOfGroups ? widened(blockOfGroups) : Value(), launch.groups), widened(group));
  if (launch.outerUnits() % launch.groups != 0)
    isInside = n.less(position, n.constant(launch.outerUnits()));
  firstGroup = n.mul(position, launch.groupWidth());
}

void LaunchEmitter::onlyIf(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

//===-- phases ------------------------------------------------------------------------------------------------===//

void LaunchEmitter::emitPhases() {
  for (unsigned phase = 0; phase <= launch.lastPhase(); ++phase)
    emitPhase(phase);
}

void LaunchEmitter::emitPhase(unsigned phase) {
  SmallVector<unsigned> inner;
  for (auto [i, step] : llvm::enumerate(launch.steps)) {
    if (step.phase != phase)
      continue;
    if (step.isInner())
      inner.push_back(i);
    else
      emitStep(step, nullptr, nullptr);
  }
  if (inner.empty())
    return;
  std::vector<Sums> sums;
  for (unsigned step : inner)
    sums.push_back(startOf(launch.steps[step]));
  if (launch.unrolled)
    emitWrittenLoop(inner, sums);
  else
    emitLoop(inner, sums, launch.aheadOf(phase));
  finishSums(inner, sums);
}

/// The value that a result is joined into before the first iteration.
Elements LaunchEmitter::initOf(const GpuStep &step, unsigned result) {
  linalg::LinalgOp op = step.op;
  if (step.starts[result])
    return Elements(launch.groupWidth(), arith::ConstantOp::create(builder, location, step.starts[result]));
  unsigned operand = op.getNumDpsInputs() + result;
  if (!op.payloadUsesValueFromOperand(&op->getOpOperand(operand)))
    return {};
  return operandElements(step, operand, nullptr);
}

LaunchEmitter::Sums LaunchEmitter::startOf(const GpuStep &step) {
  Sums sums;
  if (step.kind != GpuStep::Join && step.kind != GpuStep::Sequence)
    return sums;
  linalg::LinalgOp op = step.op;
  for (unsigned result = 0; result < op->getNumResults(); ++result) {
    bool moves = llvm::any_of(launch.inner, [&](const GpuLevel &level) {
      return level.step(*step.accesses[op.getNumDpsInputs() + result]) != 0;
    });
    if (moves) {
      sums.emplace_back();
    } else if (startsNeutral()) {
      TypedAttr neutral = *arith::getNeutralElement(step.joinOf(result));
      sums.push_back(Elements(launch.groupWidth(), arith::ConstantOp::create(builder, location, neutral)));
    } else {
      Elements init = initOf(step, result);
      Type element = cast<RankedTensorType>(op->getResult(result).getType()).getElementType();
      if (init.empty())
        init.assign(launch.groupWidth(), arith::ConstantOp::create(builder, location, builder.getZeroAttr(element)));
      sums.push_back(std::move(init));
    }
  }
  return sums;
}

Round LaunchEmitter::roundAt(Value unit) const {
  Round round;
  Value first = launch.innerFast ? n.add(n.mul(unit, launch.width), raggedStart) : unit;
  round.indices = n.takeApart(first, launch.inner);
  round.width = static_cast<size_t>(launch.width);
  return round;
}

/// All iterations of a thread one after the other; those beyond the end compute what the last one does.
void LaunchEmitter::emitWrittenLoop(ArrayRef<unsigned> steps, std::vector<Sums> &sums) {
  int64_t units = launch.innerUnits(), perSplit = launch.unitsPerSplit(), rounds = launch.rounds();
  bool isUneven = launch.splits > 1 && units % perSplit != 0;
  innerValues.resize(rounds);
  for (int64_t i = 0; i < rounds; ++i) {
    Value inSplit = n.add(lane, i * launch.lanes);
    Value unit = n.add(n.mul(split, perSplit), inSplit), isValid;
    if ((i + 1) * launch.lanes > perSplit)
      isValid = n.less(n.orZero(inSplit), n.constant(perSplit));
    if (isUneven)
      isValid = both(isValid, n.less(n.orZero(unit), n.constant(units)));
    if (isValid)
      unit = n.min(n.orZero(unit), n.constant(units - 1));
    Round round = roundAt(unit);
    round.isValid = isValid;
    round.number = static_cast<size_t>(i);
    for (auto [step, sum] : llvm::zip(steps, sums))
      emitStep(launch.steps[step], &round, &sum);
  }
}

/// Rounds of which nothing is kept for later phases; what they load is loaded before anything else happens to it.
void LaunchEmitter::emitSideBySide(ArrayRef<unsigned> steps, MutableArrayRef<Round> rounds, std::vector<Sums> &sums) {
  innerValues.clear();
  innerValues.resize(rounds.size());
  for (auto [number, round] : llvm::enumerate(rounds))
    round.number = number;
  for (auto [step, sum] : llvm::zip(steps, sums))
    for (const Round &round : rounds)
      emitStep(launch.steps[step], &round, &sum);
  innerValues.clear();
}

void LaunchEmitter::findRaggedUnits() {
  const Access &access = *launch.ragged;
  auto untilMultiple = [&](int64_t position) {
    int64_t rest = position % launch.width;
    return rest > 0 ? launch.width - rest : -rest;
  };
  Value before = untilMultiple(access.offset) ? n.constant(untilMultiple(access.offset)) : Value();
  for (auto [level, index] : llvm::zip(launch.outer, outerIndices))
    before = n.add(before, n.mul(index, untilMultiple(level.step(access))));
  raggedStart = n.rem(before, launch.width);
  raggedUnits = raggedStart ? n.div(n.add(n.mul(raggedStart, -1), launch.innerSize), launch.width)
                            : n.constant(launch.innerSize / launch.width);
}

/// The elements of a ragged row beside its units: one for each of the first lanes.
void LaunchEmitter::emitRaggedEnds(ArrayRef<unsigned> steps, std::vector<Sums> &sums) {
  Value inUnits = n.mul(raggedUnits, launch.width), index = n.add(lane, inUnits);
  if (raggedStart)
    index = arith::SelectOp::create(builder, location, n.less(lane, raggedStart), lane, index);
  Round round;
  round.isValid = n.less(lane, n.add(n.mul(inUnits, -1), launch.innerSize));
  if (split)
    round.isValid =
        both(round.isValid, arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, split, n.constant(0)));
  round.indices = {n.min(index, n.constant(launch.innerSize - 1))};
  emitSideBySide(steps, round, sums);
}

/// With `ahead` rounds at once as far as these are whole, then one by one.
void LaunchEmitter::emitLoop(ArrayRef<unsigned> steps, std::vector<Sums> &sums, int64_t ahead) {
  if (launch.ragged)
    emitRaggedEnds(steps, sums);
  int64_t perSplit = launch.unitsPerSplit();
  Value units = launch.ragged ? raggedUnits : n.constant(launch.innerUnits());
  Value start = n.mul(split, perSplit), end = split ? n.min(n.add(start, perSplit), units) : units;
  if (ahead > 1) {
    Value size = n.add(end, n.mul(start, -1));
    // The last part of ragged rows may have nothing.
    if (launch.ragged && start)
      size = arith::MaxSIOp::create(builder, location, size, n.constant(0));
    Value whole = n.mul(n.div(size, launch.lanes * ahead), launch.lanes * ahead);
    whole = n.add(start, whole);
    emitRounds(steps, sums, start, whole, ahead);
    start = whole;
  }
  emitRounds(steps, sums, start, end, 1);
}

/// The lane's units from `start` on, `ahead` of them in each iteration.
void LaunchEmitter::emitRounds(ArrayRef<unsigned> steps, std::vector<Sums> &sums, Value start, Value end,
                               int64_t ahead) {
  SmallVector<Value> carried;
  for (const Sums &sum : sums)
    for (const Elements &values : sum)
      llvm::append_range(carried, values);
  auto loop = scf::ForOp::create(builder, location, n.orZero(n.add(start, lane)), end, n.constant(launch.lanes * ahead),
                                 carried);
  auto assign = [&](ValueRange values) {
    size_t next = 0;
    for (Sums &sum : sums)
      for (Elements &each : sum)
        for (Value &value : each)
          value = values[next++];
  };
  {
    OpBuilder::InsertionGuard guard(builder);
    if (carried.empty())
      builder.setInsertionPoint(loop.getBody()->getTerminator());
    else
      builder.setInsertionPointToEnd(loop.getBody());
    assign(loop.getRegionIterArgs());
    SmallVector<Round> rounds;
    for (int64_t i = 0; i < ahead; ++i)
      rounds.push_back(roundAt(n.add(loop.getInductionVar(), i * launch.lanes)));
    emitSideBySide(steps, rounds, sums);
    if (!carried.empty()) {
      SmallVector<Value> results;
      for (const Sums &sum : sums)
        for (const Elements &values : sum)
          llvm::append_range(results, values);
      scf::YieldOp::create(builder, location, results);
    }
  }
  assign(loop.getResults());
}

/// Joins the sums of all lanes with each other and with what they are added to.
void LaunchEmitter::finishSums(ArrayRef<unsigned> steps, std::vector<Sums> &sums) {
  SmallVector<JoinedValue> all;
  for (auto [number, sum] : llvm::zip(steps, sums))
    for (auto [result, values] : llvm::enumerate(sum))
      if (launch.steps[number].kind == GpuStep::Join)
        all.push_back({values, launch.steps[number].joinOf(result)});
  joiner->join(all);
  size_t next = 0;
  for (auto [number, sum] : llvm::zip(steps, sums)) {
    const GpuStep &step = launch.steps[number];
    linalg::LinalgOp op = step.op;
    for (Elements &values : sum)
      if (step.kind == GpuStep::Join)
        values = all[next++].values;
    if (step.leavesPartials()) {
      storePartials(step, sum);
      continue;
    }
    for (auto [result, values] : llvm::enumerate(sum)) {
      if (values.empty())
        continue;
      if (step.kind == GpuStep::Join && startsNeutral()) {
        Elements init = initOf(step, result);
        bool isNeutral = step.starts[result] == *arith::getNeutralElement(step.joinOf(result));
        for (auto [value, start] : llvm::zip(values, init))
          value = isNeutral ? value : joiner->combine(step.joinOf(result), start, value);
      }
      const Access &access = *step.accesses[op.getNumDpsInputs() + result];
      groupValues[access.buffer] = values;
      if (step.stored[result])
        pendingStores.push_back({access, values});
    }
  }
}

void LaunchEmitter::storePartials(const GpuStep &step, const Sums &sums) {
  Value isFirst =
      lane ? arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, lane, n.constant(0)).getResult()
           : Value();
  onlyIf(both(isFirst, isInside), [&] {
    for (auto [access, values] : llvm::zip(step.partials, sums)) {
      Value offset = n.add(n.mul(split, launch.outerSize), firstGroup);
      memory().store(access.buffer, n.toWide(offset), /*step=*/1, values, /*isAligned=*/false);
    }
  });
}

/// Values of groups go to memory from their first lanes, when all lanes have read what was there.
void LaunchEmitter::storeGroupValues() {
  if (pendingStores.empty())
    return;
  bool overwrites =
      llvm::any_of(pendingStores, [&](const auto &pending) { return loaded.contains(pending.first.buffer); });
  if (overwrites && launch.lanes > 1)
    NVVM::Barrier0Op::create(builder, location);
  Value isFirst;
  for (Value number : {lane, split})
    if (number)
      isFirst =
          both(isFirst, arith::CmpIOp::create(builder, location, arith::CmpIPredicate::eq, number, n.constant(0)));
  onlyIf(both(isFirst, isInside), [&] {
    for (const auto &[access, values] : pendingStores)
      storeElements(access, nullptr, values);
  });
}

} // namespace cleave
