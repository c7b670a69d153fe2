// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution with a window of one element, without padding and groups, as products by cuBLASLt, a batch of one for
// each sample n. With the positions of the result in a row,
//
//   result[n] [O, P]  = weights [O, C] data[n] [C, P]           forward
//   data[n] [C, P]    = weights' [C, O] result[n] [O, P]        the data's gradient
//   weights [O, C]    = sum over n of result[n] [O, P] data[n]' [P, C]
//
// Where the window steps over data, what it meets lies in the workspace for the product. The samples' products for the
// weights are added up in float32: as many of them side by side in the workspace as fit, the others one after the other
// onto these.

#include "runtime/MemoryLayout.h"
#include "runtime/drivers/cuda/ConvolutionWays.h"
#include "runtime/drivers/cuda/CublasLtKernel.h"
#include "runtime/drivers/cuda/CudaLibraryAlgorithms.h"
#include "runtime/drivers/cuda/ProductKernels.h"
#include "runtime/drivers/cuda/rules/CublasProblem.h"

#include <algorithm>

namespace cleave::runtime {

namespace {

/// What addresses of cuBLASLt's operands are a multiple of (CublasLtKernel.cpp).
constexpr uint64_t operandAlignment = 64;
uint64_t alignedUp(uint64_t bytes) { return (bytes + operandAlignment - 1) / operandAlignment * operandAlignment; }

std::byte *placeAt(void *base, uint64_t offset) { return static_cast<std::byte *>(base) + offset; }

/// A tensor with these distances of elements.
TensorType strided(ElementType element, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  Layout layout = denseLayout(shape);
  layout.strides = std::move(strides);
  return {element, std::move(shape), std::move(layout)};
}

class Products final : public ConvolutionWays {
public:
  explicit Products(const ConvolutionTask &task);

  Expected<float> measure(void *const *arguments, cudaStream_t stream, Order order) override;
  std::string text() const override { return "product"; }
  Error take(const std::string &text, void *const *arguments, cudaStream_t stream) override;
  Error enqueue(void *const *arguments, cudaStream_t stream) override;

private:
  using Direction = CudnnConvolution::Direction;
  using Product = std::unique_ptr<CudaLibraryKernel>;

  Error load();
  Error planWorkspace();
  LibraryKernelDesc describe() const;
  Expected<Product> loadProduct(LibraryKernelDesc product);
  Error choose(void *const *arguments, cudaStream_t stream);
  /// Arguments of a product that begins with the sample.
  std::vector<void *> argumentsOf(void *const *arguments, int64_t sample, bool addsOn) const;
  Error gatherData(void *const *arguments, cudaStream_t stream) const;

