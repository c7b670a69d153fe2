// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensors that come with real models and data sets, where the folder with them is at hand: CLEAVE_SHARED, or
// `shared` beside the repository.

#include "Samples.h"

#include <cstdlib>

using namespace cleave::runtime;
using namespace cleave::runtime::test;

static std::filesystem::path shared() {
  const char *named = std::getenv("CLEAVE_SHARED");
  return named ? named : CLEAVE_DEFAULT_SHARED;
}

// Inputs of image classifiers are [1, 3, 224, 224], outputs are 1000 classes that softmax made add up to 1.
TEST(SharedModels, AreRead) {
  if (!std::filesystem::exists(shared() / "models"))
    GTEST_SKIP() << "no folder " << shared() / "models" << "; set CLEAVE_SHARED to run this test";
  unsigned read = 0;
  for (const auto &model : std::filesystem::directory_iterator(shared() / "models")) {
    std::filesystem::path folder = model.path() / "test_data_set_0";
    if (!std::filesystem::exists(folder / "input_0.pb"))
      continue;
    SCOPED_TRACE(folder.string());
    auto input = readTensorFile((folder / "input_0.pb").string());
    ASSERT_TRUE(input) << input.error().text();
    EXPECT_EQ(input->type(), dense(ElementType::F32, {1, 3, 224, 224})) << input->type().text();
    auto output = readTensorFile((folder / "output_0.pb").string());
    ASSERT_TRUE(output) << output.error().text();
    EXPECT_EQ(*output->type().elementCount(), 1000u) << output->type().text();
    ++read;
  }
  EXPECT_GT(read, 0u);
}

// Fashion-MNIST: 10000 test images of 28 x 28 bytes with labels 0 to 9, 1000 of each.
TEST(SharedData, IsRead) {
  std::filesystem::path folder = shared() / "data" / "fashion-mnist";
  if (!std::filesystem::exists(folder / "t10k-images-idx3-ubyte.gz"))
    GTEST_SKIP() << "no data set in " << folder << "; set CLEAVE_SHARED to run this test";
  auto images = readTensorFile((folder / "t10k-images-idx3-ubyte.gz").string());
  ASSERT_TRUE(images) << images.error().text();
  EXPECT_EQ(images->type(), dense(ElementType::U8, {10000, 28, 28}));
  auto labels = readTensorFile((folder / "t10k-labels-idx1-ubyte.gz").string());
  ASSERT_TRUE(labels) << labels.error().text();
  ASSERT_EQ(labels->type(), dense(ElementType::U8, {10000}));
  std::vector<unsigned> counts(256);
  for (std::byte label : labels->bytes())
    ++counts[std::to_integer<unsigned>(label)];
  for (unsigned label = 0; label != 10; ++label)
    EXPECT_EQ(counts[label], 1000u) << "label " << label;
}
