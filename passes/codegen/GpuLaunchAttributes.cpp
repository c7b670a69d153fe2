// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Between launches and the attributes that show them.

#include "passes/codegen/GpuLaunchAttributes.h"

#include "passes/codegen/GpuSteps.h"

using namespace mlir;

namespace cleave {

//===-- writing -----------------------------------------------------------------------------------------------===//

static plan::GpuMappingAttr writeMapping(const GpuLaunch &launch, MLIRContext *context) {
  auto sizesOf = [](ArrayRef<GpuLevel> levels) {
    return llvm::map_to_vector(levels, [](const GpuLevel &level) { return level.size; });
  };
  plan::GpuSquaresAttr squares;
  if (launch.squares)
    squares = plan::GpuSquaresAttr::get(context, launch.squares->across, launch.squares->side, launch.squares->padding);
  return plan::GpuMappingAttr::get(
      context, sizesOf(launch.outer), sizesOf(launch.inner), launch.blocks, launch.groups, launch.lanes,
      launch.innerFast ? plan::ThreadsAlong::Inner : plan::ThreadsAlong::Outer, launch.width, launch.splits,
      launch.combines, launch.unrolled, launch.ahead, squares, launch.isBeside);
}

/// The operation's loops that levels consist of.
static SmallVector<plan::LoopLevelAttr> writeLevels(const GpuStep &step, ArrayRef<GpuLevel> levels) {
  linalg::LinalgOp op = step.op;
  return llvm::map_to_vector(levels, [&](const GpuLevel &level) {
    auto loops = llvm::map_to_vector(level.dims, [&](unsigned dim) {
      return static_cast<unsigned>(llvm::find(step.dims, std::optional(dim)) - step.dims.begin());
    });
    return plan::LoopLevelAttr::get(op.getContext(), loops, plan::LoopRange::Whole);
  });
}

static plan::GpuStepAttr writeStep(const GpuLaunch &launch, unsigned number, const GpuStep &step, bool isAligned) {
  linalg::LinalgOp op = step.op;
  bool hasInner = step.isInner() && !step.joinsPartials;
  SmallVector<unsigned> stores;
  for (auto [result, isStored] : llvm::enumerate(step.stored))
    if (isStored)
      stores.push_back(static_cast<unsigned>(result));
  int64_t aligned = isAligned ? llvm::find(step.accesses, launch.ragged) - step.accesses.begin() : -1;
  return plan::GpuStepAttr::get(op.getContext(), number, writeLevels(step, launch.outer),
                                writeLevels(step, hasInner ? ArrayRef(launch.inner) : ArrayRef<GpuLevel>()), step.phase,
                                stores, step.staged, aligned, step.readsFill);
}

void writeLaunches(plan::NativeKernelOp kernel, const GpuKernelPlan &plan) {
  llvm::MapVector<Operation *, SmallVector<Attribute>> steps;
  for (Operation &op : kernel.getLoops().front())
    if (isa<linalg::LinalgOp>(op))
      steps[&op];
  SmallVector<Attribute> mappings;
  for (auto [number, launch] : llvm::enumerate(plan.launches)) {
    mappings.push_back(writeMapping(launch, kernel.getContext()));
    auto hasAligned = [&](const GpuStep &step) {
      return launch.ragged && step.isInner() && llvm::is_contained(step.accesses, launch.ragged);
    };
    auto aligned = llvm::find_if(launch.steps, hasAligned);
    for (const GpuStep &step : launch.steps) {
      linalg::LinalgOp op = step.op;
      steps[op].push_back(
          writeStep(launch, static_cast<unsigned>(number), step, aligned != launch.steps.end() && &step == &*aligned));
    }
  }
  Builder builder(kernel.getContext());
  for (auto &[op, list] : steps)
    op->setAttr(plan::stepsAttrName, builder.getArrayAttr(list));
  kernel.setMappingsAttr(builder.getArrayAttr(mappings));
}

//===-- reading -----------------------------------------------------------------------------------------------===//

namespace {

/// The loops of an operation that a level consists of.
using LevelLoops = SmallVector<unsigned, 2>;

class LaunchReader {
public:
  LaunchReader(plan::NativeKernelOp kernel, const Storage &storage) : kernel(kernel), storage(storage) {}

