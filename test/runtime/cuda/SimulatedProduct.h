// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of matrices in double, for simulated libraries that run whole models: blocks of sums stay in registers, and
// what they read lies in the order in which it is read.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDPRODUCT_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDPRODUCT_H

#include <cstdint>
#include <vector>

namespace cleave::simulated {

/// Vectors of one length, `width` of which are interleaved in memory: the rows of a product's left factor, or the
/// columns of its right one. All are zero at first.
template <int width> class Strips {
public:
  Strips(int64_t count, int64_t length)
      : count(count), length(length), elements((count + width - 1) / width * width * length, 0) {}

  double &at(int64_t vector, int64_t k) { return elements[(vector / width * length + k) * width + vector % width]; }
  /// The vectors from `first` on, a multiple of the width.
  const double *strip(int64_t first) const { return elements.data() + first * length; }

  const int64_t count, length;

private:
  std::vector<double> elements;
};

/// As many sums as fit in the registers of processors with vectors of 4 or 8 doubles.
using Rows = Strips<6>;
using Columns = Strips<8>;

/// The sums of products, row by row: [left.count, right.count]. Both have vectors of one length.
std::vector<double> multiply(const Rows &left, const Columns &right);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDPRODUCT_H
