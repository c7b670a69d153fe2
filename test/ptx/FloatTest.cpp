// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floating-point arithmetic and comparisons, against the host's, exact integers, and what PTX says of NaN.

#include "Snippet.h"

#include <cmath>
#include <limits>
#include <random>

namespace cleave::ptx::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), notANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float subnormal = 1e-40f;

std::vector<float> numbers() {
  std::vector<float> result = {0.0f,      -0.0f,      1.0f,     -1.5f,     3.0e38f,
                               subnormal, -subnormal, infinity, -infinity, notANumber};
  std::mt19937 random(11);
  for (int i = 0; i != 4; ++i)
    result.push_back(
        std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 60) - 30));
  return result;
}

/// Equal in all bits, where NaN is PTX's only one of f32.
void expectSame(float actual, float expected) {
  EXPECT_EQ(std::bit_cast<uint32_t>(actual), std::isnan(expected) ? 0x7fffffffu : std::bit_cast<uint32_t>(expected));
}

// The four operations and fused multiply-add, rounded to nearest.
TEST(PtxFloat, ArithmeticToNearest) {
  for (float a : numbers())
    for (float b : numbers()) {
      expectSame(evaluate<float>("add.f32 %d, %a, %b;", {a, b}), a + b);
      expectSame(evaluate<float>("sub.rn.f32 %d, %a, %b;", {a, b}), a - b);
      expectSame(evaluate<float>("mul.f32 %d, %a, %b;", {a, b}), a * b);
      expectSame(evaluate<float>("div.rn.f32 %d, %a, %b;", {a, b}), a / b);
      expectSame(evaluate<float>("fma.rn.f32 %d, %a, %b, %c;", {a, b, 0.3f}), std::fma(a, b, 0.3f));
    }
}

// f32 results fit double exactly for products, so that directed rounding can be told from the exact value.
TEST(PtxFloat, DirectedProducts) {
  std::mt19937 random(12);
  std::uniform_real_distribution<float> numbers(-10, 10);
  for (int i = 0; i != 50; ++i) {
    float a = numbers(random), b = numbers(random);
    double exact = static_cast<double>(a) * b;
    float down = evaluate<float>("mul.rm.f32 %d, %a, %b;", {a, b}),
          up = evaluate<float>("mul.rp.f32 %d, %a, %b;", {a, b});
    EXPECT_LE(down, exact);
    EXPECT_GE(up, exact);
    EXPECT_EQ(down == exact ? down : std::nextafter(down, infinity), up);
    EXPECT_EQ(evaluate<float>("mul.rz.f32 %d, %a, %b;", {a, b}), exact > 0 ? down : up);
  }
}

