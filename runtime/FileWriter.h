// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file that appears under its name only when it is complete.

#ifndef CLEAVE_RUNTIME_FILEWRITER_H
#define CLEAVE_RUNTIME_FILEWRITER_H

#include "runtime/Error.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace cleave::runtime {

/// Writes beside `path` and renames at the end; what is not committed is removed.
class FileWriter {
public:
  static Expected<FileWriter> create(const std::string &path);
  FileWriter(FileWriter &&other) noexcept;
  FileWriter &operator=(FileWriter &&) = delete;
  ~FileWriter();

  /// Errors stay and are reported by commit().
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Bytes written so far.
  uint64_t position() const { return written; }
  /// Closes and renames.
  Error commit();

private:
  FileWriter(std::string path, std::string temporary, std::FILE *file)
      : path(std::move(path)), temporary(std::move(temporary)), file(file) {}

  std::string path, temporary;
  std::FILE *file;
  uint64_t written = 0;
  int failure = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_FILEWRITER_H
