// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes from a product, step by step, what a kernel of our own can do instead.

#include "runtime/drivers/cuda/CublasLtWays.h"

#include <utility>

namespace cleave::runtime {

static CudaEpilogueDesc::Activation ownActivation(CublasProblem::Activation activation) {
  switch (activation) {
  case CublasProblem::Activation::Relu:
    return CudaEpilogueDesc::Activation::Relu;
  case CublasProblem::Activation::Gelu:
    return CudaEpilogueDesc::Activation::Gelu;
  case CublasProblem::Activation::GeluGradient:
    return CudaEpilogueDesc::Activation::GeluGradient;
  case CublasProblem::Activation::None:
    break;
  }
  return CudaEpilogueDesc::Activation::None;
}

/// What is added is never left: every product has it, and it may lie where the result goes.
static std::vector<CublasLtWay> waysOf(const CublasProblem &problem) {
  CublasLtWay way{problem, {}};
  way.rest.element = problem.result.element;
  way.rest.elements = static_cast<uint64_t>(problem.rows * problem.columns * problem.batches);
  way.rest.channels = static_cast<uint64_t>(problem.rows);
  std::vector<CublasLtWay> ways = {way};
  way.rest.activation = ownActivation(std::exchange(way.problem.activation, CublasProblem::Activation::None));
  way.rest.saved = std::exchange(way.problem.activationInput, -1);
  if (!way.rest.isEmpty())
    ways.push_back(way);
  if (problem.bias >= 0) {
    way.rest.bias = std::exchange(way.problem.bias, -1);
    ways.push_back(way);
  }
  return ways;
}

std::vector<CublasLtWay> cublasLtWays(const CublasProblem &problem, uint64_t scratchBytes) {
  std::vector<CublasLtWay> ways = waysOf(problem);
  auto copied = problem.aligned();
  if (!copied || scratchBytes < problem.workspaceBytes())
    return ways;
  for (CublasLtWay &way : waysOf(*copied)) {
    way.isAligned = true;
    ways.push_back(std::move(way));
  }
  return ways;
}

CudaRowsDesc rowsOfCopy(const CublasMatrix &source, const CublasMatrix &target, int64_t batches) {
  return {static_cast<uint64_t>(source.columns * (target.batchStride == 0 ? 1 : batches)),
          static_cast<uint64_t>(source.rows), static_cast<uint64_t>(source.leading),
          static_cast<uint64_t>(target.leading)};
}

} // namespace cleave::runtime
