// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checksums of parameters in files, which are large: several GB a second on one core.

#ifndef CLEAVE_RUNTIME_FILECHECKSUM_H
#define CLEAVE_RUNTIME_FILECHECKSUM_H

#include <cstddef>
#include <cstdint>
#include <span>

namespace cleave::runtime {

/// Of all bytes, or of samples of them. 0 is none: nobody knows it.
struct FileChecksum {
  uint64_t value = 0;
  bool sampled = false;

  bool operator==(const FileChecksum &) const = default;
};

/// Never 0. Finds accidents, not attackers: who can write the weights can write the plan.
///
/// The bytes, filled up with zeros to a multiple of 64, are words of 8 bytes, little-endian, that eight lanes take in
/// turn. A lane begins as its number, and takes a word by x = (x ^ word) * p; x = x ^ (x >> 32), with the prime p of
/// FNV-1a. The checksum is the FNV-1a hash of the lanes and of the number of bytes in all.
FileChecksum wholeChecksum(std::span<const std::byte> bytes);

/// The same of 16 pieces of 4096 bytes at equal distances, the first and the last among them, and of all bytes where
/// there are no more: tells another training's weights for little reading, not every damage.
FileChecksum sampledChecksum(std::span<const std::byte> bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_FILECHECKSUM_H
