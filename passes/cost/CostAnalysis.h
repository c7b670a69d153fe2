// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long things take on the machine of a module: the one analysis that every stage after the planner asks. It answers
// with the formulas that the search and the simulator use (OperatorCost, MeshCost, Topology), so that a decision is
// costed in one way wherever it is made.
//
//   distribute   ways from layout to layout (reshardCost), buckets of collectives (collectiveSeconds)
//   codegen      what shares a kernel on a GPU, and how many threads it gets (gpuModel)
//   schedule     what is urgent (callSeconds, copySeconds, transferSeconds, reductionSeconds, exchangeSeconds)
//
// It depends on the module's `dist.machine`, `dist.devices` and meshes alone, never on the host that compiles.

#ifndef CLEAVE_PASSES_COST_COSTANALYSIS_H
#define CLEAVE_PASSES_COST_COSTANALYSIS_H

#include "dialects/dist/Layout.h"
#include "dialects/dist/Reshard.h"
#include "passes/cost/MeshCost.h"
#include "passes/cost/OperatorCost.h"

#include "mlir/Pass/AnalysisManager.h"

#include <memory>

namespace cleave {

/// What decides how a kernel is best cut into the launches of a GPU.
struct GpuModel {
  int64_t processors = 1; ///< Multiprocessors.
  /// What launches and memory take.
  OperatorCost cost;
  bool operator==(const GpuModel &) const = default;
};

/// Made from a module, as MLIR's analyses are. All times are seconds, all bytes those of one device unless said. Not to
/// be asked by several threads at once.
class CostAnalysis {
public:
  /// `module` is a ModuleOp whose dist.machine, if it has one, is valid. It must outlive the analysis.
  explicit CostAnalysis(mlir::Operation *module);
  ~CostAnalysis();

  /// For MLIR: other machines, devices or meshes make another analysis, whatever else a pass has changed.
  bool isInvalidated(const mlir::AnalysisManager::PreservedAnalyses &) const { return inputsOf(module) != inputs; }

  /// The module's, with what measured steps have said of it.
  const Machine &getMachine() const { return machine; }

  /// What is communicated within a mesh.
  const MeshCost &meshCost(dist::MeshOp mesh);
  /// The same as dist::findReshard asks for it. It must not outlive the analysis.
  std::unique_ptr<dist::ReshardCost> reshardCost(dist::MeshOp mesh);

  /// A call of a kernel on the devices of a mesh, whose hosts are idle besides; `elementType` is what it multiplies, as
  /// "f32" or "tf32".
  double callSeconds(dist::MeshOp mesh, const KernelWork &work, llvm::StringRef elementType);
  /// A copy within every device's memory.
  double copySeconds(dist::MeshOp mesh, double bytes);
  /// A copy between every device's memory and its host's.
  double hostSeconds(dist::MeshOp mesh, double bytes);
  /// A transfer of which each device of `to` receives `bytes` from one of `from`.
  double transferSeconds(dist::MeshOp from, dist::MeshOp to, double bytes);
  /// A collective that joins values, or gathers them, of a group's full tensor of `bytes`: along the axes that
  /// dist::joinedAxes says of its first tensor.
  double collectiveSeconds(dist::Collective collective, double bytes);

  /// The GPU for which kernels are mapped that run on all of these devices: as many processors as the largest of them
  /// has, so that none is idle, and the rates of the slowest. Where the machine does not say how many processors, they
  /// are the default machine's.
  GpuModel gpuModel(llvm::ArrayRef<unsigned> devices) const;
  GpuModel gpuModel(dist::MeshOp mesh);
  /// The same for all devices that are GPUs; of the default machine where there are none.
  GpuModel gpuModel() const;

private:
  /// What the answers depend on.
  using Inputs = std::tuple<mlir::Attribute, mlir::Attribute, llvm::SmallVector<mlir::Attribute>>;
  static Inputs inputsOf(mlir::Operation *module);

  const OperatorCost &operatorCost(const MeshCost &mesh, llvm::StringRef elementType);

  mlir::Operation *module;
  Inputs inputs;
  Machine machine;
  std::unique_ptr<Topology> topology; ///< Once it is asked for.
  /// By devices and sizes of axes.
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Attribute>, std::unique_ptr<MeshCost>> meshes;
  std::map<std::pair<const MeshCost *, std::string>, OperatorCost> operators;
};

/// The axes' places in a mesh, ascending.
llvm::SmallVector<unsigned> axisNumbers(llvm::ArrayRef<mlir::StringAttr> axes, const dist::MeshShape &mesh);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_COSTANALYSIS_H