  const ConvolutionTask &task;
  const CudnnConvolution &problem;
  const int64_t samples, outputs, channels;
  WindowSteps steps;
  int64_t positions; ///< of the result
  bool isLoaded = false;
  ProductKernels kernels;
  Product product, addingProduct;
  /// For the weights: how many partial sums there are, of how many samples each.
  int64_t parts = 1, samplesOfPart = 1;
  // Parts of the workspace: what the window meets is at its beginning.
  uint64_t partialOffset = 0, restOffset = 0;
};

Products::Products(const ConvolutionTask &task)
    : task(task), problem(task.problem), samples(problem.data[0]), outputs(problem.weights[0]),
      channels(problem.weights[1]) {
  steps.planes = static_cast<uint64_t>(samples * channels);
  size_t rank = problem.data.size() - 2;
  for (size_t d = 0; d != rank; ++d) {
    steps.compact[3 - rank + d] = static_cast<uint64_t>(problem.result[d + 2]);
    steps.data[3 - rank + d] = static_cast<uint64_t>(problem.data[d + 2]);
    steps.strides[3 - rank + d] = static_cast<uint64_t>(problem.window.strides[d]);
  }
  positions = static_cast<int64_t>(steps.compactElements() / steps.planes);
}

/// Of the divisors of the number of samples, the largest with which that many partial sums fit. What is left is for
/// cuBLASLt.
Error Products::planWorkspace() {
  const uint64_t room = task.desc.scratchBytes, bytes = elementBytes(problem.element);
  partialOffset = steps.leavesOut() ? alignedUp(steps.compactElements() * bytes) : 0;
  restOffset = partialOffset;
  if (problem.direction == Direction::BackwardWeights) {
    const uint64_t one = static_cast<uint64_t>(outputs * channels) * sizeof(float);
    // Each product of a part begins with another sample.
    bool mayBegin = static_cast<uint64_t>(outputs * positions) * bytes % operandAlignment == 0 &&
                    static_cast<uint64_t>(channels * positions) * bytes % operandAlignment == 0;
    for (parts = samples; parts > 1; --parts)
      if (samples % parts == 0 && partialOffset + alignedUp(parts * one) <= room)
        break;
    samplesOfPart = samples / parts;
    if (samplesOfPart != 1 && !mayBegin)
      return makeError(Status::Unsupported, "samples are not aligned");
    restOffset += alignedUp(parts * one);
  }
  return restOffset <= room ? Error::success() : makeError(Status::Unsupported, "the workspace is too small");
}

/// The product, without scratch. For the weights it is one of the first sample of each part.
LibraryKernelDesc Products::describe() const {
  LibraryKernelDesc desc;
  desc.library = "cublaslt";
  desc.operation = "matmul";
  if (problem.tf32)
    desc.ints["tf32"] = {1};
  const ElementType element = problem.element;
  TensorType data{element, {samples, channels, positions}, std::nullopt};
  TensorType result{element, {samples, outputs, positions}, std::nullopt};
  switch (problem.direction) {
  case Direction::Forward:
    desc.inputs = {{element, {outputs, channels}, std::nullopt}, data};
    desc.outputs = {result};
    if (problem.added >= 0) {
      desc.inputs.push_back(result);
      desc.postOps = {{"binary_add", 0, 0, 2}};
    }
    break;
  case Direction::BackwardData:
    desc.inputs = {strided(element, {channels, outputs}, {1, channels}), result};
    desc.outputs = {data};
    break;
  case Direction::BackwardWeights:
    desc.inputs = {
        strided(element, {parts, outputs, positions}, {samplesOfPart * outputs * positions, positions, 1}),
        strided(element, {parts, positions, channels}, {samplesOfPart * channels * positions, 1, positions})};
    desc.outputs = {{ElementType::F32, {parts, outputs, channels}, std::nullopt}};
    break;
  }
  return desc;
}

Expected<Products::Product> Products::loadProduct(LibraryKernelDesc desc) {
  auto read = readCublasProblem(desc);
  if (!read)
    return read.error();
  desc.scratchBytes = std::min(read->workspaceBytes(), task.desc.scratchBytes - restOffset);
  return loadCublasLtKernel(desc);
}

Error Products::load() {
  if (isLoaded)
    return Error::success();
  if (Error error = planWorkspace())
    return error;
  auto own = ProductKernels::load(task.cuda, problem.element);
  if (!own)
    return own.error();
  kernels = std::move(*own);
  LibraryKernelDesc desc = describe();
  auto loaded = loadProduct(desc);
  if (!loaded)
    return loaded.error();
  product = std::move(*loaded);
  if (samplesOfPart != 1) {
    desc.inputs.push_back(desc.outputs[0]);
    desc.postOps = {{"binary_add", 0, 0, 2}};
    auto adding = loadProduct(desc);
    if (!adding)
      return adding.error();
    addingProduct = std::move(*adding);
  }
  isLoaded = true;
  return Error::success();
}

std::vector<void *> Products::argumentsOf(void *const *arguments, int64_t sample, bool addsOn) const {
  void *space = task.workspaceOf(arguments), *rest = placeAt(space, restOffset);
  void *data = steps.leavesOut() ? space : task.dataOf(arguments), *result = task.resultOf(arguments);
  switch (problem.direction) {
  case Direction::Forward:
    if (problem.added >= 0)
      return {task.weightsOf(arguments), data, arguments[problem.added], result, rest};
    return {task.weightsOf(arguments), data, result, rest};
  case Direction::BackwardData:
    return {task.weightsOf(arguments), result, data, rest};
  case Direction::BackwardWeights:
    break;
  }
  const int64_t bytes = static_cast<int64_t>(elementBytes(problem.element)) * positions * sample;
  void *partial = placeAt(space, partialOffset);
  std::vector<void *> list = {placeAt(result, bytes * outputs), placeAt(data, bytes * channels), partial, rest};
  if (addsOn)
    list.insert(list.begin() + 2, partial);
  return list;
}

Error Products::gatherData(void *const *arguments, cudaStream_t stream) const {
  if (!steps.leavesOut() || problem.direction == Direction::BackwardData)
    return Error::success();
  return kernels.gather(task.workspaceOf(arguments), task.dataOf(arguments), steps, stream);
}

/// Has cuBLASLt choose, on data as it will lie.
Error Products::choose(void *const *arguments, cudaStream_t stream) {
  if (Error error = load())
    return error;
  if (Error error = gatherData(arguments, stream))
    return error;
  if (Error error = checkCuda(task.cuda, task.cuda.cudaStreamSynchronize(stream), "cudaStreamSynchronize"))
    return error;
  if (Error error = product->choose(argumentsOf(arguments, 0, /*addsOn=*/false).data(), stream))
    return error;
  return addingProduct ? addingProduct->choose(argumentsOf(arguments, 0, /*addsOn=*/true).data(), stream)
                       : Error::success();
}

Expected<float> Products::measure(void *const *arguments, cudaStream_t stream, Order order) {
  if (order == Order::Varying)
    return makeError(Status::Unsupported, "products are the same every time");
  if (Error error = choose(arguments, stream))
    return error;
  return measureOnStream(task.cuda, stream, [&] { return enqueue(arguments, stream); });
}

Error Products::take(const std::string &text, void *const *arguments, cudaStream_t stream) {
  if (text != this->text())
    return makeError(Status::Unsupported, "\"", text, "\" is no product");
  if (Error error = choose(arguments, stream))
    return error;
  return runOnce(task.cuda, arguments, stream);
}

Error Products::enqueue(void *const *arguments, cudaStream_t stream) {
  if (Error error = gatherData(arguments, stream))
    return error;
  if (Error error = product->enqueue(argumentsOf(arguments, 0, /*addsOn=*/false).data(), stream))
    return error;
  switch (problem.direction) {
  case Direction::Forward:
    return task.epilogueAfterAddition.enqueue(task.resultOf(arguments), arguments, stream);
  case Direction::BackwardData:
    return steps.leavesOut() ? kernels.spread(task.dataOf(arguments), task.workspaceOf(arguments), steps, stream)
                             : Error::success();
  case Direction::BackwardWeights:
    break;
  }
  for (int64_t sample = 1; sample != samplesOfPart; ++sample)
    if (Error error = addingProduct->enqueue(argumentsOf(arguments, sample, /*addsOn=*/true).data(), stream))
      return error;
  return kernels.sum(task.weightsOf(arguments), placeAt(task.workspaceOf(arguments), partialOffset),
                     static_cast<uint64_t>(outputs * channels), static_cast<uint64_t>(parts), stream);
}

} // namespace

std::unique_ptr<ConvolutionWays> loadConvolutionProducts(const ConvolutionTask &task) {
  const CudnnConvolution &problem = task.problem;
  bool isProduct = problem.groups == 1 &&
                   std::all_of(problem.weights.begin() + 2, problem.weights.end(), [](int n) { return n == 1; }) &&
                   std::all_of(problem.window.pads.begin(), problem.window.pads.end(), [](int n) { return n == 0; });
  return isProduct ? std::make_unique<Products>(task) : nullptr;
}

} // namespace cleave::runtime
