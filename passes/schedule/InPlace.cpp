// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels write where an operand lies: the next value of a parameter, and what is computed of a value that has no
// other reader.

#include "passes/schedule/Order.h"
#include "passes/schedule/ProgramTasks.h"

using namespace mlir;

namespace cleave {

/// Whether a kernel may write `result` where the argument lies: it reads each element of the argument for no other
/// element, and for nothing else than the result, so that nobody needs one that is written already. What is computed
/// from the result may be computed from anything.
static bool mayOverwrite(BlockArgument argument, Value result) {
  Operation *writer = result.getDefiningOp();
  if (!writer || writer->getBlock() != argument.getOwner() || argument.getType() != result.getType())
    return false;
  llvm::DenseSet<Value> needed = {result};
  for (Operation &op : llvm::reverse(argument.getOwner()->without_terminator()))
    if (llvm::any_of(op.getResults(), [&](Value value) { return needed.contains(value); }))
      needed.insert(op.operand_begin(), op.operand_end());
  llvm::DenseSet<Value> dependent = {argument};
  for (Operation &op : argument.getOwner()->without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return dependent.contains(operand); }))
      continue;
    bool isNeeded = llvm::any_of(op.getResults(), [&](Value value) { return needed.contains(value); });
    auto shape = cast<RankedTensorType>(argument.getType()).getShape();
    if (!isNeeded || !isa<ElementwiseInterface>(op) ||
        cast<RankedTensorType>(op.getResult(0).getType()).getShape() != shape)
      return false;
    if (&op != writer)
      dependent.insert(op.result_begin(), op.result_end());
  }
  // What is handed on as it is gets copied in the end.
  return !llvm::is_contained(argument.getOwner()->getTerminator()->getOperands(), argument);
}

/// Whether the parameter's next value can be made where the parameter lies: a kernel computes it element by element, a
/// collective brings it from devices that have parts of it, or it is moved to the host's memory, where the parameter
/// is. Who else reads it, as an optimizer does its state, finds it there.
bool ProgramTasks::writesInPlace(dist::WriteOp write, unsigned parameter) const {
  // One value cannot lie in two places.
  if (problem.values[getValue(write.getValue())].inPlaceOf)
    return false;
  // To the host's memory, where the parameter lies.
  if (write.getValue().getDefiningOp<dfg::OffloadOp>())
    return true;
  if (auto collective = write.getValue().getDefiningOp<dist::Collective>())
    return llvm::none_of(collective->getOperands(), [&](Value operand) { return getValue(operand) == parameter; });
  auto launch = write.getValue().getDefiningOp<plan::LaunchOp>();
  if (!launch)
    return false;
  auto kernel = symbols.lookup<plan::NativeKernelOp>(launch.getKernel());
  if (!kernel)
    return false;
  Value result =
      kernel.getBody().front().getTerminator()->getOperand(cast<OpResult>(write.getValue()).getResultNumber());
  unsigned reads = 0;
  for (auto [operand, argument] : llvm::zip_equal(launch.getOperands(), kernel.getBody().getArguments()))
    if (getValue(operand) == parameter) {
      if (!mayOverwrite(argument, result))
        return false;
      ++reads;
    }
  return reads == 1;
}

/// The kernel of a launch, if it may be told after it was made what it overwrites. Kernels of GPUs are told before they
/// are compiled, which is parameters alone.
plan::NativeKernelOp ProgramTasks::overwritingKernel(plan::LaunchOp launch) const {
  auto kernel = launch ? symbols.lookup<plan::NativeKernelOp>(launch.getKernel()) : plan::NativeKernelOp();
  return kernel && kernel.getDriver() == "cpu" ? kernel : plan::NativeKernelOp();
}

/// Lets a kernel write what is moved to the host's memory where it lies that was fetched from there for nothing else:
/// an optimizer's state.
void ProgramTasks::overwriteFetched(dfg::OffloadOp offload) {
  auto next = dyn_cast<OpResult>(offload.getInput());
  auto launch = next ? dyn_cast<plan::LaunchOp>(next.getOwner()) : plan::LaunchOp();
  plan::NativeKernelOp kernel = overwritingKernel(launch);
  if (!kernel || problem.values[getValue(next)].inPlaceOf)
    return;
  Value result = kernel.getBody().front().getTerminator()->getOperand(next.getResultNumber());
  for (auto [operand, argument] : llvm::zip_equal(launch.getOperands(), kernel.getBody().getArguments())) {
    auto fetch = operand.getDefiningOp<dfg::FetchOp>();
    bool isTaken = llvm::any_of(launch.getOutputs(), [&](Value output) {
      return problem.values[getValue(output)].inPlaceOf == getValue(operand);
    });
    if (fetch && operand.hasOneUse() && !isTaken && mayOverwrite(argument, result)) {
      problem.values[getValue(next)].inPlaceOf = getValue(operand);
      return;
    }
  }
}

/// Lets kernels write their result where an operand lies that has no other reader, as the sum of gradients so far. Only
/// kernels with one result: those with several may read an operand again for the second.
void ProgramTasks::overwriteLastReads() {
  auto topological = topologicalOrder(problem);
  if (!topological)
    return; // Solving it is refused.
  std::vector<schedule::ValueUses> uses = usesOf(problem);
  // What is made once is there for every step.
  std::vector<bool> prepare = tasksOfPrepare(problem, *topological);
  auto isKept = [&](unsigned value, unsigned task) {
    if (uses[value].readers != std::vector<unsigned>{task} || prepare[uses[value].writer] != prepare[task])
      return true;
    // What lies where a parameter does is its next value.
    std::optional<unsigned> place = value;
    for (; place; place = problem.values[*place].inPlaceOf)
      if (problem.values[*place].changes || problem.values[*place].shared)
        return true;
    return false;
  };
  // What lasts in programs that take turns has a place of its own, which is not that of what it is made of.
  auto isMadeForAll = [&](unsigned value) {
    unsigned arena = problem.arenas[problem.values[value].device];
    return prepare[uses[value].writer] && llvm::count(problem.arenas, arena) > 1 &&
           llvm::any_of(uses[value].readers, [&](unsigned reader) { return !prepare[reader]; });
  };
  for (auto [task, source] : llvm::enumerate(sources)) {
    auto *launch = std::get_if<plan::LaunchOp>(&source);
    plan::NativeKernelOp kernel = overwritingKernel(launch ? *launch : plan::LaunchOp());
    if (!kernel || (*launch)->getNumResults() != 1)
      continue;
    unsigned next = getValue((*launch)->getResult(0));
    if (isMadeForAll(next))
      continue;
    Value result = kernel.getBody().front().getTerminator()->getOperand(0);
    for (auto [operand, argument] : llvm::zip_equal(launch->getOperands(), kernel.getBody().getArguments())) {
      unsigned value = getValue(operand);
      if (!problem.values[next].inPlaceOf && llvm::count(problem.tasks[task].reads, value) == 1 &&
          !isKept(value, static_cast<unsigned>(task)) && mayOverwrite(argument, result))
        problem.values[next].inPlaceOf = value;
    }
  }
}

} // namespace cleave
