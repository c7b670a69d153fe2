// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the programs of a module as one scheduling problem, and remembers which operation each task and value stands
// for.

#ifndef CLEAVE_PASSES_SCHEDULE_PROGRAMTASKS_H
#define CLEAVE_PASSES_SCHEDULE_PROGRAMTASKS_H

#include "dialects/dist/Layout.h"
#include "passes/cost/CostAnalysis.h"
#include "passes/schedule/KernelWork.h"
#include "passes/schedule/Problem.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <tuple>
#include <variant>

namespace cleave {

// Tiles say which part of a tensor a device has; null: the whole.
struct InputTask {
  mlir::BlockArgument argument;
  int64_t index = 0; ///< of the graph's input
  plan::TileAttr tile;
  plan::TileAttr within; ///< Of a part of the input: where it lies.
};
struct OutputTask {
  mlir::Value value;
  int64_t index = 0; ///< of the graph's output
  plan::TileAttr tile;
  plan::TileAttr within; ///< Of a part of the output: where it lies.
};
struct TransferTask {
  dist::SendOp send;
  dist::ReceiveOp receive;
  plan::TileAttr source, target;
};
struct ParameterTask {
  mlir::Value value;
  mlir::FlatSymbolRefAttr parameter;
  plan::TileAttr tile;
};
/// Copies a parameter's next value to where the parameter lies.
struct WriteTask {
  dist::WriteOp op;
  mlir::Value parameter; ///< the read of it
};
/// Copies to the host's memory or from it.
struct HostCopyTask {
  mlir::Value from, to;
};
/// Loads where a device's block of a dimension of the tile begins, or how many elements it has there.
struct IndexTask {
  mlir::Value value;
  llvm::StringRef what;
  plan::TileAttr tile;
  int64_t dim = 0;
};
/// A collective that joins no values. A tile for each of its tensors, or none where they are whole.
struct ExchangeTask {
  dist::Collective op;
  int64_t channel = 0;
  llvm::SmallVector<plan::TileAttr, 1> sources, targets;
};
/// A collective that joins the values of devices that differ in these mesh axes; `tiles`, if they are there, say which
/// part of each operand's buffer a device keeps.
struct ReductionTask {
  dist::Collective op;
  int64_t channel = 0;
  llvm::SmallVector<int64_t> axes;
  llvm::StringRef combiner;
  llvm::SmallVector<plan::TileAttr, 1> tiles;
};
/// What a task is in the IR.
using TaskSource = std::variant<InputTask, OutputTask, TransferTask, ParameterTask, WriteTask, IndexTask, ExchangeTask,
                                ReductionTask, HostCopyTask, dfg::ConstantOp, plan::LaunchOp>;

class ProgramTasks {
public:
  /// The tasks of all programs, with the seconds that `costs` say; these must live until this returns. Errors name the
  /// operation that a program may not hold, or the channel that does not fit; they are the compiler's own, as earlier
  /// stages make the programs.
  static llvm::FailureOr<ProgramTasks> read(mlir::ModuleOp module, CostAnalysis &costs);

  const schedule::Problem &getProblem() const { return problem; }
  /// Devices of the problem are programs, each of which stands for all devices of its mesh.
  llvm::ArrayRef<dist::ProgramOp> getPrograms() const { return programs; }
  const TaskSource &getSource(unsigned task) const { return sources[task]; }
  /// The problem's value that holds an SSA value; views of a value are the same.
  unsigned getValue(mlir::Value value) const { return values.lookup(value); }
  /// What a device's program reads of the parameters that steps write, with the tile that it keeps of each.
  struct WrittenParameter {
    mlir::FlatSymbolRefAttr name;
    mlir::Value read;
    plan::TileAttr tile;
  };
  llvm::ArrayRef<WrittenParameter> getWritten(unsigned device) const { return written[device]; }
  /// The value that is a launch's scratch memory, if it needs any.
  std::optional<unsigned> getScratch(unsigned task) const;

private:
  ProgramTasks(mlir::ModuleOp module, CostAnalysis &costs) : module(module), symbols(module), costs(&costs) {}

