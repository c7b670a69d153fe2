// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads products of matrices: shapes to strides, strides to leading dimensions, post operations to one epilogue.

#include "runtime/drivers/cuda/rules/CublasProblem.h"

#include "runtime/drivers/cuda/rules/CudaDescription.h"

#include <algorithm>
#include <limits>

namespace cleave::runtime {

namespace {

/// cuBLASLt's heuristics compute with 32-bit sizes in places; what is larger is no size of a matrix on one GPU.
constexpr int64_t largestSize = std::numeric_limits<int32_t>::max();
/// cuBLASLt counts batches in 16 bits on the way to its kernels.
constexpr int64_t mostBatches = 65535;
/// What the distance of columns of an epilogue's own input, and of its batches, must be a multiple of (cublasLt.h,
/// CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD).
constexpr int64_t auxiliaryMultiple = 8;
/// What matrix units read at once.
constexpr int64_t matrixUnitBytes = 16;
/// With this many operations for each byte copies are worth room for them. A byte is read and written in 2/3 ps at 3
/// TB/s, and an operation in bfloat16 takes 6.5 fs less with aligned columns on the same GPU, an H200: about a hundred.
/// Whether they are made is measured where the plan runs.
constexpr double operationsPerCopiedByte = 200;

struct Reader {
  const LibraryKernelDesc &desc;
  CublasProblem problem;
  /// Of the operation itself; those of post operations follow.
  size_t operands = 0;

  template <typename... Parts> static Error refuse(Status status, const Parts &...parts) {
    return makeError(status, parts...);
  }

