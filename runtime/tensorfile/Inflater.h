// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decompression in pieces: memory grows with what really comes out, not with what a file claims.

#ifndef CLEAVE_RUNTIME_TENSORFILE_INFLATER_H
#define CLEAVE_RUNTIME_TENSORFILE_INFLATER_H

#include "runtime/tensorfile/ByteCursor.h"

#include <memory>
#include <vector>

namespace cleave::runtime::tensorfile {

/// A deflate or gzip stream (also several gzip members in a row) over bytes in memory.
class Inflater {
public:
  enum Kind { Deflate, Gzip };
  /// `origin`: where the stream begins in the file, for messages.
  Inflater(Bytes compressed, Kind kind, uint64_t origin = 0);
  ~Inflater();

  /// The next `count` bytes. Fails when the stream is corrupt or ends before, and at once when no stream of this length
  /// could hold so many.
  Expected<std::vector<std::byte>> read(uint64_t count);
  /// Fails unless the stream ends here and nothing follows it.
  Error expectEnd();

private:
  Expected<size_t> inflateInto(std::span<std::byte> target);
  uint64_t position() const;

  struct Stream;
  std::unique_ptr<Stream> stream;
};

} // namespace cleave::runtime::tensorfile

#endif // CLEAVE_RUNTIME_TENSORFILE_INFLATER_H
