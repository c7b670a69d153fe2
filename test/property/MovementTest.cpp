// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators that move elements against index arithmetic, on random shapes in all widths.

#include "test/property/KernelCases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace cleave::test {
namespace {

constexpr const char *types[] = {"f32", "f64", "f16", "bf16", "i1", "i8", "i16", "i32", "i64", "ui8", "ui64"};

std::string array(const Shape &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : ": ") + std::to_string(values[i]);
  return text + ">";
}

Shape randomShape(Random &random, size_t lowest = 1, int64_t largest = 9) {
  Shape shape;
  for (size_t i = 0, rank = lowest + random() % (5 - lowest); i < rank; ++i)
    shape.push_back(1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest)));
  return shape;
}

Tensor randomTensor(Random &random, const std::string &element, const Shape &shape) {
  return Tensor(element, shape).fill(random, 0, element == "i1" ? 1 : 100);
}

/// A case whose result has at each index the element at `source` of the input.
KernelCase movedCase(const std::string &operation, const Tensor &input, const Shape &shape,
                     const std::function<Shape(const Shape &)> &source) {
  Tensor result(input.getElement(), shape);
  forEachIndex(shape, [&](const Shape &index) { result.setReal(result.position(index), input.real(source(index))); });
  return {"  %y0 = dfg." + operation + " : (" + input.type() + ") -> " + result.type(), {input}, {result}};
}

// Every permutation of up to four dimensions.
TEST(Movement, Transpose) {
  Random random(11);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (int repeat = 0; repeat < 4; ++repeat) {
      Tensor x = randomTensor(random, element, randomShape(random, 1, 12));
      Shape permutation(x.getShape().size()), shape;
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random);
      for (int64_t dim : permutation)
        shape.push_back(x.getShape()[dim]);
      cases.push_back(
          movedCase("transpose %a {permutation = " + array(permutation) + "}", x, shape, [&](const Shape &index) {
            Shape from(index.size());
            for (size_t i = 0; i < index.size(); ++i)
              from[permutation[i]] = index[i];
            return from;
          }));
    }
  expectKernels(cases);
}

// Strided slices, empty ones among them.
TEST(Movement, Slice) {
  Random random(12);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (int repeat = 0; repeat < 4; ++repeat) {
      Tensor x = randomTensor(random, element, randomShape(random));
      Shape starts, limits, strides, shape;
      for (int64_t size : x.getShape()) {
        int64_t a = static_cast<int64_t>(random() % (size + 1)), b = static_cast<int64_t>(random() % (size + 1));
        starts.push_back(std::min(a, b));
        limits.push_back(repeat == 0 ? size : std::max(a, b));
        strides.push_back(1 + static_cast<int64_t>(random() % 3));
        shape.push_back((limits.back() - starts.back() + strides.back() - 1) / strides.back());
      }
      cases.push_back(movedCase("slice %a {starts = " + array(starts) + ", limits = " + array(limits) +
                                    ", strides = " + array(strides) + "}",
                                x, shape, [&](const Shape &index) {
                                  Shape from(index.size());
                                  for (size_t i = 0; i < index.size(); ++i)
                                    from[i] = starts[i] + index[i] * strides[i];
                                  return from;
                                }));
    }
  expectKernels(cases);
}

// Reversal along any set of dimensions.
TEST(Movement, Reverse) {
  Random random(13);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (int repeat = 0; repeat < 3; ++repeat) {
      Tensor x = randomTensor(random, element, randomShape(random));
      Shape dims;
      for (size_t dim = 0; dim < x.getShape().size(); ++dim)
        if (random() % 2)
          dims.push_back(static_cast<int64_t>(dim));
      cases.push_back(movedCase("reverse %a {dims = " + array(dims) + "}", x, x.getShape(), [&](const Shape &index) {
        Shape from(index);
        for (int64_t dim : dims)
          from[dim] = x.getShape()[dim] - 1 - index[dim];
        return from;
      }));
    }
  expectKernels(cases);
}

// Repetition of dimensions of size one, and of missing ones.
TEST(Movement, Broadcast) {
  Random random(14);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (int repeat = 0; repeat < 3; ++repeat) {
      Shape shape = randomShape(random), part;
      for (size_t dim = random() % (shape.size() + 1); dim < shape.size(); ++dim)
        part.push_back(random() % 2 ? 1 : shape[dim]);
      Tensor x = randomTensor(random, element, part);
      cases.push_back(movedCase("broadcast %a", x, shape, [&](const Shape &index) {
        Shape from;
        for (size_t i = 0; i < part.size(); ++i)
          from.push_back(part[i] == 1 ? 0 : index[index.size() - part.size() + i]);
        return from;
      }));
    }
  expectKernels(cases);
}

// A reshape alone is a copy, also to and from scalars and between shapes of no common factor.
TEST(Movement, Reshape) {
  Random random(15);
  std::vector<KernelCase> cases;
  const std::vector<std::pair<Shape, Shape>> shapes = {{{}, {1, 1}},      {{1}, {}},         {{6, 4}, {4, 6}},
                                                       {{2, 3, 4}, {24}}, {{24}, {2, 3, 4}}, {{5, 1, 7}, {5, 7}},
                                                       {{4, 0}, {0, 9}}};
  for (const std::string element : types)
    for (const auto &[from, to] : shapes) {
      Tensor x = randomTensor(random, element, from);
      cases.push_back(movedCase("reshape %a", x, to, [&, to = to, from = from](const Shape &index) {
        int64_t position = Tensor(element, to).position(index);
        Shape source(from.size());
        for (size_t dim = from.size(); dim-- > 0; position /= from[dim])
          source[dim] = position % from[dim];
        return source;
      }));
    }
  expectKernels(cases);
}

