// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every elementwise operator in every type against its formula in C++, on random shapes that broadcast.

#include "test/property/ElementwiseCases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cleave::test {
namespace {

constexpr const char *floats[] = {"f32", "f64", "f16", "bf16"};
constexpr const char *types[] = {"f32", "f64", "f16", "bf16", "i1",   "i8",  "i16",
                                 "i32", "i64", "ui8", "ui16", "ui32", "ui64"};

/// Units in the last place by which a function of f32 may differ from the true value.
constexpr double functionUlps = 4;

struct Function {
  std::string name, attributes;
  double low, high;
  std::function<double(double)> formula;
  /// For f64; f32 may use polynomials, and 16-bit floats round once more.
  double ulps = 4;
};

const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");

/// Puts numbers at which functions go wrong among random ones.
void plantSpecials(Tensor &tensor, Random &random) {
  const double specials[] = {0.0, -0.0, infinity, -infinity, nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 88.8, -88.8, 1e-30};
  for (double special : specials)
    if (tensor.size() > 0)
      tensor.setReal(static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.size())), special);
}

// Functions of floats are as exact as promised, also at zeros, infinities and NaN.
TEST(Elementwise, FloatFunctions) {
  const std::vector<Function> functions = {
      {"neg", "", -9, 9, [](double x) { return -x; }},
      {"abs", "", -9, 9, [](double x) { return std::fabs(x); }},
      {"sign", "", -9, 9, [](double x) { return x > 0   ? 1
                                                : x < 0 ? -1
                                                        : x; }},
      {"exp", "", -90, 90, [](double x) { return std::exp(x); }},
      {"exp", "", -2, 2, [](double x) { return std::exp(x); }},
      {"log", "", 1e-3, 100, [](double x) { return std::log(x); }},
      {"log", "", 0.9, 1.1, [](double x) { return std::log(x); }},
      {"sqrt", "", -1, 100, [](double x) { return std::sqrt(x); }},
      {"reciprocal", "", -9, 9, [](double x) { return 1 / x; }},
      {"floor", "", -9, 9, [](double x) { return std::floor(x); }},
      {"ceil", "", -9, 9, [](double x) { return std::ceil(x); }},
      {"round", "", -9, 9, [](double x) { return std::nearbyint(x); }},
      {"sin", "", -9, 9, [](double x) { return std::sin(x); }},
      {"cos", "", -9, 9, [](double x) { return std::cos(x); }},
      {"asin", "", -1, 1, [](double x) { return std::asin(x); }},
      {"asin", "", -0.1, 0.1, [](double x) { return std::asin(x); }},
      {"acos", "", -1, 1, [](double x) { return std::acos(x); }},
      {"acos", "", 0.9, 1, [](double x) { return std::acos(x); }},
      {"atan", "", -20, 20, [](double x) { return std::atan(x); }},
      {"atan", "", -0.1, 0.1, [](double x) { return std::atan(x); }},
      {"sinh", "", -12, 12, [](double x) { return std::sinh(x); }},
      {"sinh", "", -0.1, 0.1, [](double x) { return std::sinh(x); }},
      {"cosh", "", -12, 12, [](double x) { return std::cosh(x); }},
      {"asinh", "", -100, 100, [](double x) { return std::asinh(x); }},
      {"asinh", "", -0.1, 0.1, [](double x) { return std::asinh(x); }},
      {"acosh", "", 1, 100, [](double x) { return std::acosh(x); }},
      {"acosh", "", 1, 1.1, [](double x) { return std::acosh(x); }},
      {"atanh", "", -1, 1, [](double x) { return std::atanh(x); }},
      {"atanh", "", -0.1, 0.1, [](double x) { return std::atanh(x); }},
      {"tanh", "", -12, 12, [](double x) { return std::tanh(x); }},
      {"tanh", "", -0.1, 0.1, [](double x) { return std::tanh(x); }},
      {"erf", "", -5, 5, [](double x) { return std::erf(x); }},
      {"erf", "", -0.1, 0.1, [](double x) { return std::erf(x); }},
      {"relu", "", -9, 9, [](double x) { return std::isnan(x) ? x
                                                : x > 0       ? x
                                                              : 0; }},
      {"sigmoid", "", -20, 20, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"softplus", "", -20, 200,
       [](double x) { return std::isnan(x) ? x : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }},
      {"leaky_relu", "{alpha = 0.25 : f64}", -9, 9, [](double x) { return x >= 0 ? x : 0.25 * x; }},
      {"elu", "{alpha = 1.5 : f64}", -9, 9, [](double x) { return x >= 0 ? x : 1.5 * std::expm1(x); }},
      {"elu", "{alpha = 1.0 : f64}", -1e-3, 1e-3, [](double x) { return x >= 0 ? x : std::expm1(x); }},
      {"clamp", "{low = -1.5 : f64, high = 2.5 : f64}", -9, 9,
       [](double x) { return std::isnan(x) ? x : std::fmin(std::fmax(x, -1.5), 2.5); }},
  };
  Random random(1);
  std::vector<KernelCase> cases;
  for (const Function &function : functions)
    for (const std::string element : floats)
      for (bool special : {false, true}) {
        Tensor input(element, special ? Shape{67} : randomShapes(random).first);
        input.fill(random, function.low, function.high);
        if (special)
          plantSpecials(input, random);
        Tensor x = input;
        KernelCase kernelCase = makeCase(
            function.name, function.attributes, {input}, Tensor(element, input.getShape()),
            [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
              y.setReal(i, function.formula(x.real(at[0])));
            },
            function.ulps);
        // Results below the smallest normal number may become zero.
        kernelCase.absolute = element == "f64" ? 0 : 2e-38;
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

// gelu's two formulas: near zero and far out, where one part cancels, the error may not exceed one of the input's
// units.
TEST(Elementwise, Gelu) {
  Random random(2);
  std::vector<KernelCase> cases;
  for (const std::string element : floats)
    for (bool approximate : {false, true}) {
      Tensor x = Tensor(element, {5, 40}).fill(random, -6, 6);
      auto formula = [&](double v) {
        return approximate ? v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
                           : v / 2 * std::erfc(-v / std::sqrt(2.0));
      };
      KernelCase kernelCase = makeCase(
          "gelu", approximate ? "{approximate}" : "", {x}, Tensor(element, x.getShape()),
          [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) { y.setReal(i, formula(x.real(at[0]))); }, 8);
      kernelCase.absolute = element == "f64" ? 1e-15 : 1e-6;
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

struct Operation {
  std::string name, attributes;
  std::function<double(double, double)> formula;
};

double floorMod(double a, double b) {
  double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Binary operators of floats, with broadcasting on both sides; NaN wins in maxima and minima.
TEST(Elementwise, FloatPairs) {
  const std::vector<Operation> operations = {
      {"add", "", [](double a, double b) { return a + b; }},
      {"sub", "", [](double a, double b) { return a - b; }},
      {"mul", "", [](double a, double b) { return a * b; }},
      {"div", "", [](double a, double b) { return a / b; }},
      {"pow", "", [](double a, double b) { return std::pow(a, b); }},
      {"max", "", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? nan : std::fmax(a, b); }},
      {"min", "", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? nan : std::fmin(a, b); }},
      {"mod", "", floorMod},
      {"mod", "{truncated}", [](double a, double b) { return std::fmod(a, b); }},
  };
  Random random(3);
  std::vector<KernelCase> cases;
  for (const Operation &operation : operations)
    for (const std::string element : floats)
      for (int repeat = 0; repeat < 3; ++repeat) {
        auto [full, part] = randomShapes(random);
        Tensor a = Tensor(element, full).fill(random, -5, 5), b = Tensor(element, part).fill(random, -3, 3);
        if (repeat == 2 && operation.name != "pow")
          plantSpecials(a, random);
        if (repeat == 1)
          std::swap(a, b);
        cases.push_back(makeCase(
            operation.name, operation.attributes, {a, b}, Tensor(element, full),
            [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
              y.setReal(i, operation.formula(a.real(at[0]), b.real(at[1])));
            },
            functionUlps));
      }
  expectKernels(cases);
}

// Truth values take one byte each and stay 0 or 1.
TEST(Elementwise, TruthValues) {
  Random random(6);
  std::vector<KernelCase> cases;
  const std::vector<std::pair<std::string, std::function<bool(bool, bool)>>> operations = {
      {"and", [](bool a, bool b) { return a && b; }},
      {"or", [](bool a, bool b) { return a || b; }},
      {"xor", [](bool a, bool b) { return a != b; }},
  };
  for (const auto &[name, formula] : operations)
    for (int repeat = 0; repeat < 3; ++repeat) {
      auto [full, part] = randomShapes(random);
      Tensor a = Tensor("i1", full).fill(random, 0, 1), b = Tensor("i1", part).fill(random, 0, 1);
      cases.push_back(makeCase(
          name, "", {a, b}, Tensor("i1", full),
          [&, formula = formula](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
            y.setInteger(i, formula(a.integer(at[0]), b.integer(at[1])));
          },
          0));
    }
  Tensor a = Tensor("i1", {77}).fill(random, 0, 1);
  cases.push_back(makeCase(
      "not", "", {a}, Tensor("i1", {77}),
      [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) { y.setInteger(i, !a.integer(at[0])); }, 0));
  expectKernels(cases);
}

// Comparisons and selections of every type; with NaN all comparisons are false.
TEST(Elementwise, CompareAndSelect) {
  const std::vector<std::pair<std::string, std::function<bool(double, double)>>> comparisons = {
      {"equal", [](double a, double b) { return a == b; }},
      {"less", [](double a, double b) { return a < b; }},
      {"less_or_equal", [](double a, double b) { return a <= b; }},
      {"greater", [](double a, double b) { return a > b; }},
      {"greater_or_equal", [](double a, double b) { return a >= b; }},
  };
  Random random(7);
  std::vector<KernelCase> cases;
  for (const std::string element : types) {
    bool truth = element == "i1";
    for (const auto &[name, formula] : comparisons) {
      Tensor a = Tensor(element, {4, 33}).fill(random, truth ? 0 : -3, truth ? 1 : 3);
      Tensor b = Tensor(element, {33}).fill(random, truth ? 0 : -3, truth ? 1 : 3);
      if (a.isFloat())
        plantSpecials(a, random);
      else if (!truth)
        a.setInteger(0, extremeBits(a));
      cases.push_back(makeCase(
          "compare", "{comparison = #dfg.comparison<" + name + ">}", {a, b}, Tensor("i1", a.getShape()),
          [&, formula = formula](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
            y.setInteger(i, formula(a.real(at[0]), b.real(at[1])));
          },
          0));
    }
    Tensor condition = Tensor("i1", {4, 1}).fill(random, 0, 1);
    Tensor a = Tensor(element, {4, 33}).fill(random, 0, 1), b = Tensor(element, {}).fill(random, 0, 1);
    cases.push_back(makeCase(
        "select", "", {condition, a, b}, Tensor(element, a.getShape()),
        [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
          y.setReal(i, condition.integer(at[0]) ? a.real(at[1]) : b.real(at[2]));
        },
        0));
  }
  expectKernels(cases);
}

/// The first word of Philox 2x32 in ten rounds, as its authors' library writes it.
uint32_t philox(uint64_t counter, uint32_t key) {
  auto low = static_cast<uint32_t>(counter), high = static_cast<uint32_t>(counter >> 32);
  for (int round = 0; round < 10; ++round) {
    if (round > 0)
      key += 0x9e3779b9u;
    uint64_t product = uint64_t(0xd256d193u) * low;
    low = static_cast<uint32_t>(product >> 32) ^ key ^ high;
    high = static_cast<uint32_t>(product);
  }
  return low;
}

// Random numbers are those of Philox: its authors' known answers (Random123, kat_vectors), and random counters.
TEST(Elementwise, Random) {
  EXPECT_EQ(philox(0, 0), 0xff1dae59u);
  EXPECT_EQ(philox(~uint64_t(0), ~uint32_t(0)), 0x2c3f628bu);
  EXPECT_EQ(philox(0x85a308d3243f6a88, 0x13198a2e), 0xdd7ce038u);
  Random random(17);
  Tensor counters("i64", {5, 33}), keys("i64", {33});
  for (int64_t i = 0; i < counters.size(); ++i)
    counters.setInteger(i, i < 40 ? i : static_cast<int64_t>(random()));
  for (int64_t i = 0; i < keys.size(); ++i)
    keys.setInteger(i, static_cast<int64_t>(random()));
  expectKernels({makeCase(
      "random", "", {counters, keys}, Tensor("f32", counters.getShape()),
      [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
        uint32_t word =
            philox(static_cast<uint64_t>(counters.integer(at[0])), static_cast<uint32_t>(keys.integer(at[1])));
        y.setReal(i, static_cast<double>(word >> 8) * 0x1p-24);
      },
      0)});
}

/// What a float becomes as an integer of `bits` bits.
int64_t saturated(double value, int bits, bool isUnsigned) {
  if (std::isnan(value) || (isUnsigned && value <= 0))
    return 0;
  if (isUnsigned)
    return value >= std::ldexp(1.0, bits) ? -1 : static_cast<int64_t>(static_cast<uint64_t>(value));
  double bound = std::ldexp(1.0, bits - 1);
  if (value >= bound)
    return static_cast<int64_t>(std::numeric_limits<uint64_t>::max() >> (65 - bits));
  if (value < -bound)
    return std::numeric_limits<int64_t>::min() >> (64 - bits);
  return static_cast<int64_t>(value);
}

// Conversions between all types: saturation, NaN, wrapping, and one rounding.
TEST(Elementwise, Cast) {
  Random random(8);
  std::vector<KernelCase> cases;
  for (const std::string from : types)
    for (const std::string to : types) {
      bool truth = from == "i1";
      Tensor x = Tensor(from, {131}).fill(random, truth ? 0 : -120, truth ? 1 : 120);
      if (x.isFloat()) {
        plantSpecials(x, random);
        // Beyond every integer type, at the edge of i32, and halfway between two 16-bit floats but for a last bit.
        for (double special : {1e30, -1e30, 2147483648.0, -2147483648.0, 4294967296.0, 255.75, 256.0, -0.75,
                               1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40),
                               1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -36), 65519.99999, 1e-40, 6.1e-5})
          x.setReal(static_cast<int64_t>(random() % 131), special);
      } else if (!truth) {
        x.setInteger(0, extremeBits(x));
        x.setInteger(1, static_cast<int64_t>(0x123456789abcdef0));
      }
      KernelCase kernelCase = makeCase(
          "cast", "{to = " + to + "}", {x}, Tensor(to, {131}),
          [&](Tensor &y, int64_t i, const std::vector<int64_t> &at) {
            if (y.isFloat())
              y.setReal(i, x.real(at[0]));
            else if (to == "i1")
              y.setInteger(i, x.isFloat() ? x.real(at[0]) != 0 : x.integer(at[0]) != 0);
            else if (x.isFloat())
              y.setInteger(i, saturated(x.real(at[0]), static_cast<int>(8 * y.width()), y.isUnsigned()));
            else
              y.setInteger(i, x.integer(at[0]));
          },
          0);
      // 64-bit integers become 16-bit floats by way of f32.
      if (!x.isFloat() && x.width() >= 4 && to == "bf16")
        kernelCase.relative = std::ldexp(1.0, -8);
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

// Tensors without elements: nothing is computed, and nothing is written.
TEST(Elementwise, NoElements) {
  std::vector<KernelCase> cases;
  for (const Shape &shape : {Shape{0}, Shape{3, 0, 2}}) {
    Tensor x("f32", shape);
    cases.push_back(makeCase("add", "", {x, x}, x, [](Tensor &, int64_t, const std::vector<int64_t> &) {}, 0));
  }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
