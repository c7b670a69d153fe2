// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Temporary files with the permissions of ordinary ones.

#include "runtime/FileWriter.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace cleave::runtime {

Expected<FileWriter> FileWriter::create(const std::string &path) {
  for (unsigned attempt = 0;; ++attempt) {
    std::string temporary = path + ".part" + std::to_string(getpid()) + "-" + std::to_string(attempt);
    int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST && attempt != 1000)
      continue;
    std::FILE *file = descriptor < 0 ? nullptr : fdopen(descriptor, "wb");
    if (!file)
      return makeError(Status::Failure, "cannot write ", path, ": ", std::strerror(errno));
    return FileWriter(path, std::move(temporary), file);
  }
}

FileWriter::FileWriter(FileWriter &&other) noexcept
    : path(std::move(other.path)), temporary(std::exchange(other.temporary, {})),
      file(std::exchange(other.file, nullptr)), written(other.written), failure(other.failure) {}

FileWriter::~FileWriter() {
  if (file)
    std::fclose(file);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

void FileWriter::write(std::span<const std::byte> bytes) {
  if (failure == 0 && !bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
    failure = errno;
  written += bytes.size();
}

Error FileWriter::commit() {
  if (std::fclose(std::exchange(file, nullptr)) != 0 && failure == 0)
    failure = errno;
  if (failure == 0 && std::rename(temporary.c_str(), path.c_str()) != 0)
    failure = errno;
  if (failure != 0)
    return makeError(Status::Failure, "cannot write ", path, ": ", std::strerror(failure));
  temporary.clear();
  return Error::success();
}

} // namespace cleave::runtime
