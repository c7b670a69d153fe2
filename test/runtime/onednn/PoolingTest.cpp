// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling and reductions against loops.

#include "KernelHarness.h"
#include "runtime/MemoryLayout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

struct Case {
  const char *name;
  Shape data, kernel, strides, dilations, padsBegin, padsEnd;
};

std::ostream &operator<<(std::ostream &out, const Case &c) { return out << c.name; }

Shape outputShape(const Case &c) {
  Shape shape{c.data[0], c.data[1]};
  for (size_t d = 0; d != c.kernel.size(); ++d)
    shape.push_back(
        (c.data[d + 2] + c.padsBegin[d] + c.padsEnd[d] - (c.kernel[d] - 1) * c.dilations[d] - 1) / c.strides[d] + 1);
  return shape;
}

Tensor pool(const Case &c, const Tensor &x, const std::string &kind) {
  return tabulate(outputShape(c), [&](const Shape &index) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t count = 0;
    tabulate(c.kernel, [&](const Shape &offset) {
      Shape from{index[0], index[1]};
      for (size_t d = 0; d != offset.size(); ++d) {
        from.push_back(index[d + 2] * c.strides[d] - c.padsBegin[d] + offset[d] * c.dilations[d]);
        if (from.back() < 0 || from.back() >= c.data[d + 2])
          return 0;
      }
      largest = std::max<double>(largest, x.at(from));
      sum += x.at(from);
      ++count;
      return 0;
    });
    return kind == "max" ? largest : sum / (kind == "avg_include" ? elements(c.kernel) : count);
  });
}

class Pooling : public testing::TestWithParam<Case> {};

} // namespace

// Max, and averages with and without padding in the divisor, in oneDNN's layouts and row-major.
TEST_P(Pooling, MatchesItsDefinition) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs{pseudorandom(c.data, 1)};
  for (std::string kind : {"max", "avg_include", "avg_exclude"}) {
    LibraryKernelQuery query = openQuery("pooling." + kind, inputs, outputShape(c));
    query.desc.ints = {{"kernel", c.kernel},
                       {"strides", c.strides},
                       {"dilations", c.dilations},
                       {"pads_begin", c.padsBegin},
                       {"pads_end", c.padsEnd}};
    Tensor expected = pool(c, inputs[0], kind);
    // A mean of n values in [-1, 1] is off by at most n roundings of values below 1.
    double bound = kind == "max" ? 0 : (elements(c.kernel) + 4) * std::ldexp(1.0, -24);
    expectNear(runKernel(query, inputs), expected, 0, bound);
    query.anyInputs = query.anyOutputs = {};
    expectNear(runKernel(query, inputs, 2), expected, 0, bound);
  }
}

/// Every element of the cotangent shares itself out over what its window covers.
static Tensor averageGradient(const Case &c, const Tensor &cotangent, bool countPadding) {
  Tensor gradient = tabulate(c.data, [](const Shape &) { return 0; });
  tabulate(outputShape(c), [&](const Shape &index) {
    std::vector<Shape> covered;
    tabulate(c.kernel, [&](const Shape &offset) {
      Shape at{index[0], index[1]};
      for (size_t d = 0; d != offset.size(); ++d) {
        at.push_back(index[d + 2] * c.strides[d] - c.padsBegin[d] + offset[d] * c.dilations[d]);
        if (at.back() < 0 || at.back() >= c.data[d + 2])
          return 0;
      }
      covered.push_back(at);
      return 0;
    });
    double count = countPadding ? elements(c.kernel) : covered.size();
    for (const Shape &at : covered)
      gradient.at(at) += cotangent.at(index) / count;
    return 0;
  });
  return gradient;
}

// In oneDNN's layouts, row-major, and channels-last, which is how what goes backwards through small images lies.
TEST_P(Pooling, HasTheGradientOfItsDefinition) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs{pseudorandom(outputShape(c), 1)};
  for (std::string kind : {"avg_include", "avg_exclude"}) {
    LibraryKernelQuery query = openQuery("pooling_gradient." + kind, inputs, c.data);
    query.desc.ints = {{"kernel", c.kernel},
                       {"strides", c.strides},
                       {"dilations", c.dilations},
                       {"pads_begin", c.padsBegin},
                       {"pads_end", c.padsEnd}};
    Tensor expected = averageGradient(c, inputs[0], kind == "avg_include");
    double bound = (elements(c.kernel) + 4) * std::ldexp(1.0, -24);
    expectNear(runKernel(query, inputs), expected, 0, bound);
    query.anyInputs = query.anyOutputs = {};
    expectNear(runKernel(query, inputs, 2), expected, 0, bound);
    std::vector<unsigned> channelsLast(c.data.size());
    std::iota(channelsLast.begin() + 1, channelsLast.end(), 2);
    channelsLast.back() = 1;
    query.desc.inputs[0].layout = permutedLayout(outputShape(c), channelsLast);
    query.desc.outputs[0].layout = permutedLayout(c.data, channelsLast);
    expectNear(runKernel(query, inputs), expected, 0, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Pooling,
    testing::Values(Case{"blocked", {2, 32, 9, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
                    Case{"odd channels, asymmetric", {1, 17, 8, 7}, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {1, 0}},
                    Case{"few channels", {1, 3, 8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
                    Case{"global", {1, 48, 7, 7}, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                    Case{"dilated", {1, 16, 9, 9}, {2, 2}, {1, 1}, {2, 3}, {0, 0}, {0, 0}},
                    Case{"one dimension", {1, 4, 11}, {3}, {2}, {1}, {1}, {0}},
                    Case{"three dimensions", {1, 17, 5, 6, 5}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}}));

// Reductions keep or drop the reduced dimensions by the output's shape alone.
TEST(Reduction, MatchesItsDefinition) {
  std::vector<Tensor> inputs{pseudorandom({3, 17, 5}, 1, 0.5f, 1.5f)};
  auto over = [&](int64_t axis, const std::string &kind) {
    Shape kept = inputs[0].shape;
    kept[axis] = 1;
    return tabulate(kept, [&](const Shape &index) {
      double sum = 0, product = 1, largest = -1e9, smallest = 1e9;
      for (int64_t i = 0; i != inputs[0].shape[axis]; ++i) {
        Shape from = index;
        from[axis] = i;
        double value = inputs[0].at(from);
        sum += value, product *= value;
        largest = std::max(largest, value), smallest = std::min(smallest, value);
      }
      return kind == "sum"    ? sum
             : kind == "mean" ? sum / inputs[0].shape[axis]
             : kind == "mul"  ? product
             : kind == "max"  ? largest
                              : smallest;
    });
  };
  for (std::string kind : {"sum", "mean", "mul", "max", "min"})
    for (int64_t axis : {0, 1, 2}) {
      Tensor expected = over(axis, kind);
      LibraryKernelQuery query = openQuery("reduction." + kind, inputs, expected.shape);
      query.desc.ints["axes"] = {axis - 3};
      expectNear(runKernel(query, inputs), expected, 20 * std::ldexp(1.0, -24), 0);
      expected.shape.erase(expected.shape.begin() + axis);
      query.desc.outputs[0].shape = expected.shape;
      expectNear(runKernel(query, inputs), expected, 20 * std::ldexp(1.0, -24), 0);
    }
}
