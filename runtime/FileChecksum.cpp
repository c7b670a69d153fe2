// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Eight multiplications that do not wait for each other.

#include "runtime/FileChecksum.h"

#include "runtime/Plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace cleave::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they are");

constexpr size_t numLanes = 8, blockBytes = numLanes * sizeof(uint64_t);
constexpr size_t numSamples = 16, sampleBytes = 4096;

class LaneHash {
public:
  LaneHash() {
    for (size_t i = 0; i != numLanes; ++i)
      lanes[i] = i;
  }

  /// A multiple of 64 bytes, except at the end.
  void add(std::span<const std::byte> bytes) {
    for (; bytes.size() >= blockBytes; bytes = bytes.subspan(blockBytes))
      addBlock(bytes.data());
    if (bytes.empty())
      return;
    std::array<std::byte, blockBytes> last = {};
    std::ranges::copy(bytes, last.begin());
    addBlock(last.data());
  }

  /// Of so many bytes, all of them or samples.
  uint64_t value(size_t total) const {
    std::array<uint64_t, numLanes + 1> all;
    std::ranges::copy(lanes, all.begin());
    all.back() = total;
    return std::max<uint64_t>(checksum(std::as_bytes(std::span(all))), 1);
  }

private:
  void addBlock(const std::byte *bytes) {
    for (size_t i = 0; i != numLanes; ++i) {
      uint64_t word;
      std::memcpy(&word, bytes + i * sizeof word, sizeof word);
      uint64_t mixed = (lanes[i] ^ word) * 0x100000001b3;
      lanes[i] = mixed ^ (mixed >> 32);
    }
  }

  std::array<uint64_t, numLanes> lanes;
};

} // namespace

FileChecksum wholeChecksum(std::span<const std::byte> bytes) {
  LaneHash hash;
  hash.add(bytes);
  return {hash.value(bytes.size()), false};
}

FileChecksum sampledChecksum(std::span<const std::byte> bytes) {
  LaneHash hash;
  if (bytes.size() <= numSamples * sampleBytes) {
    hash.add(bytes);
    return {hash.value(bytes.size()), true};
  }
  // The product stays far below 2^64 for any file.
  size_t last = bytes.size() - sampleBytes;
  for (size_t i = 0; i != numSamples; ++i)
    hash.add(bytes.subspan(last * i / (numSamples - 1), sampleBytes));
  return {hash.value(bytes.size()), true};
}

} // namespace cleave::runtime
