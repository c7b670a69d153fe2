// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mapping of files with mmap.

#include "runtime/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cleave::runtime {

Expected<MappedFile> MappedFile::open(const std::filesystem::path &path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return makeError(Status::Failure, "cannot open ", path, ": ", std::strerror(errno));
  struct stat info;
  Error error;
  std::span<const std::byte> mapping;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    error = makeError(Status::Failure, path, " is not a regular file");
  } else if (info.st_size > 0) {
    auto size = static_cast<size_t>(info.st_size);
    void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED)
      error = makeError(Status::Failure, "cannot map ", path, ": ", std::strerror(errno));
    else
      mapping = {static_cast<const std::byte *>(address), size};
  }
  ::close(descriptor);
  if (error)
    return error;
  return MappedFile(mapping);
}

MappedFile::~MappedFile() {
  if (!mapping.empty())
    munmap(const_cast<std::byte *>(mapping.data()), mapping.size());
}

} // namespace cleave::runtime
