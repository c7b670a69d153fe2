// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over elements that broadcast.

#include "test/property/ElementwiseCases.h"

#include <cmath>
#include <limits>

namespace cleave::test {

std::pair<Shape, Shape> randomShapes(Random &random) {
  Shape full, part;
  size_t rank = random() % 5;
  for (size_t i = 0; i < rank; ++i) {
    full.push_back(1 + static_cast<int64_t>(random() % 9));
    part.push_back(random() % 3 == 0 ? 1 : full.back());
  }
  if (rank > 0)
    part.erase(part.begin(), part.begin() + static_cast<int64_t>(random() % rank));
  return {full, part};
}

/// Position in a tensor that is broadcast, of an index in the result.
static int64_t broadcastPosition(const Tensor &tensor, const Shape &index) {
  Shape own;
  size_t missing = index.size() - tensor.getShape().size();
  for (size_t i = 0; i < tensor.getShape().size(); ++i)
    own.push_back(tensor.getShape()[i] == 1 ? 0 : index[missing + i]);
  return tensor.position(own);
}

static std::string functionType(const std::vector<Tensor> &inputs, const Tensor &result) {
  std::string text;
  for (const Tensor &input : inputs)
    text += (text.empty() ? "" : ", ") + input.type();
  return "(" + text + ") -> " + result.type();
}

KernelCase makeCase(const std::string &name, const std::string &attributes, std::vector<Tensor> inputs, Tensor result,
                    const std::function<void(Tensor &, int64_t, const std::vector<int64_t> &)> &element, double ulps) {
  int64_t position = 0;
  forEachIndex(result.getShape(), [&](const Shape &index) {
    std::vector<int64_t> positions;
    positions.reserve(inputs.size());
    for (const Tensor &input : inputs)
      positions.push_back(broadcastPosition(input, index));
    element(result, position++, positions);
  });
  std::string operands = inputs.size() == 1 ? "%a" : inputs.size() == 2 ? "%a, %b" : "%a, %b, %c";
  KernelCase kernelCase;
  kernelCase.body = "  %y0 = dfg." + name + " " + operands + " " + attributes + " : " + functionType(inputs, result);
  kernelCase.inputs = std::move(inputs);
  kernelCase.relative = result.isFloat() ? ulps * std::ldexp(1.0, -precisionOf(result.getElement())) : 0;
  kernelCase.expected = {std::move(result)};
  return kernelCase;
}

int64_t extremeBits(const Tensor &tensor) {
  return tensor.isUnsigned() ? -1 : std::numeric_limits<int64_t>::min() >> (64 - 8 * tensor.width());
}

} // namespace cleave::test
