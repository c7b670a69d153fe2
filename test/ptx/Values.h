// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slots as values of a type. A slot has 64 bits; a narrower value is its low bits, and readers ignore the others.

#ifndef CLEAVE_TEST_PTX_VALUES_H
#define CLEAVE_TEST_PTX_VALUES_H

#include "Program.h"

#include <bit>
#include <type_traits>

namespace cleave::ptx {

template <typename T> T read(const uint64_t *slots, Slot slot) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(slots[slot]));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(slots[slot]);
  else if constexpr (std::is_same_v<T, bool>)
    return slots[slot] & 1;
  else
    return static_cast<T>(slots[slot]);
}

/// Signed integers fill the slot with their sign, so that they may be narrower than the register.
template <typename T> void write(uint64_t *slots, Slot slot, T value) {
  if constexpr (std::is_same_v<T, float>)
    slots[slot] = std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    slots[slot] = std::bit_cast<uint64_t>(value);
  else if constexpr (std::is_signed_v<T>)
    slots[slot] = static_cast<uint64_t>(static_cast<int64_t>(value));
  else
    slots[slot] = static_cast<uint64_t>(value);
}

/// Calls `use(T())` with the host's integer type for `type`: of floating-point types that of their bits. Returns what
/// it returns.
template <typename Use> auto withInteger(Type type, Use use) {
  switch (type) {
  case Type::Pred:
    return use(bool());
  case Type::B8:
  case Type::U8:
    return use(uint8_t());
  case Type::S8:
    return use(int8_t());
  case Type::B16:
  case Type::U16:
  case Type::F16:
  case Type::BF16:
    return use(uint16_t());
  case Type::S16:
    return use(int16_t());
  case Type::S32:
    return use(int32_t());
  case Type::B64:
  case Type::U64:
  case Type::F64:
    return use(uint64_t());
  case Type::S64:
    return use(int64_t());
  default:
    return use(uint32_t());
  }
}

} // namespace cleave::ptx

#endif
