// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The element types of tensors, their sizes and names, and the conversion of single elements to and from double.

#ifndef CLEAVE_RUNTIME_ELEMENTTYPE_H
#define CLEAVE_RUNTIME_ELEMENTTYPE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cleave::runtime {

/// Same order as in plan.fbs.
enum class ElementType : uint8_t { I1, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };
inline constexpr unsigned numElementTypes = 13;

/// Bytes of one element in memory; I1 takes one byte.
unsigned elementBytes(ElementType type);

/// "i1", "u8", "bf16", ...
std::string_view elementName(ElementType type);

/// The type of that name, if there is one.
std::optional<ElementType> elementTypeNamed(std::string_view name);

/// U8 to U64.
bool isUnsigned(ElementType type);

/// F16, BF16, F32 and F64.
bool isFloatingPoint(ElementType type);

/// The element at `address` (any alignment). I64 and U64 values beyond 2^53 are rounded.
double loadElement(ElementType type, const std::byte *address);

/// Writes `value` at `address` (any alignment): floats are rounded to the nearest, ties to even; integers to the
/// nearest in range, NaN to 0; I1 is 1 unless the value is 0.
void storeElement(ElementType type, std::byte *address, double value);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ELEMENTTYPE_H
