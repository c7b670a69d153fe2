// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect: registration and verification.

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/SplitRule.h"
#include "dialects/plan/Plan.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::plan;

#include "dialects/plan/PlanOpsDialect.cpp.inc"
#include "dialects/plan/PlanOpsInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanOpsAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanOpsTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanOpsAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/PlanOpsTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

//===-- layouts -----------------------------------------------------------------------------------------------===//

LayoutAttr cleave::plan::getLayout(Type type) {
  return dyn_cast_if_present<LayoutAttr>(cast<RankedTensorType>(type).getEncoding());
}

RankedTensorType cleave::plan::withoutLayout(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

int64_t cleave::plan::storageBytes(RankedTensorType type) {
  LayoutAttr layout = getLayout(type);
  if (!layout)
    return cleave::tensorBytes(type);
  int64_t width = (type.getElementTypeBitWidth() + 7) / 8, block = 1, last = 0;
  SmallVector<int64_t> inner(layout.getPadded().size(), 1);
  for (auto [dim, size] : llvm::zip(layout.getDims(), layout.getBlocks())) {
    inner[dim] *= size;
    block *= size;
  }
  for (auto [index, size] : llvm::enumerate(layout.getPadded())) {
    if (size == 0)
      return 0;
    last += (size / inner[index] - 1) * layout.getStrides()[index];
  }
  return (last + block) * width;
}

//===-- kernels and launches ----------------------------------------------------------------------------------===//

/// The types that a kernel takes and gives; fails where `kernel` names none.
static FailureOr<std::pair<SmallVector<Type>, SmallVector<Type>>> signatureOf(Operation *op, FlatSymbolRefAttr kernel,
                                                                              SymbolTableCollection &symbols) {
  Operation *symbol = symbols.lookupNearestSymbolFrom(op, kernel);
  if (auto native = dyn_cast_if_present<NativeKernelOp>(symbol)) {
    Block &body = native.getBody().front();
    return std::make_pair(llvm::to_vector(body.getArgumentTypes()),
                          llvm::to_vector(body.getTerminator()->getOperandTypes()));
  }
  if (auto library = dyn_cast_if_present<LibraryKernelOp>(symbol)) {
    auto type = cast<FunctionType>(library.getType());
    return std::make_pair(llvm::to_vector(type.getInputs()), llvm::to_vector(type.getResults()));
  }
  return op->emitOpError("expects a kernel named '") << kernel.getValue() << "', found none";
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto signature = signatureOf(*this, getKernelAttr(), symbols);
  if (failed(signature))
    return failure();
  if (TypeRange(signature->first) != getOperandTypes() || TypeRange(signature->second) != getResultTypes())
    return emitOpError("expects the kernel's types (")
           << signature->first << ") -> (" << signature->second << "), got (" << getOperandTypes() << ") -> ("
           << getResultTypes() << ")";
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto signature = signatureOf(*this, getKernelAttr(), symbols);
  if (failed(signature))
    return failure();
  auto holds = [](OperandRange buffers, ArrayRef<Type> types) {
    return buffers.size() == types.size() && llvm::all_of(llvm::zip(buffers, types), [](auto pair) {
             return cast<BufferType>(std::get<0>(pair).getType()).getTensor() == std::get<1>(pair);
           });
  };
  if (!holds(getInputs(), signature->first) || !holds(getOutputs(), signature->second))
    return emitOpError("expects buffers of the kernel's types (")
           << signature->first << ") -> (" << signature->second << "), got (" << getInputs().getTypes() << ") -> ("
           << getOutputs().getTypes() << ")";
  return success();
}

LogicalResult ViewOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType()), to = cast<RankedTensorType>(getResult().getType());
  if (storageBytes(from) != storageBytes(to))
    return emitOpError("expects types of as many bytes, got ") << storageBytes(from) << " and " << storageBytes(to);
  return success();
}

//===-- programs ----------------------------------------------------------------------------------------------===//

static LogicalResult verifyMesh(Operation *op, FlatSymbolRefAttr mesh, SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<cleave::dist::MeshOp>(op, mesh))
    return op->emitOpError("expects a 'dist.mesh' named '") << mesh.getValue() << "', found none";
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getMeshAttr(), symbols);
}

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getTargetAttr(), symbols);
}

LogicalResult ReceiveOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getSourceAttr(), symbols);
}

LogicalResult ProgramOp::verifyRegions() {
  for (Operation &op : getBody().front()) {
    if (auto buffer = dyn_cast<BufferOp>(op))
      if (buffer.getOffset() + buffer.getBytes() > getArenaBytes())
        return buffer.emitOpError("expects to end within the arena of ")
               << getArenaBytes() << " bytes, got offset " << buffer.getOffset() << " and " << buffer.getBytes()
               << " bytes";
    for (Region &section : op.getRegions())
      for (Operation &inner : section.getOps()) {
        auto instruction = dyn_cast<Instruction>(inner);
        if (!instruction)
          return inner.emitOpError("expects only instructions in a section of a program");
        if (instruction.getQueueIndex() < 0 || instruction.getQueueIndex() >= static_cast<int64_t>(getQueues().size()))
          return inner.emitOpError("expects one of the program's ")
                 << getQueues().size() << " queues, got " << instruction.getQueueIndex();
      }
  }
  return success();
}

LogicalResult BufferOp::verify() {
  int64_t needed = storageBytes(getBuffer().getType().getTensor());
  if (static_cast<int64_t>(getOffset()) < 0 || static_cast<int64_t>(getBytes()) < needed)
    return emitOpError("expects an offset that is not negative and at least ")
           << needed << " bytes, got " << getOffset() << " and " << getBytes();
  if (!getWhole())
    return success();
  auto whole = getWhole().getDefiningOp<BufferOp>();
  if (!whole || whole.getWhole())
    return emitOpError("expects to be a view of a buffer that is not a view itself");
  if (getOffset() < whole.getOffset() || getOffset() + getBytes() > whole.getOffset() + whole.getBytes())
    return emitOpError("expects to lie inside \"")
           << whole.getName() << "\" of offset " << whole.getOffset() << " and " << whole.getBytes()
           << " bytes, got offset " << getOffset() << " and " << getBytes() << " bytes";
  return success();
}
