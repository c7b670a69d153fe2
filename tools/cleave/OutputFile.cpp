// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes results to standard output, devices and files.

#include "tools/cleave/OutputFile.h"

#include "runtime/Printable.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"

using namespace llvm;

namespace cleave::tool {

/// The error that a stream has met, which it then forgets.
static runtime::Error takeError(raw_fd_ostream &stream, const std::string &what) {
  stream.flush();
  std::error_code code = stream.error();
  if (!code)
    return runtime::Error::success();
  stream.clear_error();
  return makeError(Status::Failure, "cannot write ", what, ": ", code.message());
}

static std::string quoted(StringRef path) { return ("\"" + path + "\"").str(); }

runtime::Error flushStandardOutput() { return takeError(outs(), "standard output"); }

runtime::Error checkBinaryOutput(StringRef option, StringRef path) {
  if (path == "-" && sys::Process::StandardOutIsDisplayed())
    return makeError(Status::Usage, option.str(),
                     " - expects standard output to be a file or a pipe, as what is written "
                     "is no text; got a terminal");
  return runtime::Error::success();
}

static runtime::Error writeDirectly(StringRef path, function_ref<void(raw_ostream &)> write) {
  std::error_code code;
  raw_fd_ostream stream(path, code, sys::fs::CD_OpenExisting, sys::fs::FA_Write, sys::fs::OF_None);
  if (code) {
    stream.clear_error();
    return makeError(Status::Failure, "cannot write \"", path.str(), "\": ", code.message());
  }
  write(stream);
  return takeError(stream, quoted(path));
}

runtime::Error writeBinary(StringRef path, function_ref<void(raw_ostream &)> write) {
  if (path == "-") {
    write(outs());
    return flushStandardOutput();
  }
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() != sys::fs::file_type::regular_file &&
      status.type() != sys::fs::file_type::directory_file)
    return writeDirectly(path, write);
  auto temporary = sys::fs::TempFile::create(path + ".%%%%%%.tmp", sys::fs::all_read | sys::fs::owner_write);
  if (!temporary)
    return makeError(Status::Failure, "cannot write \"", path.str(), "\": ", toString(temporary.takeError()));
  raw_fd_ostream stream(temporary->FD, /*shouldClose=*/false);
  write(stream);
  if (runtime::Error error = takeError(stream, quoted(path))) {
    consumeError(temporary->discard());
    return error;
  }
  if (llvm::Error error = temporary->keep(path))
    return makeError(Status::Failure, "cannot write \"", path.str(), "\": ", toString(std::move(error)));
  return runtime::Error::success();
}

runtime::Error writeOutput(StringRef path, function_ref<void(raw_ostream &)> write) {
  if (path != "-")
    return writeBinary(path, write);
  std::string text;
  raw_string_ostream stream(text);
  write(stream);
  return writeBinary(path, [&](raw_ostream &out) { out << runtime::printable(text); });
}

runtime::Error writeText(StringRef json, function_ref<void(raw_ostream &)> write) {
  return json == "-" ? runtime::Error::success() : writeOutput("-", write);
}

runtime::Error writeJson(StringRef path, function_ref<void(JsonStream &)> write) {
  // JSON has escapes of its own, and none with an x.
  return writeBinary(path, [&](raw_ostream &out) {
    JsonStream json(out, /*IndentSize=*/2);
    json.objectBegin();
    write(json);
    json.objectEnd();
    json.flush();
    out << "\n";
  });
}

} // namespace cleave::tool
