// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of the kernel tests that are not about one operation.

#include "KernelHarness.h"

#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace cleave::runtime::test {

int64_t elements(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

float &Tensor::at(const Shape &index) {
  int64_t position = 0;
  for (size_t d = 0; d != shape.size(); ++d)
    position = position * shape[d] + index[d];
  return values.at(position);
}

/// The index after `index` in row-major order.
static void advance(Shape &index, const Shape &shape) {
  for (size_t d = shape.size(); d-- != 0;) {
    if (++index[d] != shape[d])
      return;
    index[d] = 0;
  }
}

Tensor tabulate(const Shape &shape, const std::function<double(const Shape &)> &value) {
  Tensor result{shape, std::vector<float>(elements(shape))};
  Shape index(shape.size(), 0);
  for (float &element : result.values) {
    element = static_cast<float>(value(index));
    advance(index, shape);
  }
  return result;
}

Tensor pseudorandom(const Shape &shape, unsigned seed, float low, float high) {
  uint32_t state = seed * 2654435761u + 12345u;
  return tabulate(shape, [&](const Shape &) {
    state = state * 1664525u + 1013904223u;
    return low + (high - low) * ((state >> 8) / 16777216.0);
  });
}

int64_t positionOf(const Shape &index, const TensorType &type) {
  int64_t position = 0;
  if (!type.layout) {
    for (size_t d = 0; d != index.size(); ++d)
      position = position * type.shape[d] + index[d];
    return position;
  }
  Shape rest = index;
  int64_t inner = 1;
  for (size_t i = type.layout->innerBlocks.size(); i-- != 0;) {
    int64_t &coordinate = rest[type.layout->innerDims[i]];
    position += coordinate % type.layout->innerBlocks[i] * inner;
    coordinate /= type.layout->innerBlocks[i];
    inner *= type.layout->innerBlocks[i];
  }
  for (size_t d = 0; d != rest.size(); ++d)
    position += rest[d] * type.layout->strides[d];
  return position;
}

std::vector<float> pack(const Tensor &tensor, const TensorType &type, uint64_t bytes) {
  std::vector<float> buffer(bytes / sizeof(float), 0.0f);
  Shape index(type.shape.size(), 0);
  for (float value : tensor.values) {
    buffer.at(positionOf(index, type)) = value;
    advance(index, type.shape);
  }
  return buffer;
}

Tensor unpack(const float *buffer, const TensorType &type, const Shape &shape) {
  Tensor result = tabulate(type.shape, [&](const Shape &index) { return buffer[positionOf(index, type)]; });
  result.shape = shape;
  return result;
}

TensorType f32(Shape shape) { return {ElementType::F32, std::move(shape), std::nullopt}; }

LibraryKernelQuery openQuery(std::string operation, const std::vector<Tensor> &inputs, Shape output) {
  LibraryKernelQuery query;
  query.desc.operation = std::move(operation);
  for (const Tensor &input : inputs)
    query.desc.inputs.push_back(f32(input.shape));
  query.desc.outputs.push_back(f32(std::move(output)));
  query.anyInputs.assign(inputs.size(), true);
  query.anyOutputs = {true};
  return query;
}

/// A buffer on a boundary of 64 bytes, as the runtime gives them.
static std::shared_ptr<float> aligned(uint64_t bytes) {
  void *memory = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  return {static_cast<float *>(memory), std::free};
}

static void check(const Error &error) {
  if (error)
    throw std::runtime_error(error.text());
}

/// What the library makes of a constant once, into `packed`.
static void runPacking(LibraryProvider &provider, const LibraryKernelDesc &packing, const Tensor &input,
                       const std::shared_ptr<float> &packed, unsigned threads) {
  auto kernel = provider.load(packing, threads);
  check(kernel.error());
  auto from = aligned(input.values.size() * sizeof(float)), scratch = aligned(packing.scratchBytes);
  std::copy(input.values.begin(), input.values.end(), from.get());
  void *arguments[] = {from.get(), packed.get(), scratch.get()};
  check((*kernel)->run(arguments));
}

Tensor runChoice(const LibraryChoice &choice, const std::vector<Tensor> &inputs, unsigned threads,
                 std::vector<float> *bytes) {
  auto provider = createOneDnnProvider();
  auto kernel = provider->load(choice.desc, threads);
  check(kernel.error());
  Tensor result;
  // Twice, in different buffers: the kernel must follow the addresses.
  for (int round = 0; round != 2; ++round) {
    std::vector<std::shared_ptr<float>> buffers;
    auto output = aligned(choice.outputBytes[0]);
    std::fill_n(output.get(), choice.outputBytes[0] / sizeof(float), 12345.0f);
    for (size_t i = 0; i != inputs.size(); ++i) {
      if (auto packing = choice.packings.find(i); packing != choice.packings.end()) {
        buffers.push_back(aligned(choice.inputBytes[i]));
        runPacking(*provider, packing->second, inputs[i], buffers.back(), threads);
        continue;
      }
      std::vector<float> packed = pack(inputs[i], choice.desc.inputs[i], choice.inputBytes[i]);
      bool inPlace = false;
      for (const LibraryPostOp &postOp : choice.desc.postOps)
        inPlace |= postOp.kind == "sum" && postOp.argument == static_cast<int>(i);
      buffers.push_back(inPlace ? output : aligned(choice.inputBytes[i]));
      std::copy(packed.begin(), packed.end(), buffers.back().get());
    }
    buffers.push_back(output);
    buffers.push_back(aligned(choice.desc.scratchBytes));
    std::vector<void *> arguments;
    arguments.reserve(buffers.size());
    for (auto &buffer : buffers)
      arguments.push_back(buffer.get());
    check((*kernel)->run(arguments.data()));
    result = unpack(output.get(), choice.desc.outputs[0], choice.desc.outputs[0].shape);
    if (bytes)
      bytes->assign(output.get(), output.get() + choice.outputBytes[0] / sizeof(float));
  }
  return result;
}

Tensor runKernel(const LibraryKernelQuery &query, const std::vector<Tensor> &inputs, unsigned threads) {
  auto choice = oneDnnLibrary().choose(query, threads);
  check(choice.error());
  Tensor result = runChoice(*choice, inputs, threads);
  result.shape = query.desc.outputs[0].shape;
  return result;
}

static void expectWithin(const Tensor &actual, const Tensor &expected, const std::function<double(size_t)> &bound) {
  ASSERT_EQ(actual.shape, expected.shape);
  for (size_t i = 0; i != expected.values.size(); ++i)
    ASSERT_NEAR(actual.values[i], expected.values[i], bound(i)) << "at element " << i;
}

void expectNear(const Tensor &actual, const Tensor &expected, double relative, double absolute) {
  expectWithin(actual, expected, [&](size_t i) { return relative * std::fabs(expected.values[i]) + absolute; });
}

void expectSums(const Tensor &actual, const Tensor &expected, const Tensor &magnitude, int64_t terms) {
  expectWithin(actual, expected,
               [&](size_t i) { return (terms + 8) * std::ldexp(1.0, -24) * (magnitude.values[i] + 1e-30); });
}

} // namespace cleave::runtime::test
