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

/// Whether the tables say of a kernel what its code declares: the extent, the number of arguments, and their bytes.
static Error checkDeclared(const int64_t *declared, const Kernel &kernel) {
  static constexpr int64_t takesAny = -1;
  const auto &native = std::get<NativeKernel>(kernel.body);
  if (declared[0] == takesAny)
    return Error::success();
  if (declared[0] != native.parallelExtent)
    return makeError(Status::Rejected, "native code \"", native.symbol, "\" expects a parallel extent of ", declared[0],
                     ", got ", native.parallelExtent, "; the plan is damaged");
  std::vector<uint64_t> bytes;
  for (const auto *types : {&kernel.inputs, &kernel.outputs})
    for (const TensorType &type : *types)
      bytes.push_back(*type.byteSize());
  if (kernel.scratchBytes > 0)
    bytes.push_back(kernel.scratchBytes);
  if (static_cast<uint64_t>(declared[1]) != bytes.size())
    return makeError(Status::Rejected, "native code \"", native.symbol, "\" expects ", declared[1],
                     " arguments, scratch memory included, got ", bytes.size(), "; the plan is damaged");
  for (size_t i = 0; i != bytes.size(); ++i)
    if (static_cast<uint64_t>(declared[2 + i]) != bytes[i])
      return makeError(Status::Rejected, "native code \"", native.symbol, "\" expects ", declared[2 + i],
                       " bytes as argument ", i, ", got ", bytes[i], "; the plan is damaged");
  return Error::success();
}

Expected<NativeFunction> NativeLibrary::find(const Kernel &kernel) const {
  const std::string &symbol = std::get<NativeKernel>(kernel.body).symbol;
  // The loader also looks into the libraries that the object needs, where nothing is declared.
  void *address = dlsym(handle, symbol.c_str());
  if (!address)
    return makeError(Status::Rejected, "native code has no symbol \"", symbol, "\"");
  const auto *declared = static_cast<const int64_t *>(dlsym(handle, (symbol + ".declared").c_str()));
  if (!declared)
    return makeError(Status::Rejected, "native code does not declare what \"", symbol,
                     "\" takes; compile the model again with this version of Cleave");
  if (Error error = checkDeclared(declared, kernel))
    return error;
  return reinterpret_cast<NativeFunction>(address);
}

} // namespace cleave::runtime
