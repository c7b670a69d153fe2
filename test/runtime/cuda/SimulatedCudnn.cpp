// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuDNN in memory of the host: convolutions in three directions, and what may follow one; poolings. In all of them a
// window moves over data: one loop over windows serves all.

#include "test/runtime/cuda/SimulatedConvolution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace cleave::simulated {

namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  int device = 0;
};

int currentDevice() {
  int device = 0;
  if (auto cuda = runtime::cudaRuntime())
    (*cuda)->cudaGetDevice(&device);
  return device;
}

struct Activation {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
};
struct Pooling {
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nan;
  std::vector<int> window, pads, strides;
};

template <typename T, typename H> T &of(H handle) { return *reinterpret_cast<T *>(handle); }
template <typename T, typename H> cudnnStatus_t create(H *made) {
  *made = reinterpret_cast<H>(new T);
  return CUDNN_STATUS_SUCCESS;
}
template <typename T, typename H> cudnnStatus_t destroy(H handle) {
  delete reinterpret_cast<T *>(handle);
  return CUDNN_STATUS_SUCCESS;
}

double number(const void *scalar) { return *static_cast<const float *>(scalar); }

/// An algorithm: its numbers forward, for data and for weights (-1: none), how much workspace it needs, which results
/// cuDNN may give in another order each time, and how exact its sums are.
struct Algorithm {
  enum Sums {
    Exact,
    Winograd, ///< exact where products are not rounded
    Coarse    ///< of Fourier's transform, and Winograd's with large tiles
  };

  int numbers[3];
  double milliseconds;
  bool isRepeatable;
  uint64_t workspacePerElement;
  Sums sums;

  int number(Target target) const { return numbers[target == Target::Result ? 0 : target == Target::Data ? 1 : 2]; }
};
/// The fastest exact one without being repeatable, one that is fast where there is much workspace, a fair and two slow
/// ones; faster than all of them what is not exact.
constexpr Algorithm algorithms[] = {
    {{0, 0, 0}, 1, false, 0, Algorithm::Exact},    {{1, 1, 1}, 4, true, 1, Algorithm::Exact},
    {{3, -1, 3}, 2, true, 1024, Algorithm::Exact}, {{2, -1, -1}, 9, true, 0, Algorithm::Exact},
    {{6, 4, 4}, 9, true, 0, Algorithm::Winograd},  {{4, 2, 2}, 0.1, true, 0, Algorithm::Coarse},
    {{5, 3, 6}, 0.2, true, 0, Algorithm::Coarse},  {{7, 5, 5}, 0.3, true, 0, Algorithm::Coarse}};
/// Forward all are repeatable.
bool isRepeatable(const Algorithm &algorithm, Target target) {
  return target == Target::Result || (algorithm.isRepeatable && !libraryRefusals.repeatable);
}
uint64_t workspaceOf(const Algorithm &algorithm, const Problem &p) {
  return algorithm.workspacePerElement * p.result.count();
}
const Algorithm *algorithmNumbered(Target target, int number) {
  for (const Algorithm &algorithm : algorithms)
    if (algorithm.number(target) == number && number >= 0)
      return &algorithm;
  return nullptr;
}
/// What sums are multiplied by: those that are not exact show.
double coarseness(const Algorithm &algorithm, const Problem &p) {
  bool isRounded = p.data.type != CUDNN_DATA_FLOAT || p.convolution.math != CUDNN_FMA_MATH;
  return algorithm.sums == Algorithm::Coarse || (algorithm.sums == Algorithm::Winograd && isRounded) ? 1.05 : 1;
}

