// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element conversions, sizes of dense and blocked tensors, host tensors and comparisons.

#include "runtime/Comparison.h"
#include "runtime/HostTensor.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace cleave::runtime {
namespace {

double roundTrip(ElementType type, double value) {
  std::array<std::byte, 8> memory;
  storeElement(type, memory.data(), value);
  return loadElement(type, memory.data());
}

// Values with a known nearest neighbour in IEEE binary16: ties to even, subnormals, overflow to infinity.
TEST(ElementType, RoundsToHalf) {
  EXPECT_EQ(roundTrip(ElementType::F16, 1.0 / 3), 0.333251953125);
  EXPECT_EQ(roundTrip(ElementType::F16, 2049), 2048);
  EXPECT_EQ(roundTrip(ElementType::F16, 2051), 2052);
  EXPECT_EQ(roundTrip(ElementType::F16, 65519), 65504);
  EXPECT_EQ(roundTrip(ElementType::F16, 65520), HUGE_VAL);
  EXPECT_EQ(roundTrip(ElementType::F16, -0x1p-24), -0x1p-24);
  EXPECT_EQ(roundTrip(ElementType::F16, 0x1p-25), 0);
  EXPECT_EQ(roundTrip(ElementType::F16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(roundTrip(ElementType::F16, 0x1.ffep-15), 0x1p-14);
  EXPECT_TRUE(std::isnan(roundTrip(ElementType::F16, NAN)));
}

// bfloat16 keeps 8 bits; a value just above a tie must not be rounded twice, through float, back down.
TEST(ElementType, RoundsToBrain) {
  EXPECT_EQ(roundTrip(ElementType::BF16, 1.0 + 0x1p-8), 1.0);
  EXPECT_EQ(roundTrip(ElementType::BF16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
  EXPECT_EQ(roundTrip(ElementType::BF16, -3.0e38), -0x1.c4p127);
  EXPECT_EQ(roundTrip(ElementType::BF16, -1e39), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(roundTrip(ElementType::BF16, NAN)));
}

// Conversions to integers saturate instead of being undefined.
TEST(ElementType, SaturatesIntegers) {
  EXPECT_EQ(roundTrip(ElementType::I8, 1000), 127);
  EXPECT_EQ(roundTrip(ElementType::U8, -3), 0);
  EXPECT_EQ(roundTrip(ElementType::I16, -40000), -32768);
  EXPECT_EQ(roundTrip(ElementType::U16, 70000), 65535);
  EXPECT_EQ(roundTrip(ElementType::U32, -1), 0);
  EXPECT_EQ(roundTrip(ElementType::U64, 1e30), 0x1p64);
  EXPECT_EQ(roundTrip(ElementType::I32, 2.5), 2);
  EXPECT_EQ(roundTrip(ElementType::I64, 1e30), 0x1p63);
  EXPECT_EQ(roundTrip(ElementType::I32, NAN), 0);
  EXPECT_EQ(roundTrip(ElementType::I1, 0.25), 1);
}

// Every type's name leads back to it, and each has a size.
TEST(ElementType, NamesAndSizes) {
  const unsigned sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  for (unsigned i = 0; i != numElementTypes; ++i) {
    auto type = static_cast<ElementType>(i);
    EXPECT_EQ(elementTypeNamed(elementName(type)), type);
    EXPECT_EQ(elementBytes(type), sizes[i]);
  }
  EXPECT_FALSE(elementTypeNamed("f8"));
}

// 3 channels in blocks of 8 (nChw8c): [1, 3, 5, 5] is padded to 8 channels, 1 * 8 * 5 * 5 floats.
TEST(TensorType, SizesBlockedLayouts) {
  TensorType type{ElementType::F32, {1, 3, 5, 5}, Layout{{1, 8, 5, 5}, {200, 200, 40, 8}, {8}, {1}}};
  EXPECT_EQ(type.byteSize(), 800u);
  EXPECT_EQ(type.elementCount(), 75u);
  EXPECT_EQ(type.text(), "f32[1,3,5,5] blocked");
  // Twice blocked weights (OIhw16i16o): [32, 16, 3, 3].
  TensorType weights{
      ElementType::F32, {32, 16, 3, 3}, Layout{{32, 16, 3, 3}, {2304, 2304, 768, 256}, {16, 16}, {1, 0}}};
  EXPECT_EQ(weights.byteSize(), 4u * 32 * 16 * 3 * 3);
}

// Scalars and empty tensors have sizes too.
TEST(TensorType, SizesScalarsAndEmptyTensors) {
  EXPECT_EQ((TensorType{ElementType::F64, {}, {}}.byteSize()), 8u);
  EXPECT_EQ((TensorType{ElementType::F64, {0, INT64_MAX, INT64_MAX}, {}}.byteSize()), 0u);
}

// Numbers from a hostile file: no overflow, no division by zero, each refused with its reason.
TEST(TensorType, RefusesBadTypes) {
  auto message = [](TensorType type) { return type.check().message(); };
  EXPECT_EQ(message({ElementType::F32, {2, -1}, {}}), "tensor type f32[2,-1] expects no negative dimension, got -1");
  EXPECT_NE(message({ElementType::F32, {INT64_MAX}, {}}).find("more bytes than"), std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4, 4}, {1}, {}, {}}}).find("padded dimensions and strides"),
            std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4}, {1}, {4}, {}}}).find("a dimension for each of its 1 inner"),
            std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4}, {1}, {0}, {0}}}).find("inner block of 0 values"),
            std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4}, {1}, {4}, {3}}}).find("of dimension 3"), std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4}, {1}, {INT64_MAX, 4}, {0, 0}}}).find("sizes overflow"),
            std::string::npos);
  EXPECT_NE(
      message({ElementType::F32, {4}, Layout{{6}, {1}, {4}, {0}}}).find("multiple of 4 that is at least 4, got 6"),
      std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4}, {-1}, {}, {}}}).find("no negative stride, got -1"),
            std::string::npos);
  EXPECT_NE(message({ElementType::F32, {4}, Layout{{4}, {INT64_MAX}, {}, {}}}).find("more bytes than"),
            std::string::npos);
}

