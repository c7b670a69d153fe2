// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples from files: conversion, shapes, tokens, batches, and what does not fit.

#include "runtime/training/BatchLoader.h"

#include "runtime/tensorfile/TensorFile.h"
#include "runtime/training/Dataset.h"
#include "runtime/training/RandomOrder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

class DatasetTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("cleave-dataset-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// A file with 0, 1, 2, ... (or `value`) as elements.
  std::string write(const std::string &name, ElementType element, std::vector<int64_t> shape,
                    std::optional<double> value = {}) {
    HostTensor tensor = *HostTensor::allocate({element, std::move(shape), std::nullopt});
    unsigned width = elementBytes(element);
    for (size_t i = 0; i != tensor.bytes().size() / width; ++i)
      storeElement(element, tensor.bytes().data() + i * width, value.value_or(static_cast<double>(i)));
    Error error = writeTensorFile((folder / name).string(), tensor);
    EXPECT_FALSE(error) << error.text();
    return (folder / name).string();
  }
  std::string writeText(const std::string &name, const std::string &text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }

  static Port port(ElementType element, std::vector<int64_t> shape, uint64_t classes = 0) {
    return {"x", {element, std::move(shape), std::nullopt}, classes};
  }
  /// The sample's elements, or nothing after a failure, which fails the test.
  static std::vector<double> sample(const Expected<SampleData> &data, const Port &port, uint64_t index) {
    EXPECT_TRUE(data) << data.error().text();
    std::vector<double> values;
    if (!data)
      return values;
    HostTensor tensor = *HostTensor::allocate(port.type);
    unsigned width = elementBytes(port.type.element);
    size_t bytes = tensor.bytes().size() / static_cast<size_t>(port.type.shape[0]);
    data->copy(index, tensor.bytes().first(bytes));
    for (size_t at = 0; at != bytes; at += width)
      values.push_back(loadElement(port.type.element, tensor.bytes().data() + at));
    return values;
  }
  static void expectError(const Error &error, const std::string &text) {
    EXPECT_NE(error.text().find(text), std::string::npos) << error.text();
  }

  std::filesystem::path folder;
};

