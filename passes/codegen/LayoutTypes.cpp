// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts tensor types between the compiler and the runtime.

#include "passes/codegen/LayoutTypes.h"

#include "dialects/plan/Plan.h"
#include "runtime/MemoryLayout.h"

#include "llvm/Support/ErrorHandling.h"

#include <numeric>

using namespace mlir;

namespace cleave {

static runtime::ElementType toRuntimeElement(Type type) {
  if (type.isF32())
    return runtime::ElementType::F32;
  if (type.isF64())
    return runtime::ElementType::F64;
  if (type.isF16())
    return runtime::ElementType::F16;
  if (type.isBF16())
    return runtime::ElementType::BF16;
  bool hasNoSign = type.isUnsignedInteger();
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return runtime::ElementType::I1;
  case 8:
    return hasNoSign ? runtime::ElementType::U8 : runtime::ElementType::I8;
  case 16:
    return hasNoSign ? runtime::ElementType::U16 : runtime::ElementType::I16;
  case 32:
    return hasNoSign ? runtime::ElementType::U32 : runtime::ElementType::I32;
  case 64:
    return hasNoSign ? runtime::ElementType::U64 : runtime::ElementType::I64;
  default:
    llvm_unreachable("dfg tensors hold no other element type");
  }
}

static Type fromRuntimeElement(MLIRContext *context, runtime::ElementType type) {
  switch (type) {
  case runtime::ElementType::F32:
    return Float32Type::get(context);
  case runtime::ElementType::F64:
    return Float64Type::get(context);
  case runtime::ElementType::F16:
    return Float16Type::get(context);
  case runtime::ElementType::BF16:
    return BFloat16Type::get(context);
  case runtime::ElementType::I1:
    return IntegerType::get(context, 1);
  default:
    return IntegerType::get(context, 8 * runtime::elementBytes(type),
                            runtime::isUnsigned(type) ? IntegerType::Unsigned : IntegerType::Signless);
  }
}

runtime::TensorType toRuntimeType(RankedTensorType type) {
  runtime::TensorType result;
  result.element = toRuntimeElement(type.getElementType());
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  if (auto layout = plan::getLayout(type)) {
    runtime::Layout &target = result.layout.emplace();
    target.padded.assign(layout.getPadded().begin(), layout.getPadded().end());
    target.strides.assign(layout.getStrides().begin(), layout.getStrides().end());
    target.innerBlocks.assign(layout.getBlocks().begin(), layout.getBlocks().end());
    target.innerDims.assign(layout.getDims().begin(), layout.getDims().end());
  }
  return result;
}

RankedTensorType fromRuntimeType(MLIRContext *context, const runtime::TensorType &type) {
  Attribute encoding;
  if (!runtime::isPlain(type)) {
    const runtime::Layout &layout = *type.layout;
    SmallVector<int64_t> dims(layout.innerDims.begin(), layout.innerDims.end());
    encoding = plan::LayoutAttr::get(context, runtime::layoutText(type), layout.padded, layout.strides,
                                     layout.innerBlocks, dims);
  }
  return RankedTensorType::get(type.shape, fromRuntimeElement(context, type.element), encoding);
}

RankedTensorType transposedInMemory(RankedTensorType type) {
  runtime::TensorType result = toRuntimeType(type);
  std::vector<unsigned> order(result.shape.size());
  std::iota(order.begin(), order.end(), 0u);
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  result.layout = runtime::permutedLayout(result.shape, order);
  return fromRuntimeType(type.getContext(), result);
}

} // namespace cleave
