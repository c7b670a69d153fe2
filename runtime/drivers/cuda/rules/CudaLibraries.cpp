// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Answers the compiler by reading the description as the runtime will: what can be read can be run.

#include "runtime/drivers/cuda/rules/CudaLibraries.h"

#include "runtime/drivers/cuda/rules/CublasProblem.h"
#include "runtime/drivers/cuda/rules/CudnnAttention.h"
#include "runtime/drivers/cuda/rules/CudnnProblem.h"

namespace cleave::runtime {

namespace {

/// What the runtime needs to compute a kernel.
struct Answer {
  std::string_view library;
  uint64_t scratchBytes = 0;
};

template <typename Problem> Expected<Answer> answer(std::string_view library, const Expected<Problem> &problem) {
  if (!problem)
    return problem.error();
  return Answer{library, problem->workspaceBytes()};
}

Expected<Answer> ask(const LibraryKernelDesc &desc) {
  if (desc.operation == "matmul")
    return answer("cublaslt", readCublasProblem(desc));
  if (isCudnnConvolution(desc.operation))
    return answer("cudnn", readCudnnConvolution(desc));
  if (isCudnnAttention(desc.operation))
    return answer("cudnn", readCudnnAttention(desc));
  if (desc.operation.starts_with("pooling."))
    return answer("cudnn", readCudnnPooling(desc));
  return makeError(Status::Unsupported, "left to compiled kernels");
}

class Libraries final : public KernelLibrary {
public:
  std::string_view name() const override { return "cuda"; }
  bool choosesLayouts() const override { return false; }
  bool canRoundProducts() const override { return true; }
  bool hasGradientPostOps() const override { return true; }
  bool hasAttention() const override { return true; }

  Expected<LibraryChoice> choose(const LibraryKernelQuery &query, unsigned) const override {
    // What is left open stays as it is: row-major, or transposed where the description says so.
    LibraryChoice choice{query.desc, {}, {}};
    for (const std::vector<TensorType> *types : {&query.desc.inputs, &query.desc.outputs})
      for (const TensorType &type : *types)
        if (Error error = type.check())
          return error;
    Expected<Answer> found = ask(query.desc);
    if (!found)
      return makeError(found.error().status(), "cuda library kernel ", query.desc.text(), ": ",
                       found.error().message());
    for (const TensorType &type : query.desc.inputs)
      choice.inputBytes.push_back(*type.byteSize());
    for (const TensorType &type : query.desc.outputs)
      choice.outputBytes.push_back(*type.byteSize());
    choice.desc.library = found->library;
    choice.desc.scratchBytes = found->scratchBytes;
    choice.desc.implementation = "measured when loaded";
    return choice;
  }
};

} // namespace

const KernelLibrary &cudaLibraries() {
  static const Libraries libraries;
  return libraries;
}

} // namespace cleave::runtime
