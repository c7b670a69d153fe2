// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks launches before they are written out, whoever decided them: what each step computes, and what steps hand on.

#include "passes/codegen/GpuLaunchAttributes.h"

#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

static InFlightDiagnostic errorAt(const GpuStep &step, StringRef expectation) {
  linalg::LinalgOp op = step.op;
  return op.emitOpError(expectation);
}

//===-- one step ----------------------------------------------------------------------------------------------===//

namespace {

/// Checks the loops of a step by themselves.
class LoopsOfStep {
public:
  LoopsOfStep(const Nest &nest, const GpuLaunch &launch, const GpuStep &step, ArrayRef<SmallVector<unsigned, 2>> levels)
      : nest(nest), launch(launch), step(step), outer(levels.take_front(launch.outer.size())),
        inner(levels.drop_front(launch.outer.size())) {}

  LogicalResult verify() {
    return success(succeeded(verifyIterations()) && succeeded(verifyReductions()) && succeeded(verifyLevels()) &&
                   succeeded(verifySequence()));
  }

private:
  LogicalResult verifyIterations();
  LogicalResult verifyReductions();
  LogicalResult verifyLevels();
  LogicalResult verifySequence();
  bool isJoined(unsigned loop) const { return nest.reduction[loop] && nest.sizes[loop] > 1; }

  const Nest &nest;
  const GpuLaunch &launch;
  const GpuStep &step;
  ArrayRef<SmallVector<unsigned, 2>> outer, inner;
};

} // namespace

/// Every loop of several iterations runs once; what splits have joined already does not.
LogicalResult LoopsOfStep::verifyIterations() {
  SmallVector<unsigned> times(nest.sizes.size(), 0);
  for (const auto &levels : {outer, inner})
    for (const auto &level : levels)
      for (unsigned loop : level)
        ++times[loop];
  for (auto [loop, count] : llvm::enumerate(times)) {
    unsigned expected = step.joinsPartials && isJoined(loop) ? 0 : 1;
    if (count > expected || (count < expected && nest.sizes[loop] > 1))
      return errorAt(step, "expects loop ")
             << loop << " of " << nest.sizes[loop] << " iterations in "
             << (expected == 0 ? "no level of a launch that combines" : "one level") << ", got it in " << count;
  }
  return success();
}

/// Groups are independent of each other, and a reduction joins all inner iterations.
LogicalResult LoopsOfStep::verifyReductions() {
  for (const auto &level : outer)
    for (unsigned loop : level)
      if (isJoined(loop))
        return errorAt(step, "expects loops of a reduction in inner levels, got loop ") << loop << " in an outer one";
  if (step.kind != GpuStep::Join && step.kind != GpuStep::Sequence)
    return success();
  for (const auto &level : inner)
    for (unsigned loop : level)
      if (!nest.reduction[loop] && nest.sizes[loop] > 1)
        return errorAt(step, "expects inner levels of loops that it joins alone, got loop ") << loop;
  return success();
}

/// Loops that run as one lie in memory like one.
LogicalResult LoopsOfStep::verifyLevels() {
  linalg::LinalgOp op = nest.op;
  auto moves = [&](unsigned a, unsigned b) {
    return llvm::any_of(llvm::enumerate(nest.accesses), [&](auto entry) {
      bool isRead = !step.joinsPartials || static_cast<int64_t>(entry.index()) >= op.getNumDpsInputs();
      const std::optional<Access> &access = entry.value();
      return isRead && access && access->coefficients[a] != access->coefficients[b] * nest.sizes[b];
    });
  };
  for (const auto &levels : {outer, inner})
    for (const auto &level : levels)
      for (auto [a, b] : llvm::zip(ArrayRef(level).drop_back(), ArrayRef(level).drop_front()))
        if (nest.indexed[a] || nest.indexed[b] || moves(a, b))
          return errorAt(step, "expects a level of loops that go through memory as one, got loops ")
                 << a << " and " << b;
  return success();
}

/// A reduction that is more than a join of what came so far and an element goes through the elements in order.
LogicalResult LoopsOfStep::verifySequence() {
  if (step.kind != GpuStep::Sequence)
    return success();
  int64_t last = -1;
  bool isInOrder = launch.lanes == 1 && launch.splits == 1 && launch.width == 1 && !launch.unrolled;
  for (const auto &level : inner)
    for (unsigned loop : level) {
      isInOrder &= loop > last;
      last = loop;
    }
  if (!isInOrder)
    return errorAt(step, "expects one thread a group that goes through single elements in order, as it is no sum, "
                         "product, minimum or maximum");
  return success();
}

LogicalResult verifyStep(const Nest &nest, const GpuLaunch &launch, const GpuStep &step,
                         ArrayRef<SmallVector<unsigned, 2>> loops) {
  return LoopsOfStep(nest, launch, step, loops).verify();
}

//===-- steps of one launch -----------------------------------------------------------------------------------===//

