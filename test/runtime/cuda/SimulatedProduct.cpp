// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedProduct.h"

#include <algorithm>

namespace cleave::simulated {

namespace {

constexpr int tileRows = 6, tileColumns = 8;
/// A strip of this length stays in the processor's first cache while all strips of the other factor pass it.
constexpr int64_t blockLength = 256;

typedef double Vector __attribute__((vector_size(4 * sizeof(double)), aligned(sizeof(double))));

/// Adds the products of a strip of rows and one of columns, both from some `k` on, to a tile of sums. Twelve variables,
/// as compilers keep no array in registers.
#ifdef __x86_64__
__attribute__((target_clones("fma", "default")))
#endif
void addTile(const double *rows, const double *columns, int64_t length, double *tile) {
  Vector a0{}, a1{}, b0{}, b1{}, c0{}, c1{}, d0{}, d1{}, e0{}, e1{}, f0{}, f1{};
  for (int64_t k = 0; k != length; ++k, rows += tileRows, columns += tileColumns) {
    Vector first = *reinterpret_cast<const Vector *>(columns), second = *reinterpret_cast<const Vector *>(columns + 4);
    a0 += rows[0] * first;
    a1 += rows[0] * second;
    b0 += rows[1] * first;
    b1 += rows[1] * second;
    c0 += rows[2] * first;
    c1 += rows[2] * second;
    d0 += rows[3] * first;
    d1 += rows[3] * second;
    e0 += rows[4] * first;
    e1 += rows[4] * second;
    f0 += rows[5] * first;
    f1 += rows[5] * second;
  }
  const Vector sums[2 * tileRows] = {a0, a1, b0, b1, c0, c1, d0, d1, e0, e1, f0, f1};
  for (int i = 0; i != tileRows * tileColumns; ++i)
    tile[i] += sums[i / 4][i % 4];
}

} // namespace

std::vector<double> multiply(const Rows &left, const Columns &right) {
  std::vector<double> sums(left.count * right.count, 0);
  for (int64_t k = 0; k < left.length; k += blockLength)
    for (int64_t j = 0; j < right.count; j += tileColumns)
      for (int64_t i = 0; i < left.count; i += tileRows) {
        double tile[tileRows * tileColumns] = {};
        addTile(left.strip(i) + k * tileRows, right.strip(j) + k * tileColumns, std::min(blockLength, left.length - k),
                tile);
        int64_t rows = std::min<int64_t>(tileRows, left.count - i);
        int64_t columns = std::min<int64_t>(tileColumns, right.count - j);
        for (int64_t row = 0; row != rows; ++row)
          for (int64_t column = 0; column != columns; ++column)
            sums[(i + row) * right.count + j + column] += tile[row * tileColumns + column];
      }
  return sums;
}

} // namespace cleave::simulated
