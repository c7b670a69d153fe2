// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/runtime/cuda/SimulatedConvolution.h"

#include "test/runtime/cuda/SimulatedProduct.h"

#include <algorithm>
#include <numeric>

namespace cleave::simulated {

std::vector<double> plainSums(const Problem &p, Target target, const void *data, const void *weights,
                              const void *result) {
  std::vector<double> values(written(p, target).span(), 0);
  p.products([&](const std::vector<int> &from, const std::vector<int> &tap, const std::vector<int> &at) {
    double a = target == Target::Data ? 1 : p.rounded(p.data.load(data, from));
    double b = target == Target::Weights ? 1 : p.rounded(p.weights.load(weights, tap));
    double c = target == Target::Result ? 1 : p.rounded(p.result.load(result, at));
    values[written(p, target).place(target == Target::Data ? from : target == Target::Weights ? tap : at)] += a * b * c;
  });
  return values;
}

namespace {

/// A tensor's elements as they are multiplied, by their places.
std::vector<double> numbersOf(const Problem &p, const Tensor &tensor, const void *base) {
  std::vector<double> numbers(tensor.span(), 0);
  eachLine(tensor.dims, [&](const std::vector<int> &line) {
    int64_t place = tensor.place(line);
    for (int x = 0; x != tensor.dims.back(); ++x, place += tensor.strides.back())
      numbers[place] = p.rounded(tensor.loadAt(base, place));
  });
  return numbers;
}

/// The products of one sample and group as those of matrices.
struct Unfolding {
  explicit Unfolding(const Problem &p)
      : p(p), perGroup(p.weights.dims[0] / p.convolution.groups), numColumns(0),
        numRows(std::accumulate(p.weights.dims.begin() + 1, p.weights.dims.end(), int64_t(1), std::multiplies<>())) {
    each({p.result.dims.begin() + 2, p.result.dims.end()}, [&](const std::vector<int> &at) {
      int64_t place = 0;
      for (size_t d = 0; d != at.size(); ++d)
        place += int64_t(at[d]) * p.result.strides[d + 2];
      resultPlaces.push_back(place);
    });
    numColumns = static_cast<int64_t>(resultPlaces.size());
  }

  int64_t dataPlace(int sample, int group) const {
    return int64_t(sample) * p.data.strides[0] + int64_t(group) * p.weights.dims[1] * p.data.strides[1];
  }
  int64_t weightsPlace(int group, int64_t out, int64_t row) const { return (group * perGroup + out) * numRows + row; }
  int64_t resultPlace(int sample, int group, int64_t out, int64_t column) const {
    return int64_t(sample) * p.result.strides[0] + (group * perGroup + out) * p.result.strides[1] +
           resultPlaces[column];
  }

  /// Calls `body(row, column, count, place, step)` for parts of rows that meet data: `count` columns from `column` on,
  /// with elements that are `step` apart from `place` on, which counts from dataPlace(). What is padding is left out.
  template <typename Body> void eachRun(const Body &body) const {
    int64_t row = 0;
    for (int channel = 0; channel != p.weights.dims[1]; ++channel)
      each({p.weights.dims.begin() + 2, p.weights.dims.end()}, [&](const std::vector<int> &tap) {
        int64_t column = 0;
        eachLine({p.result.dims.begin() + 2, p.result.dims.end()}, [&](const std::vector<int> &line) {
          runOfLine(tap, line, [&](int first, int count, int64_t place, int64_t step) {
            body(row, column + first, count, int64_t(channel) * p.data.strides[1] + place, step);
          });
          column += p.result.dims.back();
        });
        ++row;
      });
  }

