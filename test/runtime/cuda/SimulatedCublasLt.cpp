// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuBLASLt in memory of the host: column-major matrices, batches, epilogues.

#include "test/runtime/cuda/SimulatedLibraries.h"

#include "runtime/ElementType.h"
#include "test/runtime/cuda/SimulatedProduct.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>

namespace cleave::simulated {

using runtime::ElementType;

std::function<void(double)> spendTime;
std::atomic<int> heuristicSearches = 0, measuredSearches = 0, engineSearches = 0, tf32Products = 0;

double roundedToTf32(double value) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

namespace {

/// Attributes as bytes; each is kept with the size that the header says it has.
struct Attributes {
  std::map<int, std::vector<std::byte>> values;

  cublasStatus_t set(int name, const void *value, size_t bytes, const std::map<int, size_t> &sizes) {
    auto size = sizes.find(name);
    if (!value || size == sizes.end() || size->second != bytes)
      return CUBLAS_STATUS_INVALID_VALUE;
    auto begin = static_cast<const std::byte *>(value);
    values[name].assign(begin, begin + bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  template <typename T> T get(int name, T fallback) const {
    auto found = values.find(name);
    if (found != values.end())
      std::memcpy(&fallback, found->second.data(), sizeof(T));
    return fallback;
  }
};

struct Layout {
  cudaDataType type;
  int64_t rows, columns, leading;
  Attributes attributes;

  int32_t batches() const { return attributes.get<int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1); }
  int64_t stride() const { return attributes.get<int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0); }
  ElementType element() const { return type == CUDA_R_16BF ? ElementType::BF16 : ElementType::F32; }
  double load(const void *base, int64_t batch, int64_t row, int64_t column) const {
    int64_t index = row + column * leading + batch * stride();
    return runtime::loadElement(element(),
                                static_cast<const std::byte *>(base) + index * runtime::elementBytes(element()));
  }
  /// Calls `body(row, column, value)` for every element of a matrix of the batch.
  template <typename Body> void each(const void *base, int64_t batch, const Body &body) const {
    ElementType type = element();
    int64_t bytes = runtime::elementBytes(type), first = batch * stride();
    for (int64_t column = 0; column != columns; ++column)
      for (int64_t row = 0; row != rows; ++row)
        body(row, column,
             runtime::loadElement(type,
                                  static_cast<const std::byte *>(base) + (first + column * leading + row) * bytes));
  }
  void store(void *base, int64_t batch, int64_t row, int64_t column, double value) const {
    int64_t index = row + column * leading + batch * stride();
    runtime::storeElement(element(), static_cast<std::byte *>(base) + index * runtime::elementBytes(element()), value);
  }
};

struct Operation {
  cublasComputeType_t compute;
  Attributes attributes;

  bool transposes(int name) const {
    return attributes.get<int32_t>(name, CUBLAS_OP_N) != static_cast<int32_t>(CUBLAS_OP_N);
  }
  uint32_t epilogue() const {
    return attributes.get<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  }
  void *bias() const { return attributes.get<void *>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr); }
  void *auxiliary() const { return attributes.get<void *>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr); }
  int64_t auxiliaryLeading() const { return attributes.get<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0); }
  int64_t auxiliaryStride() const { return attributes.get<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 0); }
};

struct Preference {
  Attributes attributes;
};

Layout &layout(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout *>(handle); }
Operation &operation(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Operation *>(handle); }

/// The algorithms: plain, with sums in pieces, and one that is fast where there is much workspace.
constexpr int numAlgorithms = 3;
constexpr uint64_t magic = 0x7c1ea5e;

uint64_t workspaceOf(uint64_t algorithm, const Layout &result) {
  if (algorithm == 0)
    return 0;
  return algorithm == 1 ? uint64_t(4) * 2 * result.rows * result.columns * result.batches() : uint64_t(24) << 20;
}
double timeOf(uint64_t algorithm) { return algorithm == 0 ? 3 : algorithm == 1 ? 2 : 1; }

