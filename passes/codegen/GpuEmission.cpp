// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the function of a launch: where a thread stands, then phase by phase what belongs to its group and the loop
// over its inner iterations, then what belongs to groups and goes to memory.

#include "passes/codegen/GpuEmission.h"

#include "passes/codegen/GpuEmitter.h"
#include "passes/codegen/NativeNestEmitter.h"
#include "passes/codegen/NestBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

namespace {

constexpr unsigned globalSpace = 1;

/// Where a thread stands in one of its inner iterations.
struct Round {
  /// Indices of the inner levels, null for zero.
  SmallVector<Value, 4> indices;
  /// Whether the iteration is one of the launch's; null where it always is.
  Value isValid;
  /// Number among a thread's iterations that are written out.
  size_t number = 0;
};

class LaunchEmitter {
public:
  LaunchEmitter(ModuleOp module, StringRef symbol, const GpuKernelPlan &plan, const GpuLaunch &launch,
                const Storage &storage)
      : module(module), symbol(symbol), plan(plan), launch(launch), storage(storage),
        builder(OpBuilder::atBlockEnd(module.getBody())), location(builder.getUnknownLoc()),
        n(builder, launch.isLarge ? 64 : 32), shared(builder, module, symbol) {}

  void run();

private:
  /// What a Join or Sequence has so far: one a result, of each the groups that the thread computes.
  using Sums = SmallVector<Elements, 2>;

  void startFunction();
  Value constantBuffer(const Buffer &buffer, unsigned index);
  void findBases();
  void findThread();
  void emitSquares();
  void fillSquares(Value x, Value y);
  void computeSquares(Value x, Value y);
  Value enterSquare(Value column, Value row);
  void emitPhases();
  void emitPhase(unsigned phase);
  void emitWrittenLoop(ArrayRef<unsigned> steps, std::vector<Sums> &sums);
  void emitLoop(ArrayRef<unsigned> steps, std::vector<Sums> &sums);
  Round roundAt(Value unit) const;
  void finishSums(ArrayRef<unsigned> steps, std::vector<Sums> &sums);
  void storePartials(const GpuStep &step, const Sums &sums);
  void storeGroupValues();

  void emitStep(const GpuStep &step, const Round *round, Sums *sums);
  void joinPartials(const GpuStep &step, const Round &round, Sums &sums);
  Elements operandElements(const GpuStep &step, unsigned operand, const Round *round);
  Elements loadElements(const Access &access, const Round *round, size_t count);
  void storeElements(const Access &access, const Round *round, ValueRange elements);
  Sums startOf(const GpuStep &step);
  Elements initOf(const GpuStep &step, unsigned result);
  size_t widthOf(const GpuStep &step) const { return step.isInner() ? launch.width : launch.groupWidth(); }
  bool startsNeutral() const { return launch.lanes > 1 || launch.splits > 1; }
  Value offsetOf(const Access &access, const Round *round);
  bool isAligned(const Access &access, size_t count) const;
  Value loopIndex(const GpuStep &step, unsigned loop, const Round *round, size_t element);
  Value loadAt(Value tensor, ValueRange indices);
  Value both(Value a, Value b) { return !a ? b : !b ? a : arith::AndIOp::create(builder, location, a, b).getResult(); }
  /// Calls `body` where the condition holds; null: always.
  void onlyIf(Value condition, llvm::function_ref<void()> body);
  const MemoryBuilder memory() { return MemoryBuilder(builder, plan.buffers, bases); }

  ModuleOp module;
  StringRef symbol;
  const GpuKernelPlan &plan;
  const GpuLaunch &launch;
  const Storage &storage;
  OpBuilder builder;
  Location location;
  NumberBuilder n;
  LLVM::LLVMFuncOp function;
  SmallVector<Value> bases;
  SharedMemory shared;
  std::optional<LaneJoiner> joiner;

