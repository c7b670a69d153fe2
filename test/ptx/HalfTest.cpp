// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// f16 and bf16, and conversions between all formats. Expected values come from counting by hand in units of the last
// bit, and from the format's own list of numbers, searched for the nearest one.

#include "Snippet.h"

#include <cmath>
#include <limits>
#include <random>

namespace cleave::ptx::test {
namespace {

/// The value of a number's bits, by its definition.
double valueOf(uint16_t bits, int fractionBits) {
  int exponentBits = 15 - fractionBits, bias = (1 << (exponentBits - 1)) - 1;
  int exponent = bits >> fractionBits & ((1 << exponentBits) - 1), fraction = bits & ((1 << fractionBits) - 1);
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - fractionBits);
  if (exponent == (1 << exponentBits) - 1)
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(fraction + (1 << fractionBits), exponent - bias - fractionBits);
}

/// The positive number nearest to `value`, by bisection over all of them; of two the even one.
uint16_t nearest(double value, int fractionBits) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  uint32_t low = 0, high = ((1 << (15 - fractionBits)) - 1) << fractionBits;
  double size = std::abs(value);
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    (valueOf(static_cast<uint16_t>(middle), fractionBits) <= size ? low : high) = middle;
  }
  // Infinity stands where the next power of two would.
  double below = valueOf(static_cast<uint16_t>(low), fractionBits);
  double above = fractionBits == 10 && high == 0x7c00 ? 65536
                 : high == 0x7f80                     ? 0x1p128
                                                      : valueOf(static_cast<uint16_t>(high), fractionBits);
  bool up = size - below > above - size || (size - below == above - size && (low & 1));
  return static_cast<uint16_t>(sign | (up ? high : low));
}

/// Values of all sizes, also beyond f16, halfway between two numbers, and tiny.
std::vector<float> values() {
  std::vector<float> result = {0.0f,       -0.0f,    1.0f,    65504.0f, 65519.9f,   65520.0f,  1e-8f,    0x1p-25f,
                               0x1.8p-24f, 0x1p-14f, 2049.0f, 2051.0f,  -0x1.01p0f, 0x1.03p0f, 3.39e38f, 1e-40f};
  std::mt19937 random(21);
  for (int i = 0; i != 60; ++i)
    result.push_back(
        std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 50) - 28));
  return result;
}

// f32 to both formats and back.
TEST(PtxHalf, ConversionsToNearest) {
  for (float value : values()) {
    EXPECT_EQ(evaluate<uint16_t>("cvt.rn.f16.f32 %d, %a;", {value}), nearest(value, 10)) << value;
    EXPECT_EQ(evaluate<uint16_t>("cvt.rn.bf16.f32 %d, %a;", {value}), nearest(value, 7)) << value;
    uint16_t bits = nearest(value, 10);
    EXPECT_EQ(evaluate<float>("cvt.f32.f16 %d, %a;", {bits}), static_cast<float>(valueOf(bits, 10)));
    EXPECT_EQ(evaluate<double>("cvt.f64.f16 %d, %a;", {bits}), valueOf(bits, 10));
  }
}

// Two in one register: the first source is the high half.
TEST(PtxHalf, PackedConversions) {
  EXPECT_EQ(evaluate<uint32_t>("cvt.rn.bf16x2.f32 %d, %a, %b;", {1.0f, 2.0f}), 0x3f804000u);
  EXPECT_EQ(evaluate<uint32_t>("cvt.rn.f16x2.f32 %d, %a, %b;", {1.0f, -2.0f}), 0x3c00c000u);
  EXPECT_EQ(evaluate<uint32_t>("cvt.rn.relu.f16x2.f32 %d, %a, %b;", {1.0f, -2.0f}), 0x3c000000u);
}

// Zero drops, the others go their way; beyond the range only nearest gives infinity.
TEST(PtxHalf, DirectedConversions) {
  EXPECT_EQ(evaluate<uint16_t>("cvt.rz.f16.f32 %d, %a;", {1e6f}), 0x7bff);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rn.f16.f32 %d, %a;", {1e6f}), 0x7c00);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rm.f16.f32 %d, %a;", {-1e6f}), 0xfc00);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rp.f16.f32 %d, %a;", {1.0001f}), 0x3c01);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rz.bf16.f32 %d, %a;", {std::nextafter(2.0f, 0.0f)}), 0x3fff);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rn.f16.f32 %d, %a;", {std::numeric_limits<float>::quiet_NaN()}), 0x7fff);
}