/// Whether a step uses elements of an operand, in memory or in registers.
static bool touches(const GpuStep &step, OpOperand &operand) {
  linalg::LinalgOp op = step.op;
  return step.accesses[operand.getOperandNumber()] && (op.isDpsInit(&operand) || step.readsMemory(operand));
}

/// What two steps share is the same iteration's: no thread needs what another one computes.
static LogicalResult verifyPair(const GpuStep &earlier, const GpuStep &step, const Storage &storage) {
  linalg::LinalgOp op = step.op, before = earlier.op;
  auto isWrittenBy = [&](const GpuStep &writer) {
    return [&](unsigned buffer) { return writeAccess(writer, buffer) != nullptr; };
  };
  bool reads = !step.joinsPartials, readsBefore = !earlier.joinsPartials;
  if ((reads && llvm::any_of(extractedBuffers(op, storage), isWrittenBy(earlier))) ||
      (readsBefore && llvm::any_of(extractedBuffers(before, storage), isWrittenBy(step))))
    return errorAt(step, "expects a launch of its own, as elements at indices of a body's own are other threads'");
  for (OpOperand &operand : op->getOpOperands())
    for (OpOperand &other : before->getOpOperands()) {
      if (!touches(step, operand) || !touches(earlier, other) || !(op.isDpsInit(&operand) || before.isDpsInit(&other)))
        continue;
      const Access &mine = *step.accesses[operand.getOperandNumber()],
                   &theirs = *earlier.accesses[other.getOperandNumber()];
      if (mine.buffer == theirs.buffer && mine != theirs)
        return errorAt(step, "expects operand ")
               << operand.getOperandNumber() << " to be what the same iterations of the launch's earlier steps have "
               << (before.isDpsInit(&other) ? "written" : "read") << ", got others";
    }
  auto first = firstPhaseAfter(earlier, step);
  // What is computed again is for its own phase.
  if (first && !earlier.isRepeated && step.phase < *first)
    return errorAt(step, "expects phase ")
           << *first << " or a later one, as it needs what phase " << earlier.phase << " computes, got " << step.phase;
  return success();
}

LogicalResult verifyHandedOn(const GpuLaunch &launch, const Storage &storage) {
  for (auto [number, step] : llvm::enumerate(launch.steps)) {
    if (step.kind == GpuStep::Sequence &&
        llvm::count_if(launch.steps, [](const GpuStep &other) { return other.isInner(); }) > 1)
      return errorAt(step, "expects no other inner iterations in a launch that goes through its own in order");
    if (step.isRepeated && (step.kind != GpuStep::Map || launch.steps[number - 1].phase >= step.phase))
      return errorAt(step, "expects to be computed again in later phases, for each inner iteration");
    if (launch.splits > 1 && launch.hasKind(GpuStep::Join) && step.phase > 0)
      return errorAt(step, "expects phase 0 in a launch whose splits are combined by the next one, got ") << step.phase;
    for (const GpuStep &earlier : ArrayRef(launch.steps).take_front(number))
      if (earlier.op != step.op && failed(verifyPair(earlier, step, storage)))
        return failure();
  }
  return success();
}

//===-- all launches ------------------------------------------------------------------------------------------===//

namespace {

/// Checks what the launches of a kernel leave for each other in memory.
class LaunchesOfKernel {
public:
  LaunchesOfKernel(plan::NativeKernelOp kernel, const GpuKernelPlan &plan, const Storage &storage)
      : kernel(kernel), plan(plan), storage(storage), nests(findNests(kernel.getLoops().front(), storage)) {
    for (const Nest &nest : nests)
      steps[linalg::LinalgOp(nest.op)];
    for (auto [number, launch] : llvm::enumerate(plan.launches))
      for (const GpuStep &step : launch.steps)
        steps[linalg::LinalgOp(step.op)].push_back({static_cast<unsigned>(number), &step});
  }

  LogicalResult verify() {
    return success(succeeded(verifyComplete()) && succeeded(verifyOrder()) && succeeded(verifyCombined()) &&
                   succeeded(verifyStores()));
  }

private:
  struct StepOf {
    unsigned launch;
    const GpuStep *step;
  };
  LogicalResult verifyComplete();
  LogicalResult verifyOrder();
  LogicalResult verifyOrder(const StepOf &each, Operation *earlier);
  LogicalResult verifyCombined();
  LogicalResult verifyStores();

  plan::NativeKernelOp kernel;
  const GpuKernelPlan &plan;
  const Storage &storage;
  std::vector<Nest> nests;
  /// Of all operations in their order, those of each by launches.
  llvm::MapVector<Operation *, SmallVector<StepOf, 2>> steps;
};

} // namespace

/// Only fills that no step reads from memory may be left out.
LogicalResult LaunchesOfKernel::verifyComplete() {
  for (const Nest &nest : nests) {
    linalg::LinalgOp op = nest.op;
    if (!steps[op].empty() || nest.isEmpty())
      continue;
    bool readsFill = llvm::any_of(op->getUsers(), [&](Operation *user) {
      auto found = steps.find(user);
      return found != steps.end() && llvm::any_of(found->second, [](StepOf each) { return each.step->readsFill; });
    });
    if (!isOnlyStart(nest, nests, readsFill))
      return op.emitOpError("expects a step in some launch, got none");
  }
  return success();
}

