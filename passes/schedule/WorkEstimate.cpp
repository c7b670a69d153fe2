// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flops and bytes, and the rates at which they are done.

#include "passes/schedule/WorkEstimate.h"

#include "dialects/dist/Reshard.h"
#include "passes/schedule/NodeNames.h"

using namespace mlir;

namespace cleave {

static constexpr double flopsPerSecondAndCore = 4e10, memoryBytesPerSecond = 1e10, linkBytesPerSecond = 5e9,
                        callOverhead = 2e-6, transferOverhead = 1e-5;

KernelSignature getKernelSignature(Operation *kernel) {
  KernelSignature signature;
  auto append = [](SmallVector<RankedTensorType> &list, TypeRange types) {
    for (Type type : types)
      list.push_back(cast<RankedTensorType>(type));
  };
  if (auto native = dyn_cast<plan::NativeKernelOp>(kernel)) {
    Block &body = native.getBody().front();
    append(signature.inputs, body.getArgumentTypes());
    append(signature.outputs, body.getTerminator()->getOperandTypes());
    signature.scratchBytes = native.getScratchBytes();
  } else {
    auto library = cast<plan::LibraryKernelOp>(kernel);
    auto type = cast<FunctionType>(library.getType());
    append(signature.inputs, type.getInputs());
    append(signature.outputs, type.getResults());
    signature.scratchBytes = library.getScratchBytes();
  }
  return signature;
}

/// Into how many parts an operator's place divides it.
static int64_t waysOf(ModuleOp module, Operation *op) {
  dist::PlaceAttr place = dist::getPlace(op);
  auto mesh = place ? module.lookupSymbol<dist::MeshOp>(place.getMesh().getAttr()) : dist::MeshOp();
  if (!mesh || !place.getSplit())
    return 1;
  dist::MeshShape shape(mesh);
  int64_t ways = 1;
  for (NamedAttribute factor : place.getSplit().getFactors())
    for (auto axis : cast<ArrayAttr>(factor.getValue()).getAsRange<StringAttr>())
      ways *= shape.ways(axis);
  return ways;
}

WorkEstimate::WorkEstimate(ModuleOp module) {
  for (auto graph : module.getOps<dfg::GraphOp>())
    for (Operation &op : graph.getBody().front())
      if (auto costed = dyn_cast<CostInterface>(op))
        if (OpCost cost = costed.getCost(); cost.costClass == CostClass::Contraction)
          contractionFlops[dfg::getNodeName(op.getLoc())] += cost.flops / static_cast<double>(waysOf(module, &op));
}

double WorkEstimate::flopsOf(Operation *kernel, Location location) {
  if (auto native = dyn_cast<plan::NativeKernelOp>(kernel)) {
    auto [entry, isNew] = nativeFlops.try_emplace(kernel, 0.0);
    if (isNew)
      for (Operation &op : native.getBody().front())
        if (auto costed = dyn_cast<CostInterface>(op))
          entry->second += costed.getCost().flops;
    return entry->second;
  }
  // Kernels of one operand (a change of layout, pooling) compute no contraction, whatever node they belong to.
  double flops = 0;
  if (getKernelSignature(kernel).inputs.size() > 1)
    for (StringRef node : getNodeNames(location))
      flops += contractionFlops.lookup(node);
  return flops;
}

double WorkEstimate::callSeconds(Operation *kernel, Location location, int64_t cores) {
  KernelSignature signature = getKernelSignature(kernel);
  double bytes = 0;
  for (RankedTensorType type : llvm::concat<RankedTensorType>(signature.inputs, signature.outputs))
    bytes += static_cast<double>(plan::storageBytes(type));
  double flopsPerSecond = flopsPerSecondAndCore * static_cast<double>(std::max<int64_t>(cores, 1));
  return callOverhead + bytes / memoryBytesPerSecond + flopsOf(kernel, location) / flopsPerSecond;
}

double WorkEstimate::transferSeconds(int64_t bytes) {
  return transferOverhead + static_cast<double>(bytes) / linkBytesPerSecond;
}

double WorkEstimate::reductionSeconds(int64_t bytes, int64_t ways, bool scatters) {
  dist::LinkCost link;
  double messages = static_cast<double>(ways - 1) * (scatters ? 1 : 2);
  return messages * (link.latency + static_cast<double>(bytes) / static_cast<double>(ways) / link.bandwidth);
}

double WorkEstimate::exchangeSeconds(double bytes, int64_t peers) {
  dist::LinkCost link;
  return callOverhead + static_cast<double>(peers) * link.latency + bytes / link.bandwidth;
}

double WorkEstimate::copySeconds(int64_t bytes) {
  return callOverhead + static_cast<double>(bytes) / memoryBytesPerSecond;
}

} // namespace cleave
