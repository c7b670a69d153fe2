// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedProduct.h"

#include <algorithm>

namespace cleave::simulated {

namespace {

constexpr int tileRows = 6, tileColumns = 8;
/// A strip of this length stays in the processor's first cache while all strips of the other factor pass it.
constexpr int64_t blockLength = 256;

typedef double Vector __attribute__((vector_size(tileColumns * sizeof(double)), aligned(sizeof(double))));

/// Adds the products of a strip of rows and one of columns, both from some `k` on, to a tile of sums.
#ifdef __x86_64__
__attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#endif
void addTile(const double *rows, const double *columns, int64_t length, double *tile) {
  Vector a{}, b{}, c{}, d{}, e{}, f{};
  for (int64_t k = 0; k != length; ++k, rows += tileRows, columns += tileColumns) {
    Vector column = *reinterpret_cast<const Vector *>(columns);
    a += rows[0] * column;
    b += rows[1] * column;
    c += rows[2] * column;
    d += rows[3] * column;
    e += rows[4] * column;
    f += rows[5] * column;
  }
  const Vector sums[tileRows] = {a, b, c, d, e, f};
  for (int i = 0; i != tileRows * tileColumns; ++i)
    tile[i] += sums[i / tileColumns][i % tileColumns];
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
