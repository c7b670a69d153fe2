// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows are sorted by their matrix (counting sort, so that equal ones keep their order), copied next to each other, a
// block at a time, and multiplied at once. Threads take a block, or a sum, each where there are enough of them.

#include "runtime/drivers/cpu/GatheredProducts.h"

#include "runtime/MemoryLayout.h"

#include <oneapi/dnnl/dnnl.h>

#include <omp.h>

#include <algorithm>
#include <atomic>
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

/// What both products have in common: the rows of each matrix, and threads that take turns at them.
class Product : public LibraryKernelInstance {
public:
  /// `lanes`: how many blocks there is scratch for.
  Product(const LibraryKernelDesc &desc, int64_t matrices, int64_t otherWidth, unsigned lanes)
      : numRows(static_cast<int64_t>(*desc.inputs[2].elementCount())), numMatrices(matrices), lanes(lanes) {
    readRows(desc.inputs[0], desc.inputs[2], lhs);
    laneFloats = static_cast<int64_t>(laneBytes(lhs.width, otherWidth) / sizeof(float));
  }

  /// Bytes in front of the blocks.
  static uint64_t orderBytes(int64_t rows, int64_t matrices) {
    return alignedTo64(static_cast<uint64_t>(rows) * sizeof(int64_t)) +
           alignedTo64(static_cast<uint64_t>(matrices + 1) * sizeof(int64_t));
  }
  /// Bytes of the rows of both operands, or of one and of the result, that a thread copies.
  static uint64_t laneBytes(int64_t width, int64_t other) {
    return alignedTo64(static_cast<uint64_t>(blockRows) * static_cast<uint64_t>(width + other) * sizeof(float));
  }

protected:
  /// Sorts the rows, then calls `each(matrix, rows, block)` for the rows of each matrix, at most `most` of them at
  /// once; those of no matrix are matrix -1. With enough calls for all threads they are made side by side, and what
  /// they call takes one thread; else one after the other.
  template <typename Each> Error forEachMatrix(const int64_t *indices, char *scratch, int64_t most, const Each &each) {
    auto *order = reinterpret_cast<int64_t *>(scratch);
    auto *ends = reinterpret_cast<int64_t *>(scratch + alignedTo64(static_cast<uint64_t>(numRows) * sizeof(int64_t)));
    auto *blocks = reinterpret_cast<float *>(scratch + orderBytes(numRows, numMatrices));
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
    calls.clear();
    for (int64_t bucket = 0; bucket <= numMatrices; ++bucket) {
      int64_t at = ends[bucket], end = bucket == numMatrices ? numRows : ends[bucket + 1];
      do {
        int64_t count = std::min(most, end - at);
        calls.push_back({bucket - 1, {order + at, count}});
        at += count;
      } while (at < end);
    }
    std::atomic<dnnl_status_t> failed{dnnl_success};
    auto call = [&](size_t index, unsigned lane) {
      dnnl_status_t status = each(calls[index].matrix, calls[index].chosen, blocks + lane * laneFloats);
      if (status != dnnl_success)
        failed = status;
    };
    if (lanes > 1 && calls.size() >= size_t(2) * lanes) {
#pragma omp parallel for schedule(dynamic) num_threads(lanes)
      for (size_t index = 0; index < calls.size(); ++index)
        call(index, static_cast<unsigned>(omp_get_thread_num()));
    } else {
      for (size_t index = 0; index != calls.size(); ++index)
        call(index, 0);
    }
    return failed == dnnl_success
               ? Error::success()
               : makeError(Status::Failure, "onednn sgemm failed with status ", static_cast<int>(failed.load()));
  }

  Rows lhs;
  int64_t numRows, numMatrices;

private:
  struct Call {
    int64_t matrix;
    Chosen chosen;
  };
  unsigned lanes;
  int64_t laneFloats = 0;
  std::vector<Call> calls;
};

class GatherProduct final : public Product {
public:
  GatherProduct(const LibraryKernelDesc &desc, unsigned lanes)
      : Product(desc, desc.inputs[1].shape[0], desc.outputs[0].shape.back(), lanes), isTransposed(transposed(desc)),
        columns(desc.outputs[0].shape.back()) {}

  static bool transposed(const LibraryKernelDesc &desc) {
    auto found = desc.ints.find("transposed");
    return found != desc.ints.end() && found->second == std::vector<int64_t>{1};
  }

