// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a oneDNN kernel the way a plan does: layouts chosen, inputs packed by the definition of a layout in plan.fbs
// (not by oneDNN), kernel loaded and run, output unpacked; and compares with bounds derived from float32.

#ifndef CLEAVE_TEST_RUNTIME_ONEDNN_KERNELHARNESS_H
#define CLEAVE_TEST_RUNTIME_ONEDNN_KERNELHARNESS_H

#include "runtime/drivers/cpu/OneDnn.h"

#include <gtest/gtest.h>

#include <functional>

namespace cleave::runtime::test {

using Shape = std::vector<int64_t>;

/// A float32 tensor in row-major order.
struct Tensor {
  Shape shape;
  std::vector<float> values;

  /// The value at an index of as many positions as the shape has dimensions.
  float &at(const Shape &index);
  float at(const Shape &index) const { return const_cast<Tensor *>(this)->at(index); }
};

int64_t elements(const Shape &shape);
/// Values from -1 to 1 (or `low` to `high`) that differ from seed to seed and are the same on every machine.
Tensor pseudorandom(const Shape &shape, unsigned seed, float low = -1, float high = 1);
/// `value(index)` for every index of the shape.
Tensor tabulate(const Shape &shape, const std::function<double(const Shape &)> &value);

/// The position of an element in a buffer of that type, in elements.
int64_t positionOf(const Shape &index, const TensorType &type);
/// The bytes of a buffer of that type, zeros in the padding; the type may have another shape of as many elements.
std::vector<float> pack(const Tensor &tensor, const TensorType &type, uint64_t bytes);
Tensor unpack(const float *buffer, const TensorType &type, const Shape &shape);

/// A dense float32 type.
TensorType f32(Shape shape);
/// A query with float32 arguments, every layout open.
LibraryKernelQuery openQuery(std::string operation, const std::vector<Tensor> &inputs, Shape output);

/// Chooses layouts, loads the kernel and runs it. Throws std::runtime_error with the message of a failure.
Tensor runKernel(const LibraryKernelQuery &query, const std::vector<Tensor> &inputs, unsigned threads = 1);
/// As runKernel, when the caller needs the choice; `bytes` gets the output's buffer as it is.
Tensor runChoice(const LibraryChoice &choice, const std::vector<Tensor> &inputs, unsigned threads = 1,
                 std::vector<float> *bytes = nullptr);

/// |actual - expected| <= relative * |expected| + absolute, element by element.
void expectNear(const Tensor &actual, const Tensor &expected, double relative, double absolute);
/// Sums of `terms` float32 products whose magnitudes add up to `magnitude`: |error| <= (terms + 8) * 2^-24 * magnitude.
void expectSums(const Tensor &actual, const Tensor &expected, const Tensor &magnitude, int64_t terms);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_ONEDNN_KERNELHARNESS_H
