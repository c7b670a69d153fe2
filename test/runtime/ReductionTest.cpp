// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of reductions: all 65536 values of the 16-bit floats against the runtime's conversions, special
// values, and copies at every alignment.

#include "runtime/Reduction.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

namespace cleave::runtime::test {
namespace {

template <typename T>
std::vector<T> combineOf(ElementType type, Combiner combiner, std::vector<std::vector<T>> sources) {
  std::vector<T> result(sources.front().size());
  std::vector<const std::byte *> from;
  for (const auto &source : sources)
    from.push_back(reinterpret_cast<const std::byte *>(source.data()));
  auto *to = reinterpret_cast<std::byte *>(result.data());
  combine(type, combiner, from, std::span(&to, 1), result.size(), false);
  return result;
}

// Adding zero to, and doubling, every 16-bit float gives what the scalar conversions give, NaNs stay NaNs.
TEST(Reduction, ConvertsAllHalves) {
  std::vector<uint16_t> all(65536), zero(65536), one(65536);
  for (ElementType type : {ElementType::F16, ElementType::BF16}) {
    for (size_t i = 0; i != all.size(); ++i) {
      all[i] = static_cast<uint16_t>(i);
      storeElement(type, reinterpret_cast<std::byte *>(&one[i]), 1.0009765625);
    }
    auto same = combineOf<uint16_t>(type, Combiner::Sum, {all, zero});
    auto twice = combineOf<uint16_t>(type, Combiner::Sum, {all, all});
    auto near = combineOf<uint16_t>(type, Combiner::Product, {all, one});
    auto value = [&](const uint16_t &bits) { return loadElement(type, reinterpret_cast<const std::byte *>(&bits)); };
    for (size_t i = 0; i != all.size(); ++i) {
      uint16_t expectedTwice, expectedNear;
      storeElement(type, reinterpret_cast<std::byte *>(&expectedTwice), value(all[i]) * 2);
      storeElement(type, reinterpret_cast<std::byte *>(&expectedNear), value(all[i]) * value(one[i]));
      if (std::isnan(value(all[i]))) {
        ASSERT_TRUE(std::isnan(value(same[i])) && std::isnan(value(twice[i])) && std::isnan(value(near[i]))) << i;
        continue;
      }
      ASSERT_EQ(value(same[i]), value(all[i])) << i;
      ASSERT_EQ(twice[i], expectedTwice) << i;
      ASSERT_EQ(near[i], expectedNear) << i;
    }
  }
}

// Integers wrap; the larger of two signed numbers is not that of their bits.
TEST(Reduction, CombinesIntegers) {
  constexpr int32_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(combineOf<int32_t>(ElementType::I32, Combiner::Sum, {{high, -5}, {1, 3}}), (std::vector<int32_t>{low, -2}));
  EXPECT_EQ(combineOf<int32_t>(ElementType::I32, Combiner::Product, {{-3, 1 << 30}, {4, 4}, {5, 1}}),
            (std::vector<int32_t>{-60, 0}));
  EXPECT_EQ(combineOf<int32_t>(ElementType::I32, Combiner::Max, {{-3, low}, {4, high}}),
            (std::vector<int32_t>{4, high}));
  EXPECT_EQ(combineOf<int8_t>(ElementType::I8, Combiner::Min, {{-3, 5}, {4, -128}}), (std::vector<int8_t>{-3, -128}));
  EXPECT_EQ(combineOf<uint8_t>(ElementType::U8, Combiner::Max, {{200, 5}, {4, 6}}), (std::vector<uint8_t>{200, 6}));
  EXPECT_EQ(combineOf<int16_t>(ElementType::I16, Combiner::Product, {{-300}, {300}}),
            (std::vector<int16_t>{static_cast<int16_t>(-90000)}));
  EXPECT_FALSE(combines(ElementType::I1, Combiner::Sum));
  EXPECT_TRUE(combines(ElementType::I1, Combiner::Max));
}

// A NaN wins, in either place.
TEST(Reduction, KeepsNan) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  for (Combiner combiner : {Combiner::Sum, Combiner::Product, Combiner::Max, Combiner::Min})
    for (float value : combineOf<float>(ElementType::F32, combiner, {{nan, 1, 2}, {1, nan, 3}, {1, 1, nan}}))
      EXPECT_TRUE(std::isnan(value)) << combinerName(combiner);
}

// Streaming stores begin and end in the middle of cache lines as well.
TEST(Reduction, CopiesAtEveryAlignment) {
  std::vector<std::byte> source(600);
  for (size_t i = 0; i != source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 7);
  for (bool streams : {false, true})
    for (uint64_t from : {0, 3, 16})
      for (uint64_t to = 0; to != 65; ++to)
        for (uint64_t bytes : {0, 1, 63, 64, 127, 128, 200, 400}) {
          std::vector<std::byte> target(500, std::byte(0xee));
          copyBytes(source.data() + from, target.data() + to, bytes, streams);
          ASSERT_EQ(std::memcmp(target.data() + to, source.data() + from, bytes), 0);
          ASSERT_TRUE(to == 0 || target[to - 1] == std::byte(0xee));
          ASSERT_EQ(target[to + bytes], std::byte(0xee));
        }
}

} // namespace
} // namespace cleave::runtime::test
