// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensors and convolutions as cuDNN's descriptors have them, and the three directions of a convolution: by plain loops,
// and fast enough for whole models.

#ifndef CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDCONVOLUTION_H
#define CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDCONVOLUTION_H

#include "runtime/ElementType.h"
#include "test/runtime/cuda/SimulatedLibraries.h"

namespace cleave::simulated {

using runtime::ElementType;

/// A tensor or filter: filters are dense.
struct Tensor {
  cudnnDataType_t type;
  std::vector<int> dims, strides;

  ElementType element() const { return type == CUDNN_DATA_BFLOAT16 ? ElementType::BF16 : ElementType::F32; }
  int64_t count() const {
    int64_t count = 1;
    for (int size : dims)
      count *= size;
    return count;
  }
  /// The place of an element, which may be given with sizes of 1 left at 0.
  int64_t place(const std::vector<int> &index) const {
    int64_t place = 0;
    for (size_t d = 0; d != dims.size(); ++d)
      place += int64_t(dims[d] == 1 ? 0 : index[d]) * strides[d];
    return place;
  }
  /// Elements from the first place to the last one.
  int64_t span() const {
    int64_t last = 0;
    for (size_t d = 0; d != dims.size(); ++d)
      last += int64_t(dims[d] - 1) * strides[d];
    return last + 1;
  }
  double loadAt(const void *base, int64_t place) const {
    return runtime::loadElement(element(),
                                static_cast<const std::byte *>(base) + place * runtime::elementBytes(element()));
  }
  void storeAt(void *base, int64_t place, double value) const {
    runtime::storeElement(element(), static_cast<std::byte *>(base) + place * runtime::elementBytes(element()), value);
  }
  double load(const void *base, const std::vector<int> &index) const { return loadAt(base, place(index)); }
  void store(void *base, const std::vector<int> &index, double value) const { storeAt(base, place(index), value); }
};

struct Convolution {
  std::vector<int> pads, strides, dilations;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};
/// Calls `body(index)` for every index of the dimensions.
template <typename Body> void each(const std::vector<int> &dims, const Body &body) {
  std::vector<int> index(dims.size(), 0);
  while (true) {
    body(index);
    size_t d = dims.size();
    while (d != 0 && ++index[d - 1] == dims[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

/// The same with the last index at 0: for loops over the last dimension, which most of the time goes into.
template <typename Body> void eachLine(std::vector<int> dims, const Body &body) {
  dims.back() = 1;
  each(dims, body);
}

/// data, weights and result of a forward convolution, and how the window moves.
struct Problem {
  Tensor data, weights, result;
  Convolution convolution;

  cudnnStatus_t check() const {
    size_t rank = data.dims.size(), spatial = rank - 2;
    if (rank < 4 || rank > 5 || weights.dims.size() != rank || result.dims.size() != rank ||
        convolution.pads.size() != spatial)
      return CUDNN_STATUS_BAD_PARAM;
    if (data.type != weights.type || data.type != result.type || convolution.compute != CUDNN_DATA_FLOAT)
      return CUDNN_STATUS_NOT_SUPPORTED;
    int groups = convolution.groups;
    if (groups < 1 || data.dims[1] != weights.dims[1] * groups || weights.dims[0] % groups != 0 ||
        result.dims[1] != weights.dims[0] || result.dims[0] != data.dims[0])
      return CUDNN_STATUS_BAD_PARAM;
    for (size_t d = 0; d != spatial; ++d) {
      int extent = (weights.dims[d + 2] - 1) * convolution.dilations[d] + 1;
      int room = data.dims[d + 2] + 2 * convolution.pads[d] - extent;
      if (room < 0 || result.dims[d + 2] != room / convolution.strides[d] + 1)
        return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
  }

  /// Calls `body(data's index, weights' index, result's index)` for every product of the convolution.
  template <typename Body> void products(const Body &body) const {
    int perGroup = weights.dims[0] / convolution.groups, channels = weights.dims[1];
    each(result.dims, [&](const std::vector<int> &at) {
      std::vector<int> window = weights.dims;
      window[0] = 1;
      each(window, [&](std::vector<int> tap) {
        std::vector<int> from = at;
        tap[0] = at[1];
        from[1] = at[1] / perGroup * channels + tap[1];
        for (size_t d = 2; d != at.size(); ++d) {
          from[d] =
              at[d] * convolution.strides[d - 2] - convolution.pads[d - 2] + tap[d] * convolution.dilations[d - 2];
          if (from[d] < 0 || from[d] >= data.dims[d])
            return;
        }
        body(from, tap, at);
      });
    });
  }

  double rounded(double value) const {
    bool isTf32 = data.type == CUDNN_DATA_FLOAT && convolution.math != CUDNN_FMA_MATH;
    return isTf32 ? roundedToTf32(value) : value;
  }
};

/// What is computed of the three from the two others.
enum class Target { Data, Weights, Result };
inline const Tensor &written(const Problem &p, Target target) {
  return target == Target::Data ? p.data : target == Target::Weights ? p.weights : p.result;
}

/// Sums of products, by their places in the tensor that `target` names; its own address is not read. Loops over what a
/// convolution is, slow: what `fastSums` is compared with.
std::vector<double> plainSums(const Problem &p, Target target, const void *data, const void *weights,
                              const void *result);
/// The same as products of matrices: for each sample and group, data is unfolded into a column for each element of the
/// result, with a row for each channel and tap of the window.
std::vector<double> fastSums(const Problem &p, Target target, const void *data, const void *weights,
                             const void *result);

/// Sums by their places, scaled and stored.
void storeAll(const Tensor &tensor, void *base, const std::vector<double> &values, double alpha, double beta);

// Parts of the simulated cuDNN.
/// The stream of a handle.
cudaStream_t streamOf(cudnnHandle_t handle);
/// The functions of its backend (SimulatedCudnnBackend.cpp).
void fillBackend(runtime::Cudnn &table);

} // namespace cleave::simulated

#endif // CLEAVE_TEST_RUNTIME_CUDA_SIMULATEDCONVOLUTION_H