// Concatenation of one to three tensors, empty ones among them.
TEST(Movement, Concat) {
  Random random(16);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (int repeat = 0; repeat < 4; ++repeat) {
      Shape shape = randomShape(random);
      size_t dim = random() % shape.size(), count = 1 + random() % 3;
      std::vector<Tensor> inputs;
      std::string operands, inputTypes;
      shape[dim] = 0;
      for (size_t i = 0; i < count; ++i) {
        Shape part = shape;
        part[dim] = static_cast<int64_t>(random() % 6);
        inputs.push_back(randomTensor(random, element, part));
        operands += i ? ", %" : "%";
        operands += static_cast<char>('a' + i);
        inputTypes += i ? ", " : "";
        inputTypes += inputs.back().type();
      }
      for (const Tensor &input : inputs)
        shape[dim] += input.getShape()[dim];
      Tensor result(element, shape);
      int64_t offset = 0;
      for (const Tensor &input : inputs) {
        forEachIndex(input.getShape(), [&](const Shape &index) {
          Shape to = index;
          to[dim] += offset;
          result.setReal(result.position(to), input.real(index));
        });
        offset += input.getShape()[dim];
      }
      operands += " {dim = " + std::to_string(dim) + " : i64} : (";
      operands += inputTypes + ") -> " + result.type();
      cases.push_back({"  %y0 = dfg.concat " + operands, inputs, {result}});
    }
  expectKernels(cases);
}

// Padding with a value that is known only at run time.
TEST(Movement, Pad) {
  Random random(17);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (int repeat = 0; repeat < 3; ++repeat) {
      Tensor x = randomTensor(random, element, randomShape(random)), value = randomTensor(random, element, {});
      Shape low, high, shape;
      for (int64_t size : x.getShape()) {
        low.push_back(static_cast<int64_t>(random() % 3));
        high.push_back(static_cast<int64_t>(random() % 3));
        shape.push_back(low.back() + size + high.back());
      }
      Tensor result(element, shape);
      for (int64_t i = 0; i < result.size(); ++i)
        result.setReal(i, value.real(int64_t(0)));
      forEachIndex(x.getShape(), [&](const Shape &index) {
        Shape to = index;
        for (size_t i = 0; i < to.size(); ++i)
          to[i] += low[i];
        result.setReal(result.position(to), x.real(index));
      });
      cases.push_back({"  %y0 = dfg.pad %a, %b {low = " + array(low) + ", high = " + array(high) + "} : (" + x.type() +
                           ", " + value.type() + ") -> " + result.type(),
                       {x, value},
                       {result}});
    }
  expectKernels(cases);
}

// Gathering with indices from the end, and indices outside, which move to the nearest element.
TEST(Movement, Gather) {
  Random random(18);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (const std::string indexType : {"i32", "i64"})
      for (int repeat = 0; repeat < 2; ++repeat) {
        Tensor x = randomTensor(random, element, randomShape(random));
        size_t dim = random() % x.getShape().size();
        int64_t size = x.getShape()[dim];
        Tensor indices = Tensor(indexType, repeat ? Shape{} : Shape{2, 5}).fill(random, -2.0 * size, 2.0 * size);
        Shape shape(x.getShape().begin(), x.getShape().begin() + dim);
        shape.insert(shape.end(), indices.getShape().begin(), indices.getShape().end());
        shape.insert(shape.end(), x.getShape().begin() + dim + 1, x.getShape().end());
        Tensor result(element, shape);
        forEachIndex(shape, [&](const Shape &index) {
          Shape at(index.begin() + dim, index.begin() + dim + indices.getShape().size());
          int64_t position = indices.integer(at);
          position = std::clamp<int64_t>(position < 0 ? position + size : position, 0, size - 1);
          Shape from(index.begin(), index.begin() + dim);
          from.push_back(position);
          from.insert(from.end(), index.begin() + dim + indices.getShape().size(), index.end());
          result.setReal(result.position(index), x.real(from));
        });
        cases.push_back({"  %y0 = dfg.gather %a, %b {dim = " + std::to_string(dim) + " : i64} : (" + x.type() + ", " +
                             indices.type() + ") -> " + result.type(),
                         {x, indices},
                         {result}});
      }
  expectKernels(cases);
}

// Positions along each dimension, in every type.
TEST(Movement, Iota) {
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    if (element != "i1")
      for (int64_t dim = 0; dim < 3; ++dim) {
        Tensor result(element, {3, 5, 4});
        forEachIndex(result.getShape(), [&](const Shape &index) {
          result.setReal(result.position(index), static_cast<double>(index[dim]));
        });
        cases.push_back(
            {"  %y0 = dfg.iota {dim = " + std::to_string(dim) + " : i64} : () -> " + result.type(), {}, {result}});
      }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
