// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads windows and the tensors that they lead from and to.

#include "runtime/drivers/cuda/rules/CudnnProblem.h"

#include "runtime/drivers/cuda/rules/CudaDescription.h"

#include <algorithm>
#include <limits>

namespace cleave::runtime {

namespace {

constexpr int64_t largestInt = std::numeric_limits<int32_t>::max();
/// Pads, strides and extents of windows up to here leave room for sums in 32 bits.
constexpr int64_t largestExtent = int64_t(1) << 28;

/// cuDNN takes at least two spatial dimensions.
std::vector<int> withTwoSpatial(const std::vector<int64_t> &shape) {
  std::vector<int> dims(shape.begin(), shape.end());
  if (dims.size() == 3)
    dims.insert(dims.begin() + 2, 1);
  return dims;
}

std::vector<int> windowOfTwo(const std::vector<int64_t> &values, int fill) {
  std::vector<int> result(values.begin(), values.end());
  if (result.size() == 1)
    result.insert(result.begin(), fill);
  return result;
}

/// The types are dense, of one element type, and of sizes that cuDNN counts in 32 bits.
Error checkTensors(const LibraryKernelDesc &desc, bool withBfloat16) {
  ElementType element = desc.inputs[0].element;
  if (element != ElementType::F32 && !(withBfloat16 && element == ElementType::BF16))
    return makeError(Status::Unsupported, "expects f32", withBfloat16 ? " or bf16" : "", ", got ",
                     elementName(element));
  for (const std::vector<TensorType> *types : {&desc.inputs, &desc.outputs})
    for (const TensorType &type : *types) {
      if (type.element != element || !isDense(type))
        return makeError(Status::Unsupported, "expects row-major arguments of one element type, got ", type.text());
      if (*type.elementCount() < 1 || *type.elementCount() > static_cast<uint64_t>(largestInt))
        return makeError(Status::Unsupported, type.text(), " expects 1 to ", largestInt, " elements");
    }
  return Error::success();
}

/// The window of `kernel` that moves from `wide` (a convolution's data) to `narrow` (its result), rounding down.
Expected<CudnnWindow> readWindow(const LibraryKernelDesc &desc, const std::vector<int64_t> &wide,
                                 const std::vector<int64_t> &narrow, const std::vector<int64_t> &kernel) {
  size_t n = kernel.size();
  auto strides = readIntegers(desc, "strides", n, 1, 1, largestExtent);
  auto dilations = readIntegers(desc, "dilations", n, 1, 1, largestExtent);
  auto before = readIntegers(desc, "pads_begin", n, 0, 0, largestExtent);
  auto behind = readIntegers(desc, "pads_end", n, 0, 0, largestExtent);
  for (const auto *values : {&strides, &dilations, &before, &behind})
    if (!*values)
      return values->error();
  for (size_t d = 0; d != n; ++d) {
    if (kernel[d] < 1 || kernel[d] > largestExtent || (kernel[d] - 1) * (*dilations)[d] >= largestExtent)
      return makeError(Status::Unsupported, "the window of spatial dimension ", d, " is larger than ", largestExtent);
    int64_t extent = (kernel[d] - 1) * (*dilations)[d] + 1;
    int64_t room = wide[d + 2] + (*before)[d] + (*behind)[d] - extent;
    if (room < 0 || room / (*strides)[d] + 1 != narrow[d + 2])
      return makeError(Status::Rejected, "the window of spatial dimension ", d, " does not lead from ", wide[d + 2],
                       " to ", narrow[d + 2], " elements: it has an extent of ", extent, ", stride ", (*strides)[d],
                       " and padding ", (*before)[d], " and ", (*behind)[d]);
    // What counts is that with the padding before on both sides there are as many windows: they are the same ones.
    int64_t same = wide[d + 2] + 2 * (*before)[d] - extent;
    if (same < 0 || same / (*strides)[d] + 1 != narrow[d + 2])
      return makeError(Status::Unsupported, "cudnn expects as much padding before as behind, got ", (*before)[d],
                       " and ", (*behind)[d], " in spatial dimension ", d);
  }
  return CudnnWindow{windowOfTwo(*before, 0), windowOfTwo(*strides, 1), windowOfTwo(*dilations, 1)};
}

Error checkRank(const TensorType &type, size_t rank) {
  if (rank < 3 || rank > 5)
    return makeError(Status::Unsupported, "expects data [N, C, spatial...] with 1 to 3 spatial dimensions, got ",
                     type.text());
  if (type.shape.size() != rank)
    return makeError(Status::Rejected, "expects ", rank, " dimensions, got ", type.text());
  return Error::success();
}

/// Weights without a dimension of groups: [O, C/G, kernel...] from [G, O/G, C/G, kernel...], the same bytes.
Expected<std::vector<int64_t>> plainWeights(const TensorType &type, size_t rank, int64_t groups) {
  std::vector<int64_t> shape = type.shape;
  if (shape.size() == rank + 1 && shape[0] == groups) {
    shape[1] *= groups;
    shape.erase(shape.begin());
  }
  if (shape.size() != rank || shape[0] % groups != 0)
    return makeError(Status::Rejected, "weights expect ", rank, " dimensions, the first a multiple of ", groups,
                     ", or ", groups, " and ", rank, " more, got ", type.text());
  return shape;
}

/// What follows a forward convolution, in the one order that cuDNN's fused routine has.
Error readEpilogue(const LibraryKernelDesc &desc, size_t operands, CudnnConvolution &convolution) {
  if (!desc.postOps.empty() && convolution.direction != CudnnConvolution::Direction::Forward)
    return makeError(Status::Unsupported, "cudnn has no post operations behind it");
  if (operands == 3)
    convolution.bias = 2;
  const std::vector<int64_t> &result = desc.outputs[0].shape;
  auto isBias = [&](const TensorType &type) {
    return *type.elementCount() == static_cast<uint64_t>(result[1]) &&
           (type.shape.size() == 1 || (type.shape.size() == result.size() && type.shape[1] == result[1]));
  };
  for (const LibraryPostOp &postOp : desc.postOps) {
    if (Error error = checkPostOpInput(desc, postOp, operands))
      return error;
    const TensorType *type = postOp.argument >= 0 ? &desc.inputs[postOp.argument] : nullptr;
    bool isAddition = postOp.kind == "binary_add" && !convolution.relu;
    if (isAddition && convolution.bias < 0 && isBias(*type))
      convolution.bias = postOp.argument;
    else if (isAddition && convolution.bias >= 0 && convolution.added < 0 && type->shape == result)
      convolution.added = postOp.argument;
    else if (postOp.kind == "relu" && convolution.bias >= 0 && !convolution.relu)
      convolution.relu = true;
    else
      return makeError(Status::Unsupported, "cudnn has no post operation \"", postOp.kind, "\" here");
  }
  if (convolution.bias >= 0 && !isBias(desc.inputs[convolution.bias]))
    return makeError(Status::Rejected, "bias expects ", result[1], " values, got ",
                     desc.inputs[convolution.bias].text());
  return Error::success();
}

} // namespace

bool isCudnnConvolution(std::string_view operation) {
  return operation == "convolution" || operation == "deconvolution" || operation == "convolution_weights";
}

uint64_t CudnnConvolution::workspaceBytes() const {
  auto bytes = [&](const std::vector<int> &dims) {
    uint64_t count = elementBytes(element);
    for (int size : dims)
      count *= size;
    return count;
  };
  constexpr uint64_t mebibyte = uint64_t(1) << 20;
  return std::clamp(2 * (bytes(data) + bytes(weights) + bytes(result)), 8 * mebibyte, 1024 * mebibyte);
}

Expected<CudnnConvolution> readCudnnConvolution(const LibraryKernelDesc &desc) {
  CudnnConvolution convolution;
  using Direction = CudnnConvolution::Direction;
  convolution.direction = desc.operation == "convolution"     ? Direction::Forward
                          : desc.operation == "deconvolution" ? Direction::BackwardData
                                                              : Direction::BackwardWeights;
  auto operands = countOperands(desc, 2, convolution.direction == Direction::BackwardWeights ? 2 : 3);
  if (!operands)
    return operands.error();
  if (Error error = checkTensors(desc, /*withBfloat16=*/true))
    return error;
  if (*operands == 3 && convolution.direction != Direction::Forward)
    return makeError(Status::Unsupported, "cudnn adds no bias to a deconvolution");
  // The tensors of the forward convolution.
  const TensorType *data = &desc.inputs[0], *weights = &desc.inputs[1], *result = &desc.outputs[0];
  if (convolution.direction == Direction::BackwardData)
    std::swap(data, result);
  else if (convolution.direction == Direction::BackwardWeights)
    std::swap(weights, result);
  size_t rank = data->shape.size();
  for (const TensorType *type : {data, result})
    if (Error error = checkRank(*type, rank))
      return error;
  auto groups = readInteger(desc, "groups", 1, 1, largestInt);
  if (!groups)
    return groups.error();
  auto shape = plainWeights(*weights, rank, *groups);
  if (!shape)
    return shape.error();
  if (data->shape[0] != result->shape[0] || (*shape)[0] != result->shape[1] || (*shape)[1] * *groups != data->shape[1])
    return makeError(Status::Rejected, "expects data [N, C, ...], weights [O, C/", *groups,
                     ", ...] and a result [N, O, ...], got ", data->text(), ", ", weights->text(), " and ",
                     result->text());
  auto window = readWindow(desc, data->shape, result->shape, {shape->begin() + 2, shape->end()});
  if (!window)
    return window.error();
  auto tf32 = readInteger(desc, "tf32", 0, 0, 1);
  if (!tf32)
    return tf32.error();
  convolution.element = data->element;
  convolution.data = withTwoSpatial(data->shape);
  convolution.weights = withTwoSpatial(*shape);
  convolution.result = withTwoSpatial(result->shape);
  convolution.window = std::move(*window);
  convolution.groups = static_cast<int>(*groups);
  convolution.tf32 = *tf32 == 1 && convolution.element == ElementType::F32;
  if (Error error = readEpilogue(desc, *operands, convolution))
    return error;
  return convolution;
}

Expected<CudnnPooling> readCudnnPooling(const LibraryKernelDesc &desc) {
  CudnnPooling pooling;
  if (desc.operation == "pooling.avg_include")
    pooling.kind = CudnnPooling::Kind::AverageIncludingPadding;
  else if (desc.operation == "pooling.avg_exclude")
    pooling.kind = CudnnPooling::Kind::AverageExcludingPadding;
  else if (desc.operation != "pooling.max")
    return makeError(Status::Unsupported, "cudnn has no such pooling");
  auto operands = countOperands(desc, 1, 1);
  if (!operands)
    return operands.error();
  if (!desc.postOps.empty())
    return makeError(Status::Unsupported, "cudnn has no post operations behind it");
  if (Error error = checkTensors(desc, /*withBfloat16=*/false))
    return error;
  const std::vector<int64_t> &data = desc.inputs[0].shape, &result = desc.outputs[0].shape;
  for (const TensorType *type : {&desc.inputs[0], &desc.outputs[0]})
    if (Error error = checkRank(*type, data.size()))
      return error;
  if (data[0] != result[0] || data[1] != result[1])
    return makeError(Status::Rejected, "expects data and output of the same samples and channels");
  auto kernel = readIntegers(desc, "kernel", data.size() - 2, 1, 1, largestExtent);
  if (!kernel)
    return kernel.error();
  auto window = readWindow(desc, data, result, *kernel);
  if (!window)
    return window.error();
  pooling.data = withTwoSpatial(data);
  pooling.result = withTwoSpatial(result);
  pooling.kernel = windowOfTwo(*kernel, 1);
  pooling.window = std::move(*window);
  for (size_t d = 0; d != pooling.kernel.size(); ++d) {
    if (pooling.window.dilations[d] != 1)
      return makeError(Status::Unsupported, "cudnn has no dilated pooling");
    // A window in the padding alone has no largest element and nothing to divide by.
    if (pooling.window.pads[d] >= pooling.kernel[d])
      return makeError(Status::Unsupported, "cudnn expects less padding than the window has elements");
  }
  return pooling;
}

} // namespace cleave::runtime
