// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds what is cheap enough to be computed again in every phase that needs it, as logits that are cast before a
// softmax: to write and read them costs more.

#include "passes/codegen/GpuLaunches.h"

#include "passes/codegen/GpuSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace cleave {

static unsigned writtenBuffer(const GpuStep &step) {
  linalg::LinalgOp op = step.op;
  return step.accesses[op.getNumDpsInputs()]->buffer;
}

namespace {

/// Operations that may be computed again for one value.
constexpr size_t mostRepeatedOperations = 8;

class StepRepeater {
public:
  StepRepeater(const GpuLaunch &launch, ArrayRef<Buffer> buffers) : launch(launch), buffers(buffers) {}

  /// The launch's steps with what is computed again, each behind the step that it repeats.
  std::vector<GpuStep> run();

private:
  /// What it takes to compute a value again.
  struct Repeat {
    llvm::SmallSetVector<unsigned, 4> steps;
    llvm::SmallDenseSet<unsigned> inputs;
    size_t operations = 0;
    int64_t bytes = 0;
  };
  std::optional<unsigned> onlyWriter(unsigned buffer) const;
  bool collect(unsigned number, Repeat &repeat) const;
  bool isCheap(unsigned number, Repeat &repeat) const;

  const GpuLaunch &launch;
  ArrayRef<Buffer> buffers;
};

} // namespace

/// The step that writes a buffer, where that is one alone.
std::optional<unsigned> StepRepeater::onlyWriter(unsigned buffer) const {
  std::optional<unsigned> writer;
  for (auto [number, step] : llvm::enumerate(launch.steps))
    if (writeAccess(step, buffer)) {
      if (writer)
        return std::nullopt;
      writer = number;
    }
  return writer;
}

/// Adds a step and those that it needs; false where they are not to be repeated.
bool StepRepeater::collect(unsigned number, Repeat &repeat) const {
  const GpuStep &step = launch.steps[number];
  linalg::LinalgOp op = step.op;
  if (step.kind != GpuStep::Map || op->getNumResults() != 1 || onlyWriter(writtenBuffer(step)) != number)
    return false;
  for (Operation &inner : op.getBlock()->without_terminator()) {
    bool isSimple = isa<arith::ArithDialect>(inner.getDialect()) || isa<linalg::IndexOp>(inner);
    if (!isSimple || isa<arith::DivFOp, arith::RemFOp>(inner))
      return false;
    repeat.operations += isa<arith::ConstantOp>(inner) ? 0 : 1;
  }
  if (repeat.operations > mostRepeatedOperations)
    return false;
  for (OpOperand &operand : op->getOpOperands()) {
    const auto &access = step.accesses[operand.getOperandNumber()];
    if (!access || !step.readsMemory(operand))
      continue;
    if (op.isDpsInit(&operand))
      return false;
    bool isWritten =
        llvm::any_of(launch.steps, [&](const GpuStep &other) { return writeAccess(other, access->buffer); });
    if (!isWritten) {
      bool moves = llvm::any_of(launch.inner, [&](const GpuLevel &level) { return level.step(*access) != 0; });
      if (moves && buffers[access->buffer].kind != Buffer::Constant && repeat.inputs.insert(access->buffer).second)
        repeat.bytes += elementBytes(buffers[access->buffer].element);
      continue;
    }
    auto writer = onlyWriter(access->buffer);
    if (!writer || (launch.steps[*writer].kind == GpuStep::Map && !collect(*writer, repeat)))
      return false;
    // Others are known to the whole group.
    if (launch.steps[*writer].kind == GpuStep::Sequence)
      return false;
  }
  repeat.steps.insert(number);
  return true;
}

/// Whether to read what the value is computed from costs no more than to write the value and to read it.
bool StepRepeater::isCheap(unsigned number, Repeat &repeat) const {
  return collect(number, repeat) &&
         repeat.bytes <= 2 * elementBytes(buffers[writtenBuffer(launch.steps[number])].element);
}

std::vector<GpuStep> StepRepeater::run() {
  // Of each step the phases that need it once more.
  std::vector<llvm::SmallSetVector<unsigned, 2>> phases(launch.steps.size());
  for (auto [number, step] : llvm::enumerate(launch.steps)) {
    if (step.kind != GpuStep::Map)
      continue;
    llvm::SmallSetVector<unsigned, 2> later;
    for (const GpuStep &reader : ArrayRef(launch.steps).drop_front(number + 1))
      for (const std::optional<Access> &access : reader.accesses)
        if (access && reader.isInner() && reader.phase > step.phase && writeAccess(step, access->buffer))
          later.insert(reader.phase);
    Repeat repeat;
    if (later.empty() || !isCheap(number, repeat))
      continue;
    for (unsigned needed : repeat.steps)
      for (unsigned phase : later)
        if (launch.steps[needed].phase < phase)
          phases[needed].insert(phase);
  }
  std::vector<GpuStep> steps;
  for (auto [step, repeated] : llvm::zip(launch.steps, phases)) {
    steps.push_back(step);
    for (unsigned phase : repeated) {
      steps.push_back(step);
      steps.back().phase = phase;
      steps.back().isRepeated = true;
    }
  }
  return steps;
}

void repeatCheapSteps(GpuLaunch &launch, ArrayRef<Buffer> buffers) {
  launch.steps = StepRepeater(launch, buffers).run();
}

} // namespace cleave