  Error readShapes();
  Error readMatrix(const TensorType &type, CublasMatrix &matrix, int64_t rows, int64_t columns) const;
  Error readOperandBias();
  Error readPostOps();
  Error readAddition(const LibraryPostOp &postOp);
  Error readGeluGradient(const LibraryPostOp &postOp);
};

/// The strides of each dimension in elements; nothing for blocked or padded layouts.
std::optional<std::vector<int64_t>> plainStrides(const TensorType &type) {
  if (!type.layout)
    return denseLayout(type.shape).strides;
  if (!type.layout->innerBlocks.empty() || type.layout->padded != type.shape)
    return std::nullopt;
  return type.layout->strides;
}

/// `type` [..., columns, rows] in our order is a column-major [rows, columns]. Fills in how it lies.
Error Reader::readMatrix(const TensorType &type, CublasMatrix &matrix, int64_t rows, int64_t columns) const {
  matrix.element = type.element;
  auto strides = plainStrides(type);
  if (!strides)
    return refuse(Status::Unsupported, type.text(), " expects rows or columns that lie in one piece");
  size_t rank = type.shape.size();
  int64_t slow = (*strides)[rank - 2], fast = (*strides)[rank - 1];
  // The stride of a dimension of size 1 says nothing.
  bool isUsual = (fast == 1 || rows == 1) && (slow >= rows || columns == 1);
  bool isTransposed = (slow == 1 || columns == 1) && (fast >= columns || rows == 1);
  if (!isUsual && !isTransposed)
    return refuse(Status::Unsupported, type.text(), " expects rows or columns that lie in one piece");
  matrix.transposed = !isUsual;
  matrix.rows = isUsual ? rows : columns;
  matrix.columns = isUsual ? columns : rows;
  int64_t distance = isUsual ? slow : fast;
  matrix.leading = matrix.columns == 1 ? matrix.rows : distance;

  // Batch dimensions, from the innermost one out, continue each other.
  int64_t count = 1, stride = 0;
  for (size_t d = rank - 2; d-- != 0;) {
    if (type.shape[d] == 1)
      continue;
    if (count == 1)
      stride = (*strides)[d];
    else if ((*strides)[d] != stride * count)
      return refuse(Status::Unsupported, type.text(), " expects batches at one distance");
    count *= type.shape[d];
  }
  if (count != 1 && count != problem.batches)
    return refuse(Status::Unsupported, type.text(), " expects 1 or ", problem.batches, " batches, got ", count);
  matrix.batchStride = count == 1 ? 0 : stride;
  return Error::success();
}

/// [..., M, K] as [rows, K] with all leading dimensions as rows.
TensorType flattened(const TensorType &type) {
  int64_t rows = static_cast<int64_t>(*type.elementCount()) / type.shape.back();
  return {type.element, {rows, type.shape.back()}, std::nullopt};
}

Error Reader::readShapes() {
  TensorType left = desc.inputs[0], right = desc.inputs[1], result = desc.outputs[0];
  size_t rank = result.shape.size();
  auto contradiction = [&] { return refuse(Status::Rejected, "expects [..., M, K] x [..., K, N] -> [..., M, N]"); };
  if (rank < 2 || left.shape.size() < 2 || right.shape.size() < 2 || left.shape.size() > rank ||
      right.shape.size() > rank)
    return contradiction();
  for (const TensorType *type : {&left, &right, &result})
    if (std::any_of(type->shape.begin(), type->shape.end(), [](int64_t n) { return n < 1 || n > largestSize; }))
      return refuse(Status::Unsupported, type->text(), " expects sizes from 1 to ", largestSize);
  for (const TensorType *type : {&left, &right})
    for (size_t d = 2; d != type->shape.size(); ++d)
      if (type->shape.end()[-1 - d] != 1 && type->shape.end()[-1 - d] != result.shape.end()[-1 - d])
        return contradiction();
  if (left.shape.end()[-2] != result.shape.end()[-2] || left.shape.back() != right.shape.end()[-2] ||
      right.shape.back() != result.shape.back())
    return contradiction();
  if (!isDense(result))
    return refuse(Status::Unsupported, "output expects row-major elements, got ", result.text());

  // One matrix on the right for all batches: they are rows of one larger product.
  int64_t matrix = right.shape.end()[-2] * right.shape.back();
  if (static_cast<int64_t>(*right.elementCount()) == matrix && isDense(left) &&
      *left.elementCount() / left.shape.back() == *result.elementCount() / result.shape.back()) {
    left = flattened(left);
    result = flattened(result);
  }
  problem.rows = result.shape.back();
  problem.columns = result.shape.end()[-2];
  problem.depth = left.shape.back();
  problem.batches = static_cast<int64_t>(*result.elementCount()) / (problem.rows * problem.columns);
  if (problem.columns > largestSize || problem.batches > mostBatches)
    return refuse(Status::Unsupported, "expects at most ", largestSize, " rows and ", mostBatches, " batches");
  if (Error error = readMatrix(right, problem.left, problem.rows, problem.depth))
    return error;
  if (Error error = readMatrix(left, problem.right, problem.depth, problem.columns))
    return error;
  return readMatrix(result, problem.result, problem.rows, problem.columns);
}

Error Reader::readOperandBias() {
  if (operands < 3)
    return Error::success();
  const TensorType &bias = desc.inputs[2];
  if (*bias.elementCount() != static_cast<uint64_t>(problem.rows) || !isDense(bias))
    return refuse(Status::Rejected, "bias expects ", problem.rows, " values, got ", bias.text());
  if (bias.element != problem.result.element)
    return refuse(Status::Unsupported, "bias expects elements of the output's type, got ", bias.text());
  problem.bias = 2;
  return Error::success();
}

Error Reader::readAddition(const LibraryPostOp &postOp) {
  const TensorType &type = desc.inputs[postOp.argument], &result = desc.outputs[0];
  if (type.element != result.element || !isDense(type))
    return refuse(Status::Unsupported, "input ", postOp.argument,
                  " expects row-major elements of the output's type, got ", type.text());
  bool isWhole = type.shape == result.shape, isSum = postOp.kind == "sum";
  bool isRow = !type.shape.empty() && type.shape.back() == problem.rows &&
               *type.elementCount() == static_cast<uint64_t>(problem.rows) && type.shape.size() <= result.shape.size();
  if (isWhole && problem.added < 0) {
    problem.added = postOp.argument;
    problem.addedScale = isSum && postOp.alpha != 0 ? postOp.alpha : 1;
    problem.addsInPlace = isSum;
    return Error::success();
  }
  if (isRow && !isSum && problem.bias < 0) {
    problem.bias = postOp.argument;
    return Error::success();
  }
  return refuse(isSum ? Status::Rejected : Status::Unsupported, "input ", postOp.argument,
                " expects the output's shape or a value a column, each once, got ", type.text());
}

Error Reader::readGeluGradient(const LibraryPostOp &postOp) {
  const TensorType &type = desc.inputs[postOp.argument], &result = desc.outputs[0];
  if (type.element != result.element || type.shape != result.shape || !isDense(type))
    return refuse(Status::Unsupported, "input ", postOp.argument, " expects row-major elements of the output's type ",
                  result.text(), ", got ", type.text());
  if (problem.rows % auxiliaryMultiple != 0)
    return refuse(Status::Unsupported, "post operation \"gelu_tanh_gradient\" expects rows of a multiple of ",
                  auxiliaryMultiple, " elements, got ", problem.rows);
  if (problem.bias >= 0)
    return refuse(Status::Unsupported, "cublaslt has no \"gelu_tanh_gradient\" behind a bias");
  problem.activation = CublasProblem::Activation::GeluGradient;
  problem.activationInput = postOp.argument;
  return Error::success();
}

Error Reader::readPostOps() {
  for (const LibraryPostOp &postOp : desc.postOps) {
    if (problem.activation != CublasProblem::Activation::None)
      return refuse(Status::Unsupported, "cublaslt has nothing behind an activation, got \"", postOp.kind, '"');
    if (postOp.kind == "binary_add" || postOp.kind == "sum") {
      if (Error error = readAddition(postOp))
        return error;
    } else if (postOp.kind == "relu") {
      problem.activation = CublasProblem::Activation::Relu;
    } else if (postOp.kind == "gelu_tanh") {
      problem.activation = CublasProblem::Activation::Gelu;
    } else if (postOp.kind == "gelu_tanh_gradient") {
      if (Error error = readGeluGradient(postOp))
        return error;
    } else {
      return refuse(Status::Unsupported, "cublaslt has no post operation \"", postOp.kind, '"');
    }
  }
  return Error::success();
}

} // namespace

uint64_t bytesOf(const CublasMatrix &matrix) {
  return static_cast<uint64_t>(matrix.leading * matrix.columns) * elementBytes(matrix.element);
}

uint64_t CublasProblem::productBytes() const {
  constexpr uint64_t least = uint64_t(1) << 20, most = uint64_t(32) << 20;
  uint64_t partial = static_cast<uint64_t>(rows) * columns, bytes = most;
  if (partial < most && partial * batches < most)
    bytes = 8 * 4 * partial * batches;
  return std::clamp(bytes, least, most) + workspaceAlignment;
}

uint64_t CublasProblem::workspaceBytes() const {
  uint64_t bytes = productBytes();
  if (auto copied = aligned())
    for (auto matrix : {&CublasProblem::left, &CublasProblem::right, &CublasProblem::result})
      if (copied.value().*matrix != this->*matrix)
        bytes += bytesOf(copied.value().*matrix) + workspaceAlignment;
  return bytes;
}

std::optional<CublasProblem> CublasProblem::aligned() const {
  // Other float32 is multiplied element by element. Batches that are worth it are rare.
  if ((!tf32 && left.element != ElementType::BF16) || batches != 1)
    return std::nullopt;
  CublasProblem copied = *this;
  auto isEven = [](const CublasMatrix &matrix) {
    int64_t multiple = matrixUnitBytes / static_cast<int64_t>(elementBytes(matrix.element));
    return matrix.rows % multiple == 0 && matrix.leading % multiple == 0;
  };
  const int64_t multiple = matrixUnitBytes / static_cast<int64_t>(elementBytes(left.element));
  auto roundUp = [&](int64_t &size) { size = (size + multiple - 1) / multiple * multiple; };
  if (!isEven(left))
    roundUp(left.transposed ? copied.depth : copied.rows);
  if (!isEven(right))
    roundUp(right.transposed ? copied.columns : copied.depth);
  if (!isEven(result))
    roundUp(copied.rows);
  uint64_t bytes = 0;
  auto copy = [&](CublasMatrix &matrix, int64_t newRows, int64_t newColumns) {
    if (matrix.transposed)
      std::swap(newRows, newColumns);
    if (isEven(matrix) && matrix.rows == newRows && matrix.columns == newColumns)
      return;
    matrix.rows = matrix.leading = newRows;
    matrix.columns = newColumns;
    bytes += bytesOf(matrix);
  };
  copy(copied.left, copied.rows, copied.depth);
  copy(copied.right, copied.depth, copied.columns);
  copy(copied.result, copied.rows, copied.columns);
  if (bytes == 0 || (copied.result != result && (added >= 0 || activationInput >= 0)))
    return std::nullopt;
  double operations = 2.0 * rows * columns * depth;
  return operations < operationsPerCopiedByte * bytes ? std::nullopt : std::optional(copied);
}

Expected<CublasProblem> readCublasProblem(const LibraryKernelDesc &desc) {
  Reader reader{desc, {}, 0};
  auto operands = countOperands(desc, 2, 3);
  if (!operands)
    return operands.error();
  reader.operands = *operands;
  for (const LibraryPostOp &postOp : desc.postOps)
    if (Error error = checkPostOpInput(desc, postOp, *operands))
      return error;
  ElementType left = desc.inputs[0].element, right = desc.inputs[1].element, result = desc.outputs[0].element;
  bool isKnown = left == right && (left == ElementType::F32 || left == ElementType::BF16) &&
                 (result == left || result == ElementType::F32);
  if (!isKnown)
    return makeError(Status::Unsupported, "expects f32, or bf16 with an output of bf16 or f32");
  auto tf32 = readInteger(desc, "tf32", 0, 0, 1);
  if (!tf32)
    return tf32.error();
  reader.problem.tf32 = *tf32 == 1 && left == ElementType::F32;
  if (Error error = reader.readShapes())
    return error;
  if (Error error = reader.readOperandBias())
    return error;
  if (Error error = reader.readPostOps())
    return error;
  return reader.problem;
}

} // namespace cleave::runtime
