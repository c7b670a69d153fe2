// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the functions that launches run.

#include "passes/codegen/GpuEmission.h"

#include "passes/codegen/GpuLaunchEmitter.h"
#include "passes/codegen/GpuLimits.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave {

/// An empty function whose parameters are all arguments of the kernel.
static LLVM::LLVMFuncOp makeFunction(ModuleOp module, StringRef symbol, const GpuKernelPlan &plan, int64_t threads) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location location = builder.getUnknownLoc();
  Type pointer = LLVM::LLVMPointerType::get(module.getContext(), globalSpace);
  unsigned inputs = 0, outputs = 0;
  for (const Buffer &buffer : plan.buffers) {
    inputs += buffer.kind == Buffer::Input;
    outputs += buffer.kind == Buffer::Output;
  }
  SmallVector<bool> isShared(inputs + outputs + 1, false);
  for (const Buffer &buffer : plan.buffers)
    if (buffer.isShared)
      isShared[buffer.index + (buffer.kind == Buffer::Output ? inputs : 0)] = true;
  SmallVector<Type> types(inputs + outputs + (plan.scratchBytes > 0 ? 1 : 0), pointer);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), types);
  auto function = LLVM::LLVMFuncOp::create(builder, location, symbol, type, LLVM::Linkage::External);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads)}));
  for (unsigned i = 0; i < types.size(); ++i) {
    function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(argumentAlignment));
    if (!isShared[i])
      function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    if (i < inputs && !isShared[i])
      function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), builder.getUnitAttr());
  }
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  LLVM::ReturnOp::create(builder, location, ValueRange{});
  return function;
}

void emitLaunches(ModuleOp module, StringRef symbol, const GpuKernelPlan &plan, ArrayRef<GpuLaunch> launches,
                  const Storage &storage) {
  LLVM::LLVMFuncOp function = makeFunction(module, symbol, plan, launches.front().threads);
  OpBuilder builder(function.getBody().front().getTerminator());
  Location location = builder.getUnknownLoc();
  NumberBuilder n(builder, 32);
  Value block = NVVM::BlockIdXOp::create(builder, location, builder.getI32Type());
  for (auto [number, launch] : llvm::enumerate(launches)) {
    OpBuilder inside = builder;
    bool isLast = number + 1 == launches.size();
    if (!isLast) {
      Value isMine = n.less(block, n.constant(launch.blocks));
      auto branch = scf::IfOp::create(builder, location, isMine, /*withElseRegion=*/true);
      inside.setInsertionPointToStart(branch.thenBlock());
      builder.setInsertionPointToStart(branch.elseBlock());
    }
    std::string own = symbol.str() + (launches.size() > 1 ? "_part" + std::to_string(number) : "");
    LaunchEmitter(inside, function, own, plan, launch, storage, block).run();
    if (!isLast)
      block = n.add(block, -launch.blocks);
  }
}

} // namespace cleave
