// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks about several layouts in turn.

#include "passes/codegen/LayoutQuestions.h"

#include "passes/codegen/DimensionOrder.h"
#include "passes/codegen/LayoutTypes.h"

using namespace mlir;

namespace cleave {

namespace {

struct Questions {
  /// The kernel of `query` that reads arguments as they lie, if the library has a good one: its wishes differ from
  /// routine to routine, and following each would reorder between any two. `query` becomes the question that was
  /// answered. In turn: the first argument as it lies; all of them; and all as the largest of them, with the result or
  /// what lies in no layout yet, because routines that go backwards want what goes in and what comes out alike.
  FailureOr<LibraryKernel> keepingLayouts() {
    SmallVector<unsigned> laid, others;
    for (auto [index, value] : llvm::enumerate(arguments)) {
      if (!query.anyInputs[index] || query.desc.inputs[index].shape != toRuntimeType(tensorType(value)).shape)
        continue;
      (plan::getLayout(values.current(value).getType()) ? laid : others).push_back(index);
    }
    if (laid.empty())
      return failure();
    auto lies = [&](unsigned index) { return tensorType(values.current(arguments[index])); };
    auto ask = [&](runtime::LibraryKernelQuery asked) -> FailureOr<LibraryKernel> {
      FailureOr<LibraryKernel> kernel = kernels.get(asked, device);
      if (failed(kernel) || kernel->quality != runtime::KernelQuality::Good)
        return failure();
      query = std::move(asked);
      return kernel;
    };
    runtime::LibraryKernelQuery kept = query;
    for (unsigned index : laid) {
      kept.desc.inputs[index] = toRuntimeType(lies(index));
      kept.anyInputs[index] = false;
      if (index == 0)
        if (auto kernel = ask(kept); succeeded(kernel))
          return kernel;
    }
    if (laid.size() > 1 || laid[0] != 0)
      if (auto kernel = ask(kept); succeeded(kernel))
        return kernel;

    unsigned largest = laid[0];
    for (unsigned index : laid)
      if (lies(index).getNumElements() > lies(largest).getNumElements())
        largest = index;
    plan::LayoutAttr layout = plan::getLayout(lies(largest));
    auto alike = [&](runtime::TensorType &type, std::vector<bool>::reference any) {
      if (any && type.shape.size() == layout.getPadded().size())
        if (auto own = sameKindOfLayout(layout, type.shape)) {
          type.layout = own;
          any = false;
        }
    };
    for (unsigned index : laid)
      alike(kept.desc.inputs[index], kept.anyInputs[index] = true);
    for (bool result : {true, false}) {
      runtime::LibraryKernelQuery asked = kept;
      if (result)
        alike(asked.desc.outputs[0], asked.anyOutputs[0]);
      else
        for (unsigned index : others)
          alike(asked.desc.inputs[index], asked.anyInputs[index]);
      if (auto kernel = ask(asked); succeeded(kernel))
        return kernel;
    }
    return failure();
  }

  /// The kernel of `query` that makes a larger value of row-major ones in the layout of what that meets next: bringing
  /// the smaller ones into it costs less than bringing the larger one there later.
  FailureOr<LibraryKernel> likeCompany() {
    plan::LayoutAttr layout = tensorType(result).getRank() > 2 ? values.layoutOfCompany(result) : nullptr;
    if (!layout || query.anyOutputs.empty() || !query.anyOutputs[0])
      return failure();
    runtime::LibraryKernelQuery asked = query;
    for (auto [index, value] : llvm::enumerate(arguments)) {
      runtime::TensorType &type = asked.desc.inputs[index];
      if (plan::getLayout(values.current(value).getType()) || type.shape.size() != asked.desc.outputs[0].shape.size() ||
          tensorType(value).getNumElements() >= tensorType(result).getNumElements())
        return failure();
      type.layout = sameKindOfLayout(layout, type.shape);
      asked.anyInputs[index] = false;
      if (!type.layout)
        return failure();
    }
    asked.desc.outputs[0].layout = sameKindOfLayout(layout, asked.desc.outputs[0].shape);
    asked.anyOutputs[0] = false;
    FailureOr<LibraryKernel> kernel = kernels.get(asked, device);
    if (failed(kernel) || kernel->quality != runtime::KernelQuality::Good)
      return failure();
    query = std::move(asked);
    return kernel;
  }

  LibraryKernels &kernels;
  KernelDevice device;
  const ReplacedValues &values;
  runtime::LibraryKernelQuery &query;
  ArrayRef<Value> arguments;
  Value result;
};

} // namespace

FailureOr<LibraryKernel> askForKernel(LibraryKernels &kernels, KernelDevice device, const ReplacedValues &values,
                                      runtime::LibraryKernelQuery &query, ArrayRef<Value> arguments, Value result) {
  Questions questions{kernels, device, values, query, arguments, result};
  FailureOr<LibraryKernel> kernel = questions.keepingLayouts();
  if (failed(kernel))
    kernel = questions.likeCompany();
  return succeeded(kernel) ? kernel : kernels.get(query, device);
}

} // namespace cleave
