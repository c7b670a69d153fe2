// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text that says what is in a checkpoint, a line each: a word, and what it means.

#ifndef CLEAVE_RUNTIME_TRAINING_MANIFEST_H
#define CLEAVE_RUNTIME_TRAINING_MANIFEST_H

#include "runtime/training/Checkpoint.h"

#include <string_view>

namespace cleave::runtime {

/// The 64-bit FNV-1a hash, part by part.
class Fnv1a {
public:
  void add(std::span<const std::byte> bytes) {
    for (std::byte byte : bytes)
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  }
  uint64_t value() const { return hash; }

private:
  uint64_t hash = 0xcbf29ce484222325;
};

struct Manifest {
  struct Tensor {
    std::string name;
    TensorType type;
    uint64_t offset = 0;
  };

  TrainPosition position;
  std::vector<Tensor> tensors;
  uint64_t tensorBytes = 0, tensorChecksum = 0;

  std::string text() const;
  /// The opposite. Status::Rejected, with the line, for a text that text() does not write.
  static Expected<Manifest> parse(std::string_view text);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_MANIFEST_H
