// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of attention, of scores s, weights p, results o and their gradients (Dao: FlashAttention-2, 2023):
//
//   s = scale q k'   p = e^(s - max s) / sum e^(s - max s)   o = p v   log sums = max s + log sum e^(s - max s)
//
//   p = e^(s - log sums)   dv = p' do   ds = scale p (do v' - sum do o)   dk = ds' q   dq = ds k

#include "runtime/drivers/cuda/CudnnAttentionGraph.h"

namespace cleave::runtime {

namespace {

using Name = CudnnAttentionTensor;
using Sizes = std::vector<int64_t>;

Sizes denseStrides(const Sizes &dims) {
  Sizes strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- != 0;)
    strides[d] = strides[d + 1] * dims[d + 1];
  return strides;
}

Sizes swapped(Sizes sizes) {
  std::swap(sizes[2], sizes[3]);
  return sizes;
}

/// Collects operations on tensors. After an error it goes on, and gives it at the end.
class Builder {
public:
  Builder(const Cudnn &library, const CudnnAttention &problem) : library(library), problem(problem) {}

  void forward();
  void gradient();
  Expected<std::vector<CudnnBackendObject>> take() {
    if (first)
      return first;
    return std::move(operations);
  }

private:
  using Tensor = CudnnBackendObject;