// Bytes are images, in [0, 1] unless the user says otherwise; other numbers stay as they are.
TEST_F(DatasetTest, ConvertsNumbers) {
  Port floats = port(ElementType::F32, {4, 1, 2, 2}), integers = port(ElementType::I64, {4});
  std::string images = write("images.idx", ElementType::U8, {3, 2, 2}, 51);
  EXPECT_FLOAT_EQ(static_cast<float>(sample(SampleData::read(images, floats, {}), floats, 2)[3]), 0.2f);
  EXPECT_EQ(sample(SampleData::read(images, floats, Scale{1, 0}), floats, 0), std::vector<double>(4, 51));
  EXPECT_EQ(sample(SampleData::read(images, floats, Scale{2, -3}), floats, 0), std::vector<double>(4, 99));
  std::string labels = write("labels.idx", ElementType::U8, {3});
  EXPECT_EQ(sample(SampleData::read(labels, integers, {}), integers, 2), std::vector<double>{2});
  std::string doubles = write("doubles.npy", ElementType::F64, {3, 2, 2});
  EXPECT_EQ(sample(SampleData::read(doubles, floats, {}), floats, 1), (std::vector<double>{4, 5, 6, 7}));
  std::string same = write("same.npy", ElementType::F32, {3, 2, 2});
  EXPECT_EQ(sample(SampleData::read(same, floats, {}), floats, 1), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(sample(SampleData::read(same, floats, Scale{0.5, 0}), floats, 1), (std::vector<double>{2, 2.5, 3, 3.5}));
}

// Dimensions of one come and go, and a sample may be flat; nothing else changes its shape.
TEST_F(DatasetTest, AdaptsShapes) {
  std::string file = write("f.npy", ElementType::F32, {3, 2, 6});
  for (std::vector<int64_t> shape : {std::vector<int64_t>{4, 2, 6}, {4, 1, 2, 6}, {4, 2, 6, 1}, {4, 12}}) {
    Port wanted = port(ElementType::F32, shape);
    EXPECT_EQ(sample(SampleData::read(file, wanted, {}), wanted, 1)[0], 12);
  }
  expectError(SampleData::read(file, port(ElementType::F32, {4, 6, 2}), {}).error(),
              "expects samples like those of f32[4,6,2] in dimension 0, got f32[3,2,6]");
  expectError(SampleData::read(file, port(ElementType::F32, {4, 13}), {}).error(), "expects samples like those of");
}

// A text is a row of bytes: sequences follow each other, and labels are the sequences one further on.
TEST_F(DatasetTest, DividesTokens) {
  Port tokens = port(ElementType::I64, {2, 3});
  std::string text = writeText("a.txt", "abcdefgh");
  auto data = SampleData::read(text, tokens, {}), next = SampleData::read(text + ":next", tokens, {});
  EXPECT_EQ(sample(data, tokens, 1), (std::vector<double>{'d', 'e', 'f'}));
  EXPECT_EQ(sample(next, tokens, 1), (std::vector<double>{'e', 'f', 'g'}));
  EXPECT_EQ(data->samples(), 2u);
  EXPECT_EQ(next->samples(), 2u);
  EXPECT_EQ(SampleData::read(writeText("b.txt", "abcdef"), tokens, {})->samples(), 1u);
  std::string small = writeText("s.u16", std::string("\x01\x00\xff\xff\x03\x00\x04\x00", 8));
  EXPECT_EQ(sample(SampleData::read(small, tokens, {}), tokens, 0), (std::vector<double>{1, 65535, 3}));
  std::string large = writeText("l.u32", std::string("\x01\0\0\0\xff\xff\xff\xff\x03\0\0\0\x04\0\0\0", 16));
  EXPECT_EQ(sample(SampleData::read(large, tokens, {}), tokens, 0), (std::vector<double>{1, 4294967295.0, 3}));
  std::string numbers = write("n.npy", ElementType::I32, {7});
  EXPECT_EQ(sample(SampleData::read(numbers + ":next", tokens, {}), tokens, 1), (std::vector<double>{4, 5, 6}));
  expectError(SampleData::read(writeText("odd.u16", "abc"), tokens, {}).error(), "expects 2 bytes for each, got 3");
  expectError(SampleData::read(writeText("short.txt", "abc"), tokens, {}).error(),
              "expects at least 4 tokens for a sequence of 3 and their labels, got 3");
  expectError(SampleData::read(write("t.npy", ElementType::I64, {2, 3}) + ":next", tokens, {}).error(),
              "\":next\" expects tokens");
}

// What would train on nonsense is refused, with the place of the first wrong number.
TEST_F(DatasetTest, RefusesWrongNumbers) {
  Port labels = port(ElementType::I64, {4}, 10);
  EXPECT_TRUE(SampleData::read(write("good.npy", ElementType::I64, {10}), labels, {}));
  EXPECT_TRUE(SampleData::read(write("none.npy", ElementType::I64, {10}, -1), labels, {}));
  expectError(SampleData::read(write("bad.npy", ElementType::I64, {11}), labels, {}).error(),
              "expects classes below 10, or -1 where there is none, got 10 as element 10");
  expectError(SampleData::read(write("low.npy", ElementType::I64, {4}, -2), labels, {}).error(), "got -2 as element 0");
  expectError(SampleData::read(write("float.npy", ElementType::F32, {4}), labels, {}).error(),
              "expects integers for i64[4], got f32[4]");
  expectError(SampleData::read(write("wide.npy", ElementType::I64, {300}), port(ElementType::I8, {4}), {}).error(),
              "expects numbers that i8 holds, got 128 as element 128");
  expectError(SampleData::read(write("i.npy", ElementType::I64, {4}), labels, Scale{2, 0}).error(),
              "--scale expects an input of floating-point numbers");
  expectError(SampleData::read((folder / "missing.npy").string(), labels, {}).error(),
              "data for \"x\" from \"" + (folder / "missing.npy").string() + "\": cannot open");
  expectError(
      SampleData::read(write("empty.npy", ElementType::F32, {0, 2}), port(ElementType::F32, {4, 2}), {}).error(),
      "expects samples, got none");
}

// Numbers that are none, or none in the input's type, would be in every parameter after a step.
TEST_F(DatasetTest, RefusesWhatIsNotFinite) {
  Port pairs = port(ElementType::F32, {4, 2});
  auto writeValues = [&](const char *name, std::vector<double> values) {
    HostTensor tensor = *HostTensor::allocate({ElementType::F64, {static_cast<int64_t>(values.size()) / 2, 2}, {}});
    std::ranges::copy(values, tensor.as<double>().begin());
    std::string path = (folder / name).string();
    EXPECT_FALSE(writeTensorFile(path, tensor));
    return path;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  std::string file = writeValues("infinite.npy", {0, 1, 2, 3, 4, -infinity, 6, 7});
  expectError(SampleData::read(file, pairs, {}).error(),
              "data for \"x\" from \"" + file +
                  "\": expects finite numbers that f32 holds, got -inf in sample 2, as "
                  "element 5 of all");
  expectError(
      SampleData::read(writeValues("nan.npy", {std::numeric_limits<double>::quiet_NaN(), 1}), pairs, {}).error(),
      "got nan in sample 0");
  std::string large = writeValues("large.npy", {1, 2, 3, 1e39});
  expectError(SampleData::read(large, pairs, {}).error(), "got 1e+39 in sample 1, as element 3");
  EXPECT_TRUE(SampleData::read(large, pairs, Scale{0.1, 0}));
  EXPECT_TRUE(SampleData::read(large, port(ElementType::F64, {4, 2}), {}));
  std::vector<float> same = {1, 2, 3, 4, std::numeric_limits<float>::quiet_NaN(), 6};
  auto tensor = HostTensor::view({ElementType::F32, {3, 2}, {}}, std::as_writable_bytes(std::span(same)));
  ASSERT_FALSE(writeTensorFile((folder / "same.npy").string(), *tensor));
  expectError(SampleData::read((folder / "same.npy").string(), pairs, {}).error(), "got nan in sample 2, as element 4");
}

/// An entry with x f32[4, 2] and labels i64[4] of 10 classes.
Entry entryOfFour() {
  Entry entry;
  entry.name = "train";
  entry.samples = 4;
  entry.inputs = {{"x", {ElementType::F32, {4, 2}, std::nullopt}, 0},
                  {"labels", {ElementType::I64, {4}, std::nullopt}, 10}};
  return entry;
}

// Inputs need as many samples each, and a file.
TEST_F(DatasetTest, ChecksInputsTogether) {
  Entry entry = entryOfFour();
  std::string x = "x=" + write("x.npy", ElementType::F32, {6, 2}),
              labels = "labels=" + write("l.npy", ElementType::I64, {6});
  auto read = [&](std::vector<std::string> data, std::vector<std::string> scales = {}) {
    return Dataset::read(entry, data, scales, "--data").error();
  };
  EXPECT_FALSE(read({x, labels}));
  EXPECT_FALSE(read({x, labels}, {"@0=2"}));
  expectError(read({x}), "input \"labels\" i64[4] of entry \"train\" expects data; say --data labels=FILE");
  expectError(read({x, labels, "y=z"}),
              "--data expects NAME=FILE with NAME one of @0 \"x\", @1 \"labels\", got \"y=z\"");
  expectError(read({x, labels}, {"x=fast"}), "--scale expects NAME=FACTOR or NAME=FACTOR,OFFSET, got \"fast\"");
  expectError(read({x, labels}, {"x"}), "--scale expects NAME=FACTOR with NAME one of");
  std::string few = write("few.npy", ElementType::I64, {5});
  expectError(read({x, "labels=" + few}), "expects as many samples, got 6 for \"x\" in \"" + x.substr(2) +
                                              "\" and 5 for \"labels\" in \"" + few + "\"");
  entry.inputs.clear();
  expectError(read({}), "entry \"train\" expects no inputs");
}

// A batch that is not full repeats its first sample, whose label does not count there.
TEST_F(DatasetTest, FillsBatches) {
  Entry entry = entryOfFour();
  auto data = Dataset::read(
      entry, {"x=" + write("x.npy", ElementType::F32, {6, 2}), "labels=" + write("l.npy", ElementType::I64, {6})}, {},
      "--data");
  ASSERT_TRUE(data) << data.error().text();
  Batch batch = *data->allocate();
  const std::vector<uint64_t> which = {5, 2};
  data->fill(batch, 0, which);
  auto x = batch.inputs()[0].as<float>();
  EXPECT_EQ(std::vector<float>(x.begin(), x.end()), (std::vector<float>{10, 11, 4, 5, 10, 11, 10, 11}));
  auto labels = batch.inputs()[1].as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(labels.begin(), labels.end()), (std::vector<int64_t>{5, 2, -1, -1}));
  EXPECT_EQ(batch.samples, 2u);
  EXPECT_EQ(batch.labels, 2u);
  EXPECT_TRUE(data->masks());
}

// The loader gives all batches in order, however slowly they are taken, and ends when nobody takes them.
TEST_F(DatasetTest, LoadsBatchesInOrder) {
  Entry entry = entryOfFour();
  auto data = Dataset::read(
      entry, {"x=" + write("x.npy", ElementType::F32, {30, 2}), "labels=" + write("l.npy", ElementType::I64, {30}, 3)},
      {}, "--data");
  ASSERT_TRUE(data) << data.error().text();
  for (bool all : {false, true}) {
    std::vector<Batch> slots(3);
    for (Batch &slot : slots)
      slot = *data->allocate();
    BatchOrder order = all ? data->all() : *data->rest(7, 2, 8);
    ASSERT_EQ(order.batches.size(), all ? 8u : 5u);
    BatchLoader loader(*data, order, slots);
    std::vector<uint64_t> shuffled = randomOrder(30, 7, 2);
    for (uint64_t i = 0; loader.left() != 0; ++i) {
      const Batch &batch = loader.take();
      EXPECT_EQ(batch.samples, i == 7 ? 2u : 4u);
      EXPECT_EQ(batch.inputs()[0].as<float>()[0], static_cast<float>(2 * (all ? 4 * i : shuffled[8 + 4 * i])));
      loader.giveBack();
    }
    BatchLoader unused(*data, order, slots);
  }
}

} // namespace
} // namespace cleave::runtime::test