bool isAligned(const void *address, uintptr_t multiple = 16) {
  return address && reinterpret_cast<uintptr_t>(address) % multiple == 0;
}

struct Product {
  Operation operation;
  Layout a, b, c, d;

  /// Why the library would refuse it.
  cublasStatus_t check() const {
    bool ta = operation.transposes(CUBLASLT_MATMUL_DESC_TRANSA), tb = operation.transposes(CUBLASLT_MATMUL_DESC_TRANSB);
    int64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, n = tb ? b.rows : b.columns;
    for (const Layout *each : {&a, &b, &c, &d})
      if (each->leading < each->rows || each->batches() != d.batches() || each->rows < 1 || each->columns < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (k != (tb ? b.columns : b.rows) || d.rows != m || d.columns != n || c.rows != m || c.columns != n)
      return CUBLAS_STATUS_INVALID_VALUE;
    // Matrices of a batch must not overlap where they are written.
    if (d.batches() > 1 && d.stride() < d.leading * (d.columns - 1) + d.rows)
      return CUBLAS_STATUS_INVALID_VALUE;
    bool isKnown = a.type == b.type && c.type == d.type &&
                   ((a.type == CUDA_R_32F && d.type == CUDA_R_32F) ||
                    (a.type == CUDA_R_16BF && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F)));
    bool isTf32 = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (d.batches() > 65535)
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!isKnown || (isTf32 ? a.type != CUDA_R_32F : operation.compute != CUBLAS_COMPUTE_32F))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    constexpr uint32_t known[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS,
                                  CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
                                  CUBLASLT_EPILOGUE_DGELU};
    bool isEpilogue = std::find(std::begin(known), std::end(known), operation.epilogue()) != std::end(known);
    auto biasType = operation.attributes.get<int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, d.type);
    if (!isEpilogue || biasType != static_cast<int32_t>(d.type))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    if (operation.epilogue() == CUBLASLT_EPILOGUE_DGELU && !isAuxiliaryMatrix())
      return CUBLAS_STATUS_INVALID_VALUE;
    bool needsBias = operation.epilogue() & CUBLASLT_EPILOGUE_BIAS;
    return needsBias && !isAligned(operation.bias()) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
  }

  /// Whether all columns have and begin at multiples of 16 bytes.
  bool hasAlignedColumns() const {
    auto isMultiple = [](const Layout &matrix, int64_t distance) {
      return distance * static_cast<int64_t>(runtime::elementBytes(matrix.element())) % 16 == 0;
    };
    auto isEven = [&](const Layout &matrix) {
      return isMultiple(matrix, matrix.rows) && isMultiple(matrix, matrix.leading) &&
             (matrix.batches() == 1 || isMultiple(matrix, matrix.stride()));
    };
    return isEven(a) && isEven(b) && isEven(d);
  }

  /// GELU's input: columns and batches apart by multiples of 8, of at least the result's rows.
  bool isAuxiliaryMatrix() const {
    int64_t leading = operation.auxiliaryLeading(), stride = operation.auxiliaryStride();
    return isAligned(operation.auxiliary()) && leading % 8 == 0 && leading >= d.rows && stride % 8 == 0 &&
           (d.batches() == 1 || stride >= leading * (d.columns - 1) + d.rows);
  }

  /// `inPlace`: sums of both halves of the depth are added where the result goes, in its type.
  void run(double alpha, const void *left, const void *right, double beta, const void *added, void *result,
           bool inPlace) const {
    bool ta = operation.transposes(CUBLASLT_MATMUL_DESC_TRANSA), tb = operation.transposes(CUBLASLT_MATMUL_DESC_TRANSB);
    bool rounds = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    int64_t depth = ta ? a.rows : a.columns;
    for (int64_t batch = 0; batch != d.batches(); ++batch) {
      Rows first(d.rows, depth);
      a.each(left, batch, [&](int64_t row, int64_t column, double value) {
        first.at(ta ? column : row, ta ? row : column) = rounds ? roundedToTf32(value) : value;
      });
      Columns second(d.columns, depth);
      b.each(right, batch, [&](int64_t row, int64_t column, double value) {
        second.at(tb ? row : column, tb ? column : row) = rounds ? roundedToTf32(value) : value;
      });
      std::vector<double> sums = multiply(first, second);
      if (inPlace) {
        for (int64_t row = 0; row != d.rows; ++row)
          for (int64_t k = 0; k != depth / 2; ++k)
            first.at(row, k) = 0;
        std::vector<double> behind = multiply(first, second);
        for (size_t i = 0; i != sums.size(); ++i)
          sums[i] = rounded(sums[i] - behind[i]) + rounded(behind[i]);
      }
      for (int64_t column = 0; column != d.columns; ++column)
        for (int64_t row = 0; row != d.rows; ++row) {
          double sum = sums[row * d.columns + column];
          sum *= alpha;
          if (beta != 0)
            sum += beta * c.load(added, batch, row, column);
          d.store(result, batch, row, column, epilogue(sum, batch, row, column));
        }
    }
  }

  /// As the result's type has it.
  double rounded(double value) const {
    std::byte bytes[8];
    runtime::storeElement(d.element(), bytes, value);
    return runtime::loadElement(d.element(), bytes);
  }

  /// Of x Phi(x) with Phi(x) = 1 / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3): Phi + x Phi (1 - Phi) 2 u'.
  static double geluSlope(double x) {
    double c = std::sqrt(2 / M_PI), phi = 1 / (1 + std::exp(-2 * c * (x + 0.044715 * x * x * x)));
    return phi + x * phi * (1 - phi) * 2 * c * (1 + 3 * 0.044715 * x * x);
  }

  double epilogue(double value, int64_t batch, int64_t row, int64_t column) const {
    uint32_t kind = operation.epilogue();
    if (kind == CUBLASLT_EPILOGUE_DGELU) {
      int64_t at = row + column * operation.auxiliaryLeading() + batch * operation.auxiliaryStride();
      auto input = static_cast<const std::byte *>(operation.auxiliary()) + at * runtime::elementBytes(d.element());
      return value * geluSlope(runtime::loadElement(d.element(), input));
    }
    if (kind & CUBLASLT_EPILOGUE_BIAS)
      value += runtime::loadElement(d.element(), static_cast<const std::byte *>(operation.bias()) +
                                                     row * runtime::elementBytes(d.element()));
    if (kind & CUBLASLT_EPILOGUE_RELU)
      return value > 0 ? value : 0;
    if (kind & CUBLASLT_EPILOGUE_GELU)
      return value / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
    return value;
  }
};

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t *results,
                         int *count) {
  ++heuristicSearches;
  Product product{operation(operationDesc), layout(a), layout(b), layout(c), layout(d)};
  *count = 0;
  if (cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (libraryRefusals.heuristic.contains(product.operation.epilogue()))
    return libraryRefusals.status;
  const Attributes &wishes = reinterpret_cast<Preference *>(preference)->attributes;
  auto room = wishes.get<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
  auto reductions = wishes.get<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_MASK);
  for (uint64_t algorithm = 0; algorithm != numAlgorithms && *count != most; ++algorithm) {
    if (workspaceOf(algorithm, product.d) > room)
      continue;
    cublasLtMatmulHeuristicResult_t &result = results[(*count)++];
    std::memset(&result, 0, sizeof(result));
    result.algo.data[0] = magic;
    result.algo.data[1] = algorithm;
    result.algo.data[2] = algorithm == 1 && (reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE);
    result.workspaceSize = workspaceOf(algorithm, product.d);
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t checkAlgorithm(cublasLtHandle_t, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t a,
                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *result) {
  Product product{operation(operationDesc), layout(a), layout(b), layout(c), layout(d)};
  if (algorithm->data[0] != magic || algorithm->data[1] >= numAlgorithms)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS)
    return status;
  // Only a search says something of the state.
  result->workspaceSize = workspaceOf(algorithm->data[1], product.d);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t operationDesc, const void *alpha,
                        const void *left, cublasLtMatrixLayout_t a, const void *right, cublasLtMatrixLayout_t b,
                        const void *beta, const void *added, cublasLtMatrixLayout_t c, void *result,
                        cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                        cudaStream_t stream) {
  Product product{operation(operationDesc), layout(a), layout(b), layout(c), layout(d)};
  if (libraryRefusals.running.contains(product.operation.epilogue()))
    return libraryRefusals.status;
  if (!handle || !isAligned(left) || !isAligned(right) || !isAligned(added) || !isAligned(result))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = product.check(); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (algorithm->data[0] != magic || algorithm->data[1] >= numAlgorithms)
    return CUBLAS_STATUS_INVALID_VALUE;
  size_t needed = workspaceOf(algorithm->data[1], product.d);
  if (needed > bytes || (bytes != 0 && !isAligned(workspace, 256)))
    return CUBLAS_STATUS_INVALID_VALUE;
  double one = *static_cast<const float *>(alpha), scale = *static_cast<const float *>(beta);
  constexpr uint32_t activations = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU;
  double time = timeOf(algorithm->data[1]) +
                (product.operation.epilogue() & activations ? libraryRefusals.activationTime : 0) +
                (product.hasAlignedColumns() ? 0 : libraryRefusals.misalignmentTime);
  bool inPlace = algorithm->data[2] != 0;
  tf32Products += product.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  enqueue(stream, [=] {
    if (needed != 0)
      std::memset(workspace, 0xff, needed);
    product.run(one, left, right, scale, added, result, inPlace);
    if (spendTime)
      spendTime(time);
  });
  return CUBLAS_STATUS_SUCCESS;
}

} // namespace