// Host tensors are aligned zeros, and a view needs exactly its bytes.
TEST(HostTensor, AllocatesAndViews) {
  auto tensor = HostTensor::allocate({ElementType::F32, {3}, {}});
  ASSERT_TRUE(tensor);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->bytes().data()) % 64, 0u);
  EXPECT_EQ(tensor->as<float>()[2], 0);
  EXPECT_TRUE(HostTensor::view({ElementType::I32, {3}, {}}, tensor->bytes()));
  EXPECT_EQ(HostTensor::view({ElementType::I32, {4}, {}}, tensor->bytes()).error().message(),
            "host tensor i32[4] expects 16 bytes, got 12");
  EXPECT_FALSE(HostTensor::allocate({ElementType::F32, {4}, Layout{{4}, {1}, {}, {}}}));
  EXPECT_EQ(HostTensor::allocate({ElementType::I8, {int64_t(1) << 60}, {}}).error().status(), Status::Infeasible);
}

HostTensor vectorOf(std::vector<float> values) {
  auto tensor = *HostTensor::allocate({ElementType::F32, {1, static_cast<int64_t>(values.size())}, {}});
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

// |a - b| <= atol + rtol |b|, with b the expected value; NaN equals NaN, infinities only themselves.
TEST(Comparison, AppliesTolerance) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compare(vectorOf({100.5f, nan, inf}), vectorOf({100, nan, inf}), 0.005, 0).equal());
  EXPECT_TRUE(compare(vectorOf({0.25f}), vectorOf({0}), 0, 0.25).equal());
  EXPECT_FALSE(compare(vectorOf({inf}), vectorOf({-inf}), 1, 1).equal());
  EXPECT_FALSE(compare(vectorOf({1}), vectorOf({inf}), 1, 1).equal());
  EXPECT_FALSE(compare(vectorOf({nan}), vectorOf({1}), 1, 1e30).equal());
}

// The element that exceeds its tolerance most is the one to look at first.
TEST(Comparison, NamesWorstElement) {
  Comparison comparison = compare(vectorOf({1, 2.5f, 103}), vectorOf({1, 2, 100}), 0.02, 0);
  EXPECT_EQ(comparison.differing, 2u);
  EXPECT_EQ(comparison.maxError, 3);
  EXPECT_EQ(comparison.worstIndex, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(comparison.text(), "2 of 3 elements differ; worst at [0,2]: expected 100, got 103");
}

// Integers that a double cannot tell apart are still different.
TEST(Comparison, IsExactForIntegers) {
  auto left = *HostTensor::allocate({ElementType::I64, {1}, {}}),
       right = *HostTensor::allocate({ElementType::I64, {1}, {}});
  left.as<int64_t>()[0] = (int64_t(1) << 53) + 1;
  right.as<int64_t>()[0] = int64_t(1) << 53;
  EXPECT_FALSE(compare(left, right, 0, 0).equal());
}

} // namespace
} // namespace cleave::runtime
