// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides the launches of a kernel: as many operations in each as can follow each other inside a group without asking
// other groups.

#include "passes/codegen/GpuLaunches.h"

#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

namespace {

class LaunchPlanner {
public:
  LaunchPlanner(Block &block, const Storage &storage, int64_t processors, bool plain)
      : block(block), storage(storage), processors(processors), plain(plain) {}

  GpuKernelPlan run() {
    plan.buffers.assign(storage.getBuffers().begin(), storage.getBuffers().end());
    findWork();
    groupNests();
    if (!plain)
      putSideBySide(plan, storage);
    chooseStores(plan, storage);
    placeTemporaries(plan, storage);
    if (!plain)
      chooseLoads(plan);
    return std::move(plan);
  }

private:
  void findWork();
  void groupNests();
  void finishLaunch(const StepGroup &group);
  void splitLaunch(GpuLaunch launch, const SmallVector<bool> &isInner);

  Block &block;
  const Storage &storage;
  int64_t processors;
  bool plain;
  std::vector<Nest> nests;
  GpuKernelPlan plan;
};

} // namespace

/// All nests but those that do nothing, and fills that are nothing but the start of a sum.
void LaunchPlanner::findWork() {
  std::vector<Nest> all = findNests(block, storage);
  llvm::erase_if(all, [](const Nest &nest) { return nest.isEmpty(); });
  for (const Nest &nest : all)
    if (!isOnlyStart(nest, all, /*readsFill=*/plain))
      nests.push_back(nest);
}

/// Whether a nest may run before one that stands before it: neither writes what the other reads or writes.
static bool mayPass(const Nest &nest, const Nest &earlier, const Storage &storage) {
  auto touches = [&](const Nest &other, unsigned buffer, bool onlyWrites) {
    linalg::LinalgOp op = other.op;
    for (auto [operand, access] : llvm::zip(op->getOpOperands(), other.accesses))
      if (access && access->buffer == buffer && (!onlyWrites || op.isDpsInit(&operand)))
        return true;
    return !onlyWrites && llvm::is_contained(extractedBuffers(op, storage), buffer);
  };
  for (auto [one, other] : {std::pair(&nest, &earlier), std::pair(&earlier, &nest)}) {
    linalg::LinalgOp op = one->op;
    for (OpOperand &init : op.getDpsInitsMutable())
      if (touches(*other, one->accesses[init.getOperandNumber()]->buffer, /*onlyWrites=*/false))
        return false;
  }
  return true;
}

/// Nests join a launch past others that have to wait for the next one, where these do not mind.
void LaunchPlanner::groupNests() {
  SmallVector<const Nest *> left(llvm::make_pointer_range(nests)), waiting;
  while (!left.empty()) {
    StepGroup group(storage, plan.buffers, processors, plain);
    waiting.clear();
    for (const Nest *nest : left) {
      bool mayJoin =
          waiting.empty() ||
          (!plain && llvm::all_of(waiting, [&](const Nest *other) { return mayPass(*nest, *other, storage); }));
      if (!mayJoin || !group.add(*nest, /*keepsRegisters=*/!waiting.empty()))
        waiting.push_back(nest);
    }
    assert(!group.isEmpty() && "every nest can have a launch of its own");
    finishLaunch(group);
    std::swap(left, waiting);
  }
}

void LaunchPlanner::finishLaunch(const StepGroup &group) {
  GpuLaunch launch = group.finish();
  if (!plain && !launch.unrolled)
    repeatCheapSteps(launch, plan.buffers);
  if (launch.splits > 1 && launch.hasKind(GpuStep::Join))
    return splitLaunch(std::move(launch), group.getInner());
  plan.launches.push_back(std::move(launch));
}

/// One launch that leaves partial results of each split in memory, and one that joins them and goes on.
void LaunchPlanner::splitLaunch(GpuLaunch launch, const SmallVector<bool> &isInner) {
  GpuLaunch second;
  second.processors = launch.processors;
  second.combines = true;
  Access position;
  position.coefficients.assign(launch.sizes.size(), 0);
  int64_t stride = 1;
  for (const GpuLevel &level : llvm::reverse(launch.outer))
    for (unsigned dim : llvm::reverse(level.dims)) {
      position.coefficients[dim] = stride;
      stride *= launch.sizes[dim];
    }
  for (GpuStep &step : launch.steps) {
    if (step.kind != GpuStep::Join)
      continue;
    linalg::LinalgOp op = step.op;
    for (Value result : op->getResults()) {
      step.partials.push_back(position);
      step.partials.back().buffer = plan.buffers.size();
      Type element = cast<RankedTensorType>(result.getType()).getElementType();
      plan.buffers.push_back({Buffer::Temporary, element, stride * launch.splits, 0, {}});
    }
  }
  // Those have the outer dimensions, and the splits as the inner one.
  SmallVector<unsigned> newDim(launch.sizes.size(), 0);
  for (unsigned dim = 0; dim < launch.sizes.size(); ++dim)
    if (!isInner[dim]) {
      newDim[dim] = second.sizes.size();
      second.sizes.push_back(launch.sizes[dim]);
    }
  unsigned splitDim = second.sizes.size();
  second.sizes.push_back(launch.splits);
  auto moved = [&](const Access &access, int64_t alongSplits) {
    Access result = access;
    result.coefficients.assign(second.sizes.size(), 0);
    for (unsigned dim = 0; dim < launch.sizes.size(); ++dim)
      if (!isInner[dim])
        result.coefficients[newDim[dim]] = access.coefficients[dim];
    result.coefficients[splitDim] = alongSplits;
    return result;
  };
  for (const GpuStep &step : launch.steps) {
    if (step.kind == GpuStep::Map)
      continue;
    GpuStep copy = step;
    for (std::optional<unsigned> &dim : copy.dims)
      dim = dim && !isInner[*dim] ? std::optional(newDim[*dim]) : std::nullopt;
    for (std::optional<Access> &access : copy.accesses)
      if (access)
        access = moved(*access, 0);
    for (Access &access : copy.partials)
      access = moved(access, stride);
    copy.joinsPartials = step.kind == GpuStep::Join;
    second.steps.push_back(std::move(copy));
  }
  llvm::erase_if(launch.steps, [](const GpuStep &step) { return step.kind == GpuStep::Once && step.phase > 0; });
  SmallVector<bool> inner(second.sizes.size(), false);
  inner[splitDim] = true;
  chooseMapping(second, inner, plan.buffers, /*plain=*/false);
  plan.launches.push_back(std::move(launch));
  plan.launches.push_back(std::move(second));
}

GpuKernelPlan planLaunches(Block &block, const Storage &storage, int64_t processors, bool plain) {
  return LaunchPlanner(block, storage, processors, plain).run();
}

} // namespace cleave