  FailureOr<GpuKernelPlan> run() {
    plan.buffers.assign(storage.getBuffers().begin(), storage.getBuffers().end());
    for (auto mapping : kernel.getMappings()->getAsRange<plan::GpuMappingAttr>())
      readMapping(mapping);
    loopsOf.resize(plan.launches.size());
    for (const Nest &nest : findNests(kernel.getLoops().front(), storage))
      if (failed(readSteps(nest)))
        return failure();
    for (size_t number = 0; number < plan.launches.size(); ++number)
      if (failed(readPartials(number)))
        return failure();
    if (failed(verifyLaunches(kernel, plan, storage)))
      return failure();
    for (GpuLaunch &launch : plan.launches)
      launch.isLarge = needsWideNumbers(launch);
    placeTemporaries(plan, storage);
    return std::move(plan);
  }

private:
  void readMapping(plan::GpuMappingAttr attr);
  LogicalResult readSteps(const Nest &nest);
  LogicalResult readStep(const Nest &nest, plan::GpuStepAttr attr);
  LogicalResult readOperands(const Nest &nest, plan::GpuStepAttr attr, GpuLaunch &launch, GpuStep &step);
  LogicalResult readLevels(const Nest &nest, ArrayRef<plan::LoopLevelAttr> attrs, ArrayRef<GpuLevel> levels,
                           StringRef kind);
  LogicalResult readPartials(size_t number);

