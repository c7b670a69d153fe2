// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Graphs for several lengths of sequences, or several batches, in one module, on one set of parameters.

#include "passes/train/Evaluation.h"

#include "dialects/dist/Dist.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace cleave {
namespace {

LogicalResult joinParameter(SymbolTable &symbols, dfg::ParameterOp parameter) {
  auto known = symbols.lookup<dfg::ParameterOp>(parameter.getSymName());
  if (!known)
    return parameter.emitError("parameter \"")
           << parameter.getSymName() << "\" is expected for every size, got none for the largest";
  if (known.getType() != parameter.getType() || known.getInit() != parameter.getInit() ||
      known.getState() != parameter.getState())
    return parameter.emitError("parameter \"")
           << parameter.getSymName() << "\" expects the same type and first value for every size, got "
           << known.getTensorType() << " = " << known.getInit() << " for the largest and " << parameter.getTensorType()
           << " = " << parameter.getInit() << " for others";
  return success();
}

LogicalResult joinMesh(SymbolTable &symbols, ModuleOp whole, dist::MeshOp mesh) {
  auto known = symbols.lookup<dist::MeshOp>(mesh.getSymName());
  if (!known) {
    OpBuilder::atBlockBegin(whole.getBody()).clone(*mesh);
    return success();
  }
  if (known->getAttrDictionary() != mesh->getAttrDictionary())
    return mesh.emitError("mesh \"") << mesh.getSymName() << "\" expects the same devices for every size";
  return success();
}

/// Where parameters are kept: the places of their reads.
using Homes = llvm::MapVector<Attribute, dist::PlaceAttr>;

Homes homesOf(ModuleOp module) {
  Homes homes;
  for (auto graph : module.getOps<dfg::GraphOp>())
    for (auto read : graph.getBody().front().getOps<dfg::ReadOp>())
      if (dist::PlaceAttr place = dist::getPlace(read))
        homes.try_emplace(read.getParameterAttr(), place);
  return homes;
}

LogicalResult checkHomes(const Homes &homes, ModuleOp part) {
  for (auto [parameter, place] : homesOf(part)) {
    dist::PlaceAttr known = homes.lookup(parameter);
    if (known && (known.getMesh() != place.getMesh() || known.getSplit() != place.getSplit()))
      return part.emitError("parameter \"")
             << cast<FlatSymbolRefAttr>(parameter).getValue() << "\" expects one home for every size, got " << known
             << " for the largest and " << place << " for others; place the nodes that use it by hand";
  }
  return success();
}

} // namespace

LogicalResult joinSteps(ModuleOp whole, ModuleOp part) {
  if (failed(checkHomes(homesOf(whole), part)))
    return failure();
  SymbolTable symbols(whole);
  for (Operation &op : llvm::make_early_inc_range(*part.getBody())) {
    if (auto parameter = dyn_cast<dfg::ParameterOp>(op)) {
      if (failed(joinParameter(symbols, parameter)))
        return failure();
    } else if (auto mesh = dyn_cast<dist::MeshOp>(op)) {
      if (failed(joinMesh(symbols, whole, mesh)))
        return failure();
    } else if (!isa<dist::MachineOp>(op)) {
      op.moveBefore(whole.getBody(), whole.getBody()->end());
    }
  }
  return success();
}

} // namespace cleave
