// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is common to the formats: how a file is recognized, expected types, raw files, and files that appear whole.

#include "Samples.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;

using TensorFileTest = TensorFileFixture;

static std::string array() { return npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", floats({1, 2})); }

// A known ending decides; other names are told by their first bytes.
TEST_F(TensorFileTest, RecognizesFormats) {
  TensorType type = dense(ElementType::F32, {2});
  expectTensor(file("input", array()), type, {1, 2});
  expectTensor(file("input.data", floats({1, 2})), type, {1, 2}, &type);
  expectFailure(file("input.data", floats({1, 2})), Status::Failure, "expected a tensor file");
  expectFailure(file("input.pb", array()), Status::Rejected, "at byte");
  expectFailure(file("input.npy", floats({1, 2})), Status::Rejected, "magic string");
}

// An input of the wrong type is the most common mistake; the message shows both.
TEST_F(TensorFileTest, ComparesWithTheExpectedType) {
  TensorType wrongShape = dense(ElementType::F32, {1, 2}), wrongElement = dense(ElementType::F64, {2});
  expectFailure(file("a.npy", array()), Status::Failure, "expected f32[1,2], got f32[2]", &wrongShape);
  expectFailure(file("a.npy", array()), Status::Failure, "expected f64[2], got f32[2]", &wrongElement);
  TensorType blocked = dense(ElementType::F32, {2});
  blocked.layout = Layout{{16}, {16}, {16}, {0}};
  expectTensor(file("a.npy", array()), dense(ElementType::F32, {2}), {1, 2}, &blocked);
}

// Raw files have no type of their own and exactly one size.
TEST_F(TensorFileTest, ReadsRawFiles) {
  TensorType type = dense(ElementType::F32, {2});
  expectTensor(file("a.raw", floats({1, 2})), type, {1, 2}, &type);
  expectFailure(file("a.bin", floats({1, 2})), Status::Failure, "expects a type from elsewhere");
  expectFailure(file("a.raw", floats({1})), Status::Rejected, "expected 8 bytes of elements for f32[2], got 4", &type);
  expectFailure(file("a.raw", floats({1, 2, 3})), Status::Rejected, "got 12", &type);
  ASSERT_FALSE(writeTensorFile(path("b.raw"), tensorOf(type, {1, 2})));
  EXPECT_EQ(contents("b.raw"), floats({1, 2}));
}

// Paths that are no files.
TEST_F(TensorFileTest, RefusesWhatIsNoFile) {
  expectFailure(path("missing.npy"), Status::Failure, "cannot open");
  std::filesystem::create_directory(path("folder.npy"));
  expectFailure(path("folder.npy"), Status::Failure, "not a regular file");
}

// A failed write leaves the old file, and no part of the new one.
TEST_F(TensorFileTest, ReplacesFilesWhole) {
  HostTensor tensor = tensorOf(dense(ElementType::F32, {2}), {1, 2});
  ASSERT_FALSE(writeTensorFile(path("a.npy"), tensor));
  ASSERT_FALSE(writeTensorFile(path("a.npy"), tensorOf(dense(ElementType::F32, {1}), {3})));
  expectTensor(path("a.npy"), dense(ElementType::F32, {1}), {3});
  std::filesystem::create_directory(path("full.npy"));
  file("full.npy/entry", "x");
  Error error = writeTensorFile(path("full.npy"), tensor);
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("cannot write"), std::string::npos) << error.message();
  error = writeTensorFile(path("missing/a.npy"), tensor);
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("cannot write " + path("missing/a.npy") + ": No such file"), std::string::npos)
      << error.message();
  error = writeTensorFile(path("a.txt"), tensor);
  ASSERT_TRUE(error);
  EXPECT_NE(error.message().find("an ending that can be written"), std::string::npos) << error.message();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
}
