// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pooling and reductions against loops.

#include "KernelHarness.h"
#include "runtime/drivers/cpu/OneDnnLayout.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// Averages are linear: the gradient by one element is the cotangent's product with the pooling of that element alone.
TEST_P(Pooling, HasTheGradientOfAverages) {
  const Case &c = GetParam();
  std::vector<Tensor> inputs{pseudorandom(outputShape(c), 1)};
  for (std::string kind : {"avg_include", "avg_exclude"}) {
    LibraryKernelQuery query = openQuery("pooling_gradient." + kind, inputs, c.data);
    query.desc.ints = {{"kernel", c.kernel},
                       {"strides", c.strides},
                       {"dilations", c.dilations},
                       {"pads_begin", c.padsBegin},
                       {"pads_end", c.padsEnd}};
    Tensor whole = runKernel(query, inputs);
    query.anyInputs = query.anyOutputs = {};
    expectNear(runKernel(query, inputs, 2), whole, 0, std::ldexp(elements(c.kernel) + 4.0, -24));
    Shape image(c.data.begin() + 2, c.data.end());
    tabulate(image, [&](const Shape &position) {
      Tensor one = tabulate(c.data, [&](const Shape &index) {
        return std::equal(position.begin(), position.end(), index.begin() + 2) ? 1.0 : 0.0;
      });
      Tensor share = pool(c, one, kind);
      std::vector<double> sums(c.data[0] * c.data[1]);
      int64_t flat = 0;
      tabulate(share.shape, [&](const Shape &index) {
        sums[index[0] * c.data[1] + index[1]] += double(share.at(index)) * inputs[0].values[flat++];
        return 0;
      });
      for (int64_t i = 0; i != c.data[0] * c.data[1]; ++i) {
        Shape at{i / c.data[1], i % c.data[1]};
        at.insert(at.end(), position.begin(), position.end());
        EXPECT_NEAR(whole.at(at), sums[i], std::ldexp(elements(c.kernel) + 4.0, -24)) << kind;
      }
      return 0;
    });
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