  struct Channel {
    dist::SendOp send;
    dist::ReceiveOp receive;
    unsigned from = 0, to = 0;
  };

  static int64_t bytesOf(mlir::Value value);
  mlir::LogicalResult pairChannels();
  mlir::LogicalResult checkChannel(int64_t index, const Channel &channel);
  mlir::LogicalResult addProgram(unsigned device);
  mlir::LogicalResult addOperation(unsigned device, mlir::Operation &op);
  void addInputs(unsigned device);
  void addOutput(unsigned device, mlir::OpOperand &operand);
  void addLaunch(unsigned device, plan::LaunchOp launch);
  mlir::LogicalResult addWrite(unsigned device, dist::WriteOp write);
  bool writesInPlace(dist::WriteOp write, unsigned parameter) const;
  void overwriteLastReads();
  plan::NativeKernelOp overwritingKernel(plan::LaunchOp launch) const;
  void overwriteFetched(dfg::OffloadOp offload);
  void addTransfer(dist::SendOp send);
  void addHostCopy(unsigned device, mlir::Operation *op, schedule::HostCopy way);
  void addIndex(unsigned device, mlir::Value value, llvm::StringRef what, dist::LayoutAttr layout, int64_t dim,
                int64_t part);
  mlir::LogicalResult addCollective(unsigned device, dist::Collective op);
  mlir::LogicalResult addReduction(unsigned device, dist::Collective op);
  void addExchange(unsigned device, dist::Collective op);
  /// Where an exchange passes on what another one has brought, as in a ring, the tasks between both in the program:
  /// they are done with what came before that. So no more than two are there beside the device's own.
  std::vector<unsigned> beforePassingOn(unsigned device, dist::Collective op);
  /// The tiles of layouts, one each; none where all are whole.
  llvm::SmallVector<plan::TileAttr, 1> tilesOf(unsigned device, llvm::ArrayRef<dist::Layout> layouts);
  void addParameter(unsigned device, mlir::Value value, mlir::FlatSymbolRefAttr name, plan::TileAttr tile);
  schedule::Task &addLoad(unsigned device, mlir::Value value, TaskSource source);
  schedule::Task &addTask(unsigned device, TaskSource source, double seconds);
  double callSeconds(unsigned device, mlir::Operation *kernel);
  double copySeconds(unsigned device, mlir::Value value);
  unsigned addValue(unsigned device, mlir::Value value);
  unsigned addBytes(unsigned device, int64_t bytes);
  mlir::LogicalResult addView(mlir::Operation &op);
  /// The tile of a layout on a device's mesh; null where the layout is, and where it is whole.
  plan::TileAttr tileOf(unsigned device, mlir::Attribute layout);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  CostAnalysis *costs;
  llvm::DenseMap<mlir::Operation *, KernelCall> calls; ///< By kernel.
  schedule::Problem problem;
  llvm::SmallVector<dist::ProgramOp> programs;
  /// By device.
  llvm::SmallVector<dist::MeshOp> meshOps;
  llvm::SmallVector<dist::MeshShape> meshes;
  std::vector<TaskSource> sources;
  llvm::DenseMap<mlir::Value, unsigned> values;
  llvm::MapVector<int64_t, Channel> channels;
  /// By device.
  std::vector<std::vector<WrittenParameter>> written;
  /// What a value holds that follows from parameters and constants alone: what makes it, of which values by their
  /// numbers, and which result of it. Numbered.
  struct Content {
    mlir::Attribute maker, part;
    std::vector<unsigned> operands;
    unsigned result = 0;

    auto key() const { return std::tuple(maker.getAsOpaquePointer(), part.getAsOpaquePointer(), operands, result); }
    bool operator<(const Content &other) const { return key() < other.key(); }
  };
  std::map<Content, unsigned> sharedNumbers;
  /// Gives a value the number of its content.
  void share(unsigned value, Content content);
  /// The first read of a parameter in the program at hand.
  llvm::DenseMap<mlir::Attribute, mlir::Value> reads;
  /// The channel of the next collective: behind those of all transfers.
  int64_t nextChannel = 0;
};

} // namespace cleave

#endif // CLEAVE_PASSES_SCHEDULE_PROGRAMTASKS_H
