// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading a file's bytes front to back, never past the end, with errors that say where.

#ifndef CLEAVE_RUNTIME_TENSORFILE_BYTECURSOR_H
#define CLEAVE_RUNTIME_TENSORFILE_BYTECURSOR_H

#include "runtime/Error.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cleave::runtime::tensorfile {

using Bytes = std::span<const std::byte>;

/// A malformed file: "at byte 12: ...".
template <typename... Parts> Error malformed(uint64_t position, const Parts &...parts) {
  return makeError(Status::Rejected, "at byte ", position, ": ", parts...);
}

class ByteCursor {
public:
  /// `origin` is the position of the first byte in the file, for messages.
  explicit ByteCursor(Bytes bytes, uint64_t origin = 0) : bytes(bytes), origin(origin) {}

  /// In the file, for messages.
  uint64_t position() const { return origin + offset; }
  uint64_t remaining() const { return bytes.size() - offset; }

  /// The next `count` bytes. `what` names them in the error when there are fewer.
  Expected<Bytes> take(uint64_t count, const char *what) {
    if (count > remaining())
      return malformed(position(), "expected ", count, " bytes of ", what, ", the file ends after ", remaining());
    Bytes result = bytes.subspan(offset, count);
    offset += count;
    return result;
  }

  /// An unsigned number of `sizeof(T)` bytes.
  template <std::unsigned_integral T> Expected<T> little(const char *what) { return number<T>(what, false); }
  template <std::unsigned_integral T> Expected<T> big(const char *what) { return number<T>(what, true); }

private:
  template <std::unsigned_integral T> Expected<T> number(const char *what, bool bigEndian) {
    auto taken = take(sizeof(T), what);
    if (!taken)
      return taken.error();
    uint64_t value = 0;
    for (size_t i = 0; i != sizeof(T); ++i)
      value = value << 8 | std::to_integer<uint64_t>((*taken)[bigEndian ? i : sizeof(T) - 1 - i]);
    return static_cast<T>(value);
  }

  Bytes bytes;
  uint64_t origin;
  size_t offset = 0;
};

} // namespace cleave::runtime::tensorfile

#endif // CLEAVE_RUNTIME_TENSORFILE_BYTECURSOR_H