// 1 + 2^-60 is beyond the last bit of both formats, so that each direction has its own result.
TEST(PtxFloat, DirectedSums) {
  EXPECT_EQ(evaluate<float>("add.rp.f32 %d, %a, %b;", {1.0f, 0x1p-60f}), std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(evaluate<float>("add.rm.f32 %d, %a, %b;", {1.0f, -0x1p-60f}), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(evaluate<float>("add.rz.f32 %d, %a, %b;", {1.0f, -0x1p-60f}), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(evaluate<float>("add.rm.f32 %d, %a, %b;", {1.0f, 0x1p-60f}), 1.0f);
  EXPECT_EQ(evaluate<double>("fma.rp.f64 %d, %a, %b, %c;", {1.0, 1.0, 0x1p-60}), std::nextafter(1.0, 2.0));
  EXPECT_EQ(evaluate<double>("sub.rz.f64 %d, %a, %b;", {1.0, 0x1p-60}), std::nextafter(1.0, 0.0));
  EXPECT_EQ(evaluate<double>("div.rp.f64 %d, %a, %b;", {1.0, 3.0}), std::nextafter(1.0 / 3.0, 1.0));
  EXPECT_EQ(evaluate<double>("sqrt.rm.f64 %d, %a;", {2.0}), std::nextafter(std::sqrt(2.0), 1.0));
  EXPECT_EQ(evaluate<float>("rcp.rz.f32 %d, %a;", {3.0f}), std::nextafter(1.0f / 3.0f, 0.0f));
}

// Subnormal numbers count only without .ftz, and results of .sat are between 0 and 1.
TEST(PtxFloat, FlushAndSaturate) {
  expectSame(evaluate<float>("add.f32 %d, %a, %b;", {subnormal, 0.0f}), subnormal);
  expectSame(evaluate<float>("add.ftz.f32 %d, %a, %b;", {subnormal, 0.0f}), 0.0f);
  expectSame(evaluate<float>("mul.ftz.f32 %d, %a, %b;", {-1e-20f, 1e-20f}), -0.0f);
  expectSame(evaluate<float>("neg.ftz.f32 %d, %a;", {subnormal}), -0.0f);
  expectSame(evaluate<float>("add.sat.f32 %d, %a, %b;", {3.0f, 1.0f}), 1.0f);
  expectSame(evaluate<float>("fma.rn.sat.f32 %d, %a, %b, %c;", {3.0f, -1.0f, 0.5f}), 0.0f);
  expectSame(evaluate<float>("add.sat.f32 %d, %a, %b;", {notANumber, 1.0f}), 0.0f);
}

// Of a number and NaN the number, unless .NaN is said; zeros are ordered by their sign.
TEST(PtxFloat, MinimumAndMaximum) {
  expectSame(evaluate<float>("min.f32 %d, %a, %b;", {notANumber, 2.0f}), 2.0f);
  expectSame(evaluate<float>("max.f32 %d, %a, %b;", {2.0f, notANumber}), 2.0f);
  expectSame(evaluate<float>("max.f32 %d, %a, %b;", {notANumber, notANumber}), notANumber);
  expectSame(evaluate<float>("min.NaN.f32 %d, %a, %b;", {2.0f, notANumber}), notANumber);
  expectSame(evaluate<float>("min.f32 %d, %a, %b;", {0.0f, -0.0f}), -0.0f);
  expectSame(evaluate<float>("max.f32 %d, %a, %b;", {-0.0f, 0.0f}), 0.0f);
  EXPECT_EQ(evaluate<double>("max.f64 %d, %a, %b;", {-2.0, -3.0}), -2.0);
}

// The sign's bit alone, also of zeros and NaN.
TEST(PtxFloat, Signs) {
  EXPECT_EQ(evaluate<uint32_t>("neg.f32 %d, %a;", {0.0f}), 0x80000000u);
  EXPECT_EQ(evaluate<float>("abs.f32 %d, %a;", {-2.5f}), 2.5f);
  EXPECT_EQ(evaluate<double>("neg.f64 %d, %a;", {2.5}), -2.5);
  // The first operand gives the sign.
  EXPECT_EQ(evaluate<float>("copysign.f32 %d, %a, %b;", {-1.0f, 3.0f}), -3.0f);
  EXPECT_EQ(evaluate<double>("copysign.f64 %d, %a, %b;", {1.0, -3.0}), 3.0);
}

// Each class of numbers has one property that others lack.
TEST(PtxFloat, Properties) {
  EXPECT_TRUE(holds("testp.finite.f32 %q0, %a;", {subnormal}));
  EXPECT_FALSE(holds("testp.finite.f32 %q0, %a;", {infinity}));
  EXPECT_TRUE(holds("testp.infinite.f32 %q0, %a;", {-infinity}));
  EXPECT_TRUE(holds("testp.subnormal.f32 %q0, %a;", {subnormal}));
  EXPECT_FALSE(holds("testp.normal.f32 %q0, %a;", {subnormal}));
  EXPECT_TRUE(holds("testp.notanumber.f64 %q0, %a;", {std::nan("")}));
  EXPECT_TRUE(holds("testp.number.f64 %q0, %a;", {1.0}));
}

// Approximations lie within the errors that the manual gives.
TEST(PtxFloat, Approximations) {
  for (float x : {0.1f, 0.7f, 1.0f, 2.5f}) {
    EXPECT_FLOAT_EQ(evaluate<float>("ex2.approx.f32 %d, %a;", {x}), std::exp2(x));
    EXPECT_NEAR(evaluate<float>("lg2.approx.f32 %d, %a;", {x}), std::log2(x), 1e-6);
    EXPECT_NEAR(evaluate<float>("sin.approx.f32 %d, %a;", {x}), std::sin(x), 1e-6);
    EXPECT_NEAR(evaluate<float>("cos.approx.f32 %d, %a;", {x}), std::cos(x), 1e-6);
    EXPECT_FLOAT_EQ(evaluate<float>("rsqrt.approx.f32 %d, %a;", {x}), 1 / std::sqrt(x));
    EXPECT_FLOAT_EQ(evaluate<float>("sqrt.approx.f32 %d, %a;", {x}), std::sqrt(x));
    EXPECT_FLOAT_EQ(evaluate<float>("rcp.approx.ftz.f32 %d, %a;", {x}), 1 / x);
    EXPECT_FLOAT_EQ(evaluate<float>("div.full.f32 %d, %a, %b;", {x, 3.0f}), x / 3.0f);
    EXPECT_NEAR(evaluate<float>("tanh.approx.f32 %d, %a;", {x}), std::tanh(x), 1e-3);
    // The one of f64 is rough, and knows the high word alone.
    double rough = evaluate<double>("rcp.approx.ftz.f64 %d, %a;", {static_cast<double>(x)});
    EXPECT_NEAR(rough * x, 1, 1e-5);
    EXPECT_EQ(std::bit_cast<uint64_t>(rough) & 0xffffffff, 0u);
  }
}

// Every relation of floats, on less, equal, greater and unordered; as a set of those in which it is true.
TEST(PtxCompare, Relations) {
  constexpr int less = 1, equal = 2, greater = 4, unordered = 8;
  const std::pair<const char *, int> relations[] = {
      {"eq", equal},
      {"ne", less | greater},
      {"lt", less},
      {"le", less | equal},
      {"gt", greater},
      {"ge", greater | equal},
      {"equ", equal | unordered},
      {"neu", less | greater | unordered},
      {"ltu", less | unordered},
      {"leu", less | equal | unordered},
      {"gtu", greater | unordered},
      {"geu", greater | equal | unordered},
      {"num", less | equal | greater},
      {"nan", unordered},
  };
  const std::pair<float, int> seconds[] = {{3.0f, less}, {2.0f, equal}, {1.0f, greater}, {notANumber, unordered}};
  for (auto [relation, truths] : relations)
    for (auto [second, outcome] : seconds) {
      std::string code = std::string("setp.") + relation;
      bool expected = truths & outcome;
      EXPECT_EQ(holds(code + ".f32 %q0, %a, %b;", {2.0f, second}), expected) << relation << " " << second;
      EXPECT_EQ(holds(code + ".f64 %q0, %a, %b;", {2.0, static_cast<double>(second)}), expected) << relation;
      EXPECT_EQ(holds(code + ".f32 %q1|%q0, %a, %b;", {2.0f, second}), !expected) << relation;
    }
}

// Signed and unsigned differ, and results combine with a further predicate.
TEST(PtxCompare, IntegersAndCombinations) {
  EXPECT_TRUE(holds("setp.lt.s32 %q0, %a, %b;", {-1, 1}));
  EXPECT_FALSE(holds("setp.lt.u32 %q0, %a, %b;", {-1, 1}));
  EXPECT_FALSE(holds("setp.lo.u32 %q0, %a, %b;", {-1, 1}));
  EXPECT_TRUE(holds("setp.hs.u32 %q0, %a, %b;", {-1, 1}));
  EXPECT_TRUE(holds("setp.gt.s64 %q0, %a, %b;", {int64_t(1) << 40, int64_t(5)}));
  for (int c : {0, 1}) {
    std::string before = "setp.ne.s32 %q1, %b, 0; ";
    EXPECT_EQ(holds(before + "setp.eq.and.s32 %q0, %a, 5, %q1;", {5, c}), c == 1);
    EXPECT_EQ(holds(before + "setp.eq.and.s32 %q0, %a, 5, !%q1;", {5, c}), c == 0);
    EXPECT_EQ(holds(before + "setp.eq.or.s32 %q0, %a, 6, %q1;", {5, c}), c == 1);
    EXPECT_EQ(holds(before + "setp.eq.xor.s32 %q0, %a, 5, %q1;", {5, c}), c == 0);
  }
}

// Choices by predicate and by sign, and comparisons that give numbers.
TEST(PtxCompare, Choices) {
  EXPECT_EQ(evaluate<int32_t>("setp.lt.s32 %q0, %a, %b; selp.s32 %d, %a, %b, %q0;", {3, 4}), 3);
  EXPECT_EQ(evaluate<float>("slct.f32.s32 %d, %a, %b, %c;", {1.0f, 2.0f, -1}), 2.0f);
  EXPECT_EQ(evaluate<float>("slct.f32.f32 %d, %a, %b, %c;", {1.0f, 2.0f, -0.0f}), 1.0f);
  EXPECT_EQ(evaluate<float>("slct.f32.f32 %d, %a, %b, %c;", {1.0f, 2.0f, notANumber}), 2.0f);
  EXPECT_EQ(evaluate<uint32_t>("set.gt.u32.f32 %d, %a, %b;", {2.0f, 1.0f}), ~0u);
  EXPECT_EQ(evaluate<float>("set.gt.f32.s32 %d, %a, %b;", {2, 1}), 1.0f);
  EXPECT_EQ(evaluate<float>("set.lt.f32.s32 %d, %a, %b;", {2, 1}), 0.0f);
}

} // namespace
} // namespace cleave::ptx::test
