// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels whose arguments are numbers of any element type, and what this processor multiplies.

#ifndef CLEAVE_TEST_RUNTIME_ONEDNN_INTEGERHARNESS_H
#define CLEAVE_TEST_RUNTIME_ONEDNN_INTEGERHARNESS_H

#include "KernelHarness.h"
#include "runtime/ElementType.h"
#include "runtime/MemoryLayout.h"

#include <dnnl.h>

#include <cmath>
#include <cstring>

namespace cleave::runtime::test {

/// Numbers of any element type, in row-major order.
struct Numbers {
  ElementType element;
  Shape shape;
  std::vector<double> values;

  TensorType type() const { return {element, shape, std::nullopt}; }
};

/// Whole numbers from `low` to `high`.
inline Numbers whole(ElementType element, const Shape &shape, unsigned seed, int low, int high) {
  Tensor drawn = pseudorandom(shape, seed, static_cast<float>(low), static_cast<float>(high) + 1);
  Numbers numbers{element, shape, {}};
  for (float value : drawn.values)
    numbers.values.push_back(std::min<double>(std::floor(value), high));
  return numbers;
}

inline Numbers all(ElementType element, const Shape &shape, double value) {
  return {element, shape, std::vector<double>(elements(shape), value)};
}

inline Numbers reals(const Shape &shape, unsigned seed, float low, float high) {
  Tensor drawn = pseudorandom(shape, seed, low, high);
  return {ElementType::F32, shape, {drawn.values.begin(), drawn.values.end()}};
}

/// An element as the bytes of a buffer hold it.
inline void store(char *buffer, ElementType element, int64_t position, double value) {
  auto put = [&](auto number) { std::memcpy(buffer + position * sizeof(number), &number, sizeof(number)); };
  if (element == ElementType::F32)
    put(static_cast<float>(value));
  else if (element == ElementType::I32)
    put(static_cast<int32_t>(value));
  else
    buffer[position] = static_cast<char>(static_cast<int>(value));
}

inline double fetch(const char *buffer, ElementType element, int64_t position) {
  auto get = [&](auto number) {
    std::memcpy(&number, buffer + position * sizeof(number), sizeof(number));
    return static_cast<double>(number);
  };
  switch (element) {
  case ElementType::F32:
    return get(0.0f);
  case ElementType::I32:
    return get(int32_t(0));
  case ElementType::U8:
    return get(uint8_t(0));
  default:
    return get(int8_t(0));
  }
}

/// Calls `visit(index, number of the element)` for all elements of a shape.
inline void forEach(const Shape &shape, const std::function<void(const Shape &, int64_t)> &visit) {
  int64_t number = 0;
  tabulate(shape, [&](const Shape &index) {
    visit(index, number++);
    return 0.0;
  });
}

using Buffer = std::shared_ptr<char>;
inline Buffer bufferOf(uint64_t bytes) {
  uint64_t whole = (bytes + 127) / 64 * 64;
  Buffer buffer(static_cast<char *>(std::aligned_alloc(64, whole)), std::free);
  std::memset(buffer.get(), 0, whole);
  return buffer;
}

inline LibraryKernelQuery queryOf(std::string operation, const std::vector<Numbers> &inputs, const TensorType &output) {
  LibraryKernelQuery query;
  query.desc.operation = std::move(operation);
  for (const Numbers &input : inputs) {
    query.desc.inputs.push_back(input.type());
    // The bias, scales and what is added lie row-major.
    query.anyInputs.push_back(query.anyInputs.size() < 2);
  }
  query.desc.outputs.push_back(output);
  query.anyOutputs = {true};
  return query;
}

/// A kernel that was chosen and loaded.
class Loaded {
public:
  explicit Loaded(const LibraryKernelQuery &query, unsigned threads = 1) {
    auto chosen = oneDnnLibrary().choose(query, threads);
    if (!chosen)
      throw std::runtime_error(chosen.error().text());
    choice = *chosen;
    auto loaded = createOneDnnProvider()->load(choice.desc, threads);
    if (!loaded)
      throw std::runtime_error(loaded.error().text());
    kernel = std::move(*loaded);
  }

  std::vector<double> run(const std::vector<Numbers> &inputs) {
    std::vector<Buffer> buffers;
    for (size_t i = 0; i != inputs.size(); ++i) {
      buffers.push_back(bufferOf(choice.inputBytes[i]));
      const TensorType &type = choice.desc.inputs[i];
      forEach(type.shape, [&](const Shape &index, int64_t number) {
        store(buffers.back().get(), inputs[i].element, positionOf(index, type), inputs[i].values[number]);
      });
    }
    buffers.push_back(bufferOf(choice.outputBytes[0]));
    Buffer output = buffers.back();
    buffers.push_back(bufferOf(choice.desc.scratchBytes));
    std::vector<void *> arguments;
    for (Buffer &buffer : buffers)
      arguments.push_back(buffer.get());
    // An input that the result is added to is its buffer.
    for (const LibraryPostOp &postOp : choice.desc.postOps)
      if (postOp.kind == "sum") {
        std::memcpy(output.get(), arguments[postOp.argument], choice.outputBytes[0]);
        arguments[postOp.argument] = output.get();
      }
    if (Error error = kernel->run(arguments.data()))
      throw std::runtime_error(error.text());
    const TensorType &type = choice.desc.outputs[0];
    std::vector<double> values;
    forEach(type.shape, [&](const Shape &index, int64_t) {
      values.push_back(fetch(output.get(), type.element, positionOf(index, type)));
    });
    return values;
  }

private:
  LibraryChoice choice;
  std::unique_ptr<LibraryKernelInstance> kernel;
};

inline std::vector<double> multiplied(const Numbers &a, const Numbers &b) {
  int64_t depth = a.shape[1], columns = b.shape[1];
  std::vector<double> sums;
  for (int64_t row = 0; row != a.shape[0]; ++row)
    for (int64_t column = 0; column != columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k != depth; ++k)
        sum += a.values[row * depth + k] * b.values[k * columns + column];
      sums.push_back(sum);
    }
  return sums;
}

inline bool hasVnni() {
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (isa & dnnl_cpu_isa_avx512_core_vnni) == dnnl_cpu_isa_avx512_core_vnni ||
         (isa & dnnl_cpu_isa_avx2_vnni) == dnnl_cpu_isa_avx2_vnni;
}

/// Whether products are those of our own kernels for AVX2.
inline bool hasPanels() {
  auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return !hasVnni() && (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 &&
         (isa & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
}

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_ONEDNN_INTEGERHARNESS_H
