// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX that compilers made: libdevice by LLVM, and CUDA C++ by nvcc, where they are there. The host computes the same.

#include "Snippet.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

namespace cleave::ptx::test {
namespace {

/// The text of a file that the build made; nothing where the build had no compiler for it.
std::string textOf(const char *path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// How far `actual` is from `exact`, in units of the last place of T.
template <typename T> double unitsBetween(T actual, long double exact) {
  T near = static_cast<T>(exact);
  if (std::isnan(near) || std::isinf(near) || actual == near)
    return std::isnan(near) == std::isnan(actual) && (std::isnan(near) || actual == near) ? 0 : 1e9;
  long double unit = std::max<long double>(std::ldexp(1.0L, std::ilogb(near) - std::numeric_limits<T>::digits + 1),
                                           std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::abs(actual - exact) / unit);
}

template <typename T> uint64_t address(const std::vector<T> &values) {
  return reinterpret_cast<uint64_t>(values.data());
}

template <typename T> void allow(Memory &memory, const std::vector<T> &values, bool writable) {
  memory.allow(values.data(), values.size() * sizeof(T), writable);
}

template <typename T> std::vector<T> arguments() {
  std::vector<T> result = {T(0.001), T(0.3), T(0.9), T(1),         T(1.5), T(2.7),  T(10),   T(80),    T(-0.01),
                           T(-0.7),  T(-3),  T(0),   T(12345.678), T(1e6), T(3e15), T(1e30), T(1e-30), T(-60)};
  std::mt19937 random(31);
  for (int i = 0; i != 46; ++i)
    result.push_back(std::uniform_real_distribution<T>(-8, 8)(random));
  return result;
}

class PtxLibdevice : public testing::Test {
protected:
  void SetUp() override {
    if (textOf(CLEAVE_LIBDEVICE_PTX).empty())
      GTEST_SKIP() << "there is no llc or no libdevice";
  }

  /// The largest errors that CUDA's programming guide gives for exp, log, tanh, erf, sin, cos, pow and sqrt.
  template <typename T> void compare(const char *entry, const double (&bounds)[8]) {
    std::vector<T> in = arguments<T>(), out(8 * in.size());
    Memory memory;
    allow(memory, in, false);
    allow(memory, out, true);
    Launch launch{entry, 1, static_cast<uint32_t>(in.size()), 0, {address(in), address(out)}};
    ASSERT_EQ(runKernel(textOf(CLEAVE_LIBDEVICE_PTX), launch, memory), "");
    for (size_t i = 0; i != in.size(); ++i) {
      long double x = in[i];
      const long double exact[] = {std::exp(x),
                                   std::log(x),
                                   std::tanh(x),
                                   std::erf(x),
                                   std::sin(x),
                                   std::cos(x),
                                   std::pow(x, static_cast<long double>(T(1.3))),
                                   std::sqrt(x)};
      for (int f = 0; f != 8; ++f)
        EXPECT_LE(unitsBetween(out[8 * i + f], exact[f]), bounds[f])
            << "function " << f << " of " << in[i] << ": " << out[8 * i + f];
    }
  }
};

// f32, with the reduction of large angles that works on integers and local memory.
TEST_F(PtxLibdevice, Singles) { compare<float>("singles", {2, 1, 2, 2, 2, 2, 4, 1}); }

// f64, with calls of functions that LLVM does not inline.
TEST_F(PtxLibdevice, Doubles) { compare<double>("doubles", {1, 1, 2, 2, 2, 2, 2, 0.5}); }

class PtxNvcc : public testing::Test {
protected:
  void SetUp() override {
    text = textOf(CLEAVE_NVCC_PTX);
    if (text.empty())
      GTEST_SKIP() << "there is no nvcc";
  }
  std::string text;
};

// Whole numbers add up exactly in any order.
TEST_F(PtxNvcc, BlockSum) {
  std::vector<float> x(1000), sum(1);
  std::iota(x.begin(), x.end(), 1.0f);
  Memory memory;
  allow(memory, x, false);
  allow(memory, sum, true);
  EXPECT_EQ(runKernel(text, {"blockSum", 1, 128, 512, {address(x), address(sum), 1000}}, memory), "");
  EXPECT_EQ(sum[0], 500500);
}

// Tiles in shared memory; products of small whole numbers are exact.
TEST_F(PtxNvcc, TiledProduct) {
  constexpr int n = 48;
  std::vector<float> a(n * n), b(n * n), c(n * n), expected(n * n);
  for (int i = 0; i != n * n; ++i)
    a[i] = static_cast<float>(i % 7 - 3), b[i] = static_cast<float>(i % 5 - 2);
  for (int i = 0; i != n; ++i)
    for (int j = 0; j != n; ++j)
      for (int k = 0; k != n; ++k)
        expected[i * n + j] += a[i * n + k] * b[k * n + j];
  Memory memory;
  allow(memory, a, false);
  allow(memory, b, false);
  allow(memory, c, true);
  EXPECT_EQ(runKernel(text, {"tiledProduct", 9, 256, 0, {address(a), address(b), address(c), n}}, memory), "");
  EXPECT_EQ(c, expected);
}

// Numbers that both formats hold, so that only exp is rounded.
TEST_F(PtxNvcc, Halves) {
  // 1.5 and -0.5 as f16; 1.5 and 3 as bf16, the first the low half.
  std::vector<uint32_t> x = {0xb8003e00}, z = {0x40403fc0};
  std::vector<float> y(4);
  Memory memory;
  allow(memory, x, false);
  allow(memory, z, false);
  allow(memory, y, true);
  EXPECT_EQ(runKernel(text, {"halves", 1, 1, 0, {address(x), address(z), address(y)}}, memory), "");
  EXPECT_EQ(y[0], 1.5f * 1.5f + 1.5f);
  EXPECT_NEAR(y[1], std::exp(0.25f + 0.5f), 0x1p-10);
  EXPECT_EQ(y[2], 3.75f);
  EXPECT_EQ(y[3], 0);
}

// Division, roots and functions by nvcc's own choice of instructions.
TEST_F(PtxNvcc, Functions) {
  std::vector<float> x = {0.5f, -2.0f, 33.3f, 1e5f, 7e9f, 1e-39f}, single(4 * x.size());
  std::vector<double> wide(4 * x.size());
  Memory memory;
  allow(memory, x, false);
  allow(memory, single, true);
  allow(memory, wide, true);
  Launch launch{"functions", 1, static_cast<uint32_t>(x.size()), 0, {address(x), address(single), address(wide)}};
  EXPECT_EQ(runKernel(text, launch, memory), "");
  for (size_t i = 0; i != x.size(); ++i) {
    long double v = x[i];
    EXPECT_LE(unitsBetween(single[4 * i], std::sin(v)), 2) << v;
    EXPECT_EQ(single[4 * i + 1], x[i] / 3.0f);
    EXPECT_EQ(single[4 * i + 2], std::sqrt(std::abs(x[i])));
    EXPECT_LE(unitsBetween(single[4 * i + 3], std::erf(v)), 2) << v;
    EXPECT_LE(unitsBetween(wide[4 * i], std::cos(v)), 2) << v;
    EXPECT_EQ(wide[4 * i + 1], static_cast<double>(x[i]) / 3.0);
    EXPECT_LE(unitsBetween(wide[4 * i + 2], std::cbrt(v)), 1) << v;
    EXPECT_LE(unitsBetween(wide[4 * i + 3], std::tgamma(static_cast<long double>(static_cast<double>(x[i]) / 10))), 10)
        << v;
  }
}

// One thread a case of the switch.
TEST_F(PtxNvcc, Integers) {
  constexpr int threads = 14;
  std::vector<std::array<int32_t, 4>> values(threads);
  for (int i = 0; i != threads; ++i)
    values[i] = {i, 1000 + i, 3 * i, 9876543 + 1111 * i};
  std::vector<std::array<int32_t, 4>> before = values;
  std::vector<int64_t> wide(2 * threads);
  Memory memory;
  allow(memory, values, true);
  allow(memory, wide, true);
  EXPECT_EQ(runKernel(text, {"integers", 1, threads, 0, {address(values), address(wide)}}, memory), "");
  for (int i = 0; i != threads; ++i) {
    auto [w, z, y, x] = before[i];
    int reversed = 0;
    for (int bit = 0; bit != 32; ++bit)
      reversed |= (x >> bit & 1) << (31 - bit);
    int sums = 0;
    for (int byte = 0; byte != 32; byte += 8)
      sums |= (((x >> byte) + (y >> byte)) & 255) << byte;
    // Bytes 5, 1, 7 and 3 of the eight of x and y.
    int picked = (y >> 8 & 255) | (x >> 8 & 255) << 8 | (y >> 24 & 255) << 16 | (x >> 24 & 255) << 24;
    const int table[] = {7, 5, 3, 2};
    const int cases[] = {55, __builtin_clz(x), __builtin_popcount(x), reversed, table[y & 3], sums, picked};
    int digit = static_cast<int>(x / std::pow(10, y & 7)) % 10;
    EXPECT_EQ(values[i], (std::array<int32_t, 4>{digit, cases[w % 7], z, w})) << i;
    EXPECT_EQ(wide[2 * i], 1000000007LL * x / (y - 50));
    EXPECT_EQ(wide[2 * i + 1], static_cast<int64_t>((static_cast<__int128>(1LL << 40) * (int64_t{x} * y)) >> 64));
  }
}

// The counter is the module's: it starts where its initial value says.
TEST_F(PtxNvcc, Counts) {
  std::vector<int32_t> result(3);
  Memory memory;
  allow(memory, result, true);
  EXPECT_EQ(runKernel(text, {"counts", 1, 96, 0, {address(result), 41}}, memory), "");
  EXPECT_EQ(result, (std::vector<int32_t>{41, 0x49249249, 100}));
}

} // namespace
} // namespace cleave::ptx::test