  Error run(void *const *arguments) override {
    auto *rows = static_cast<const float *>(arguments[0]), *matrices = static_cast<const float *>(arguments[1]);
    auto *result = static_cast<float *>(arguments[3]);
    int64_t depth = lhs.width;
    auto rowBytes = static_cast<size_t>(columns) * sizeof(float);
    auto multiply = [&](int64_t matrix, Chosen chosen, float *block) -> dnnl_status_t {
      if (chosen.count == 0)
        return dnnl_success;
      if (matrix < 0) {
        for (int64_t i = 0; i < chosen.count; ++i)
          std::memset(result + chosen.rows[i] * columns, 0, rowBytes);
        return dnnl_success;
      }
      float *products = block + blockRows * depth;
      const float *left = gathered(rows, lhs, chosen, block);
      bool isDense = chosen.rows[chosen.count - 1] == chosen.rows[0] + chosen.count - 1;
      float *into = isDense ? result + chosen.rows[0] * columns : products;
      dnnl_status_t status =
          dnnl_sgemm('N', isTransposed ? 'T' : 'N', chosen.count, columns, depth, 1.0f, left, depth,
                     matrices + matrix * depth * columns, isTransposed ? depth : columns, 0.0f, into, columns);
      if (status != dnnl_success || isDense)
        return status;
#pragma omp parallel for
      for (int64_t i = 0; i < chosen.count; ++i)
        std::memcpy(result + chosen.rows[i] * columns, products + i * columns, rowBytes);
      return dnnl_success;
    };
    return forEachMatrix(static_cast<const int64_t *>(arguments[2]), static_cast<char *>(arguments[4]), blockRows,
                         multiply);
  }

private:
  bool isTransposed;
  int64_t columns;
};

class ScatterProduct final : public Product {
public:
  ScatterProduct(const LibraryKernelDesc &desc, unsigned lanes)
      : Product(desc, desc.outputs[0].shape[0], desc.inputs[1].shape.back(), lanes) {
    readRows(desc.inputs[1], desc.inputs[2], rhs);
  }

  Error run(void *const *arguments) override {
    auto *left = static_cast<const float *>(arguments[0]), *right = static_cast<const float *>(arguments[1]);
    auto *result = static_cast<float *>(arguments[3]);
    int64_t size = lhs.width * rhs.width;
    auto sumUp = [&](int64_t matrix, Chosen chosen, float *block) -> dnnl_status_t {
      if (matrix < 0)
        return dnnl_success;
      float *sum = result + matrix * size;
      if (chosen.count == 0)
        std::memset(sum, 0, static_cast<size_t>(size) * sizeof(float));
      for (int64_t at = 0; at < chosen.count; at += blockRows) {
        Chosen some = {chosen.rows + at, std::min(blockRows, chosen.count - at)};
        const float *a = gathered(left, lhs, some, block);
        const float *b = gathered(right, rhs, some, block + blockRows * lhs.width);
        dnnl_status_t status = dnnl_sgemm('T', 'N', lhs.width, rhs.width, some.count, 1.0f, a, lhs.width, b, rhs.width,
                                          at == 0 ? 0.0f : 1.0f, sum, rhs.width);
        if (status != dnnl_success)
          return status;
      }
      return dnnl_success;
    };
    // All rows of a matrix at once: they add to one sum.
    return forEachMatrix(static_cast<const int64_t *>(arguments[2]), static_cast<char *>(arguments[4]), numRows, sumUp);
  }

private:
  Rows rhs;
};

bool isGather(const LibraryKernelDesc &desc) { return desc.operation == "gather_matmul"; }

} // namespace

bool isGatheredProduct(const LibraryKernelDesc &desc) { return isGather(desc) || desc.operation == "scatter_matmul"; }

Expected<uint64_t> gatheredProductScratch(const LibraryKernelDesc &desc, unsigned threads) {
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
         threads * Product::laneBytes(depth, columns);
}

std::unique_ptr<LibraryKernelInstance> makeGatheredProduct(const LibraryKernelDesc &desc, unsigned threads) {
  // A plan for fewer threads has scratch for these.
  uint64_t without = *gatheredProductScratch(desc, 0), lane = *gatheredProductScratch(desc, 1) - without;
  uint64_t fitting = lane == 0 ? threads : (desc.scratchBytes - without) / lane;
  auto lanes = static_cast<unsigned>(std::min<uint64_t>(fitting, threads));
  if (isGather(desc))
    return std::make_unique<GatherProduct>(desc, lanes);
  return std::make_unique<ScatterProduct>(desc, lanes);
}

} // namespace cleave::runtime::onednn
