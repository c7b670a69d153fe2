// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The object's image goes into an anonymous file in memory, which the dynamic loader opens by its descriptor.

#include "runtime/drivers/cpu/NativeLibrary.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cleave::runtime {

static bool writeAll(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

Expected<std::shared_ptr<NativeLibrary>> NativeLibrary::load(const NativeObject &object) {
  int descriptor = memfd_create("cleave-native", MFD_CLOEXEC);
  if (descriptor < 0 || !writeAll(descriptor, object.image)) {
    Error error = makeError(Status::Failure, "cannot write native code to memory: ", std::strerror(errno));
    if (descriptor >= 0)
      close(descriptor);
    return error;
  }
  // The descriptor stays open: the loader knows libraries by path, and must not meet this path with another content.
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    close(descriptor);
    return makeError(Status::Rejected, "cannot load native code: ", reason ? reason : "unknown reason");
  }
  return std::shared_ptr<NativeLibrary>(new NativeLibrary(descriptor, handle));
}

NativeLibrary::~NativeLibrary() {
  dlclose(handle);
  close(descriptor);
}

Expected<NativeFunction> NativeLibrary::find(const std::string &symbol) const {
  void *address = dlsym(handle, symbol.c_str());
  if (!address)
    return makeError(Status::Rejected, "native code has no symbol \"", symbol, "\"");
  return reinterpret_cast<NativeFunction>(address);
}

} // namespace cleave::runtime