template <typename Perf>
cudnnStatus_t find(const Problem &p, Target target, void *output, int most, int *count, Perf *results, void *workspace,
                   size_t bytes) {
  ++measuredSearches;
  if (cudnnStatus_t status = p.check(); status != CUDNN_STATUS_SUCCESS)
    return status;
  if (libraryRefusals.convolutions)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const Tensor &tensor = written(p, target);
  std::memset(output, 0xff, tensor.count() * runtime::elementBytes(tensor.element()));
  if (bytes)
    std::memset(workspace, 0xff, bytes);
  std::vector<Perf> found;
  for (const Algorithm &algorithm : algorithms)
    for (cudnnMathType_t math : {CUDNN_DEFAULT_MATH, p.convolution.math}) {
      // Some algorithms go by one name for the arithmetic, whatever the descriptor says.
      if (algorithm.number(target) < 0 || (algorithm.sums == Algorithm::Winograd && math != CUDNN_DEFAULT_MATH))
        continue;
      Perf perf = {};
      perf.algo = static_cast<decltype(perf.algo)>(algorithm.number(target));
      perf.status = workspaceOf(algorithm, p) <= bytes ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
      perf.time = static_cast<float>(algorithm.milliseconds * (math == CUDNN_DEFAULT_MATH ? 0.5 : 1));
      perf.memory = workspaceOf(algorithm, p);
      perf.determinism = isRepeatable(algorithm, target) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
      perf.mathType = math;
      found.push_back(perf);
    }
  std::stable_sort(found.begin(), found.end(), [](const Perf &a, const Perf &b) {
    return std::pair(a.status != CUDNN_STATUS_SUCCESS, a.time) < std::pair(b.status != CUDNN_STATUS_SUCCESS, b.time);
  });
  *count = std::min<int>(most, static_cast<int>(found.size()));
  std::copy_n(found.begin(), *count, results);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspaceSize(const Problem &p, Target target, int number, size_t *bytes) {
  const Algorithm *algorithm = algorithmNumbered(target, number);
  if (cudnnStatus_t status = p.check(); status != CUDNN_STATUS_SUCCESS)
    return status;
  if (!algorithm)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = workspaceOf(*algorithm, p);
  return CUDNN_STATUS_SUCCESS;
}

/// Checks a call, and puts on the handle's stream what overwrites the workspace and then runs `body` with what sums are
/// to be multiplied by.
template <typename Body>
cudnnStatus_t start(cudnnHandle_t handle, const Problem &p, Target target, int number, void *workspace, size_t bytes,
                    Body body) {
  size_t needed = 0;
  if (cudnnStatus_t status = workspaceSize(p, target, number, &needed); status != CUDNN_STATUS_SUCCESS)
    return status;
  if (needed > bytes || (needed != 0 && !workspace))
    return CUDNN_STATUS_BAD_PARAM;
  if (p.convolution.math == CUDNN_FMA_MATH && libraryRefusals.withoutTensorCores.contains(number))
    return CUDNN_STATUS_NOT_SUPPORTED;
  const Algorithm *algorithm = algorithmNumbered(target, number);
  double time = algorithm->milliseconds, factor = coarseness(*algorithm, p);
  enqueue(of<Handle>(handle).stream, [=] {
    if (needed != 0)
      std::memset(workspace, 0xff, needed);
    body(factor);
    if (spendTime)
      spendTime(time);
  });
  return CUDNN_STATUS_SUCCESS;
}

double activated(cudnnActivationMode_t mode, double value) {
  return mode == CUDNN_ACTIVATION_RELU && value < 0 ? 0 : value;
}

cudnnStatus_t forwardFused(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t data, const void *x,
                           const cudnnFilterDescriptor_t weights, const void *w,
                           const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                           void *workspace, size_t bytes, const void *beta, const cudnnTensorDescriptor_t added,
                           const void *z, const cudnnTensorDescriptor_t biasDesc, const void *b,
                           const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t result,
                           void *y) {
  Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
  Tensor bias = of<Tensor>(biasDesc);
  cudnnActivationMode_t mode = of<Activation>(activation).mode;
  std::vector<int> perChannel(p.result.dims.size(), 1);
  perChannel[1] = p.result.dims[1];
  if (!b || !z || bias.dims != perChannel || of<Tensor>(added).dims != p.result.dims)
    return CUDNN_STATUS_BAD_PARAM;
  bool isIdentity = mode == CUDNN_ACTIVATION_IDENTITY;
  if ((!isIdentity && mode != CUDNN_ACTIVATION_RELU) ||
      (isIdentity && algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (of<Activation>(activation).nan != CUDNN_NOT_PROPAGATE_NAN || libraryRefusals.fusesConvolutions)
    return CUDNN_STATUS_NOT_SUPPORTED;
  double one = number(alpha), scale = number(beta);
  if (z == y && scale != 0)
    return CUDNN_STATUS_BAD_PARAM;
  return start(handle, p, Target::Result, algorithm, workspace, bytes, [=](double factor) {
    std::vector<double> values = fastSums(p, Target::Result, x, w, nullptr);
    eachLine(p.result.dims, [&](const std::vector<int> &line) {
      double shift = bias.load(b, line);
      int64_t place = p.result.place(line);
      for (int i = 0; i != p.result.dims.back(); ++i, place += p.result.strides.back()) {
        double value = factor * one * values[place] + shift + (scale != 0 ? scale * p.result.loadAt(z, place) : 0);
        p.result.storeAt(y, place, activated(mode, value));
      }
    });
  });
}

cudnnStatus_t pool(cudnnHandle_t handle, const cudnnPoolingDescriptor_t desc, const void *alpha,
                   const cudnnTensorDescriptor_t from, const void *x, const void *beta,
                   const cudnnTensorDescriptor_t to, void *y) {
  Tensor data = of<Tensor>(from), result = of<Tensor>(to);
  Pooling pooling = of<Pooling>(desc);
  if (data.dims.size() != pooling.window.size() + 2 || number(alpha) != 1 || number(beta) != 0)
    return CUDNN_STATUS_BAD_PARAM;
  for (size_t d = 0; d != pooling.window.size(); ++d)
    if (pooling.pads[d] >= pooling.window[d] ||
        result.dims[d + 2] != 1 + (data.dims[d + 2] + 2 * pooling.pads[d] - pooling.window[d]) / pooling.strides[d])
      return CUDNN_STATUS_BAD_PARAM;
  enqueue(of<Handle>(handle).stream, [=] {
    each(result.dims, [&](const std::vector<int> &at) {
      double sum = 0, largest = -std::numeric_limits<double>::infinity();
      int inside = 0, all = 0;
      int64_t plane = int64_t(at[0]) * data.strides[0] + int64_t(at[1]) * data.strides[1];
      each(pooling.window, [&](const std::vector<int> &tap) {
        int64_t place = plane;
        ++all;
        for (size_t d = 0; d != tap.size(); ++d) {
          int from = at[d + 2] * pooling.strides[d] - pooling.pads[d] + tap[d];
          if (from < 0 || from >= data.dims[d + 2])
            return;
          place += int64_t(from) * data.strides[d + 2];
        }
        double value = data.loadAt(x, place);
        ++inside;
        sum += value;
        if (value > largest || (std::isnan(value) && pooling.nan == CUDNN_PROPAGATE_NAN))
          largest = value;
      });
      result.store(y, at,
                   pooling.mode == CUDNN_POOLING_MAX                             ? largest
                   : pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ? sum / all
                                                                                 : sum / inside);
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

void fillRunning(runtime::Cudnn &t) {
  t.cudnnConvolutionForward = [](cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t data,
                                 const void *x, const cudnnFilterDescriptor_t weights, const void *w,
                                 const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                 void *workspace, size_t bytes, const void *beta, const cudnnTensorDescriptor_t result,
                                 void *y) {
    Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
    double one = number(alpha), before = number(beta);
    return start(handle, p, Target::Result, algorithm, workspace, bytes, [=](double factor) {
      storeAll(p.result, y, fastSums(p, Target::Result, x, w, nullptr), factor * one, before);
    });
  };
  t.cudnnConvolutionBackwardData = [](cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t weights,
                                      const void *w, const cudnnTensorDescriptor_t result, const void *dy,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace, size_t bytes,
                                      const void *beta, const cudnnTensorDescriptor_t data, void *dx) {
    Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
    double one = number(alpha), before = number(beta);
    return start(handle, p, Target::Data, algorithm, workspace, bytes, [=](double factor) {
      storeAll(p.data, dx, fastSums(p, Target::Data, nullptr, w, dy), factor * one, before);
    });
  };
  t.cudnnConvolutionBackwardFilter = [](cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t data,
                                        const void *x, const cudnnTensorDescriptor_t result, const void *dy,
                                        const cudnnConvolutionDescriptor_t convolution,
                                        cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace, size_t bytes,
                                        const void *beta, const cudnnFilterDescriptor_t weights, void *dw) {
    Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
    double one = number(alpha), before = number(beta);
    return start(handle, p, Target::Weights, algorithm, workspace, bytes, [=](double factor) {
      storeAll(p.weights, dw, fastSums(p, Target::Weights, x, nullptr, dy), factor * one, before);
    });
  };
  t.cudnnConvolutionBiasActivationForward = forwardFused;
  t.cudnnPoolingForward = pool;
}

void fillSearching(runtime::Cudnn &t) {
  t.cudnnFindConvolutionForwardAlgorithmEx =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t data, const void *, const cudnnFilterDescriptor_t weights,
         const void *, const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t result, void *y,
         int most, int *count, cudnnConvolutionFwdAlgoPerf_t *found, void *workspace, size_t bytes) {
        Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
        return find(p, Target::Result, y, most, count, found, workspace, bytes);
      };
  t.cudnnFindConvolutionBackwardDataAlgorithmEx =
      [](cudnnHandle_t, const cudnnFilterDescriptor_t weights, const void *, const cudnnTensorDescriptor_t result,
         const void *, const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t data, void *dx,
         int most, int *count, cudnnConvolutionBwdDataAlgoPerf_t *found, void *workspace, size_t bytes) {
        Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
        return find(p, Target::Data, dx, most, count, found, workspace, bytes);
      };
  t.cudnnFindConvolutionBackwardFilterAlgorithmEx =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t data, const void *, const cudnnTensorDescriptor_t result,
         const void *, const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t weights, void *dw,
         int most, int *count, cudnnConvolutionBwdFilterAlgoPerf_t *found, void *workspace, size_t bytes) {
        Problem p{of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)};
        return find(p, Target::Weights, dw, most, count, found, workspace, bytes);
      };
  t.cudnnGetConvolutionForwardWorkspaceSize =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t data, const cudnnFilterDescriptor_t weights,
         const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t result,
         cudnnConvolutionFwdAlgo_t algorithm, size_t *bytes) {
        return workspaceSize({of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)},
                             Target::Result, algorithm, bytes);
      };
  t.cudnnGetConvolutionBackwardDataWorkspaceSize =
      [](cudnnHandle_t, const cudnnFilterDescriptor_t weights, const cudnnTensorDescriptor_t result,
         const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t data,
         cudnnConvolutionBwdDataAlgo_t algorithm, size_t *bytes) {
        return workspaceSize({of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)},
                             Target::Data, algorithm, bytes);
      };
  t.cudnnGetConvolutionBackwardFilterWorkspaceSize =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t data, const cudnnTensorDescriptor_t result,
         const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t weights,
         cudnnConvolutionBwdFilterAlgo_t algorithm, size_t *bytes) {
        return workspaceSize({of<Tensor>(data), of<Tensor>(weights), of<Tensor>(result), of<Convolution>(convolution)},
                             Target::Weights, algorithm, bytes);
      };
}

void fillDescribing(runtime::Cudnn &t) {
  t.cudnnCreateTensorDescriptor = create<Tensor, cudnnTensorDescriptor_t>;
  t.cudnnDestroyTensorDescriptor = destroy<Tensor, cudnnTensorDescriptor_t>;
  t.cudnnCreateFilterDescriptor = create<Tensor, cudnnFilterDescriptor_t>;
  t.cudnnDestroyFilterDescriptor = destroy<Tensor, cudnnFilterDescriptor_t>;
  t.cudnnCreateConvolutionDescriptor = create<Convolution, cudnnConvolutionDescriptor_t>;
  t.cudnnDestroyConvolutionDescriptor = destroy<Convolution, cudnnConvolutionDescriptor_t>;
  t.cudnnCreateActivationDescriptor = create<Activation, cudnnActivationDescriptor_t>;
  t.cudnnDestroyActivationDescriptor = destroy<Activation, cudnnActivationDescriptor_t>;
  t.cudnnCreatePoolingDescriptor = create<Pooling, cudnnPoolingDescriptor_t>;
  t.cudnnDestroyPoolingDescriptor = destroy<Pooling, cudnnPoolingDescriptor_t>;
  t.cudnnSetTensorNdDescriptor = [](cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int rank, const int *dims,
                                    const int *strides) {
    of<Tensor>(tensor) = {type, {dims, dims + rank}, {strides, strides + rank}};
    return rank < 4 || rank > CUDNN_DIM_MAX ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
  };
  t.cudnnSetFilterNdDescriptor = [](cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t format,
                                    int rank, const int *dims) {
    std::vector<int> strides(rank, 1);
    for (int d = rank - 1; d-- != 0;)
      strides[d] = strides[d + 1] * dims[d + 1];
    of<Tensor>(filter) = {type, {dims, dims + rank}, strides};
    return format == CUDNN_TENSOR_NCHW ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
  };
  t.cudnnSetConvolutionNdDescriptor = [](cudnnConvolutionDescriptor_t convolution, int rank, const int *pads,
                                         const int *strides, const int *dilations, cudnnConvolutionMode_t mode,
                                         cudnnDataType_t compute) {
    of<Convolution>(convolution) = {
        {pads, pads + rank}, {strides, strides + rank}, {dilations, dilations + rank}, compute, CUDNN_DEFAULT_MATH, 1};
    return mode == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
  };
  t.cudnnSetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t convolution, int groups) {
    of<Convolution>(convolution).groups = groups;
    return CUDNN_STATUS_SUCCESS;
  };
  t.cudnnSetConvolutionMathType = [](cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
    of<Convolution>(convolution).math = math;
    return math >= CUDNN_DEFAULT_MATH && math <= CUDNN_FMA_MATH ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  };
  t.cudnnSetActivationDescriptor = [](cudnnActivationDescriptor_t activation, cudnnActivationMode_t mode,
                                      cudnnNanPropagation_t nan, double) {
    of<Activation>(activation) = {mode, nan};
    return CUDNN_STATUS_SUCCESS;
  };
  t.cudnnSetPoolingNdDescriptor = [](cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                     cudnnNanPropagation_t nan, int rank, const int *window, const int *pads,
                                     const int *strides) {
    of<Pooling>(pooling) = {mode, nan, {window, window + rank}, {pads, pads + rank}, {strides, strides + rank}};
    return CUDNN_STATUS_SUCCESS;
  };
}

} // namespace

cudaStream_t streamOf(cudnnHandle_t handle) { return of<Handle>(handle).stream; }

const runtime::Cudnn &cudnn() {
  static const runtime::Cudnn table = [] {
    runtime::Cudnn t;
    fillDescribing(t);
    fillSearching(t);
    fillRunning(t);
    fillBackend(t);
    t.cudnnCreate = [](cudnnHandle_t *handle) {
      create<Handle>(handle);
      of<Handle>(*handle).device = currentDevice();
      return CUDNN_STATUS_SUCCESS;
    };
    t.cudnnSetStream = [](cudnnHandle_t handle, cudaStream_t stream) {
      if (of<Handle>(handle).device != currentDevice())
        return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
      of<Handle>(handle).stream = stream;
      return CUDNN_STATUS_SUCCESS;
    };
    t.cudnnGetVersion = [] { return size_t(91900); };
    t.cudnnGetErrorString = [](cudnnStatus_t status) {
      return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
    };
    return t;
  }();
  return table;
}

} // namespace cleave::simulated
