// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptions of library kernels, from plans and for people.

#include "runtime/LibraryKernelDesc.h"

#include "runtime/Plan.h"

namespace cleave::runtime {

std::string LibraryKernelDesc::text() const {
  std::string text = '"' + operation + '"';
  for (const TensorType &type : inputs)
    text += ' ' + type.text();
  text += " ->";
  for (const TensorType &type : outputs)
    text += ' ' + type.text();
  return text;
}

LibraryKernelDesc describeLibraryKernel(const Kernel &kernel, const LibraryKernel &library) {
  LibraryKernelDesc desc;
  desc.library = library.library;
  desc.operation = library.operation;
  for (const Attribute &attribute : library.attributes) {
    if (attribute.reals.empty())
      desc.ints[attribute.name] = attribute.ints;
    else
      desc.reals[attribute.name] = attribute.reals;
  }
  for (const PostOp &postOp : library.postOps)
    desc.postOps.push_back({postOp.kind, postOp.alpha, postOp.beta, postOp.argument});
  desc.inputs = kernel.inputs;
  desc.outputs = kernel.outputs;
  desc.scratchBytes = kernel.scratchBytes;
  desc.implementation = library.implementation;
  return desc;
}

} // namespace cleave::runtime
