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
  // A bias has no value for the rows that are too many.
  CublasLtWay way = ways.back();
  way.isAligned = true;
  way.problem = *copied;
  way.problem.activation = CublasProblem::Activation::None;
  way.problem.bias = way.problem.activationInput = -1;
  ways.push_back(std::move(way));
  return ways;
}

CudaRowsDesc rowsOfOperand(const CublasMatrix &operand, const CublasMatrix &copy) {
  auto wide = [](int64_t size) { return static_cast<uint64_t>(size); };
  return {wide(operand.columns), wide(operand.rows), wide(operand.leading),
          wide(copy.leading),    wide(copy.columns), wide(copy.leading)};
}

CudaRowsDesc rowsOfResult(const CublasMatrix &copy, const CublasMatrix &result) {
  auto rows = static_cast<uint64_t>(result.columns), width = static_cast<uint64_t>(result.rows);
  return {rows, width, static_cast<uint64_t>(copy.leading), static_cast<uint64_t>(result.leading), rows, width};
}

} // namespace cleave::runtime
