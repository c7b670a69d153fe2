// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives every operator that is left in a program a kernel of our own, equal ones the same.

#include "dialects/dfg/ScoreMasks.h"
#include "passes/codegen/KernelPasses.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_OUTLINENATIVEKERNELSPASS
#include "passes/codegen/KernelPasses.h.inc"

namespace {

/// A constant of one value costs nothing inside a kernel.
bool belongsInside(Value value) {
  auto constant = value.getDefiningOp<dfg::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat();
}

/// PTX allows 4095; each of a kernel's launches declares them all.
constexpr size_t mostGpuArguments = 1024;

class OutlineNativeKernels : public impl::OutlineNativeKernelsPassBase<OutlineNativeKernels> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<dist::ProgramOp>()) {
      driver = dist::getDeviceOf(program).isGpu() ? "cuda" : "cpu";
      for (Operation &op : llvm::make_early_inc_range(program.getBody().front()))
        if (failed(outline(&op)))
          return signalPassFailure();
    }
    for (auto program : getOperation().getOps<dist::ProgramOp>())
      for (auto constant : llvm::make_early_inc_range(program.getBody().front().getOps<dfg::ConstantOp>()))
        if (constant.use_empty())
          constant.erase();
  }

  LogicalResult outline(Operation *op) {
    OpBuilder builder(op);
    if (auto reshape = dyn_cast<dfg::ReshapeOp>(op)) {
      Value view = reshape.getInput();
      if (view.getType() != reshape.getType())
        view = plan::ViewOp::create(builder, op->getLoc(), reshape.getType(), view);
      op->replaceAllUsesWith(ValueRange(view));
      op->erase();
      return success();
    }
    // Operators of other dialects that can be lowered are the model's, too.
    if (isa<dfg::ReadOp, dfg::ConstantOp, dfg::OffloadOp, dfg::FetchOp>(op) ||
        (!isa<dfg::DfgDialect>(op->getDialect()) && !isa<LowerInterface>(op)))
      return success();
    if (auto concat = dyn_cast<dfg::ConcatOp>(op); concat && driver == "cuda" && failed(divide(concat)))
      return failure();
    if (!isa<dfg::FusionOp, LowerInterface>(op)) {
      StringRef kind = dfg::getNodeKind(op->getLoc());
      return op->emitError("node \"") << dfg::getNodeName(op->getLoc()) << "\" has the operator '"
                                      << (kind.empty() ? op->getName().getStringRef() : kind)
                                      << "', which can be placed and explained, but not run";
    }
    SmallVector<Value> operands;
    auto kernel = kernelOf(op, operands);
    auto launch = plan::LaunchOp::create(builder, op->getLoc(), op->getResultTypes(),
                                         FlatSymbolRefAttr::get(kernel.getSymNameAttr()), operands);
    op->replaceAllUsesWith(launch);
    op->erase();
    return success();
  }

  /// Lets a concatenation of more tensors than a kernel for GPUs can have arguments join those that join them.
  LogicalResult divide(dfg::ConcatOp concat) {
    OpBuilder builder(concat);
    SmallVector<Value> inputs = llvm::to_vector(concat.getInputs());
    while (inputs.size() > mostGpuArguments) {
      SmallVector<Value> joined;
      for (ArrayRef<Value> rest = inputs; !rest.empty();) {
        ArrayRef<Value> some = rest.take_front(mostGpuArguments);
        rest = rest.drop_front(some.size());
        joined.push_back(some.front());
        if (some.size() > 1)
          joined.back() = dfg::ConcatOp::create(builder, concat.getLoc(), some, concat.getDim());
      }
      concat.getInputsMutable().assign(joined);
      inputs = joined;
    }
    for (Value input : inputs)
      if (auto part = input.getDefiningOp<dfg::ConcatOp>(); part && failed(outline(part)))
        return failure();
    return success();
  }

  /// The kernel that computes `op` from `operands`, which receives those that it needs from outside.
  plan::NativeKernelOp kernelOf(Operation *op, SmallVectorImpl<Value> &operands) {
    OpBuilder builder(&getContext());
    Location unknown = builder.getUnknownLoc();
    OwningOpRef<plan::NativeKernelOp> made = plan::NativeKernelOp::create(builder, unknown, "kernel");
    made->setDriver(driver);
    Block *body = builder.createBlock(&made->getBody());
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      if (mapping.contains(operand))
        continue;
      if (belongsInside(operand)) {
        builder.clone(*operand.getDefiningOp(), mapping);
        continue;
      }
      operands.push_back(operand);
      mapping.map(operand, body->addArgument(operand.getType(), unknown));
    }
    StringRef name = op->getName().stripDialect();
    if (auto fusion = dyn_cast<dfg::FusionOp>(op)) {
      if (Attribute band = op->getAttr(dfg::bandAttrName))
        (*made)->setAttr(dfg::bandAttrName, band);
      Block &inner = fusion.getBody().front();
      for (auto [argument, operand] : llvm::zip(inner.getArguments(), fusion.getOperands()))
        mapping.map(argument, mapping.lookup(operand));
      for (Operation &member : inner.without_terminator())
        builder.clone(member, mapping);
      SmallVector<Value> results;
      for (Value result : inner.getTerminator()->getOperands())
        results.push_back(mapping.lookup(result));
      plan::YieldOp::create(builder, unknown, results);
      if (Operation *root = inner.getTerminator()->getOperand(0).getDefiningOp())
        name = root->getName().stripDialect();
    } else {
      Operation *copy = builder.clone(*op, mapping);
      plan::YieldOp::create(builder, unknown, copy->getResults());
    }

    // Without locations whatever the command line says of printing: kernels of other operators are the same code.
    std::string key;
    llvm::raw_string_ostream stream(key);
    made->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false));
    auto [entry, inserted] = kernels.try_emplace(key);
    if (inserted) {
      made->setSymName(("native." + name + "." + Twine(kernels.size() - 1)).str());
      entry->second = made.release();
      getOperation().getBody()->push_back(entry->second);
    }
    return entry->second;
  }

  /// Of the program that is walked: the kind of code that its kernels need. Devices that simulate have a processor's.
  StringRef driver;
  llvm::StringMap<plan::NativeKernelOp> kernels;
};

} // namespace
} // namespace cleave
