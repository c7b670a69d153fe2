// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows are sorted by their matrix (counting sort, so that equal ones keep their order), copied next to each other, a
// block at a time, and multiplied at once.

#include "runtime/drivers/cpu/GatheredProducts.h"

#include "runtime/MemoryLayout.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cleave::runtime::onednn {

namespace {

/// Rows that are copied and multiplied at once: enough for the matrix to be read once for many rows, few enough for
/// the copies to stay in a core's caches.
constexpr int64_t blockRows = 256;

constexpr uint64_t alignedTo64(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/// An operand of rows, of which dimensions of size one repeat.
struct Rows {
  int64_t width = 0;
  /// Where each row lies, in rows; empty where row r is the r-th.
  std::vector<int64_t> at;

  int64_t of(int64_t row) const { return at.empty() ? row : at[static_cast<size_t>(row)]; }
};

/// The rows of `type` as those of `indices`; fails where they do not fit.
bool readRows(const TensorType &type, const TensorType &indices, Rows &rows) {
  size_t rank = indices.shape.size();
  if (type.shape.size() != rank + 1)
    return false;
  bool repeats = false;
  for (size_t dim = 0; dim != rank; ++dim) {
    if (type.shape[dim] != indices.shape[dim] && type.shape[dim] != 1)
      return false;
    repeats |= type.shape[dim] != indices.shape[dim];
  }
  rows.width = type.shape.back();
  if (!repeats)
    return true;
  auto count = static_cast<int64_t>(*indices.elementCount());
  for (int64_t row = 0; row != count; ++row) {
    int64_t rest = row, at = 0, stride = 1;
    for (size_t dim = rank; dim-- > 0;) {
      int64_t index = rest % indices.shape[dim];
      rest /= indices.shape[dim];
      at += (type.shape[dim] == 1 ? 0 : index) * stride;
      stride *= type.shape[dim];
    }
    rows.at.push_back(at);
  }
  return true;
}

/// The rows of one matrix, in their order.
struct Chosen {
  const int64_t *rows;
  int64_t count;
};

/// Copies rows next to each other; where they lie so, gives their place.
const float *gathered(const float *from, const Rows &rows, Chosen chosen, float *block) {
  int64_t width = rows.width, first = rows.of(chosen.rows[0]);
  bool isApart = false;
  for (int64_t i = 1; i < chosen.count && !isApart; ++i)
    isApart = rows.of(chosen.rows[i]) != first + i;
  if (!isApart)
    return from + first * width;
#pragma omp parallel for
  for (int64_t i = 0; i < chosen.count; ++i)
    std::memcpy(block + i * width, from + rows.of(chosen.rows[i]) * width, static_cast<size_t>(width) * sizeof(float));
  return block;
}

/// What both products have in common: the rows of each matrix.
class Product : public LibraryKernelInstance {
public:
  Product(const LibraryKernelDesc &desc, int64_t matrices)
      : numRows(static_cast<int64_t>(*desc.inputs[2].elementCount())), numMatrices(matrices) {
    readRows(desc.inputs[0], desc.inputs[2], lhs);
  }

  /// Bytes in front of the blocks.
  static uint64_t orderBytes(int64_t rows, int64_t matrices) {
    return alignedTo64(static_cast<uint64_t>(rows) * sizeof(int64_t)) +
           alignedTo64(static_cast<uint64_t>(matrices + 1) * sizeof(int64_t));
  }

protected:
  /// Sorts the rows, then calls `each(matrix, rows)` for blocks of them; those of no matrix are matrix -1.
  template <typename Each> Error forEachBlock(const int64_t *indices, char *scratch, Each each) const {
    auto *order = reinterpret_cast<int64_t *>(scratch);
    auto *ends = reinterpret_cast<int64_t *>(scratch + alignedTo64(static_cast<uint64_t>(numRows) * sizeof(int64_t)));
    // Bucket 0 is for rows without a matrix.
    auto bucketOf = [&](int64_t row) {
      int64_t index = indices[row];
      return index < 0 || index >= numMatrices ? 0 : index + 1;
    };
    std::fill_n(ends, numMatrices + 1, 0);
    for (int64_t row = 0; row != numRows; ++row)
      ++ends[bucketOf(row)];
    std::partial_sum(ends, ends + numMatrices + 1, ends);
    for (int64_t row = numRows; row-- > 0;)
      order[--ends[bucketOf(row)]] = row;
    for (int64_t bucket = 0; bucket <= numMatrices; ++bucket) {
      int64_t begin = ends[bucket], end = bucket == numMatrices ? numRows : ends[bucket + 1];
      if (begin == end)
        if (Error error = each(bucket - 1, Chosen{order, 0}, /*isFirst=*/true))
          return error;
      for (int64_t at = begin; at < end; at += blockRows)
        if (Error error = each(bucket - 1, Chosen{order + at, std::min(blockRows, end - at)}, at == begin))
          return error;
    }
    return Error::success();
  }

  static Error check(dnnl_status_t status) {
    return status == dnnl_success
               ? Error::success()
               : makeError(Status::Failure, "onednn sgemm failed with status ", static_cast<int>(status));
  }

  Rows lhs;
  int64_t numRows, numMatrices;
};

class GatherProduct final : public Product {
public:
  explicit GatherProduct(const LibraryKernelDesc &desc)
      : Product(desc, desc.inputs[1].shape[0]), isTransposed(transposed(desc)), columns(desc.outputs[0].shape.back()) {}

  static bool transposed(const LibraryKernelDesc &desc) {
    auto found = desc.ints.find("transposed");
    return found != desc.ints.end() && found->second == std::vector<int64_t>{1};
  }

  Error run(void *const *arguments) override {
    auto *rows = static_cast<const float *>(arguments[0]), *matrices = static_cast<const float *>(arguments[1]);
    auto *result = static_cast<float *>(arguments[3]);
    auto *scratch = static_cast<char *>(arguments[4]);
    auto *block = reinterpret_cast<float *>(scratch + orderBytes(numRows, numMatrices));
    float *products = block + blockRows * lhs.width;
    int64_t depth = lhs.width;
    return forEachBlock(static_cast<const int64_t *>(arguments[2]), scratch,
                        [&](int64_t matrix, Chosen chosen, bool) -> Error {
                          if (chosen.count == 0)
                            return Error::success();
                          auto rowBytes = static_cast<size_t>(columns) * sizeof(float);
                          if (matrix < 0) {
                            for (int64_t i = 0; i < chosen.count; ++i)
                              std::memset(result + chosen.rows[i] * columns, 0, rowBytes);
                            return Error::success();
                          }
                          const float *left = gathered(rows, lhs, chosen, block);
                          bool isDense = chosen.rows[chosen.count - 1] == chosen.rows[0] + chosen.count - 1;
                          float *into = isDense ? result + chosen.rows[0] * columns : products;
                          dnnl_status_t status = dnnl_sgemm('N', isTransposed ? 'T' : 'N', chosen.count, columns, depth,
                                                            1.0f, left, depth, matrices + matrix * depth * columns,
                                                            isTransposed ? depth : columns, 0.0f, into, columns);
                          if (status != dnnl_success || isDense)
                            return check(status);
#pragma omp parallel for
                          for (int64_t i = 0; i < chosen.count; ++i)
                            std::memcpy(result + chosen.rows[i] * columns, products + i * columns, rowBytes);
                          return Error::success();
                        });
  }

private:
  bool isTransposed;
  int64_t columns;
};

class ScatterProduct final : public Product {
public:
  explicit ScatterProduct(const LibraryKernelDesc &desc) : Product(desc, desc.outputs[0].shape[0]) {
    readRows(desc.inputs[1], desc.inputs[2], rhs);
  }

  Error run(void *const *arguments) override {
    auto *left = static_cast<const float *>(arguments[0]), *right = static_cast<const float *>(arguments[1]);
    auto *result = static_cast<float *>(arguments[3]);
    auto *scratch = static_cast<char *>(arguments[4]);
    auto *leftBlock = reinterpret_cast<float *>(scratch + orderBytes(numRows, numMatrices));
    float *rightBlock = leftBlock + blockRows * lhs.width;
    int64_t size = lhs.width * rhs.width;
    return forEachBlock(static_cast<const int64_t *>(arguments[2]), scratch,
                        [&](int64_t matrix, Chosen chosen, bool isFirst) -> Error {
                          if (matrix < 0)
                            return Error::success();
                          float *sum = result + matrix * size;
                          if (chosen.count == 0) {
                            std::memset(sum, 0, static_cast<size_t>(size) * sizeof(float));
                            return Error::success();
                          }
                          const float *a = gathered(left, lhs, chosen, leftBlock);
                          const float *b = gathered(right, rhs, chosen, rightBlock);
                          return check(dnnl_sgemm('T', 'N', lhs.width, rhs.width, chosen.count, 1.0f, a, lhs.width, b,
                                                  rhs.width, isFirst ? 0.0f : 1.0f, sum, rhs.width));
                        });
  }

private:
  Rows rhs;
};

bool isGather(const LibraryKernelDesc &desc) { return desc.operation == "gather_matmul"; }

} // namespace

bool isGatheredProduct(const LibraryKernelDesc &desc) { return isGather(desc) || desc.operation == "scatter_matmul"; }

Expected<uint64_t> gatheredProductScratch(const LibraryKernelDesc &desc) {
  auto refuse = [&](Status status, std::string_view expected) {
    return makeError(status, "onednn kernel ", desc.text(), ": expects ", expected);
  };
  if (desc.inputs.size() != 3 || desc.outputs.size() != 1 || !desc.postOps.empty())
    return refuse(Status::Rejected, "rows, matrices or other rows, and indices, and no post operations");
  const TensorType &left = desc.inputs[0], &right = desc.inputs[1], &indices = desc.inputs[2], &out = desc.outputs[0];
  for (const TensorType *type : {&left, &right, &indices, &out})
    if (!type->byteSize() || !isDense(*type))
      return refuse(Status::Unsupported, "dense tensors");
  for (const TensorType *type : {&left, &right, &out})
    if (type->element != ElementType::F32)
      return refuse(Status::Unsupported, "elements f32");
  if (indices.element != ElementType::I64)
    return refuse(Status::Unsupported, "indices i64");
  Rows first, second;
  const TensorType &matrices = isGather(desc) ? right : out, &others = isGather(desc) ? out : right;
  if (!readRows(left, indices, first) || !readRows(others, indices, second) || matrices.shape.size() != 3 ||
      (isGather(desc) && !second.at.empty()))
    return refuse(Status::Rejected, "an index for each row, and matrices of rank 3");
  int64_t depth = first.width, columns = second.width;
  if (isGather(desc) && GatherProduct::transposed(desc))
    std::swap(depth, columns);
  if (matrices.shape[1] != depth || matrices.shape[2] != columns)
    return refuse(Status::Rejected, "matrices that take the rows of one operand to those of the other");
  return Product::orderBytes(static_cast<int64_t>(*indices.elementCount()), matrices.shape[0]) +
         static_cast<uint64_t>(blockRows) * static_cast<uint64_t>(depth + columns) * sizeof(float);
}

std::unique_ptr<LibraryKernelInstance> makeGatheredProduct(const LibraryKernelDesc &desc) {
  if (isGather(desc))
    return std::make_unique<GatherProduct>(desc);
  return std::make_unique<ScatterProduct>(desc);
}

} // namespace cleave::runtime::onednn