const runtime::CublasLt &cublasLt() {
  static const runtime::CublasLt table = [] {
    runtime::CublasLt t;
    t.cublasLtCreate = [](cublasLtHandle_t *handle) {
      *handle = reinterpret_cast<cublasLtHandle_t>(new int);
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtGetStatusString = [](cublasStatus_t status) {
      return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported (simulated)" : "invalid value (simulated)";
    };
    t.cublasLtGetVersion = [] { return size_t(130100); };
    t.cublasLtMatmul = multiply;
    t.cublasLtMatmulAlgoCheck = checkAlgorithm;
    t.cublasLtMatmulAlgoGetHeuristic = heuristic;
    t.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t *made, cublasComputeType_t compute, cudaDataType_t scale) {
      if (scale != CUDA_R_32F)
        return CUBLAS_STATUS_INVALID_VALUE;
      *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute, {}});
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtMatmulDescDestroy = [](cublasLtMatmulDesc_t handle) {
      delete &operation(handle);
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtMatmulDescSetAttribute = [](cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t name,
                                          const void *value, size_t bytes) {
      return operation(handle).attributes.set(name, value, bytes,
                                              {{CUBLASLT_MATMUL_DESC_TRANSA, 4},
                                               {CUBLASLT_MATMUL_DESC_TRANSB, 4},
                                               {CUBLASLT_MATMUL_DESC_EPILOGUE, 4},
                                               {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4},
                                               {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8},
                                               {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8},
                                               {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 8},
                                               {CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8}});
    };
    t.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t *made) {
      *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t handle) {
      delete reinterpret_cast<Preference *>(handle);
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t handle,
                                                cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                size_t bytes) {
      return reinterpret_cast<Preference *>(handle)->attributes.set(name, value, bytes,
                                                                    {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8},
                                                                     {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4},
                                                                     {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4},
                                                                     {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4},
                                                                     {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4},
                                                                     {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4}});
    };
    t.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
      *made = reinterpret_cast<cublasLtMatrixLayout_t>(
          new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading, {}});
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtMatrixLayoutDestroy = [](cublasLtMatrixLayout_t handle) {
      delete &layout(handle);
      return CUBLAS_STATUS_SUCCESS;
    };
    t.cublasLtMatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t name,
                                            const void *value, size_t bytes) {
      return layout(handle).attributes.set(
          name, value, bytes,
          {{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4}, {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8}});
    };
    return t;
  }();
  return table;
}

} // namespace cleave::simulated
