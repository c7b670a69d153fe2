// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise functions, binary functions with broadcasting, sum and concat.

#include "Functions.h"
#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

// Every name means its formula, on sizes that do not fill vectors. oneDNN's logarithm is off by a few 1e-6 near 1.
TEST(Eltwise, MatchesItsFormula) {
  for (const Function &function : functions()) {
    SCOPED_TRACE(function.name);
    std::vector<Tensor> inputs{pseudorandom({3, 17, 5}, 1, function.positive ? 0.1f : -4, 4)};
    LibraryKernelQuery query = openQuery("eltwise." + function.name, inputs, inputs[0].shape);
    query.desc.reals = {{"alpha", {function.alpha}}, {"beta", {function.beta}}};
    expectNear(runKernel(query, inputs),
               tabulate(inputs[0].shape, [&](const Shape &index) { return function.value(inputs[0].at(index)); }), 1e-5,
               5e-6);
  }
}

static double apply(const std::string &kind, double a, double b) {
  return kind == "add"   ? a + b
         : kind == "sub" ? a - b
         : kind == "mul" ? a * b
         : kind == "div" ? a / b
         : kind == "max" ? std::max(a, b)
                         : std::min(a, b);
}

// Broadcasting comes as a vector of channels, a scalar, or missing dimensions, and from either side.
TEST(Binary, MatchesItsDefinition) {
  Shape shape{2, 17, 3, 5};
  for (std::string kind : {"add", "sub", "mul", "div", "max", "min"})
    for (const Shape &other :
         {shape, Shape{1, 17, 1, 1}, Shape{17, 1, 1}, Shape{1}, Shape{}, Shape{5}, Shape{2, 1, 1, 5}})
      for (bool swapped : {false, true}) {
        if (swapped && other != shape && (kind == "sub" || kind == "div"))
          continue; // refused, see RefusalTest
        SCOPED_TRACE(kind + " with " + f32(other).text() + (swapped ? " swapped" : ""));
        std::vector<Tensor> inputs{pseudorandom(shape, 1), pseudorandom(other, 2, 0.5f, 2)};
        auto operand = [&](const Shape &index) {
          Shape from;
          for (size_t d = 0; d != other.size(); ++d)
            from.push_back(other[d] == 1 ? 0 : index[4 - other.size() + d]);
          return inputs[1].at(from);
        };
        Tensor expected = tabulate(shape, [&](const Shape &index) {
          double a = inputs[0].at(index), b = operand(index);
          return swapped ? apply(kind, b, a) : apply(kind, a, b);
        });
        std::vector<Tensor> given = inputs;
        if (swapped)
          std::swap(given[0], given[1]);
        expectNear(runKernel(openQuery("binary." + kind, given, shape), given), expected, 1e-6, 0);
      }
}

// Residual connections add tensors in blocked layouts, one of them row-major at times.
TEST(Binary, MixesLayouts) {
  Shape shape{1, 17, 3, 5};
  std::vector<Tensor> inputs{pseudorandom(shape, 1), pseudorandom(shape, 2)};
  Tensor expected = tabulate(shape, [&](const Shape &index) { return inputs[0].at(index) + inputs[1].at(index); });
  for (bool bothBlocked : {true, false}) {
    LibraryKernelQuery query = openQuery("binary.add", inputs, shape);
    query.anyInputs = {false, bothBlocked};
    query.desc.inputs[0].layout = blockedLayout(shape, 1, 16);
    expectNear(runKernel(query, inputs), expected, 1e-6, 0);
  }
}

// Three summands with factors.
TEST(Sum, MatchesItsDefinition) {
  Shape shape{2, 17, 3};
  std::vector<Tensor> inputs{pseudorandom(shape, 1), pseudorandom(shape, 2), pseudorandom(shape, 3)};
  LibraryKernelQuery query = openQuery("sum", inputs, shape);
  query.desc.reals["scales"] = {1, -2, 0.5};
  expectNear(runKernel(query, inputs),
             tabulate(shape,
                      [&](const Shape &index) {
                        return inputs[0].at(index) - 2.0 * inputs[1].at(index) + 0.5 * inputs[2].at(index);
                      }),
             1e-6, 1e-6);
}

// Inception concatenates channels; here blocked inputs whose channels do and do not end on a block.
TEST(Concat, MatchesItsDefinition) {
  for (int64_t first : {16, 17}) {
    Shape shapes[] = {{1, first, 3, 2}, {1, 32, 3, 2}, {1, 5, 3, 2}};
    Shape shape{1, first + 37, 3, 2};
    std::vector<Tensor> inputs;
    for (const Shape &s : shapes)
      inputs.push_back(pseudorandom(s, inputs.size()));
    Tensor expected = tabulate(shape, [&](Shape index) {
      size_t source = 0;
      while (index[1] >= shapes[source][1])
        index[1] -= shapes[source++][1];
      return inputs[source].at(index);
    });
    for (bool blocked : {false, true}) {
      LibraryKernelQuery query = openQuery("concat", inputs, shape);
      query.desc.ints["axis"] = {1};
      if (blocked) {
        query.anyInputs = {};
        for (size_t i = 0; i != 3; ++i)
          query.desc.inputs[i].layout = blockedLayout(shapes[i], 1, 16);
      }
      expectNear(runKernel(query, inputs), expected, 0, 0);
    }
  }
}
