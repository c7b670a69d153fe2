// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor files of every format: the first byte chooses which.

#include "runtime/tensorfile/TensorFile.h"

#include <array>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace cleave::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static constexpr std::array<const char *, 6> endings = {".npy", ".npz", ".idx", ".pb", ".idx.gz", ".raw"};
  if (size == 0)
    return 0;
  std::string path = "fuzzed-tensor-" + std::to_string(getpid()) + endings[data[0] % endings.size()];
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(data + 1), static_cast<std::streamsize>(size - 1));
  (void)readTensorFile(path);
  TensorType expected{ElementType::F32, {2, 3}, std::nullopt};
  (void)readTensorFile(path, &expected);
  unlink(path.c_str());
  return 0;
}
