// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element sizes, names and conversions, including those of the 16-bit floats.

#include "runtime/ElementType.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace cleave::runtime {

static constexpr std::array<std::string_view, numElementTypes> names = {
    "i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"};
static constexpr std::array<unsigned, numElementTypes> widths = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};

unsigned elementBytes(ElementType type) { return widths[static_cast<unsigned>(type)]; }

std::string_view elementName(ElementType type) { return names[static_cast<unsigned>(type)]; }

std::optional<ElementType> elementTypeNamed(std::string_view name) {
  for (unsigned i = 0; i != numElementTypes; ++i)
    if (names[i] == name)
      return static_cast<ElementType>(i);
  return std::nullopt;
}

bool isUnsigned(ElementType type) {
  return type == ElementType::U8 || type == ElementType::U16 || type == ElementType::U32 || type == ElementType::U64;
}

bool isFloatingPoint(ElementType type) { return type >= ElementType::F16; }

template <typename T> static T read(const std::byte *address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <typename T> static void write(std::byte *address, T value) { std::memcpy(address, &value, sizeof(T)); }

static double fromHalf(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  int fraction = bits & 1023;
  double magnitude = exponent == 31  ? (fraction ? std::numeric_limits<double>::quiet_NaN() : HUGE_VAL)
                     : exponent == 0 ? std::ldexp(fraction, -24)
                                     : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t toHalf(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  double magnitude = std::fabs(value);
  if (magnitude >= 65520)
    return sign | 0x7c00;
  if (magnitude < 0x1p-24 / 2)
    return sign;
  // The distance between neighbours is 2^-24 for subnormals, 2^(exponent - 10) above. A fraction that rounds up to the
  // next power of two carries into the exponent by itself.
  int exponent = std::max(std::ilogb(magnitude), -14);
  auto steps = static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign + ((exponent + 14) << 10) + steps;
}

static double fromBrain(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

static uint16_t toBrain(double value) {
  if (std::isnan(value))
    return 0x7fc0;
  // Rounding to float first, then to 8 bits, would round twice: make the first rounding odd.
  auto nearest = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (nearest != value && std::isfinite(nearest)) {
    if (std::fabs(static_cast<double>(nearest)) > std::fabs(value))
      --bits;
    bits |= 1;
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T> static T toInteger(double value) {
  if (std::isnan(value))
    return 0;
  double rounded = std::nearbyint(value);
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  return static_cast<T>(rounded);
}

double loadElement(ElementType type, const std::byte *address) {
  switch (type) {
  case ElementType::I1:
    return read<uint8_t>(address) != 0;
  case ElementType::I8:
    return read<int8_t>(address);
  case ElementType::U8:
    return read<uint8_t>(address);
  case ElementType::I16:
    return read<int16_t>(address);
  case ElementType::U16:
    return read<uint16_t>(address);
  case ElementType::I32:
    return read<int32_t>(address);
  case ElementType::U32:
    return read<uint32_t>(address);
  case ElementType::I64:
    return static_cast<double>(read<int64_t>(address));
  case ElementType::U64:
    return static_cast<double>(read<uint64_t>(address));
  case ElementType::F16:
    return fromHalf(read<uint16_t>(address));
  case ElementType::BF16:
    return fromBrain(read<uint16_t>(address));
  case ElementType::F32:
    return read<float>(address);
  case ElementType::F64:
    return read<double>(address);
  }
  return 0;
}

void storeElement(ElementType type, std::byte *address, double value) {
  switch (type) {
  case ElementType::I1:
    return write<uint8_t>(address, value != 0);
  case ElementType::I8:
    return write(address, toInteger<int8_t>(value));
  case ElementType::U8:
    return write(address, toInteger<uint8_t>(value));
  case ElementType::I16:
    return write(address, toInteger<int16_t>(value));
  case ElementType::U16:
    return write(address, toInteger<uint16_t>(value));
  case ElementType::I32:
    return write(address, toInteger<int32_t>(value));
  case ElementType::U32:
    return write(address, toInteger<uint32_t>(value));
  case ElementType::I64:
    return write(address, toInteger<int64_t>(value));
  case ElementType::U64:
    return write(address, toInteger<uint64_t>(value));
  case ElementType::F16:
    return write(address, toHalf(value));
  case ElementType::BF16:
    return write(address, toBrain(value));
  case ElementType::F32:
    return write(address, static_cast<float>(value));
  case ElementType::F64:
    return write(address, value);
  }
}

} // namespace cleave::runtime
