// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor of the property tests: elements in memory as kernels see them, read and written as C++ numbers.

#ifndef CLEAVE_TEST_PROPERTY_TENSOR_H
#define CLEAVE_TEST_PROPERTY_TENSOR_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cleave::test {

using Shape = std::vector<int64_t>;

/// Pseudo-random numbers, the same on every machine. Source: Steele, Lea and Flood, Fast splittable pseudorandom number
/// generators, 2014.
class Random {
public:
  using result_type = uint64_t;

  explicit Random(uint64_t seed) : state(seed) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t(0); }
  uint64_t operator()() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

private:
  uint64_t state;
};

int64_t elementsOf(const Shape &shape);

/// Calls `body` with every index of a shape, in row-major order.
template <typename Body> void forEachIndex(const Shape &shape, Body body) {
  Shape index(shape.size(), 0);
  for (int64_t i = 0, count = elementsOf(shape); i < count; ++i) {
    body(index);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

/// Row-major elements of type "f32", "f64", "f16", "bf16", "i1", "i8" to "i64", or, unsigned, "ui8" to "ui64".
class Tensor {
public:
  Tensor(std::string element, Shape shape);

  const std::string &getElement() const { return element; }
  const Shape &getShape() const { return shape; }
  int64_t size() const { return elementsOf(shape); }
  bool isFloat() const { return element[0] == 'f' || element[0] == 'b'; }
  bool isUnsigned() const { return element[0] == 'u'; }
  int64_t width() const;
  char *data() { return bytes.data(); }
  const std::vector<char> &getBytes() const { return bytes; }

  /// "tensor<2x3xf32>"
  std::string type() const;

  int64_t position(const Shape &index) const;
  /// An element as a number; floats and integers of any type.
  double real(int64_t position) const;
  double real(const Shape &index) const { return real(position(index)); }
  /// Of "ui64" the bits.
  int64_t integer(int64_t position) const;
  /// An integer of any type.
  __int128 wide(int64_t position) const;
  int64_t integer(const Shape &index) const { return integer(position(index)); }
  /// Rounds to nearest even, once.
  void setReal(int64_t position, double value);
  /// Drops high bits.
  void setInteger(int64_t position, int64_t value);

  /// Sets all elements to random ones between two bounds, rounded; unsigned ones from 0 on.
  Tensor &fill(Random &random, double low, double high);

private:
  std::string element;
  Shape shape;
  std::vector<char> bytes;
};

/// The number of significant bits of a float type.
int precisionOf(const std::string &element);

/// The text of a difference beyond `relative` times the magnitude plus `absolute`, or an empty string. NaN equals NaN;
/// integers must be equal.
std::string difference(const Tensor &got, const Tensor &want, double relative, double absolute);

} // namespace cleave::test

#endif // CLEAVE_TEST_PROPERTY_TENSOR_H
