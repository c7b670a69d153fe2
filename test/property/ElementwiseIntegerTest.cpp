// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operators on integers of every width, with and without a sign, against their formulas without bounds.

#include "test/property/ElementwiseCases.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cleave::test {
namespace {

constexpr const char *integers[] = {"i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"};

/// Integer arithmetic without bounds; the result is cut to the type.
struct IntegerOperation {
  std::string name, attributes;
  std::function<__int128(__int128, __int128)> formula;
};

KernelCase integerCase(const IntegerOperation &operation, const Tensor &a, const Tensor &b, const Shape &shape) {
  return makeCase(
      operation.name, operation.attributes, {a, b}, Tensor(a.getElement(), shape),
      [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
        y.setInteger(i, static_cast<int64_t>(operation.formula(a.wide(at[0]), b.wide(at[1]))));
      },
      0);
}

__int128 integerPower(__int128 base, __int128 exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i)
    result *= static_cast<uint64_t>(base);
  return static_cast<int64_t>(result);
}

// Integers wrap, and neither a division by zero nor the smallest number by -1 traps.
TEST(Elementwise, IntegerPairs) {
  using Wide = __int128;
  const std::vector<IntegerOperation> operations = {
      {"add", "", [](Wide a, Wide b) { return a + b; }},
      {"sub", "", [](Wide a, Wide b) { return a - b; }},
      {"mul", "",
       [](Wide a, Wide b) { return static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }},
      {"div", "", [](Wide a, Wide b) { return b == 0 ? 0 : a / b; }},
      {"mod", "{truncated}", [](Wide a, Wide b) { return b == 0 ? 0 : a % b; }},
      {"mod", "",
       [](Wide a, Wide b) {
         Wide rest = b == 0 ? 0 : a % b;
         return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
       }},
      {"max", "", [](Wide a, Wide b) { return std::max(a, b); }},
      {"min", "", [](Wide a, Wide b) { return std::min(a, b); }},
  };
  Random random(4);
  std::vector<KernelCase> cases;
  for (const IntegerOperation &operation : operations)
    for (const std::string element : integers) {
      auto [full, part] = randomShapes(random);
      full.push_back(16);
      part.push_back(16);
      Tensor a(element, full), b(element, part);
      a.fill(random, -100, 100);
      b.fill(random, -9, 9);
      const std::pair<int64_t, int64_t> specials[] = {{extremeBits(a), -1}, {extremeBits(a), 0}, {-7, 3}, {3, -7}};
      for (int64_t i = 0; i < 4; ++i) {
        a.setInteger(i, specials[i].first);
        b.setInteger(i, specials[i].second);
      }
      cases.push_back(integerCase(operation, a, b, full));
    }
  const IntegerOperation power = {"pow", "", integerPower};
  for (const std::string element : integers) {
    Tensor a = Tensor(element, {64}).fill(random, -4, 4), b = Tensor(element, {64}).fill(random, -3, 70);
    cases.push_back(integerCase(power, a, b, {64}));
  }
  expectKernels(cases);
}

// Bits of integers; a shift by less than nothing, or by more than there are bits, leaves none.
TEST(Elementwise, IntegerBits) {
  using Wide = __int128;
  Random random(9);
  std::vector<KernelCase> cases;
  for (const std::string element : integers) {
    auto bits = static_cast<Wide>(8 * Tensor(element, {}).width());
    auto leaves = [=](Wide count) { return count < 0 || count >= bits; };
    const std::vector<IntegerOperation> operations = {
        {"and", "", [](Wide a, Wide b) { return a & b; }},
        {"or", "", [](Wide a, Wide b) { return a | b; }},
        {"xor", "", [](Wide a, Wide b) { return a ^ b; }},
        {"shift_left", "",
         [=](Wide a, Wide b) { return leaves(b) ? 0 : static_cast<Wide>(static_cast<uint64_t>(a) << b); }},
        {"shift_right", "", [=](Wide a, Wide b) { return leaves(b) ? (a < 0 ? -1 : 0) : a >> b; }},
    };
    for (const IntegerOperation &operation : operations) {
      Tensor a(element, {5, 16}), b = Tensor(element, {16}).fill(random, -2, 70);
      for (int64_t i = 0; i < a.size(); ++i)
        a.setInteger(i, static_cast<int64_t>(random()));
      for (int64_t i = 0; operation.name.size() < 4 && i < b.size(); ++i)
        b.setInteger(i, static_cast<int64_t>(random()));
      cases.push_back(integerCase(operation, a, b, a.getShape()));
    }
    Tensor x(element, {77});
    for (int64_t i = 0; i < x.size(); ++i)
      x.setInteger(i, static_cast<int64_t>(random()));
    cases.push_back(makeCase(
        "not", "", {x}, x,
        [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) { y.setInteger(i, ~x.integer(at[0])); }, 0));
  }
  expectKernels(cases);
}

// Unary operators of integers, at the smallest number too, whose negative wraps to itself.
TEST(Elementwise, IntegerFunctions) {
  using Wide = __int128;
  const std::vector<std::pair<std::string, std::function<Wide(Wide)>>> functions = {
      {"neg", [](Wide x) { return -x; }},
      {"abs", [](Wide x) { return x < 0 ? -x : x; }},
      {"sign", [](Wide x) { return x > 0   ? 1
                                   : x < 0 ? -1
                                           : 0; }},
      {"relu", [](Wide x) { return std::max<Wide>(x, 0); }},
      {"clamp {low = -3.5 : f64, high = 1.0e30 : f64}", [](Wide x) { return std::max<Wide>(x, -3); }},
      {"clamp {low = 2.0 : f64, high = 99.5 : f64}", [](Wide x) { return std::clamp<Wide>(x, 2, 99); }},
  };
  Random random(5);
  std::vector<KernelCase> cases;
  for (const auto &[name, formula] : functions)
    for (const std::string element : integers) {
      Tensor x = Tensor(element, {3, 21}).fill(random, -100, 100);
      x.setInteger(0, extremeBits(x));
      size_t space = name.find(' ');
      cases.push_back(makeCase(
          name.substr(0, space), space == std::string::npos ? "" : name.substr(space), {x},
          Tensor(element, x.getShape()),
          [&, formula = formula](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
            y.setInteger(i, static_cast<int64_t>(formula(x.wide(at[0]))));
          },
          0));
    }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
