// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of test tensors as C++ numbers, the 16-bit floats by their definition.

#include "test/property/Tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace cleave::test {

int64_t elementsOf(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Tensor::Tensor(std::string element, Shape shape) : element(std::move(element)), shape(std::move(shape)) {
  bytes.assign(size() * width(), 0);
}

int64_t Tensor::width() const {
  if (element == "i1")
    return 1;
  return std::stoi(element.substr(element.find_first_of("0123456789"))) / 8;
}

std::string Tensor::type() const {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

int64_t Tensor::position(const Shape &index) const {
  int64_t result = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    result = result * shape[dim] + index[dim];
  return result;
}

int precisionOf(const std::string &element) {
  return element == "f64" ? 53 : element == "f32" ? 24 : element == "f16" ? 11 : 8;
}

/// Exponent bits, and fraction bits, of a 16-bit float.
static std::pair<int, int> formatOf(const std::string &element) {
  return element == "f16" ? std::pair(5, 10) : std::pair(8, 7);
}

static double fromHalf(uint16_t bits, int exponentBits, int fractionBits) {
  int exponent = (bits >> fractionBits) & ((1 << exponentBits) - 1), bias = (1 << (exponentBits - 1)) - 1;
  double fraction = bits & ((1 << fractionBits) - 1), sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1)
    return fraction != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - fractionBits);
  return sign * std::ldexp(fraction + (1 << fractionBits), exponent - bias - fractionBits);
}

static uint16_t toHalf(double value, int exponentBits, int fractionBits) {
  int bias = (1 << (exponentBits - 1)) - 1, largest = (1 << exponentBits) - 1;
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | static_cast<uint16_t>((largest << fractionBits) | (1 << (fractionBits - 1)));
  value = std::fabs(value);
  if (value == 0)
    return sign;
  int exponent = std::isinf(value) ? bias + 1 : std::max(std::ilogb(value), 1 - bias);
  // Units of the last place; nearbyint rounds to even.
  double units = std::isinf(value) ? 0 : std::nearbyint(std::ldexp(value, fractionBits - exponent));
  if (units == std::ldexp(1.0, fractionBits + 1)) {
    units /= 2;
    ++exponent;
  }
  if (exponent > bias)
    return sign | static_cast<uint16_t>(largest << fractionBits);
  auto integer = static_cast<int>(units);
  int field = integer >= (1 << fractionBits) ? exponent + bias : 0;
  return sign | static_cast<uint16_t>((field << fractionBits) | (integer & ((1 << fractionBits) - 1)));
}

template <typename T> static T read(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

int64_t Tensor::integer(int64_t position) const {
  const char *at = bytes.data() + position * width();
  bool hasNoSign = isUnsigned();
  switch (width()) {
  case 1:
    return element == "i1" || hasNoSign ? read<uint8_t>(at) : read<int8_t>(at);
  case 2:
    return hasNoSign ? read<uint16_t>(at) : read<int16_t>(at);
  case 4:
    return hasNoSign ? static_cast<int64_t>(read<uint32_t>(at)) : read<int32_t>(at);
  default:
    return read<int64_t>(at);
  }
}

__int128 Tensor::wide(int64_t position) const {
  int64_t value = integer(position);
  return isUnsigned() ? static_cast<__int128>(static_cast<uint64_t>(value)) : value;
}

double Tensor::real(int64_t position) const {
  const char *at = bytes.data() + position * width();
  if (!isFloat())
    return static_cast<double>(wide(position));
  if (element == "f32")
    return read<float>(at);
  if (element == "f64")
    return read<double>(at);
  auto [exponentBits, fractionBits] = formatOf(element);
  return fromHalf(read<uint16_t>(at), exponentBits, fractionBits);
}

void Tensor::setReal(int64_t position, double value) {
  char *at = bytes.data() + position * width();
  auto write = [&](auto number) { std::memcpy(at, &number, sizeof(number)); };
  if (!isFloat())
    return setInteger(position, static_cast<int64_t>(value));
  if (element == "f32")
    return write(static_cast<float>(value));
  if (element == "f64")
    return write(value);
  auto [exponentBits, fractionBits] = formatOf(element);
  write(toHalf(value, exponentBits, fractionBits));
}

void Tensor::setInteger(int64_t position, int64_t value) {
  if (element == "i1")
    value &= 1;
  std::memcpy(bytes.data() + position * width(), &value, width());
}

Tensor &Tensor::fill(Random &random, double low, double high) {
  if (isUnsigned())
    low = std::max(low, 0.0);
  for (int64_t i = 0; i < size(); ++i) {
    if (isFloat())
      setReal(i, std::uniform_real_distribution<double>(low, high)(random));
    else
      setInteger(i,
                 std::uniform_int_distribution<int64_t>(static_cast<int64_t>(low), static_cast<int64_t>(high))(random));
  }
  return *this;
}

std::string difference(const Tensor &got, const Tensor &want, double relative, double absolute) {
  for (int64_t i = 0; i < want.size(); ++i) {
    bool same;
    if (!want.isFloat()) {
      same = got.integer(i) == want.integer(i);
    } else {
      double a = got.real(i), b = want.real(i);
      same = a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= absolute + relative * std::fabs(b);
    }
    if (same)
      continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << " of " << want.type() << ": got ";
    if (want.isFloat())
      text << got.real(i) << ", want " << want.real(i);
    else
      text << got.integer(i) << ", want " << want.integer(i);
    return text.str();
  }
  return {};
}

} // namespace cleave::test
