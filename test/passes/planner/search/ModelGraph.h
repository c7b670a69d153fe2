// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models as the search sees them, for its tests: from the zoo, written by a ModelBuilder, or as dfg text.

#ifndef CLEAVE_TEST_PASSES_PLANNER_SEARCH_MODELGRAPH_H
#define CLEAVE_TEST_PASSES_PLANNER_SEARCH_MODELGRAPH_H

#include "passes/cost/Machine.h"
#include "passes/cost/OperatorCost.h"
#include "passes/planner/search/Grid.h"
#include "passes/planner/search/SearchGraph.h"
#include "passes/zoo/Zoo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <numeric>

namespace cleave {

/// A model, imported and simplified as `cleave compile` does.
class ModelGraph {
public:
  /// Of the zoo, with places for tokens at experts where a capacity is said.
  ModelGraph(const std::string &name, const std::map<std::string, int64_t> &numbers, double expertCapacity = 0);
  explicit ModelGraph(const onnx::ModelProto &model, double expertCapacity = 0);
  /// A module of the dfg dialect.
  explicit ModelGraph(const std::string &text);

  search::SearchGraph graph;

  /// Reads it again with pins of its nodes.
  void pin(llvm::ArrayRef<unsigned> pins);
  /// Reads it again for an executor.
  void readFor(const Executor &executor);

private:
  void read(double expertCapacity = 0);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Dense blocks (Huang et al. 2017), whose layers each read a concatenation of all earlier ones of their block.
onnx::ModelProto buildDenseBlocks(int64_t batch, int64_t blocks, int64_t layers, int64_t growth);

/// Devices of one host, joined by `link`, without launch costs: an operator reaches `peak`, in FLOP/s of float32, or
/// `memoryBandwidth`, in bytes a second.
Machine plainMachine(unsigned devices, double peak, double memoryBandwidth, LinkSpec link);

/// All devices of a machine as a grid.
struct MachineGrid {
  MachineGrid(const std::string &name, llvm::ArrayRef<int64_t> sizes);
  MachineGrid(Machine machine, llvm::ArrayRef<int64_t> sizes);

  Machine machine;
  Topology topology;
  OperatorCost cost;
  search::Grid grid;
};

} // namespace cleave

#endif // CLEAVE_TEST_PASSES_PLANNER_SEARCH_MODELGRAPH_H
