// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What NumPy writes is read, and what is written here NumPy reads: numpy_files.py is the other side.

#include "Samples.h"

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string_view>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

namespace {

constexpr std::pair<std::string_view, ElementType> types[] = {
    {"bool", ElementType::I1},     {"int8", ElementType::I8},     {"uint8", ElementType::U8},
    {"int16", ElementType::I16},   {"int32", ElementType::I32},   {"int64", ElementType::I64},
    {"uint16", ElementType::U16},  {"uint32", ElementType::U32},  {"uint64", ElementType::U64},
    {"float16", ElementType::F16}, {"float32", ElementType::F32}, {"float64", ElementType::F64}};

std::vector<std::pair<std::string_view, std::vector<int64_t>>> shapes() {
  return {{"scalar", {}}, {"vector", {5}}, {"matrix", {3, 4}}, {"empty", {0, 2}}, {"cube", {2, 3, 4}}};
}

/// i * 7 mod 11, less 3 except as u64, whose largest numbers no double holds, in the element type: negative numbers
/// wrap where there are none, and are true in bool.
std::vector<double> values(const TensorType &type) {
  std::vector<double> result;
  for (uint64_t i = 0; i != *type.elementCount(); ++i) {
    int value = static_cast<int>(i * 7 % 11) - (type.element == ElementType::U64 ? 0 : 3);
    double wraps =
        isUnsigned(type.element) && value < 0 ? std::ldexp(1, static_cast<int>(8 * elementBytes(type.element))) : 0;
    result.push_back(type.element == ElementType::I1 ? value != 0 : wraps + value);
  }
  return result;
}

/// The parts, one after the other.
template <typename... Parts> std::string joined(const Parts &...parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

class NumpyTest : public TensorFileFixture {
protected:
  void SetUp() override {
    // NOLINTNEXTLINE(bugprone-command-processor): a fixed command of a test.
    if (std::system("/usr/bin/python3 -c 'import numpy' >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "/usr/bin/python3 has no numpy; install python3-numpy to run this test";
  }
  bool script(const std::string &mode) {
    std::string command = "/usr/bin/python3 " CLEAVE_NUMPY_SCRIPT " " + mode + " " + folder.string();
    // NOLINTNEXTLINE(bugprone-command-processor): a fixed command and a folder of our own.
    return std::system(command.c_str()) == 0;
  }
};

} // namespace

// NumPy's own files in every type, shape, order and version, and real compression.
TEST_F(NumpyTest, ReadsWhatNumpyWrites) {
  ASSERT_TRUE(script("write"));
  for (const auto &[typeName, element] : types)
    for (const auto &[shapeName, shape] : shapes()) {
      TensorType type = dense(element, shape);
      for (const char *variant : {"", "-fortran", "-big", "-v2", "-v3"})
        expectTensor(path(joined(typeName, "-", shapeName, variant, ".npy")), type, values(type));
      for (const char *archive : {"-stored.npz:", "-deflated.npz:"})
        expectTensor(path(joined(typeName, archive, shapeName)), type, values(type));
    }
  TensorType cube = dense(ElementType::U8, {2, 3, 4});
  expectTensor(path("cube-idx3-ubyte.gz"), cube, values(cube));
}

// Users look at outputs with NumPy.
TEST_F(NumpyTest, WritesWhatNumpyReads) {
  for (const auto &[typeName, element] : types)
    for (const auto &[shapeName, shape] : shapes()) {
      HostTensor tensor = tensorOf(dense(element, shape), values(dense(element, shape)));
      ASSERT_FALSE(writeTensorFile(path(joined(typeName, "-", shapeName, ".npy")), tensor));
      ASSERT_FALSE(writeTensorFile(path(joined(typeName, ".npz:", shapeName)), tensor));
    }
  ASSERT_FALSE(writeTensorFile(path("bfloat16.npy"), tensorOf(dense(ElementType::BF16, {2}), {1, -2.5})));
  EXPECT_TRUE(script("check"));
}
