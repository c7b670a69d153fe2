// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a program says about quantized tensors: numbers of 8 bits, a zero point and a scale.
//
//   dequantized = (cast numbers - zero) * scale          quantized = cast (round (x / scale) + zero)

#ifndef CLEAVE_PASSES_CODEGEN_QUANTIZEDTENSORS_H
#define CLEAVE_PASSES_CODEGEN_QUANTIZEDTENSORS_H

#include "dialects/dfg/Dfg.h"
#include "dialects/dfg/TensorType.h"

#include <optional>

namespace cleave {

inline bool isByte(mlir::Type type) { return type.isSignlessInteger(8) || type.isUnsignedInteger(8); }
inline bool isOne(mlir::Value value) { return tensorType(value).getNumElements() == 1; }

/// The number that all elements of a constant are, seen through conversions between integers and new shapes.
std::optional<int64_t> integerOf(mlir::Value value);

/// The whole number, of at most 255 by magnitude, that all elements of a constant of float32 are, or of one that was
/// converted from integers; 0 for no value.
std::optional<int64_t> wholeOf(mlir::Value value);

/// A quantized tensor. No zero point is one of zero; no scale is one of one.
struct Quantized {
  mlir::Value numbers, zero, scale;
};

/// `value`, in int32, as numbers of 8 bits less a zero point.
std::optional<Quantized> centred(mlir::Value value);

/// `value`, in float32, as numbers of 8 bits less a zero point, times a scale.
std::optional<Quantized> dequantized(mlir::Value value);

/// A conversion to 8 bits of `real / scale`, rounded, and a zero point (none: zero).
struct Quantization {
  dfg::CastOp cast;
  mlir::Value real, zero, scale;
};

/// The quantization that ends with `cast`.
std::optional<Quantization> quantization(dfg::CastOp cast);

} // namespace cleave

#endif // CLEAVE_PASSES_CODEGEN_QUANTIZEDTENSORS_H
