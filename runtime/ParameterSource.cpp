// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// File parameters from a folder or from memory, with every range checked against the file's real size.

#include "runtime/ParameterSource.h"

#include "runtime/MappedFile.h"

#include <algorithm>

namespace cleave::runtime {

static Expected<std::span<const std::byte>> slice(std::span<const std::byte> file, const FileSource &source) {
  if (source.offset > file.size() || source.bytes > file.size() - source.offset)
    return makeError(Status::Rejected, "parameter file \"", source.file, "\" expects ", source.bytes,
                     " bytes at offset ", source.offset, ", got a file of ", file.size(), " bytes");
  return file.subspan(source.offset, source.bytes);
}

struct FolderSource::File {
  MappedFile mapping;
};

struct FolderSource::Check {
  std::once_flag once;
  Error error;
};

FolderSource::FolderSource(std::filesystem::path folder)
    : folder(folder.empty() ? std::filesystem::path(".") : std::move(folder)) {}

FolderSource::~FolderSource() = default;

Expected<std::span<const std::byte>> FolderSource::bytes(const FileSource &source) {
  auto file = mapped(source.file);
  if (!file)
    return file.error();
  auto found = slice(*file, source);
  if (found && source.checksum.value != 0)
    if (Error error = check(source, *found))
      return error;
  return found;
}

Error FolderSource::check(const FileSource &source, std::span<const std::byte> bytes) {
  Check *entry = nullptr;
  {
    std::lock_guard lock(mutex);
    auto &known = checks[{source.file, source.offset, source.bytes}];
    if (!known)
      known = std::make_unique<Check>();
    entry = known.get();
  }
  std::call_once(entry->once, [&] {
    FileChecksum got = source.checksum.sampled ? sampledChecksum(bytes) : wholeChecksum(bytes);
    if (got != source.checksum)
      entry->error =
          makeError(Status::Rejected, "parameter file \"", source.file,
                    "\" expects the bytes with which the plan was compiled, got others in the ", source.bytes,
                    " at offset ", source.offset, "; it is damaged or another model's: compile the model again");
  });
  return entry->error;
}

/// The real path of `file` below `folder`.
static Expected<std::filesystem::path> resolve(const std::filesystem::path &folder, const std::string &file) {
  std::filesystem::path relative(file);
  if (file.find('\0') != std::string::npos || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end())
    return makeError(Status::Rejected, "parameter file \"", file,
                     "\" expects a path below the plan's folder, without \"..\"");
  std::error_code code;
  std::filesystem::path home = std::filesystem::canonical(folder, code);
  std::filesystem::path real = code ? home : std::filesystem::canonical(home / relative, code);
  if (code)
    return makeError(Status::Failure, "parameter file \"", file, "\" in ", folder, ": ", code.message());
  if (std::mismatch(home.begin(), home.end(), real.begin(), real.end()).first != home.end())
    return makeError(Status::Rejected, "parameter file \"", file, "\" is a link out of the plan's folder");
  return real;
}

Expected<std::span<const std::byte>> FolderSource::mapped(const std::string &file) {
  std::lock_guard lock(mutex);
  auto known = files.find(file);
  if (known != files.end())
    return known->second->mapping.bytes();
  auto path = resolve(folder, file);
  if (!path)
    return path.error();
  auto mapping = MappedFile::open(*path);
  if (!mapping)
    return mapping.error();
  auto entry = std::make_unique<File>(File{std::move(*mapping)});
  return files.emplace(file, std::move(entry)).first->second->mapping.bytes();
}

std::optional<std::span<const std::byte>> ValueSource::value(const Parameter &parameter) {
  auto found = values.find(parameter.name);
  return found == values.end() ? others.value(parameter) : std::optional(found->second);
}

void MemorySource::add(std::string file, std::span<const std::byte> bytes) { files[std::move(file)] = bytes; }

Expected<std::span<const std::byte>> MemorySource::bytes(const FileSource &source) {
  auto file = files.find(source.file);
  if (file == files.end())
    return makeError(Status::Failure, "parameter file \"", source.file, "\" is not in memory");
  return slice(file->second, source);
}

} // namespace cleave::runtime