  const Problem &p;
  int64_t perGroup, numColumns, numRows;
  std::vector<int64_t> resultPlaces;

private:
  /// Of one line of the result, what one tap meets.
  template <typename Body>
  void runOfLine(const std::vector<int> &tap, const std::vector<int> &line, const Body &body) const {
    size_t last = tap.size() - 1;
    auto from = [&](size_t d) {
      return line[d] * p.convolution.strides[d] - p.convolution.pads[d] + tap[d] * p.convolution.dilations[d];
    };
    int64_t place = 0;
    for (size_t d = 0; d != last; ++d) {
      if (from(d) < 0 || from(d) >= p.data.dims[d + 2])
        return;
      place += int64_t(from(d)) * p.data.strides[d + 2];
    }
    int begin = from(last), step = p.convolution.strides[last], room = p.data.dims.back() - 1 - begin;
    int first = begin < 0 ? (step - 1 - begin) / step : 0;
    int end = room < 0 ? 0 : std::min(p.result.dims.back(), room / step + 1);
    if (first < end)
      body(first, end - first, place + int64_t(begin + first * step) * p.data.strides.back(),
           int64_t(step) * p.data.strides.back());
  }
};

void addForward(const Unfolding &u, int group, const std::vector<double> &data, const std::vector<double> &weights,
                std::vector<double> &result) {
  Rows left(u.perGroup, u.numRows);
  for (int64_t out = 0; out != u.perGroup; ++out)
    for (int64_t row = 0; row != u.numRows; ++row)
      left.at(out, row) = weights[u.weightsPlace(group, out, row)];
  for (int sample = 0; sample != u.p.data.dims[0]; ++sample) {
    Columns right(u.numColumns, u.numRows);
    const double *from = data.data() + u.dataPlace(sample, group);
    u.eachRun([&](int64_t row, int64_t column, int count, int64_t place, int64_t step) {
      for (int x = 0; x != count; ++x)
        right.at(column + x, row) = from[place + x * step];
    });
    std::vector<double> sums = multiply(left, right);
    for (int64_t out = 0; out != u.perGroup; ++out)
      for (int64_t column = 0; column != u.numColumns; ++column)
        result[u.resultPlace(sample, group, out, column)] = sums[out * u.numColumns + column];
  }
}

void addToWeights(const Unfolding &u, int group, const std::vector<double> &data, const std::vector<double> &result,
                  std::vector<double> &weights) {
  for (int sample = 0; sample != u.p.data.dims[0]; ++sample) {
    Rows left(u.perGroup, u.numColumns);
    for (int64_t out = 0; out != u.perGroup; ++out)
      for (int64_t column = 0; column != u.numColumns; ++column)
        left.at(out, column) = result[u.resultPlace(sample, group, out, column)];
    Columns right(u.numRows, u.numColumns);
    const double *from = data.data() + u.dataPlace(sample, group);
    u.eachRun([&](int64_t row, int64_t column, int count, int64_t place, int64_t step) {
      for (int x = 0; x != count; ++x)
        right.at(row, column + x) = from[place + x * step];
    });
    std::vector<double> sums = multiply(left, right);
    for (int64_t out = 0; out != u.perGroup; ++out)
      for (int64_t row = 0; row != u.numRows; ++row)
        weights[u.weightsPlace(group, out, row)] += sums[out * u.numRows + row];
  }
}

void addToData(const Unfolding &u, int group, const std::vector<double> &weights, const std::vector<double> &result,
               std::vector<double> &data) {
  Rows left(u.numRows, u.perGroup);
  for (int64_t out = 0; out != u.perGroup; ++out)
    for (int64_t row = 0; row != u.numRows; ++row)
      left.at(row, out) = weights[u.weightsPlace(group, out, row)];
  for (int sample = 0; sample != u.p.data.dims[0]; ++sample) {
    Columns right(u.numColumns, u.perGroup);
    for (int64_t out = 0; out != u.perGroup; ++out)
      for (int64_t column = 0; column != u.numColumns; ++column)
        right.at(column, out) = result[u.resultPlace(sample, group, out, column)];
    std::vector<double> sums = multiply(left, right);
    double *to = data.data() + u.dataPlace(sample, group);
    u.eachRun([&](int64_t row, int64_t column, int count, int64_t place, int64_t step) {
      for (int x = 0; x != count; ++x)
        to[place + x * step] += sums[row * u.numColumns + column + x];
    });
  }
}

} // namespace

std::vector<double> fastSums(const Problem &p, Target target, const void *data, const void *weights,
                             const void *result) {
  Unfolding unfolding(p);
  std::vector<double> values(written(p, target).span(), 0);
  auto numbers = [&](Target which, const void *base) {
    return which == target ? std::vector<double>() : numbersOf(p, written(p, which), base);
  };
  std::vector<double> d = numbers(Target::Data, data), w = numbers(Target::Weights, weights),
                      r = numbers(Target::Result, result);
  for (int group = 0; group != p.convolution.groups; ++group)
    if (target == Target::Result)
      addForward(unfolding, group, d, w, values);
    else if (target == Target::Weights)
      addToWeights(unfolding, group, d, r, values);
    else
      addToData(unfolding, group, w, r, values);
  return values;
}

void storeAll(const Tensor &tensor, void *base, const std::vector<double> &values, double alpha, double beta) {
  eachLine(tensor.dims, [&](const std::vector<int> &line) {
    int64_t place = tensor.place(line);
    for (int x = 0; x != tensor.dims.back(); ++x, place += tensor.strides.back()) {
      double before = beta == 0 ? 0 : beta * tensor.loadAt(base, place);
      tensor.storeAt(base, place, alpha * values[place] + before);
    }
  });
}

} // namespace cleave::simulated
