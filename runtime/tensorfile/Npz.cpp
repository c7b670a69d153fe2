// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy archives: ZIP files whose members are .npy files.

#include "runtime/tensorfile/Formats.h"
#include "runtime/tensorfile/Inflater.h"
#include "runtime/tensorfile/ZipArchive.h"

#include <algorithm>
#include <zlib.h>

namespace cleave::runtime::tensorfile {

namespace {

uint32_t checksum(Bytes bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

Expected<HostTensor> readMember(Bytes file, const ZipMember &member, const TensorType *expected) {
  if ((member.flags & 1) != 0 || (member.method != ZipMember::Stored && member.method != ZipMember::Deflated))
    return makeError(Status::Unsupported, "member \"", member.name, "\" expects to be stored or deflated, got method ",
                     member.method, (member.flags & 1) != 0 ? ", encrypted" : "");
  auto bytes = zipMemberBytes(file, member);
  if (!bytes)
    return bytes.error();
  auto [data, position] = *bytes;
  std::vector<std::byte> inflated;
  if (member.method == ZipMember::Deflated) {
    Inflater inflater(data, Inflater::Deflate, position);
    auto result = inflater.read(member.size);
    if (!result)
      return result.error();
    if (Error error = inflater.expectEnd())
      return error;
    data = inflated = std::move(*result);
    position = 0; // messages count in the member
  }
  if (data.size() != member.size || checksum(data) != member.crc)
    return malformed(position, "member \"", member.name, "\" is damaged: ",
                     data.size() != member.size ? "its sizes contradict each other" : "its checksum is wrong");
  auto tensor = readNpy(data, expected, position);
  if (!tensor)
    return makeError(tensor.error().status(), "member \"", member.name, "\": ", tensor.error().message());
  return tensor;
}

/// Writes a member behind those that are there.
Error addMember(FileWriter &out, std::string_view name, const HostTensor &tensor, std::vector<ZipMember> &members) {
  std::string header = npyHeader(tensor.type());
  ZipMember added;
  added.name = std::string(name) + ".npy";
  added.flags = 0x800;
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef *>(header.data()), header.size());
  if (!tensor.bytes().empty())
    crc = crc32_z(crc, reinterpret_cast<const Bytef *>(tensor.bytes().data()), tensor.bytes().size());
  added.crc = static_cast<uint32_t>(crc);
  added.compressed = added.size = header.size() + tensor.bytes().size();
  if (out.position() + added.size > 0xf0000000 || members.size() > 0xfff0 || added.name.size() > 0xffff)
    return makeError(Status::Unsupported, "an archive written here expects less than 4 GB, got ",
                     out.position() + added.size, " bytes; write a .npy file");
  writeZipHeader(out, added);
  out.write(header);
  out.write(tensor.bytes());
  members.push_back(std::move(added));
  return Error::success();
}

bool isNamed(const ZipMember &member, std::string_view name) {
  return member.name == name || member.name == std::string(name) + ".npy";
}

} // namespace

Expected<HostTensor> readNpz(Bytes file, std::string_view name, const TensorType *expected) {
  auto members = readZipDirectory(file);
  if (!members)
    return members.error();
  const ZipMember *found = name.empty() && members->size() == 1 ? &members->front() : nullptr;
  std::string known;
  for (const ZipMember &member : *members) {
    if (!name.empty() && isNamed(member, name))
      found = &member;
    if (known.size() < 500)
      known += (known.empty() ? "" : ", ") + member.name.substr(0, 100);
  }
  if (!found && name.empty())
    return makeError(Status::Failure, "expected one member, got ", members->size(), " (", known,
                     "); name one as in \"file.npz:name\"");
  if (!found)
    return makeError(Status::Failure, "expected a member \"", name, "\", got ", members->size(), " members (", known,
                     ")");
  return readMember(file, *found, expected);
}

Expected<std::vector<ArchiveMember>> readNpz(Bytes file) {
  auto members = readZipDirectory(file);
  if (!members)
    return members.error();
  std::vector<ArchiveMember> tensors;
  for (const ZipMember &member : *members) {
    auto tensor = readMember(file, member, nullptr);
    if (!tensor)
      return makeError(tensor.error().status(), "member \"", member.name, "\": ", tensor.error().message());
    std::string name = member.name;
    if (name.ends_with(".npy"))
      name.resize(name.size() - 4);
    tensors.push_back({std::move(name), std::move(*tensor)});
  }
  return tensors;
}

Error writeNpz(FileWriter &out, Bytes previous, std::string_view name, const HostTensor &tensor) {
  std::vector<ZipMember> members;
  if (!previous.empty()) {
    auto old = readZipDirectory(previous);
    if (!old)
      return old.error();
    for (ZipMember &member : *old)
      if (!isNamed(member, name))
        members.push_back(std::move(member));
  }
  for (ZipMember &member : members) {
    auto bytes = zipMemberBytes(previous, member);
    if (!bytes)
      return bytes.error();
    if (member.size > UINT32_MAX || member.compressed > UINT32_MAX)
      return makeError(Status::Unsupported, "member \"", member.name,
                       "\" is larger than 4 GB and cannot be kept in an archive written here; write a .npy file");
    writeZipHeader(out, member);
    out.write(bytes->first);
  }
  if (Error error = addMember(out, name, tensor, members))
    return error;
  writeZipDirectory(out, members);
  return Error::success();
}

Error writeNpz(FileWriter &out, std::span<const ArchiveMember> list) {
  std::vector<ZipMember> members;
  for (const ArchiveMember &member : list)
    if (Error error = addMember(out, member.name, member.tensor, members))
      return error;
  writeZipDirectory(out, members);
  return Error::success();
}

} // namespace cleave::runtime::tensorfile
