// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which format a file has, and what all formats share: types checked against the bytes at hand, elements copied.

#include "runtime/tensorfile/TensorFile.h"

#include "runtime/MappedFile.h"
#include "runtime/tensorfile/Formats.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cleave::runtime {

using namespace tensorfile;

static_assert(std::endian::native == std::endian::little, "files are little-endian and copied as they are");

/// A tensor of more dimensions than this is a malformed file.
static constexpr size_t largestRank = 64;

Expected<TensorType> tensorfile::typeOfBytes(ElementType element, std::vector<int64_t> shape, uint64_t available,
                                             uint64_t position) {
  if (shape.size() > largestRank)
    return malformed(position, "expected at most ", largestRank, " dimensions, got ", shape.size());
  TensorType type{element, std::move(shape), std::nullopt};
  if (Error error = type.check())
    return malformed(position, error.message());
  if (*type.byteSize() != available)
    return malformed(position, "expected ", *type.byteSize(), " bytes of elements for ", type.text(), ", got ",
                     available);
  return type;
}

void tensorfile::copySwapped(std::byte *target, Bytes source, unsigned size) {
  for (size_t i = 0; i < source.size(); i += size)
    std::reverse_copy(source.begin() + i, source.begin() + i + size, target + i);
}

Expected<HostTensor> tensorfile::tensorOfBytes(TensorType type, Bytes data, bool swapped) {
  ElementType element = type.element;
  auto tensor = HostTensor::allocate(std::move(type));
  if (!tensor)
    return tensor;
  std::span<std::byte> target = tensor->bytes();
  assert(target.size() == data.size() && "the type was made for these bytes");
  if (swapped)
    copySwapped(target.data(), data, elementBytes(element));
  else if (!data.empty())
    std::memcpy(target.data(), data.data(), data.size());
  if (element == ElementType::I1)
    for (std::byte &value : target)
      value = std::byte(value != std::byte(0));
  return tensor;
}

namespace {

enum class Format { Npy, Npz, Proto, Idx, IdxGzip, Raw, Unknown };

bool endsWith(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return text.ends_with(ending); });
}

Format formatNamed(std::string_view path) {
  if (path.ends_with(".npy"))
    return Format::Npy;
  if (path.ends_with(".npz"))
    return Format::Npz;
  if (path.ends_with(".pb"))
    return Format::Proto;
  if (path.ends_with(".gz"))
    return Format::IdxGzip;
  if (endsWith(path, {".idx", "-ubyte", ".ubyte"}))
    return Format::Idx;
  return endsWith(path, {".raw", ".bin"}) ? Format::Raw : Format::Unknown;
}

/// What a file without a telling name begins with.
Format formatOf(Bytes file, bool typeKnown) {
  auto begins = [&](std::string_view magic) {
    return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("\x93NUMPY"))
    return Format::Npy;
  if (begins("PK\x03\x04"))
    return Format::Npz;
  if (begins("\x1f\x8b"))
    return Format::IdxGzip;
  return typeKnown ? Format::Raw : Format::Unknown;
}

/// "file.npz:name" as file and member; other paths whole.
std::pair<std::string, std::string> splitMember(const std::string &path) {
  size_t found = path.rfind(".npz:");
  if (found == std::string::npos)
    return {path, ""};
  return {path.substr(0, found + 4), path.substr(found + 5)};
}

Expected<HostTensor> readRaw(Bytes file, const TensorType *expected) {
  if (!expected)
    return makeError(Status::Failure, "a raw file expects a type from elsewhere; use .npy or .pb where there is none");
  auto type = typeOfBytes(expected->element, expected->shape, file.size(), 0);
  return type ? tensorOfBytes(std::move(*type), file) : Expected<HostTensor>(type.error());
}

