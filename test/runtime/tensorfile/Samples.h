// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files made of bytes written by hand, and what every reader must do with damaged ones.

#ifndef CLEAVE_TEST_RUNTIME_TENSORFILE_SAMPLES_H
#define CLEAVE_TEST_RUNTIME_TENSORFILE_SAMPLES_H

#include "runtime/tensorfile/TensorFile.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace cleave::runtime::test {

/// A folder of its own for each test, removed at the end.
class TensorFileFixture : public testing::Test {
protected:
  TensorFileFixture();
  ~TensorFileFixture() override;

  std::string path(const std::string &name) const { return (folder / name).string(); }
  /// Writes the bytes and returns the path.
  std::string file(const std::string &name, const std::string &bytes) const;
  std::string contents(const std::string &name) const;

  /// Reading the file succeeds with that type and those elements.
  void expectTensor(const std::string &path, const TensorType &type, const std::vector<double> &elements,
                    const TensorType *expected = nullptr) const;
  /// Reading fails with the status and a message that names the file and has `text` in it.
  void expectFailure(const std::string &path, Status status, const std::string &text,
                     const TensorType *expected = nullptr) const;
  /// Every shorter file is refused with a position; every file with one byte changed is read or refused.
  void expectRobust(const std::string &name, const std::string &bytes, const TensorType *expected = nullptr) const;

  std::filesystem::path folder;
};

TensorType dense(ElementType element, std::vector<int64_t> shape);
/// A tensor with elements of these values.
HostTensor tensorOf(const TensorType &type, const std::vector<double> &elements);
/// Little-endian or big-endian bytes of a number.
std::string little(uint64_t value, unsigned bytes);
std::string big(uint64_t value, unsigned bytes);
/// The bits of float32 numbers, little-endian.
std::string floats(const std::vector<float> &values);
/// NumPy's format by its specification: magic, version, header length, header, data.
std::string npy(unsigned version, const std::string &header, const std::string &data);

} // namespace cleave::runtime::test

#endif // CLEAVE_TEST_RUNTIME_TENSORFILE_SAMPLES_H