  void keep(Error error) {
    if (error && !first)
      first = std::move(error);
  }
  Tensor tensor(const Sizes &dims, const Sizes &strides, cudnnDataType_t type, int64_t number, bool isVirtual,
                bool isByValue = false) {
    Tensor made(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
        .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, isByValue ? int64_t(sizeof(float)) : cudnnArgumentAlignment)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, isVirtual);
    if (isByValue)
      made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    keep(made.finalize());
    return made;
  }
  /// An argument: of the queries or the keys, and transposed or not.
  Tensor argument(Name name, int64_t positions, bool isTransposed = false) {
    Sizes dims = problem.dimsOf(positions), strides = problem.stridesOf(positions);
    return tensor(isTransposed ? swapped(dims) : dims, isTransposed ? swapped(strides) : strides, CUDNN_DATA_BFLOAT16,
                  static_cast<int64_t>(name), /*isVirtual=*/false);
  }
  Tensor number(Name name) {
    return tensor({1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, static_cast<int64_t>(name), /*isVirtual=*/false,
                  /*isByValue=*/true);
  }
  Tensor ofRows(Name name) {
    return tensor(rows(), denseStrides(rows()), CUDNN_DATA_FLOAT, static_cast<int64_t>(name), /*isVirtual=*/false);
  }
  Tensor between(const Sizes &dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(dims, denseStrides(dims), type, next++, /*isVirtual=*/true);
  }
  Sizes scores() const { return {problem.batch, problem.heads, problem.queries, problem.keys}; }
  Sizes rows() const { return {problem.batch, problem.heads, problem.queries, 1}; }

  void finish(CudnnBackendObject operation) {
    keep(operation.finalize());
    operations.push_back(std::move(operation));
  }
  void product(const Tensor &a, const Tensor &b, const Tensor &result);
  void pointwise(cudnnPointwiseMode_t mode, const Tensor &x, const Tensor *other, const Tensor &result,
                 cudnnDataType_t type = CUDNN_DATA_FLOAT, const Tensor *condition = nullptr, int64_t axis = -1);
  void reduce(cudnnReduceTensorOp_t kind, const Tensor &x, const Tensor &result);
  void reshape(const Tensor &x, const Tensor &result);
  /// A scores' transpose, in bfloat16.
  Tensor transposed(const Tensor &scores);
  /// Scaled products of queries and keys.
  Tensor scaledScores(const Tensor &scale);
  Tensor withHidden(Tensor scores);

  const Cudnn &library;
  const CudnnAttention &problem;
  std::vector<CudnnBackendObject> operations;
  int64_t next = 1000;
  Error first;
};

void Builder::product(const Tensor &a, const Tensor &b, const Tensor &result) {
  CudnnBackendObject kind(library, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  keep(kind.finalize());
  CudnnBackendObject operation(library, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  finish(std::move(operation));
}

void Builder::pointwise(cudnnPointwiseMode_t mode, const Tensor &x, const Tensor *other, const Tensor &result,
                        cudnnDataType_t type, const Tensor *condition, int64_t axis) {
  CudnnBackendObject kind(library, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
  if (axis >= 0)
    kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  keep(kind.finalize());
  CudnnBackendObject operation(library, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (other)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
  if (condition)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *condition);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
  finish(std::move(operation));
}

void Builder::reduce(cudnnReduceTensorOp_t kindOf, const Tensor &x, const Tensor &result) {
  CudnnBackendObject kind(library, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, kindOf).set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  keep(kind.finalize());
  CudnnBackendObject operation(library, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  finish(std::move(operation));
}

void Builder::reshape(const Tensor &x, const Tensor &result) {
  CudnnBackendObject operation(library, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result);
  finish(std::move(operation));
}

Builder::Tensor Builder::transposed(const Tensor &of) {
  Tensor result =
      tensor(swapped(scores()), swapped(denseStrides(scores())), CUDNN_DATA_BFLOAT16, next++, /*isVirtual=*/true);
  reshape(of, result);
  return result;
}

Builder::Tensor Builder::scaledScores(const Tensor &scale) {
  Tensor products = between(scores()), scaled = between(scores());
  product(argument(Name::Queries, problem.queries), argument(Name::Keys, problem.keys, /*isTransposed=*/true),
          products);
  pointwise(CUDNN_POINTWISE_MUL, products, &scale, scaled);
  return scaled;
}

Builder::Tensor Builder::withHidden(Tensor from) {
  if (!problem.isCausal)
    return from;
  constexpr int64_t queryDim = 2, keyDim = 3;
  Tensor query = between(scores(), CUDNN_DATA_INT32), key = between(scores(), CUDNN_DATA_INT32);
  Tensor isSeen = between(scores(), CUDNN_DATA_BOOLEAN), result = between(scores()), hidden = number(Name::Hidden);
  pointwise(CUDNN_POINTWISE_GEN_INDEX, from, nullptr, query, CUDNN_DATA_INT32, nullptr, queryDim);
  pointwise(CUDNN_POINTWISE_GEN_INDEX, from, nullptr, key, CUDNN_DATA_INT32, nullptr, keyDim);
  pointwise(CUDNN_POINTWISE_CMP_GE, query, &key, isSeen, CUDNN_DATA_BOOLEAN);
  pointwise(CUDNN_POINTWISE_BINARY_SELECT, from, &hidden, result, CUDNN_DATA_FLOAT, &isSeen);
  return result;
}

void Builder::forward() {
  Tensor seen = withHidden(scaledScores(number(Name::Scale)));
  Tensor largest = between(rows()), sum = between(rows()), below = between(scores()), powers = between(scores());
  Tensor weights = between(scores(), CUDNN_DATA_BFLOAT16);
  reduce(CUDNN_REDUCE_TENSOR_MAX, seen, largest);
  pointwise(CUDNN_POINTWISE_SUB, seen, &largest, below);
  pointwise(CUDNN_POINTWISE_EXP, below, nullptr, powers);
  reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  // Engines expect the log sums even where they are not kept.
  Tensor logarithm = between(rows());
  pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, logarithm);
  pointwise(CUDNN_POINTWISE_ADD, largest, &logarithm, problem.givesLogSums ? ofRows(Name::LogSums) : between(rows()));
  pointwise(CUDNN_POINTWISE_DIV, powers, &sum, weights);
  product(weights, argument(Name::Values, problem.keys), argument(Name::Result, problem.queries));
}

void Builder::gradient() {
  Tensor queries = argument(Name::Queries, problem.queries), scale = number(Name::Scale), one = number(Name::One);
  Tensor keysT = argument(Name::Keys, problem.keys, /*isTransposed=*/true);
  Tensor valuesT = argument(Name::Values, problem.keys, /*isTransposed=*/true);
  Tensor result = argument(Name::Result, problem.queries), from = argument(Name::ResultGradient, problem.queries);
  // Sums over the elements of the result times its gradient.
  Sizes dims = problem.dimsOf(problem.queries), strides = problem.stridesOf(problem.queries);
  Tensor products = tensor(dims, strides, CUDNN_DATA_FLOAT, next++, /*isVirtual=*/true), sums = between(rows());
  Tensor rowSums = ofRows(Name::RowSums), logSums = ofRows(Name::LogSums);
  pointwise(CUDNN_POINTWISE_MUL, from, &result, products);
  reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  pointwise(CUDNN_POINTWISE_MUL, sums, &one, rowSums);
  // The weights, and the gradient of the values.
  Tensor below = between(scores()), weights = between(scores());
  pointwise(CUDNN_POINTWISE_SUB, scaledScores(scale), &logSums, below);
  pointwise(CUDNN_POINTWISE_EXP, withHidden(std::move(below)), nullptr, weights);
  product(transposed(weights), from, argument(Name::ValuesGradient, problem.keys));
  // The gradient of the scores, and those of keys and queries.
  Tensor ofWeights = between(scores()), centered = between(scores()), weighted = between(scores());
  Tensor ofScores = between(scores(), CUDNN_DATA_BFLOAT16);
  product(from, valuesT, ofWeights);
  pointwise(CUDNN_POINTWISE_SUB, ofWeights, &rowSums, centered);
  pointwise(CUDNN_POINTWISE_MUL, centered, &weights, weighted);
  pointwise(CUDNN_POINTWISE_MUL, weighted, &scale, ofScores);
  product(transposed(ofScores), queries, argument(Name::KeysGradient, problem.keys));
  Tensor keys = tensor(problem.dimsOf(problem.keys), problem.stridesOf(problem.keys), CUDNN_DATA_BFLOAT16, next++,
                       /*isVirtual=*/true);
  reshape(keysT, keys);
  Tensor ofQueries = argument(Name::QueriesGradient, problem.queries);
  if (problem.isRepeatable()) {
    product(ofScores, keys, ofQueries);
    return;
  }
  Tensor accumulated = tensor(dims, denseStrides(dims), CUDNN_DATA_FLOAT, static_cast<int64_t>(Name::Accumulated),
                              /*isVirtual=*/false);
  product(ofScores, keys, accumulated);
  pointwise(CUDNN_POINTWISE_IDENTITY, accumulated, nullptr, ofQueries);
}

} // namespace

Expected<CudnnGraph> makeAttentionGraph(const Cudnn &library, const CudnnAttention &problem, cudnnHandle_t handle,
                                        const CudnnBackendObject *properties) {
  Builder builder(library, problem);
  if (problem.isGradient)
    builder.gradient();
  else
    builder.forward();
  auto operations = builder.take();
  if (!operations)
    return operations.error();
  return CudnnGraph::make(library, *operations, handle, properties);
}

} // namespace cleave::runtime