  plan::NativeKernelOp kernel;
  const Storage &storage;
  GpuKernelPlan plan;
  /// The loops of each step's levels, the outer ones first; and those of the step that is read.
  std::vector<std::vector<SmallVector<LevelLoops>>> loopsOf;
  SmallVector<LevelLoops> loops;
};

} // namespace

/// Each level is one dimension of the launch, of whatever loops it consists in the operations.
void LaunchReader::readMapping(plan::GpuMappingAttr attr) {
  GpuLaunch launch;
  auto readSizes = [&](ArrayRef<int64_t> sizes, SmallVectorImpl<GpuLevel> &levels, int64_t &all) {
    for (int64_t size : sizes) {
      levels.push_back({size, {static_cast<unsigned>(launch.sizes.size())}});
      launch.sizes.push_back(size);
      all *= size;
    }
  };
  readSizes(attr.getOuter(), launch.outer, launch.outerSize);
  readSizes(attr.getInner(), launch.inner, launch.innerSize);
  launch.blocks = attr.getBlocks();
  launch.groups = attr.getGroups();
  launch.lanes = attr.getLanes();
  launch.threads = launch.groups * launch.lanes;
  launch.innerFast = attr.getAlong() == plan::ThreadsAlong::Inner;
  launch.width = attr.getWidth();
  launch.splits = attr.getSplits();
  launch.combines = attr.getCombines();
  launch.unrolled = attr.getUnrolled();
  launch.ahead.assign(attr.getAhead().begin(), attr.getAhead().end());
  if (plan::GpuSquaresAttr squares = attr.getSquares())
    launch.squares = {squares.getAcross(), squares.getSide(), squares.getPadding()};
  launch.isBeside = attr.getBeside();
  plan.launches.push_back(std::move(launch));
}

LogicalResult LaunchReader::readSteps(const Nest &nest) {
  linalg::LinalgOp op = nest.op;
  auto steps = op->getAttrOfType<ArrayAttr>(plan::stepsAttrName);
  if (!steps || !llvm::all_of(steps, llvm::IsaPred<plan::GpuStepAttr>))
    return op.emitOpError("expects a list of its steps in '") << plan::stepsAttrName << "', found none";
  if (nest.isEmpty() && !steps.empty())
    return op.emitOpError("expects no steps, as it has no elements");
  for (auto step : steps.getAsRange<plan::GpuStepAttr>())
    if (failed(readStep(nest, step)))
      return failure();
  return success();
}

/// Checks the loops of levels against the launch's sizes.
LogicalResult LaunchReader::readLevels(const Nest &nest, ArrayRef<plan::LoopLevelAttr> attrs, ArrayRef<GpuLevel> levels,
                                       StringRef kind) {
  linalg::LinalgOp op = nest.op;
  if (attrs.size() != levels.size())
    return op.emitOpError("expects ") << levels.size() << " " << kind << " levels as its launch has, got "
                                      << attrs.size();
  for (auto [number, attr, level] : llvm::enumerate(attrs, levels)) {
    if (attr.getRange() != plan::LoopRange::Whole)
      return op.emitOpError("expects levels that are whole, got one that is ") << stringifyEnum(attr.getRange());
    int64_t size = 1;
    for (unsigned loop : attr.getLoops()) {
      if (loop >= nest.sizes.size())
        return op.emitOpError("expects levels of ") << nest.sizes.size() << " loops, got loop " << loop;
      size *= nest.sizes[loop];
    }
    if (size != level.size)
      return op.emitOpError("expects ") << kind << " level " << number << " of " << level.size
                                        << " iterations as its launch has, got " << size;
    loops.emplace_back(attr.getLoops());
  }
  return success();
}

LogicalResult LaunchReader::readStep(const Nest &nest, plan::GpuStepAttr attr) {
  linalg::LinalgOp op = nest.op;
  if (attr.getLaunch() >= plan.launches.size())
    return op.emitOpError("expects steps of ") << plan.launches.size() << " launches, got launch " << attr.getLaunch();
  GpuLaunch &launch = plan.launches[attr.getLaunch()];
  GpuStep step;
  step.op = op;
  step.phase = attr.getPhase();
  step.readsFill = attr.getReadsFill();
  step.starts = startsOf(nest, step.readsFill);
  bool hasInner = !attr.getInner().empty();
  if (launch.combines && hasInner)
    return op.emitOpError("expects no inner levels in a launch that combines, got ") << attr.getInner().size();
  step.kind = kindOf(nest, hasInner);
  step.joinsPartials = launch.combines && step.kind != GpuStep::Once;
  step.isRepeated = !launch.steps.empty() && launch.steps.back().op == op;
  loops.clear();
  if (failed(readLevels(nest, attr.getOuter(), launch.outer, "outer")))
    return failure();
  if ((hasInner || (step.isInner() && !step.joinsPartials)) &&
      failed(readLevels(nest, attr.getInner(), launch.inner, "inner")))
    return failure();
  step.dims.assign(nest.sizes.size(), std::nullopt);
  for (auto [dim, level] : llvm::enumerate(loops))
    if (level.size() == 1)
      step.dims[level.front()] = static_cast<unsigned>(dim);
  for (const std::optional<Access> &access : nest.accesses) {
    step.accesses.push_back(access);
    if (!access)
      continue;
    auto &coefficients = step.accesses.back()->coefficients;
    coefficients.assign(launch.sizes.size(), 0);
    for (auto [dim, level] : llvm::enumerate(loops))
      coefficients[dim] = access->coefficients[level.back()];
  }
  if (failed(readOperands(nest, attr, launch, step)) || failed(verifyStep(nest, launch, step, loops)))
    return failure();
  launch.steps.push_back(std::move(step));
  loopsOf[attr.getLaunch()].push_back(loops);
  return success();
}

LogicalResult LaunchReader::readOperands(const Nest &nest, plan::GpuStepAttr attr, GpuLaunch &launch, GpuStep &step) {
  linalg::LinalgOp op = nest.op;
  step.stored.assign(op->getNumResults(), false);
  for (unsigned result : attr.getStores()) {
    if (result >= step.stored.size())
      return op.emitOpError("expects to store some of ") << step.stored.size() << " results, got result " << result;
    step.stored[result] = true;
  }
  step.staged.assign(attr.getStaged().begin(), attr.getStaged().end());
  for (unsigned operand : step.staged)
    if (operand >= static_cast<unsigned>(op.getNumDpsInputs()) || !step.accesses[operand] || !launch.squares)
      return op.emitOpError("expects staged operands to be tensors that a launch in squares reads, got operand ")
             << operand;
  if (attr.getAligned() == -1)
    return success();
  auto aligned = static_cast<uint64_t>(attr.getAligned());
  if (aligned >= step.accesses.size() || !step.accesses[aligned])
    return op.emitOpError("expects a tensor to divide rows by, got operand ") << attr.getAligned();
  if (launch.ragged)
    return op.emitOpError("expects one operand to divide the rows of a launch by, got another one");
  launch.ragged = step.accesses[aligned];
  return success();
}

/// How far what a step leaves in memory moves along each loop of the operation: the last of its outer levels varies
/// fastest.
static SmallVector<int64_t> partialStrides(const GpuStep &step, ArrayRef<LevelLoops> levels, int64_t &all) {
  linalg::LinalgOp op = step.op;
  SmallVector<int64_t> strides(op.getNumLoops(), 0), sizes = op.getStaticLoopRanges();
  all = 1;
  for (const LevelLoops &level : llvm::reverse(levels))
    for (unsigned loop : llvm::reverse(level)) {
      strides[loop] = all;
      all *= sizes[loop];
    }
  return strides;
}

/// Where the splits of a launch leave what they have joined, split by split, and where the next launch finds it.
LogicalResult LaunchReader::readPartials(size_t number) {
  GpuLaunch &first = plan.launches[number];
  if (first.splits <= 1 || !first.hasKind(GpuStep::Join))
    return success();
  if (number + 1 == plan.launches.size() || !plan.launches[number + 1].combines)
    return kernel.emitOpError("expects a launch after launch ")
           << number << " that combines what its splits have joined";
  GpuLaunch &second = plan.launches[number + 1];
  for (auto [step, levels] : llvm::zip(first.steps, loopsOf[number])) {
    if (step.kind != GpuStep::Join)
      continue;
    linalg::LinalgOp op = step.op;
    auto other = llvm::find_if(second.steps, [&](const GpuStep &each) { return each.op == step.op; });
    if (other == second.steps.end())
      return op.emitOpError("expects to combine in launch ")
             << number + 1 << " what the splits of launch " << number << " have joined";
    int64_t all;
    SmallVector<int64_t> strides = partialStrides(step, ArrayRef(levels).take_front(first.outer.size()), all);
    ArrayRef<LevelLoops> otherLevels = loopsOf[number + 1][other - second.steps.begin()];
    Access written, read;
    for (const LevelLoops &level : ArrayRef(levels).take_front(first.outer.size()))
      written.coefficients.push_back(strides[level.back()]);
    written.coefficients.append(first.inner.size(), 0);
    for (const LevelLoops &level : otherLevels) {
      for (auto [outer, inner] : llvm::zip(ArrayRef(level).drop_back(), ArrayRef(level).drop_front()))
        if (strides[outer] != strides[inner] * op.getStaticLoopRanges()[inner])
          return op.emitOpError("expects a level of loops along which what splits leave lies as one, got loops ")
                 << outer << " and " << inner;
      read.coefficients.push_back(strides[level.back()]);
    }
    read.coefficients.append(second.inner.size(), all);
    for (Value result : op->getResults()) {
      written.buffer = read.buffer = plan.buffers.size();
      step.partials.push_back(written);
      other->partials.push_back(read);
      Type element = cast<RankedTensorType>(result.getType()).getElementType();
      plan.buffers.push_back({Buffer::Temporary, element, all * first.splits, 0, {}});
    }
  }
  return success();
}

FailureOr<GpuKernelPlan> readLaunches(plan::NativeKernelOp kernel, const Storage &storage) {
  return LaunchReader(kernel, storage).run();
}

} // namespace cleave