/// Operands are there before they are read, and not overwritten before they have been read.
LogicalResult LaunchesOfKernel::verifyOrder(const StepOf &each, Operation *earlier) {
  const GpuStep &step = *each.step;
  linalg::LinalgOp op = step.op, before = cast<linalg::LinalgOp>(earlier);
  SmallVector<StepOf, 2> &others = steps[earlier];
  const GpuStep &other = *others.front().step;
  SmallVector<unsigned> reads, writes;
  for (OpOperand &operand : op->getOpOperands())
    if (const auto &access = step.accesses[operand.getOperandNumber()]) {
      if (step.readsMemory(operand))
        reads.push_back(access->buffer);
      if (op.isDpsInit(&operand) && step.stored[operand.getOperandNumber() - op.getNumDpsInputs()])
        writes.push_back(access->buffer);
    }
  if (!step.joinsPartials)
    llvm::append_range(reads, extractedBuffers(op, storage));
  for (unsigned buffer : reads)
    if (writeAccess(other, buffer) && others.front().launch > each.launch)
      return errorAt(step, "expects launch ")
             << others.front().launch << " or a later one, which computes what it reads, got launch " << each.launch;
  for (unsigned buffer : writes) {
    bool isTouched = llvm::is_contained(extractedBuffers(before, storage), buffer) ||
                     llvm::any_of(before->getOpOperands(), [&](OpOperand &operand) {
                       return touches(other, operand) && other.accesses[operand.getOperandNumber()]->buffer == buffer;
                     });
    if (isTouched && others.back().launch > each.launch)
      return errorAt(step, "expects launch ")
             << others.back().launch << " or a later one, which still needs what it overwrites, got launch "
             << each.launch;
  }
  return success();
}

LogicalResult LaunchesOfKernel::verifyOrder() {
  for (auto entry = steps.begin(); entry != steps.end(); ++entry)
    for (const StepOf &each : entry->second)
      for (auto earlier = steps.begin(); earlier != entry; ++earlier)
        if (!earlier->second.empty() && failed(verifyOrder(each, earlier->first)))
          return failure();
  return success();
}

/// A sum is combined where splits have left parts of it, and values of a launch are its own.
LogicalResult LaunchesOfKernel::verifyCombined() {
  for (auto &[op, list] : steps)
    for (auto [number, each] : llvm::enumerate(list)) {
      const GpuLaunch &launch = plan.launches[each.launch];
      bool isAfterSplits = number > 0 && launch.combines && list[number - 1].launch + 1 == each.launch;
      if (each.step->joinsPartials && each.step->partials.empty())
        return op->emitOpError("expects to be joined by the splits of launch ")
               << static_cast<int64_t>(each.launch) - 1 << ", got no step of it there";
      bool isAgain = number > 0 && list[number - 1].launch == each.launch;
      if (number > 0 && !isAfterSplits && !isAgain)
        return op->emitOpError("expects one launch, but where it follows splits, got launches ")
               << list[number - 1].launch << " and " << each.launch;
    }
  return success();
}

/// What others read from memory has to be there. More may be.
LogicalResult LaunchesOfKernel::verifyStores() {
  GpuKernelPlan needed = plan;
  chooseStores(needed, storage);
  for (auto [launch, other] : llvm::zip(plan.launches, needed.launches))
    for (auto [step, neededStep] : llvm::zip(launch.steps, other.steps))
      for (auto [result, isStored, isNeeded] : llvm::enumerate(step.stored, neededStep.stored)) {
        if (isNeeded && !isStored)
          return errorAt(step, "expects to store result ")
                 << result << ", which is read where no thread has it in registers";
        if (isStored && isStoredElsewhere(launch, step))
          return errorAt(step, "expects the launch that combines to store result ") << result;
      }
  return success();
}

LogicalResult verifyLaunches(plan::NativeKernelOp kernel, const GpuKernelPlan &plan, const Storage &storage) {
  for (unsigned number = 0; number < plan.launches.size(); ++number)
    if (failed(verifyMapping(kernel, plan, number)) || failed(verifyHandedOn(plan.launches[number], storage)))
      return failure();
  if (failed(LaunchesOfKernel(kernel, plan, storage).verify()))
    return failure();
  for (size_t number = 1, first = 0; number < plan.launches.size(); ++number) {
    first = plan.launches[number].isBeside ? first : number;
    auto others = ArrayRef(plan.launches).slice(first, number - first);
    if (!others.empty() && !mayRunBeside(others, plan.launches[number], storage))
      return kernel.emitOpError("expects launch ")
             << number << " beside others that it does not need and of threads that do not wait for each other";
  }
  return success();
}

} // namespace cleave
