// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over tensors in the compiler's memory, and the conversion of 16-bit floating-point elements.

#include "dialects/dfg/EvaluateLoops.h"

#include <bit>
#include <cmath>

using namespace mlir;

namespace cleave::dfg {

Strides denseStrides(ArrayRef<int64_t> shape) {
  Strides strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Strides broadcastStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> target) {
  Strides dense = denseStrides(shape), strides(target.size(), 0);
  size_t missing = target.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == target[missing + i])
      strides[missing + i] = dense[i];
  return strides;
}

StridedLoop::StridedLoop(ArrayRef<int64_t> shape, ArrayRef<Strides> arrays) : strides(arrays.size()) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1)
      continue;
    bool joins = !sizes.empty() && llvm::all_of(llvm::zip(strides, arrays), [&](auto pair) {
      return std::get<0>(pair).back() == std::get<1>(pair)[dim] * shape[dim];
    });
    if (joins)
      sizes.back() *= shape[dim];
    else
      sizes.push_back(shape[dim]);
    for (size_t array = 0; array < arrays.size(); ++array) {
      if (joins)
        strides[array].back() = arrays[array][dim];
      else
        strides[array].push_back(arrays[array][dim]);
    }
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (Strides &array : strides)
      array.push_back(1);
  }
}

int64_t elementWidth(Type elementType) { return (elementType.getIntOrFloatBitWidth() + 7) / 8; }

template <typename T> static void copyElements(const char *source, char *target, const StridedLoop &loop) {
  auto *from = reinterpret_cast<const T *>(source);
  auto *to = reinterpret_cast<T *>(target);
  int64_t fromStride = loop.innerStride(0), toStride = loop.innerStride(1);
  loop.run([&](ArrayRef<int64_t> offsets, int64_t count) {
    const T *in = from + offsets[0];
    T *out = to + offsets[1];
    if (fromStride == 1 && toStride == 1)
      std::memcpy(out, in, count * sizeof(T));
    else if (fromStride == 0 && toStride == 1)
      std::fill_n(out, count, *in);
    else
      for (int64_t i = 0; i < count; ++i)
        out[i * toStride] = in[i * fromStride];
  });
}

void copyStrided(const char *source, const Strides &sourceStrides, char *target, const Strides &targetStrides,
                 ArrayRef<int64_t> shape, int64_t width) {
  StridedLoop loop(shape, {sourceStrides, targetStrides});
  if (width == 1)
    copyElements<uint8_t>(source, target, loop);
  else if (width == 2)
    copyElements<uint16_t>(source, target, loop);
  else if (width == 4)
    copyElements<uint32_t>(source, target, loop);
  else
    copyElements<uint64_t>(source, target, loop);
}

static float halfToFloat(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0)
    return std::copysign(std::ldexp(static_cast<float>(mantissa), -24), std::bit_cast<float>(sign));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

static float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Rounds to `mantissaBits` explicit bits with exponents from `minExponent` on, ties to even.
static double roundMantissa(double value, int mantissaBits, int minExponent) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), minExponent);
  double unit = std::ldexp(1.0, exponent - mantissaBits);
  return std::nearbyint(value / unit) * unit;
}

static uint16_t toHalf(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  double size = std::fabs(roundMantissa(value, 10, -14));
  if (size >= 65520.0 || size > 65504.0)
    return sign | 0x7c00;
  if (size < std::ldexp(1.0, -14))
    return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  int exponent = std::ilogb(size);
  return sign |
         static_cast<uint16_t>(((exponent + 15) << 10) + static_cast<int>(std::ldexp(size, 10 - exponent)) - 1024);
}

static uint16_t toBfloat(double value) {
  if (std::isnan(value))
    return 0x7fc0;
  float rounded = static_cast<float>(roundMantissa(value, 7, -126));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) >> 16);
}

HostTensor widen(const HostTensor &tensor) {
  Type type = tensor.getElementType();
  if (!type.isF16() && !type.isBF16())
    return tensor;
  char *writable = nullptr;
  HostTensor wide = HostTensor::allocate(tensor.getType().clone(Float32Type::get(type.getContext())), writable);
  auto *out = reinterpret_cast<float *>(writable);
  bool half = type.isF16();
  for (uint16_t bits : tensor.as<uint16_t>())
    *out++ = half ? halfToFloat(bits) : bfloatToFloat(bits);
  return wide;
}

HostTensor narrow(const HostTensor &tensor, Type elementType) {
  if (tensor.getElementType() == elementType || (!elementType.isF16() && !elementType.isBF16()))
    return tensor;
  char *writable = nullptr;
  HostTensor result = HostTensor::allocate(tensor.getType().clone(elementType), writable);
  auto *out = reinterpret_cast<uint16_t *>(writable);
  bool half = elementType.isF16(), isDouble = tensor.getElementType().isF64();
  for (int64_t i = 0, e = tensor.getNumElements(); i < e; ++i) {
    double value = isDouble ? tensor.as<double>()[i] : tensor.as<float>()[i];
    out[i] = half ? toHalf(value) : toBfloat(value);
  }
  return result;
}

} // namespace cleave::dfg
