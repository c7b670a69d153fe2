// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the linker, as a library, in a folder of its own.

#include "passes/codegen/LinkObject.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>
#include <tuple>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace cleave {

static Error writeFile(StringRef path, ArrayRef<char> bytes) {
  std::error_code error;
  raw_fd_ostream stream(path, error);
  if (!error) {
    stream.write(bytes.data(), bytes.size());
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return createStringError(error, "a temporary file expects to be written, got '" + path + "': " + error.message() +
                                        "; free space there, or set TMPDIR to another folder");
  return Error::success();
}

Expected<std::vector<char>> linkSharedObject(ArrayRef<SmallVector<char, 0>> objects) {
  SmallString<128> folder;
  if (std::error_code error = sys::fs::createUniqueDirectory("cleave-link", folder))
    return createStringError(error, "a temporary folder expects to be made, got '" + folder + "': " + error.message() +
                                        "; set TMPDIR to a writable folder");
  // What cannot be removed stays: the link succeeded.
  scope_exit remove([&] { std::ignore = sys::fs::remove_directories(folder); });
  auto inFolder = [&](const Twine &name) { return (folder + "/" + name).str(); };

  std::string output = inFolder("kernels.so");
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "--hash-style=gnu", "--build-id=none", "--strip-all", "--threads=1", "-z", "noseparate-code",
      "-z",     "now",     "--soname",         "cleave-kernels",  "-o",          output};
  for (auto [index, object] : enumerate(objects)) {
    arguments.push_back(inFolder(Twine(index) + ".o"));
    if (Error error = writeFile(arguments.back(), object))
      return error;
  }
  std::vector<const char *> pointers;
  pointers.reserve(arguments.size());
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());

  std::string messages;
  raw_string_ostream stream(messages);
  {
    // The linker keeps global state.
    static std::mutex oneAtATime;
    std::lock_guard lock(oneAtATime);
    lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0)
      return createStringError("native kernels expect to link, got: " + StringRef(messages).trim());
  }
  auto image = MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!image)
    return createStringError(image.getError(), "the linker's result expects to be read, got '" + Twine(output) +
                                                   "': " + image.getError().message());
  return std::vector<char>((*image)->getBufferStart(), (*image)->getBufferEnd());
}

} // namespace cleave
