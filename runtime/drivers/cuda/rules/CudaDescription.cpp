// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts of arguments and ranges of attributes.

#include "runtime/drivers/cuda/rules/CudaDescription.h"

#include <algorithm>

namespace cleave::runtime {

Expected<size_t> countOperands(const LibraryKernelDesc &desc, size_t least, size_t most) {
  size_t extra = std::count_if(desc.postOps.begin(), desc.postOps.end(),
                               [](const LibraryPostOp &postOp) { return postOp.argument >= 0; });
  if (extra > desc.inputs.size())
    return makeError(Status::Rejected, "post operations read ", extra, " inputs, got ", desc.inputs.size());
  size_t operands = desc.inputs.size() - extra;
  if (operands < least || operands > most)
    return makeError(Status::Rejected, "expects ", least, " to ", most,
                     " inputs besides those of post operations, got ", operands);
  if (desc.outputs.size() != 1)
    return makeError(Status::Rejected, "expects 1 output, got ", desc.outputs.size());
  return operands;
}

Error checkPostOpInput(const LibraryKernelDesc &desc, const LibraryPostOp &postOp, size_t operands) {
  bool reads = postOp.kind == "sum" || postOp.kind.starts_with("binary_") || postOp.kind == "gelu_tanh_gradient";
  if (reads != (postOp.argument >= 0))
    return makeError(Status::Rejected, "post operation \"", postOp.kind, "\" expects ", reads ? "an" : "no",
                     " input, got ", postOp.argument);
  if (!reads)
    return Error::success();
  auto readers = std::count_if(desc.postOps.begin(), desc.postOps.end(),
                               [&](const LibraryPostOp &other) { return other.argument == postOp.argument; });
  size_t argument = postOp.argument;
  if (argument < operands || argument >= desc.inputs.size() || readers != 1)
    return makeError(Status::Rejected, "post operation \"", postOp.kind, "\" expects an input of its own from ",
                     operands, " to ", desc.inputs.size() - 1, ", got ", postOp.argument);
  return Error::success();
}

Expected<std::vector<int64_t>> readIntegers(const LibraryKernelDesc &desc, const char *name, size_t count,
                                            int64_t fallback, int64_t least, int64_t most) {
  auto found = desc.ints.find(name);
  if (found == desc.ints.end() || (found->second.empty() && count != 0))
    return std::vector<int64_t>(count, fallback);
  if (found->second.size() != count)
    return makeError(Status::Rejected, "attribute \"", name, "\" expects ", count, " values, got ",
                     found->second.size());
  for (int64_t value : found->second)
    if (value < least || value > most)
      return makeError(Status::Rejected, "attribute \"", name, "\" expects values from ", least, " to ", most, ", got ",
                       value);
  return found->second;
}

Expected<int64_t> readInteger(const LibraryKernelDesc &desc, const char *name, int64_t fallback, int64_t least,
                              int64_t most) {
  auto values = readIntegers(desc, name, 1, fallback, least, most);
  if (!values)
    return values.error();
  return values->front();
}

} // namespace cleave::runtime
