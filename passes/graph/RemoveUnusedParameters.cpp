// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes parameters whose names nothing mentions.

#include "passes/graph/Passes.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_REMOVEUNUSEDPARAMETERSPASS
#include "passes/graph/Passes.h.inc"

namespace {

class RemoveUnusedParameters : public impl::RemoveUnusedParametersPassBase<RemoveUnusedParameters> {
  void runOnOperation() override {
    auto uses = SymbolTable::getSymbolUses(&getOperation().getBodyRegion());
    if (!uses)
      return;
    llvm::DenseSet<StringAttr> names;
    for (const SymbolTable::SymbolUse &use : *uses)
      names.insert(use.getSymbolRef().getRootReference());
    for (auto parameter : llvm::make_early_inc_range(getOperation().getOps<dfg::ParameterOp>()))
      if (!names.contains(parameter.getSymNameAttr()))
        parameter.erase();
  }
};

} // namespace
} // namespace cleave