  /// The thread's lane and split, the first of its groups, and whether it has groups at all (null: all have).
  Value lane, split, firstGroup, isInside;
  SmallVector<Value, 4> outerIndices;
  /// Operands in squares: which, where in shared memory, and the thread's element.
  struct Turned {
    Access access;
    Value base, element;
  };
  SmallVector<Turned> turned;
  /// Where the block's square begins along the level across and the fast one.
  Value firstRow, firstColumn;
  /// Values of the thread's groups by their buffers, and those of inner iterations, by their numbers, that are kept.
  DenseMap<unsigned, Elements> groupValues;
  std::vector<DenseMap<unsigned, Elements>> innerValues;
  /// Group values that were read from memory, and those that go there at the end.
  llvm::SmallDenseSet<unsigned> loaded;
  SmallVector<std::pair<Access, Elements>> pendingStores;
};

} // namespace

//===-- frame -------------------------------------------------------------------------------------------------===//

void LaunchEmitter::run() {
  startFunction();
  findBases();
  if (launch.across)
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
  emitPhases();
  storeGroupValues();
}

void LaunchEmitter::startFunction() {
  Type pointer = LLVM::LLVMPointerType::get(module.getContext(), globalSpace);
  unsigned inputs = 0, outputs = 0;
  for (const Buffer &buffer : storage.getBuffers()) {
    inputs += buffer.kind == Buffer::Input;
    outputs += buffer.kind == Buffer::Output;
  }
  SmallVector<Type> types(inputs + outputs + (plan.scratchBytes > 0 ? 1 : 0), pointer);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), types);
  function = LLVM::LLVMFuncOp::create(builder, location, symbol, type, LLVM::Linkage::External);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(launch.threads)}));
  constexpr int64_t alignment = 64;
  for (unsigned i = 0; i < types.size(); ++i) {
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(alignment));
    if (i < inputs)
      function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), builder.getUnitAttr());
  }
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  LLVM::ReturnOp::create(builder, location, ValueRange{});
  builder.setInsertionPoint(function.getBody().front().getTerminator());
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
  Value block = NVVM::BlockIdXOp::create(builder, location, i32);
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

//===-- squares -----------------------------------------------------------------------------------------------===//

/// A thread's elements in a square of tileSize by tileSize: so many, so far apart.
static constexpr int64_t squareRounds = 4, squareStep = tileSize / squareRounds;

void LaunchEmitter::emitSquares() {
  NumberBuilder small(builder, 32);
  Value thread = NVVM::ThreadIdXOp::create(builder, location, builder.getI32Type());
  Value block = NVVM::BlockIdXOp::create(builder, location, builder.getI32Type());
  // The block's place: squares along the fast level, then across, then the other levels.
  Value rest = block;
  auto next = [&](int64_t size) {
    Value index = small.rem(rest, size);
    rest = small.div(rest, size);
    return !index || !launch.isLarge ? index
                                     : arith::ExtUIOp::create(builder, location, n.getType(), index).getResult();
  };
  firstColumn = n.mul(next(llvm::divideCeil(launch.outer.back().size, tileSize)), tileSize);
  firstRow = n.mul(next(llvm::divideCeil(launch.outer[*launch.across].size, tileSize)), tileSize);
  outerIndices.assign(launch.outer.size(), Value());
  for (size_t i = launch.outer.size() - 1; i-- > 0;)
    if (i != *launch.across)
      outerIndices[i] = next(launch.outer[i].size);
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      const auto &access = step.accesses[operand->getOperandNumber()];
      auto isSame = [&](const Turned &other) {
        return other.access.buffer == access->buffer && other.access.offset == access->offset &&
               other.access.coefficients == access->coefficients;
      };
      if (access && bases[access->buffer] && launch.isTurned(*access) && llvm::none_of(turned, isSame))
        // A column more than needed, so that a column of the square lies in different banks.
        turned.push_back({*access, shared.make(plan.buffers[access->buffer].element, tileSize * (tileSize + 1)), {}});
    }
  }
  Value x = small.rem(thread, tileSize), y = small.div(thread, tileSize);
  fillSquares(x, y);
  shared.wait();
  computeSquares(x, y);
}

/// Sets the thread's element by its place in the square, and says whether there is one; null: there always is.
Value LaunchEmitter::enterSquare(Value column, Value row) {
  auto place = [&](unsigned level, Value first, Value inSquare) -> Value {
    Value wide =
        launch.isLarge ? arith::ExtUIOp::create(builder, location, n.getType(), inSquare).getResult() : inSquare;
    outerIndices[level] = n.add(first, wide);
    int64_t size = launch.outer[level].size;
    return size % tileSize == 0 ? Value() : n.less(outerIndices[level], n.constant(size));
  };
  Value isColumn = place(launch.outer.size() - 1, firstColumn, column);
  return both(isColumn, place(*launch.across, firstRow, row));
}

