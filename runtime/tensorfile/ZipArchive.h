// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The members of a ZIP archive, as far as NumPy's archives need them: stored or deflated, with the 64-bit extension
// when read.

#ifndef CLEAVE_RUNTIME_TENSORFILE_ZIPARCHIVE_H
#define CLEAVE_RUNTIME_TENSORFILE_ZIPARCHIVE_H

#include "runtime/FileWriter.h"
#include "runtime/tensorfile/ByteCursor.h"

#include <vector>

namespace cleave::runtime::tensorfile {

/// A member as the central directory tells of it.
struct ZipMember {
  static constexpr uint16_t Stored = 0, Deflated = 8;

  std::string name;
  uint16_t flags = 0, method = Stored;
  /// Of the bytes before compression.
  uint32_t crc = 0;
  /// Bytes in the file and before compression, and where the member's own header is.
  uint64_t compressed = 0, size = 0, header = 0;
};

Expected<std::vector<ZipMember>> readZipDirectory(Bytes file);
/// The member's bytes as they lie in the file, and their position.
Expected<std::pair<Bytes, uint64_t>> zipMemberBytes(Bytes file, const ZipMember &member);

/// Writes a member's header, to be followed by its bytes, and notes where it stands. Sizes are below 2^32.
void writeZipHeader(FileWriter &out, ZipMember &member);
/// Ends an archive.
void writeZipDirectory(FileWriter &out, const std::vector<ZipMember> &members);

} // namespace cleave::runtime::tensorfile

#endif // CLEAVE_RUNTIME_TENSORFILE_ZIPARCHIVE_H