// Sums, products and fused multiply-adds are rounded once: doubles hold f16's exactly, integers bf16's.
TEST(PtxHalf, Arithmetic) {
  std::mt19937 random(22);
  for (int i = 0; i != 60; ++i) {
    auto number = [&](int fractionBits) {
      return nearest(std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 8)),
                     fractionBits);
    };
    uint16_t a = number(10), b = number(10), c = number(10);
    double x = valueOf(a, 10), y = valueOf(b, 10), z = valueOf(c, 10);
    EXPECT_EQ(evaluate<uint16_t>("add.f16 %d, %a, %b;", {a, b}), nearest(x + y, 10));
    EXPECT_EQ(evaluate<uint16_t>("sub.f16 %d, %a, %b;", {a, b}), nearest(x - y, 10));
    EXPECT_EQ(evaluate<uint16_t>("mul.f16 %d, %a, %b;", {a, b}), nearest(x * y, 10));
    EXPECT_EQ(evaluate<uint16_t>("fma.rn.f16 %d, %a, %b, %c;", {a, b, c}), nearest(x * y + z, 10));
    a = number(7), b = number(7), c = number(7);
    x = valueOf(a, 7), y = valueOf(b, 7), z = valueOf(c, 7);
    EXPECT_EQ(evaluate<uint16_t>("fma.rn.bf16 %d, %a, %b, %c;", {a, b, c}), nearest(x * y + z, 7));
  }
}

// A tiny summand decides a tie of the product, though double has no room for it: rounded twice it would be lost.
TEST(PtxHalf, FusedMultiplyAddRoundsOnce) {
  auto brain = [](double value) { return nearest(value, 7); };
  // 7 * 37 = 259 lies between 258 and 260, the even one.
  EXPECT_EQ(evaluate<uint16_t>("fma.rn.bf16 %d, %a, %b, %c;", {brain(7), brain(37), brain(0)}), brain(260));
  EXPECT_EQ(evaluate<uint16_t>("fma.rn.bf16 %d, %a, %b, %c;", {brain(7), brain(37), brain(-0x1p-100)}), brain(258));
  // 3 * 683 = 2049 lies between 2048, the even one, and 2050; float has no room for the rest.
  EXPECT_EQ(evaluate<uint16_t>("fma.rn.f16 %d, %a, %b, %c;", {nearest(3, 10), nearest(683, 10), nearest(0x1p-24, 10)}),
            nearest(2050, 10));
}

// Both halves at once, each by itself.
TEST(PtxHalf, Pairs) {
  uint32_t a = uint32_t(nearest(1.5, 10)) << 16 | nearest(-2, 10),
           b = uint32_t(nearest(0.25, 10)) << 16 | nearest(8, 10);
  EXPECT_EQ(evaluate<uint32_t>("add.f16x2 %d, %a, %b;", {a, b}), uint32_t(nearest(1.75, 10)) << 16 | nearest(6, 10));
  EXPECT_EQ(evaluate<uint32_t>("fma.rn.f16x2 %d, %a, %b, %a;", {a, b}),
            uint32_t(nearest(1.875, 10)) << 16 | nearest(-18, 10));
  EXPECT_EQ(evaluate<uint32_t>("neg.f16x2 %d, %a;", {a}), a ^ 0x80008000u);
  EXPECT_EQ(evaluate<uint32_t>("abs.f16x2 %d, %a;", {a}), a & 0x7fff7fffu);
  EXPECT_EQ(evaluate<uint32_t>("max.f16x2 %d, %a, %b;", {a, b}), (a & 0xffff0000u) | (b & 0xffff));
  EXPECT_FALSE(holds("setp.lt.f16x2 %q1|%q0, %a, %b;", {a, b}));
  EXPECT_TRUE(holds("setp.lt.f16x2 %q0|%q1, %a, %b;", {a, b}));
  EXPECT_EQ(evaluate<uint16_t>("ex2.approx.f16 %d, %a;", {nearest(3, 10)}), nearest(8, 10));
}