/// Neighbouring threads read along the level across.
void LaunchEmitter::fillSquares(Value x, Value y) {
  NumberBuilder small(builder, 32);
  for (int64_t round = 0; round < squareRounds; ++round) {
    Value column = small.add(y, round * squareStep);
    Value isValid = enterSquare(column, x);
    onlyIf(isValid, [&] {
      for (Turned &each : turned)
        shared.store(each.base, small.add(small.mul(column, tileSize + 1), x),
                     loadElements(each.access, nullptr, 1)[0]);
    });
  }
}

void LaunchEmitter::computeSquares(Value x, Value y) {
  NumberBuilder small(builder, 32);
  for (int64_t round = 0; round < squareRounds; ++round) {
    Value row = small.add(y, round * squareStep);
    Value isValid = enterSquare(x, row);
    onlyIf(isValid, [&] {
      for (Turned &each : turned)
        each.element = shared.load(each.base, small.add(small.mul(x, tileSize + 1), row),
                                   plan.buffers[each.access.buffer].element);
      groupValues.clear();
      for (const GpuStep &step : launch.steps)
        emitStep(step, nullptr, nullptr);
      for (const auto &[access, values] : pendingStores)
        storeElements(access, nullptr, values);
      pendingStores.clear();
    });
  }
}

//===-- phases ------------------------------------------------------------------------------------------------===//

void LaunchEmitter::emitPhases() {
  unsigned last = 0;
  for (const GpuStep &step : launch.steps)
    last = std::max(last, step.phase);
  for (unsigned phase = 0; phase <= last; ++phase)
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
    emitLoop(inner, sums);
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
  Value first = launch.innerFast ? n.mul(unit, launch.width) : unit;
  round.indices = n.takeApart(first, launch.inner);
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

void LaunchEmitter::emitLoop(ArrayRef<unsigned> steps, std::vector<Sums> &sums) {
  int64_t perSplit = launch.unitsPerSplit();
  Value start = n.mul(split, perSplit), end = n.constant(launch.splits == 1 ? launch.innerUnits() : perSplit);
  if (split)
    end = n.min(n.add(start, end), n.constant(launch.innerUnits()));
  SmallVector<Value> carried;
  for (const Sums &sum : sums)
    for (const Elements &values : sum)
      llvm::append_range(carried, values);
  auto loop =
      scf::ForOp::create(builder, location, n.orZero(n.add(start, lane)), end, n.constant(launch.lanes), carried);
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
    Round round = roundAt(loop.getInductionVar());
    innerValues.clear();
    innerValues.resize(1);
    for (auto [step, sum] : llvm::zip(steps, sums))
      emitStep(launch.steps[step], &round, &sum);
    innerValues.clear();
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
    if (!step.partials.empty() && !step.joinsPartials) {
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

//===-- steps -------------------------------------------------------------------------------------------------===//

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

/// Whether the first of the thread's elements lies at a multiple of their number.
bool LaunchEmitter::isAligned(const Access &access, size_t count) const {
  auto fits = [&](int64_t distance) { return distance % static_cast<int64_t>(count) == 0; };
  if (!fits(access.offset))
    return false;
  const GpuLevel *fast = launch.fastLevel();
  for (const auto &levels : {launch.outer, launch.inner})
    for (const GpuLevel &level : levels)
      if (!(fast && level.dims == fast->dims) && !fits(level.step(access)))
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
  size_t count = round ? widthOf(step) : launch.groupWidth();
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
    if (each.access.buffer == access->buffer && each.access.offset == access->offset &&
        each.access.coefficients == access->coefficients)
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
  size_t width = widthOf(step);
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

void emitLaunch(ModuleOp module, StringRef symbol, const GpuKernelPlan &plan, const GpuLaunch &launch,
                const Storage &storage) {
  LaunchEmitter(module, symbol, plan, launch, storage).run();
}

} // namespace cleave
