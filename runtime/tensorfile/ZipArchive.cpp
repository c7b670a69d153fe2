// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ZIP format: an end record tells where the central directory is, which tells where the members are.

#include "runtime/tensorfile/ZipArchive.h"

#include <algorithm>

namespace cleave::runtime::tensorfile {

namespace {

constexpr uint32_t localSignature = 0x04034b50, entrySignature = 0x02014b50, endSignature = 0x06054b50,
                   end64Signature = 0x06064b50, locator64Signature = 0x07064b50;

/// Where the central directory is and how many entries it has.
struct Directory {
  uint64_t entries = 0, bytes = 0, offset = 0;
};

/// Little-endian numbers one after the other. The first failure stays; later reads give 0.
class Fields {
public:
  explicit Fields(ByteCursor &cursor) : cursor(cursor) {}
  template <typename T> T next() {
    if (failure)
      return 0;
    auto value = cursor.little<T>("the archive's directory");
    if (!value)
      failure = value.error();
    return value ? *value : 0;
  }
  std::string text(uint64_t length) {
    auto bytes = failure ? Expected<Bytes>(failure) : cursor.take(length, "a member's name");
    if (!bytes) {
      failure = bytes.error();
      return "";
    }
    return {reinterpret_cast<const char *>(bytes->data()), bytes->size()};
  }
  const Error &error() const { return failure; }

private:
  ByteCursor &cursor;
  Error failure;
};

uint32_t signatureAt(Bytes file, uint64_t offset) {
  ByteCursor cursor(file.subspan(offset, std::min<uint64_t>(4, file.size() - offset)), offset);
  auto value = cursor.little<uint32_t>("");
  return value ? *value : 0;
}

/// The 64-bit end record, whose place a locator just before the end record tells.
Expected<Directory> findDirectory64(Bytes file, uint64_t end) {
  if (end < 20 || signatureAt(file, end - 20) != locator64Signature)
    return malformed(end, "expected a 64-bit directory locator before the archive's end record");
  ByteCursor locator(file.subspan(end - 12), end - 12);
  auto offset = locator.little<uint64_t>("directory locator");
  if (!offset || *offset > end || signatureAt(file, *offset) != end64Signature)
    return malformed(end - 12, "expected the position of the 64-bit end record");
  ByteCursor cursor(file.subspan(*offset), *offset);
  Fields fields(cursor);
  fields.text(32);
  Directory directory;
  directory.entries = fields.next<uint64_t>();
  directory.bytes = fields.next<uint64_t>();
  directory.offset = fields.next<uint64_t>();
  if (fields.error())
    return fields.error();
  return directory;
}

Expected<Directory> findDirectory(Bytes file) {
  constexpr uint64_t recordBytes = 22, largestComment = 0xffff;
  for (uint64_t back = recordBytes; back <= std::min<uint64_t>(file.size(), recordBytes + largestComment); ++back) {
    uint64_t end = file.size() - back;
    if (signatureAt(file, end) != endSignature)
      continue;
    ByteCursor cursor(file.subspan(end), end);
    Fields fields(cursor);
    fields.text(10);
    Directory directory;
    directory.entries = fields.next<uint16_t>();
    directory.bytes = fields.next<uint32_t>();
    directory.offset = fields.next<uint32_t>();
    if (fields.next<uint16_t>() != back - recordBytes)
      continue; // these bytes are part of a comment
    if (directory.entries == 0xffff || directory.bytes == 0xffffffff || directory.offset == 0xffffffff)
      return findDirectory64(file, end);
    return directory;
  }
  return malformed(file.size(), "expected the end record of a ZIP archive; is the file cut off?");
}

/// Replaces the sizes that are all ones by those of the 64-bit extra field.
Error readExtra(ZipMember &member, const std::string &extra, uint64_t position) {
  ByteCursor cursor(std::as_bytes(std::span(extra)), position);
  while (cursor.remaining() >= 4) {
    Fields fields(cursor);
    auto kind = fields.next<uint16_t>();
    auto length = fields.next<uint16_t>();
    if (kind != 1) {
      fields.text(length);
    } else {
      uint64_t before = cursor.remaining();
      for (uint64_t *value : {&member.size, &member.compressed, &member.header})
        if (*value == 0xffffffff)
          *value = fields.next<uint64_t>();
      if (uint64_t used = before - cursor.remaining(); !fields.error() && used < length)
        fields.text(length - used);
    }
    if (fields.error())
      return fields.error();
  }
  return Error::success();
}

} // namespace

Expected<std::vector<ZipMember>> readZipDirectory(Bytes file) {
  auto directory = findDirectory(file);
  if (!directory)
    return directory.error();
  if (directory->offset > file.size() || directory->bytes > file.size() - directory->offset)
    return malformed(file.size(), "expected the archive's directory of ", directory->bytes, " bytes at ",
                     directory->offset, ", inside the file");
  ByteCursor cursor(file.subspan(directory->offset, directory->bytes), directory->offset);
  std::vector<ZipMember> members;
  for (uint64_t i = 0; i != directory->entries; ++i) {
    uint64_t start = cursor.position();
    Fields fields(cursor);
    ZipMember member;
    if (fields.next<uint32_t>() != entrySignature)
      return malformed(start, "expected entry ", i, " of ", directory->entries, " in the archive's directory");
    fields.text(4);
    member.flags = fields.next<uint16_t>();
    member.method = fields.next<uint16_t>();
    fields.text(4);
    member.crc = fields.next<uint32_t>();
    member.compressed = fields.next<uint32_t>();
    member.size = fields.next<uint32_t>();
    auto nameLength = fields.next<uint16_t>(), extraLength = fields.next<uint16_t>(),
         commentLength = fields.next<uint16_t>();
    fields.text(8);
    member.header = fields.next<uint32_t>();
    member.name = fields.text(nameLength);
    uint64_t extraPosition = cursor.position();
    std::string extra = fields.text(extraLength);
    fields.text(commentLength);
    if (fields.error())
      return fields.error();
    if (Error error = readExtra(member, extra, extraPosition))
      return error;
    members.push_back(std::move(member));
  }
  return members;
}

Expected<std::pair<Bytes, uint64_t>> zipMemberBytes(Bytes file, const ZipMember &member) {
  if (member.header > file.size())
    return malformed(file.size(), "expected the header of member \"", member.name, "\" at ", member.header,
                     ", inside the file");
  ByteCursor cursor(file.subspan(member.header), member.header);
  Fields fields(cursor);
  if (fields.next<uint32_t>() != localSignature)
    return malformed(member.header, "expected the header of member \"", member.name, '"');
  fields.text(22);
  auto nameLength = fields.next<uint16_t>(), extraLength = fields.next<uint16_t>();
  fields.text(uint64_t(nameLength) + extraLength);
  if (fields.error())
    return fields.error();
  uint64_t position = cursor.position();
  auto bytes = cursor.take(member.compressed, "an archive member");
  if (!bytes)
    return bytes.error();
  return std::pair(*bytes, position);
}

namespace {

template <typename T> void append(std::string &out, T value) {
  for (unsigned i = 0; i != sizeof(T); ++i)
    out += static_cast<char>(value >> 8 * i);
}

/// The fields that a member's own header and its directory entry share, from the version on. Dates are 1980-01-01, so
/// that equal contents make equal files.
std::string sharedHeader(const ZipMember &member) {
  std::string out;
  append<uint16_t>(out, 20);
  append<uint16_t>(out, member.flags & 0x800); // the name is UTF-8; sizes stand in the header
  append<uint16_t>(out, member.method);
  append<uint16_t>(out, 0);
  append<uint16_t>(out, 0x21);
  append<uint32_t>(out, member.crc);
  append<uint32_t>(out, member.compressed);
  append<uint32_t>(out, member.size);
  append<uint16_t>(out, member.name.size());
  append<uint16_t>(out, 0);
  return out;
}

} // namespace

void writeZipHeader(FileWriter &out, ZipMember &member) {
  member.header = out.position();
  std::string header;
  append(header, localSignature);
  out.write(header + sharedHeader(member) + member.name);
}

void writeZipDirectory(FileWriter &out, const std::vector<ZipMember> &members) {
  std::string directory;
  for (const ZipMember &member : members) {
    append(directory, entrySignature);
    append<uint16_t>(directory, 20);
    directory += sharedHeader(member);
    directory.append(10, '\0');
    append<uint32_t>(directory, member.header);
    directory += member.name;
  }
  std::string end;
  append(end, endSignature);
  append<uint32_t>(end, 0);
  append<uint16_t>(end, members.size());
  append<uint16_t>(end, members.size());
  append<uint32_t>(end, directory.size());
  append<uint32_t>(end, out.position());
  append<uint16_t>(end, 0);
  out.write(directory + end);
}

} // namespace cleave::runtime::tensorfile
