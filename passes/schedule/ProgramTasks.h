// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the programs of a module as one scheduling problem, and remembers which operation each task and value stands
// for.

#ifndef CLEAVE_PASSES_SCHEDULE_PROGRAMTASKS_H
#define CLEAVE_PASSES_SCHEDULE_PROGRAMTASKS_H

#include "passes/schedule/Problem.h"
#include "passes/schedule/WorkEstimate.h"

#include "llvm/ADT/MapVector.h"

#include <variant>

namespace cleave {

struct InputTask {
  mlir::BlockArgument argument;
  int64_t index = 0; ///< of the graph's input
};
struct OutputTask {
  mlir::Value value;
  int64_t index = 0; ///< of the graph's output
};
struct TransferTask {
  dist::SendOp send;
  dist::ReceiveOp receive;
};
/// What a task is in the IR.
using TaskSource = std::variant<InputTask, OutputTask, TransferTask, dfg::ReadOp, dfg::ConstantOp, plan::LaunchOp>;

class ProgramTasks {
public:
  /// The tasks of all programs. Errors name the operation that a program may not hold, or the channel that does not
  /// fit; they are the compiler's own, as earlier stages make the programs.
  static llvm::FailureOr<ProgramTasks> read(mlir::ModuleOp module);

  const schedule::Problem &getProblem() const { return problem; }
  /// Devices of the problem are programs.
  llvm::ArrayRef<dist::ProgramOp> getPrograms() const { return programs; }
  const TaskSource &getSource(unsigned task) const { return sources[task]; }
  /// The problem's value that holds an SSA value; views of a value are the same.
  unsigned getValue(mlir::Value value) const { return values.lookup(value); }
  /// The value that is a launch's scratch memory, if it needs any.
  std::optional<unsigned> getScratch(unsigned task) const;

private:
  explicit ProgramTasks(mlir::ModuleOp module) : module(module), symbols(module), work(module) {}

  struct Channel {
    dist::SendOp send;
    dist::ReceiveOp receive;
    unsigned from = 0, to = 0;
  };

  mlir::LogicalResult pairChannels();
  mlir::LogicalResult addProgram(unsigned device);
  mlir::LogicalResult addOperation(unsigned device, mlir::Operation &op);
  void addInputs(unsigned device);
  void addOutput(unsigned device, mlir::OpOperand &operand);
  void addLaunch(unsigned device, plan::LaunchOp launch);
  void addTransfer(dist::SendOp send);
  schedule::Task &addTask(unsigned device, TaskSource source, double seconds);
  unsigned addValue(unsigned device, mlir::Value value);
  unsigned addBytes(unsigned device, int64_t bytes);
  mlir::LogicalResult addView(mlir::Operation &op);
  int64_t coresOf(unsigned device);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  WorkEstimate work;
  schedule::Problem problem;
  llvm::SmallVector<dist::ProgramOp> programs;
  std::vector<TaskSource> sources;
  llvm::DenseMap<mlir::Value, unsigned> values;
  llvm::MapVector<int64_t, Channel> channels;
};

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_PROGRAMTASKS_H
