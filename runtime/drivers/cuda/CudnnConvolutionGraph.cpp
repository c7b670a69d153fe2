// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds what cuDNN's backend wants to know of a convolution.

#include "runtime/drivers/cuda/CudnnConvolutionGraph.h"

#include <algorithm>

namespace cleave::runtime {

namespace {

std::vector<int64_t> wide(const std::vector<int> &values) { return {values.begin(), values.end()}; }

Expected<CudnnBackendObject> makeTensor(const Cudnn &library, ElementType element, const std::vector<int> &dims,
                                        int64_t number) {
  std::vector<int64_t> sizes = wide(dims), strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d-- != 0;)
    strides[d] = strides[d + 1] * sizes[d + 1];
  CudnnBackendObject tensor(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnnType(element))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, cudnnArgumentAlignment);
  if (Error error = tensor.finalize())
    return error;
  return tensor;
}

Expected<CudnnBackendObject> makeConvolution(const Cudnn &library, const CudnnWindow &window) {
  CudnnBackendObject convolution(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(window.pads.size()))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, wide(window.dilations))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, wide(window.strides))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, wide(window.pads))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, wide(window.pads));
  if (Error error = convolution.finalize())
    return error;
  return convolution;
}

/// An operation's type and attributes in a direction.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, data, weights, result;
};

OperationNames namesOf(CudnnConvolution::Direction direction) {
  switch (direction) {
  case CudnnConvolution::Direction::Forward:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  case CudnnConvolution::Direction::BackwardData:
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  case CudnnConvolution::Direction::BackwardWeights:
    break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

} // namespace

bool isExact(const CudnnEngineNotes &notes, const CudnnConvolution &problem) {
  bool isRounded = problem.element == ElementType::BF16 || problem.tf32;
  for (cudnnBackendNumericalNote_t note :
       {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
        CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    if (notes.has(note))
      return false;
  if (notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && !isRounded)
    return false;
  if (notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD) && (isRounded || !notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4)))
    return false;
  // A newer cuDNN may round in ways that these headers do not know.
  return std::none_of(notes.numerical.begin(), notes.numerical.end(),
                      [](auto note) { return note >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT; });
}

Expected<CudnnGraph> makeConvolutionGraph(const Cudnn &library, const CudnnConvolution &problem, bool adds,
                                          cudnnHandle_t handle, const CudnnBackendObject *properties) {
  auto data = makeTensor(library, problem.element, problem.data, cudnnDataNumber);
  auto weights = makeTensor(library, problem.element, problem.weights, cudnnWeightsNumber);
  auto result = makeTensor(library, problem.element, problem.result, cudnnResultNumber);
  auto convolution = makeConvolution(library, problem.window);
  for (const auto *part : {&data, &weights, &result, &convolution})
    if (!*part)
      return part->error();
  OperationNames names = namesOf(problem.direction);
  std::vector<CudnnBackendObject> operations;
  CudnnBackendObject &operation = operations.emplace_back(library, names.type);
  operation.set(names.alpha, 1.0f)
      .set(names.beta, adds ? 1.0f : 0.0f)
      .set(names.convolution, *convolution)
      .set(names.data, *data)
      .set(names.weights, *weights)
      .set(names.result, *result);
  if (Error error = operation.finalize())
    return error;
  return CudnnGraph::make(library, operations, handle, properties);
}

} // namespace cleave::runtime
