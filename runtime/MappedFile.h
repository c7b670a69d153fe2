// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A whole file in memory, read-only.

#ifndef CLEAVE_RUNTIME_MAPPEDFILE_H
#define CLEAVE_RUNTIME_MAPPEDFILE_H

#include "runtime/Error.h"

#include <cstddef>
#include <filesystem>
#include <span>

namespace cleave::runtime {

/// A read-only mapping of a regular file.
class MappedFile {
public:
  /// Status::Failure when the file cannot be opened or mapped, or is not a regular file.
  static Expected<MappedFile> open(const std::filesystem::path &path);
  MappedFile(MappedFile &&other) noexcept : mapping(std::exchange(other.mapping, {})) {}
  MappedFile &operator=(MappedFile &&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return mapping; }

private:
  explicit MappedFile(std::span<const std::byte> mapping) : mapping(mapping) {}
  std::span<const std::byte> mapping;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_MAPPEDFILE_H
