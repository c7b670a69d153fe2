// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writing samples and judging what readers make of them.

#include "Samples.h"

#include <bit>
#include <fstream>
#include <unistd.h>

namespace cleave::runtime::test {

TensorFileFixture::TensorFileFixture() {
  std::string pattern = (std::filesystem::temp_directory_path() / "cleave-tensorfile-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    ADD_FAILURE() << "no temporary folder at " << pattern;
  folder = pattern;
}

TensorFileFixture::~TensorFileFixture() { std::filesystem::remove_all(folder); }

std::string TensorFileFixture::file(const std::string &name, const std::string &bytes) const {
  // Overwriting makes some file systems wait for the disk; a new file does not.
  std::filesystem::remove(path(name));
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::string TensorFileFixture::contents(const std::string &name) const {
  std::ifstream stream(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void TensorFileFixture::expectTensor(const std::string &path, const TensorType &type,
                                     const std::vector<double> &elements, const TensorType *expected) const {
  auto tensor = readTensorFile(path, expected);
  ASSERT_TRUE(tensor) << tensor.error().text();
  ASSERT_EQ(tensor->type(), type) << tensor->type().text() << " instead of " << type.text();
  ASSERT_EQ(*type.elementCount(), elements.size());
  for (size_t i = 0; i != elements.size(); ++i)
    EXPECT_EQ(loadElement(type.element, tensor->bytes().data() + i * elementBytes(type.element)), elements[i])
        << "element " << i;
}

void TensorFileFixture::expectFailure(const std::string &path, Status status, const std::string &text,
                                      const TensorType *expected) const {
  auto tensor = readTensorFile(path, expected);
  ASSERT_FALSE(tensor) << path << " was read, expected: " << text;
  EXPECT_EQ(tensor.error().status(), status) << tensor.error().text();
  EXPECT_NE(tensor.error().message().find(path), std::string::npos) << tensor.error().message();
  EXPECT_NE(tensor.error().message().find(text), std::string::npos) << tensor.error().message();
}

void TensorFileFixture::expectRobust(const std::string &name, const std::string &bytes,
                                     const TensorType *expected) const {
  auto whole = readTensorFile(file(name, bytes), expected);
  ASSERT_TRUE(whole) << whole.error().text();
  for (size_t length = 0; length != bytes.size(); ++length) {
    auto cut = readTensorFile(file(name, bytes.substr(0, length)), expected);
    ASSERT_FALSE(cut) << name << " cut to " << length << " bytes was read";
    EXPECT_EQ(cut.error().status(), Status::Rejected) << length << ": " << cut.error().text();
    EXPECT_NE(cut.error().message().find(name), std::string::npos) << cut.error().text();
  }
  for (size_t i = 0; i != bytes.size(); ++i)
    for (int change : {0x00, 0xff, bytes[i] ^ 1}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(change);
      auto tensor = readTensorFile(file(name, changed), expected);
      EXPECT_TRUE(tensor || !tensor.error().message().empty());
    }
}

TensorType dense(ElementType element, std::vector<int64_t> shape) { return {element, std::move(shape), std::nullopt}; }

HostTensor tensorOf(const TensorType &type, const std::vector<double> &elements) {
  auto tensor = HostTensor::allocate(type);
  EXPECT_TRUE(tensor) << tensor.error().text();
  for (size_t i = 0; i != elements.size(); ++i)
    storeElement(type.element, tensor->bytes().data() + i * elementBytes(type.element), elements[i]);
  return *tensor;
}

std::string little(uint64_t value, unsigned bytes) {
  std::string result;
  for (unsigned i = 0; i != bytes; ++i)
    result += static_cast<char>(value >> 8 * i);
  return result;
}

std::string big(uint64_t value, unsigned bytes) {
  std::string result = little(value, bytes);
  return {result.rbegin(), result.rend()};
}

std::string floats(const std::vector<float> &values) {
  std::string result;
  for (float value : values)
    result += little(std::bit_cast<uint32_t>(value), 4);
  return result;
}

std::string npy(unsigned version, const std::string &header, const std::string &data) {
  std::string result = "\x93NUMPY";
  result += little(version, 2);
  return result + little(header.size(), version == 1 ? 2 : 4) + header + data;
}

} // namespace cleave::runtime::test
