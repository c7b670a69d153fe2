// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds launches that do not need each other.

#include "passes/codegen/GpuLaunches.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave {

/// Functions with more parts take long to compile and spill.
static constexpr size_t mostNeighbours = 16;

namespace {

/// What a launch does to memory.
struct Footprint {
  llvm::SmallDenseSet<unsigned> reads;
  /// The buffers that it writes, and the values that are written there.
  SmallVector<std::pair<unsigned, Value>> writes;

  bool doesWrite(unsigned buffer) const {
    return llvm::any_of(writes, [&](const auto &write) { return write.first == buffer; });
  }
};

} // namespace

static Footprint footprintOf(const GpuLaunch &launch, const Storage &storage) {
  Footprint footprint;
  for (const GpuStep &step : launch.steps) {
    linalg::LinalgOp op = step.op;
    for (OpOperand &operand : op->getOpOperands()) {
      const auto &access = step.accesses[operand.getOperandNumber()];
      if (access && step.readsMemory(operand))
        footprint.reads.insert(access->buffer);
      if (access && op.isDpsInit(&operand))
        footprint.writes.push_back({access->buffer, op.getTiedOpResult(&operand)});
    }
    op.getBlock()->walk([&](tensor::ExtractOp extract) {
      if (const View *view = storage.find(extract.getTensor()))
        footprint.reads.insert(view->buffer);
    });
    for (const Access &partial : step.partials) {
      footprint.reads.insert(partial.buffer);
      footprint.writes.push_back({partial.buffer, Value()});
    }
  }
  return footprint;
}

/// Whether two values are inserted into one tensor at places that do not overlap.
static bool areDifferentSlices(Value a, Value b, const Storage &storage) {
  auto insertionOf = [](Value value) -> tensor::InsertSliceOp {
    auto insert = value && value.hasOneUse() ? dyn_cast<tensor::InsertSliceOp>(*value.user_begin()) : nullptr;
    return insert && insert.getSource() == value ? insert : nullptr;
  };
  tensor::InsertSliceOp first = insertionOf(a), second = insertionOf(b);
  if (!first || !second || first.getType() != second.getType())
    return false;
  const View *one = storage.find(first.getResult()), *other = storage.find(second.getResult());
  if (!one || !other || one->buffer != other->buffer || one->offset != other->offset || one->strides != other->strides)
    return false;
  for (int64_t dim = 0; dim < first.getType().getRank(); ++dim) {
    int64_t begin = first.getStaticOffset(dim), end = begin + first.getStaticSize(dim);
    int64_t otherBegin = second.getStaticOffset(dim), otherEnd = otherBegin + second.getStaticSize(dim);
    if (end <= otherBegin || otherEnd <= begin)
      return true;
  }
  return false;
}

static bool areIndependent(const Footprint &first, const Footprint &second, const Storage &storage) {
  for (unsigned buffer : second.reads)
    if (first.doesWrite(buffer))
      return false;
  for (const auto &[buffer, value] : second.writes) {
    if (first.reads.contains(buffer))
      return false;
    for (const auto &[other, otherValue] : first.writes)
      if (other == buffer && !areDifferentSlices(otherValue, value, storage))
        return false;
  }
  return true;
}

/// Whether blocks of the launch may be of any size: no thread waits for another.
static bool isFree(const GpuLaunch &launch) { return launch.lanes == 1 && !launch.squares; }

bool mayRunBeside(ArrayRef<GpuLaunch> others, const GpuLaunch &launch, const Storage &storage) {
  Footprint footprint = footprintOf(launch, storage);
  return isFree(launch) && llvm::all_of(others, [&](const GpuLaunch &other) {
           return isFree(other) && areIndependent(footprintOf(other, storage), footprint, storage);
         });
}

void putSideBySide(GpuKernelPlan &plan, const Storage &storage) {
  std::vector<Footprint> run;
  GpuLaunch *before = nullptr;
  for (GpuLaunch &launch : plan.launches) {
    Footprint footprint = footprintOf(launch, storage);
    constexpr int64_t mostBlocksTogether = int64_t(1) << 30;
    bool fits = before && isFree(*before) && isFree(launch) && run.size() < mostNeighbours &&
                before->blocks + launch.blocks < mostBlocksTogether &&
                llvm::all_of(run, [&](const Footprint &other) { return areIndependent(other, footprint, storage); });
    if (fits) {
      launch.isBeside = true;
      launch.groups = launch.threads = before->threads;
      launch.blocks = launch.blocksNeeded();
    } else {
      run.clear();
    }
    run.push_back(std::move(footprint));
    before = &launch;
  }
}

} // namespace cleave