// Each direction of rounding to integers, and clamping beyond their range.
TEST(PtxConvert, FloatsToIntegers) {
  for (float x : {2.5f, -2.5f, 3.5f, 0.4f, -0.6f}) {
    EXPECT_EQ(evaluate<int32_t>("cvt.rni.s32.f32 %d, %a;", {x}), static_cast<int32_t>(std::nearbyint(x)));
    EXPECT_EQ(evaluate<int32_t>("cvt.rzi.s32.f32 %d, %a;", {x}), static_cast<int32_t>(x));
    EXPECT_EQ(evaluate<int64_t>("cvt.rmi.s64.f32 %d, %a;", {x}), static_cast<int64_t>(std::floor(x)));
    EXPECT_EQ(evaluate<int32_t>("cvt.rpi.s32.f64 %d, %a;", {static_cast<double>(x)}),
              static_cast<int32_t>(std::ceil(x)));
    EXPECT_EQ(evaluate<float>("cvt.rni.f32.f32 %d, %a;", {x}), std::nearbyint(x));
    EXPECT_EQ(evaluate<double>("cvt.rmi.f64.f64 %d, %a;", {static_cast<double>(x)}), std::floor(x));
  }
  EXPECT_EQ(evaluate<int32_t>("cvt.rzi.s32.f32 %d, %a;", {3e9f}), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(evaluate<uint32_t>("cvt.rzi.u32.f32 %d, %a;", {-5.0f}), 0u);
  EXPECT_EQ(evaluate<uint64_t>("cvt.rzi.u64.f32 %d, %a;", {1e30f}), ~uint64_t(0));
  EXPECT_EQ(evaluate<int32_t>("cvt.rzi.s32.f32 %d, %a;", {std::nanf("")}), 0);
  EXPECT_EQ(evaluate<int64_t>("cvt.rzi.s64.f64 %d, %a;", {std::nan("")}), std::numeric_limits<int64_t>::min());
}

// Integers that f32 cannot hold, in every direction; 64-bit ones that lie just beside a tie.
TEST(PtxConvert, IntegersToFloats) {
  constexpr uint32_t odd = (1 << 24) + 1;
  EXPECT_EQ(evaluate<float>("cvt.rn.f32.u32 %d, %a;", {odd}), 0x1p24f);
  EXPECT_EQ(evaluate<float>("cvt.rp.f32.u32 %d, %a;", {odd}), 0x1p24f + 2);
  EXPECT_EQ(evaluate<float>("cvt.rm.f32.s32 %d, %a;", {-static_cast<int32_t>(odd)}), -0x1p24f - 2);
  EXPECT_EQ(evaluate<float>("cvt.rz.f32.s32 %d, %a;", {-static_cast<int32_t>(odd)}), -0x1p24f);
  // One more than halfway between two numbers: by way of double it would round to the even one below.
  EXPECT_EQ(evaluate<float>("cvt.rn.f32.u64 %d, %a;", {(uint64_t(1) << 62) + (uint64_t(1) << 38) + 1}),
            0x1p62f + 0x1p39f);
  EXPECT_EQ(evaluate<double>("cvt.rp.f64.u64 %d, %a;", {(uint64_t(1) << 53) + 1}), 0x1p53 + 2);
  EXPECT_EQ(evaluate<double>("cvt.rn.f64.s32 %d, %a;", {-7}), -7.0);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rn.f16.s32 %d, %a;", {2049}), nearest(2048, 10));
}

// f64 to f32 in every direction, and what .sat and .ftz leave.
TEST(PtxConvert, FloatsToFloats) {
  double third = 1.0 / 3;
  EXPECT_EQ(evaluate<float>("cvt.rn.f32.f64 %d, %a;", {third}), static_cast<float>(third));
  float down = evaluate<float>("cvt.rm.f32.f64 %d, %a;", {third}),
        up = evaluate<float>("cvt.rp.f32.f64 %d, %a;", {third});
  EXPECT_LT(down, third);
  EXPECT_GT(up, third);
  EXPECT_EQ(std::nextafter(down, 1.0f), up);
  EXPECT_EQ(evaluate<float>("cvt.rz.f32.f64 %d, %a;", {1e300}), std::numeric_limits<float>::max());
  EXPECT_EQ(evaluate<float>("cvt.sat.f32.f32 %d, %a;", {1.5f}), 1.0f);
  EXPECT_EQ(evaluate<float>("cvt.sat.f32.f32 %d, %a;", {-1.5f}), 0.0f);
  EXPECT_EQ(evaluate<float>("cvt.rn.ftz.f32.f64 %d, %a;", {1e-40}), 0.0f);
  // tf32 has 10 bits of fraction; ties go away from zero.
  EXPECT_EQ(evaluate<float>("cvt.rna.tf32.f32 %d, %a;", {1 + 0x1p-11f}), 1 + 0x1p-10f);
  EXPECT_EQ(evaluate<float>("cvt.rna.tf32.f32 %d, %a;", {1 + 0x1p-12f}), 1.0f);
}

// Narrowing drops bits or clamps; widening takes the source's sign.
TEST(PtxConvert, IntegersToIntegers) {
  EXPECT_EQ(evaluate<int64_t>("cvt.s64.s32 %d, %a;", {-3}), -3);
  EXPECT_EQ(evaluate<uint64_t>("cvt.u64.u32 %d, %a;", {-3}), 0xfffffffdu);
  EXPECT_EQ(evaluate<int32_t>("cvt.s32.s8 %d, %a;", {0x1ff}), -1);
  EXPECT_EQ(evaluate<uint32_t>("cvt.u32.u8 %d, %a;", {0x1fe}), 0xfeu);
  EXPECT_EQ(evaluate<int32_t>("cvt.s16.s32 %d, %a;", {0x18000}), -0x8000);
  EXPECT_EQ(evaluate<uint32_t>("cvt.sat.u8.s32 %d, %a;", {300}), 255u);
  EXPECT_EQ(evaluate<int32_t>("cvt.sat.s8.s32 %d, %a;", {-300}), -128);
  EXPECT_EQ(evaluate<uint32_t>("cvt.u32.u64 %d, %a;", {(uint64_t(5) << 32) + 6}), 6u);
}

} // namespace
} // namespace cleave::ptx::test
