// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes meshes with shares apart (SharesExpander.h says how).

#include "passes/distribute/Passes.h"
#include "passes/distribute/SharesExpander.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_EXPANDSHARESPASS
#include "passes/distribute/Passes.h.inc"

LogicalResult expandShares(ModuleOp module, SharedPorts ports,
                           llvm::function_ref<void(FlatSymbolRefAttr mesh, FlatSymbolRefAttr island)> onIsland) {
  auto meshes = llvm::to_vector(llvm::make_filter_range(
      module.getOps<dist::MeshOp>(), [](dist::MeshOp mesh) { return mesh.getAxisSharesAttr() != nullptr; }));
  IslandTable table(module);
  for (dist::MeshOp mesh : meshes) {
    if (failed(table.add(mesh)))
      return failure();
    auto name = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
    for (const Island &island : table.find(name)->list)
      onIsland(name, island.mesh);
  }
  for (auto graph : module.getOps<dfg::GraphOp>())
    if (failed(SharesExpander(graph, table, ports).run()))
      return failure();
  for (dist::MeshOp mesh : meshes)
    mesh.erase();
  return success();
}

namespace {

class ExpandShares : public impl::ExpandSharesPassBase<ExpandShares> {
public:
  using ExpandSharesPassBase::ExpandSharesPassBase;

private:
  void runOnOperation() override {
    SharedPorts ports = wholePorts ? SharedPorts::Whole : SharedPorts::InParts;
    if (failed(expandShares(getOperation(), ports, [](FlatSymbolRefAttr, FlatSymbolRefAttr) {})))
      signalPassFailure();
  }
};

} // namespace
} // namespace cleave