Expected<HostTensor> readFormat(Format format, Bytes file, const std::string &member, const TensorType *expected) {
  switch (format) {
  case Format::Npy:
    return readNpy(file, expected);
  case Format::Npz:
    return readNpz(file, member, expected);
  case Format::Proto:
    return readTensorProto(file, expected);
  case Format::Idx:
    return readIdx(file);
  case Format::IdxGzip:
    return readIdxGzip(file);
  case Format::Raw:
    return readRaw(file, expected);
  case Format::Unknown:
    break;
  }
  return makeError(Status::Failure, "expected a tensor file: .npy, .npz, .pb, .idx, .idx.gz, .raw or .bin");
}

Error inFile(const Error &error, const std::string &path) {
  return Error(error.status(), "tensor file \"" + path + "\": " + error.message(), error.node());
}

Error writeFormat(FileWriter &out, Format format, Bytes previous, const std::string &member, const HostTensor &tensor) {
  switch (format) {
  case Format::Npy:
    out.write(npyHeader(tensor.type()));
    break;
  case Format::Proto:
    out.write(tensorProtoHeader(tensor.type()));
    break;
  case Format::Npz:
    return writeNpz(out, previous, member.empty() ? "arr_0" : member, tensor);
  case Format::Idx:
    return writeIdx(out, tensor);
  case Format::Raw:
    break;
  case Format::IdxGzip:
  case Format::Unknown:
    return makeError(Status::Failure, "expected an ending that can be written: .npy, .npz, .pb, .idx, .raw or .bin");
  }
  out.write(tensor.bytes());
  return Error::success();
}

} // namespace

Expected<HostTensor> readTensorFile(const std::string &path, const TensorType *expected) {
  auto [name, member] = splitMember(path);
  auto file = MappedFile::open(name);
  if (!file)
    return file.error();
  Format format = formatNamed(name);
  if (format == Format::Unknown)
    format = formatOf(file->bytes(), expected != nullptr);
  auto tensor = readFormat(format, file->bytes(), member, expected);
  if (!tensor)
    return inFile(tensor.error(), path);
  const TensorType &type = tensor->type();
  if (expected && (type.element != expected->element || type.shape != expected->shape))
    return inFile(makeError(Status::Failure, "expected ",
                            TensorType{expected->element, expected->shape, std::nullopt}.text(), ", got ", type.text()),
                  path);
  return tensor;
}

bool namesTensorFile(const std::string &path) {
  Format format = formatNamed(fileOfTensor(path));
  return format != Format::IdxGzip && format != Format::Unknown;
}

std::string fileOfTensor(const std::string &path) { return splitMember(path).first; }

Error writeTensorFile(const std::string &path, const HostTensor &tensor) {
  auto [name, member] = splitMember(path);
  Format format = formatNamed(name);
  std::optional<MappedFile> previous;
  if (format == Format::Npz)
    if (auto file = MappedFile::open(name))
      previous.emplace(std::move(*file));
  auto out = FileWriter::create(name);
  if (!out)
    return out.error();
  if (Error error = writeFormat(*out, format, previous ? previous->bytes() : Bytes(), member, tensor))
    return inFile(error, path);
  return out->commit();
}

bool namesTensorArchive(const std::string &path) { return formatNamed(path) == Format::Npz; }

Expected<std::vector<ArchiveMember>> readTensorArchive(const std::string &path) {
  if (!namesTensorArchive(path))
    return inFile(makeError(Status::Usage, "expected an archive, whose name ends in .npz"), path);
  auto file = MappedFile::open(path);
  if (!file)
    return file.error();
  auto members = readNpz(file->bytes());
  return members ? std::move(members) : inFile(members.error(), path);
}

Error writeTensorArchive(const std::string &path, std::span<const ArchiveMember> members) {
  if (!namesTensorArchive(path))
    return inFile(makeError(Status::Usage, "expected an archive, whose name ends in .npz"), path);
  auto out = FileWriter::create(path);
  if (!out)
    return out.error();
  if (Error error = writeNpz(*out, members))
    return inFile(error, path);
  return out->commit();
}

} // namespace cleave::runtime
