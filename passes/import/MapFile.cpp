// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps files into memory; files that a model names are opened folder by folder, so that no link leads out of the
// model's folder.

#include "passes/import/WeightsStore.h"

#include "llvm/Support/Errno.h"
#include "llvm/Support/Path.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;

namespace cleave {

namespace {
/// A file descriptor that is closed with its scope.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd >= 0)
      close(fd);
  }
  void reset(int other) {
    if (fd >= 0)
      close(fd);
    fd = other;
  }
};
} // namespace

static llvm::Error fileError(StringRef path, const Twine &what) {
  return llvm::createStringError("\"" + path.str() + "\" " + what.str());
}

static llvm::Expected<MappedBytes> mapDescriptor(StringRef path, int fd, bool onlyName) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fileError(path, "cannot be read: " + llvm::sys::StrError());
  if (!S_ISREG(status.st_mode))
    return fileError(path, "is not a regular file");
  if (onlyName && status.st_nlink > 1)
    return fileError(path, "is a hard link to a file with other names; copy it instead");
  MappedBytes mapped;
  mapped.size = static_cast<uint64_t>(status.st_size);
  if (mapped.size == 0) {
    mapped.data = "";
    return mapped;
  }
  void *address = mmap(nullptr, mapped.size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED)
    return fileError(path, "cannot be mapped: " + llvm::sys::StrError());
  mapped.data = static_cast<const char *>(address);
  mapped.owner = std::shared_ptr<const void>(
      address, [size = mapped.size](const void *start) { munmap(const_cast<void *>(start), size); });
  return mapped;
}

llvm::Expected<MappedBytes> mapFile(StringRef path) {
  Descriptor file(open(path.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0)
    return fileError(path, "cannot be opened: " + llvm::sys::StrError());
  return mapDescriptor(path, file.fd, /*onlyName=*/false);
}

llvm::Expected<MappedBytes> mapFileInside(StringRef folder, StringRef path) {
  if (path.empty() || path.contains('\0'))
    return fileError(path, "is not a file name");
  if (llvm::sys::path::is_absolute(path))
    return fileError(path, "is an absolute path, expected one inside the model's folder");
  SmallVector<StringRef> parts;
  path.split(parts, '/', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (llvm::is_contained(parts, "..") || parts.empty())
    return fileError(path, "leaves the model's folder by \"..\"");
  Descriptor place(open(folder.empty() ? "." : folder.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (place.fd < 0)
    return fileError(folder, "cannot be opened: " + llvm::sys::StrError());
  for (auto [index, part] : llvm::enumerate(parts)) {
    bool last = index + 1 == parts.size();
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    int next = openat(place.fd, part.str().c_str(), flags);
    struct stat status;
    if (next < 0 && fstatat(place.fd, part.str().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
      return fileError(path, "goes through a symbolic link; copy the file instead");
    if (next < 0)
      return fileError(path, "cannot be opened: " + llvm::sys::StrError());
    place.reset(next);
  }
  return mapDescriptor(path, place.fd, /*onlyName=*/true);
}

} // namespace cleave
