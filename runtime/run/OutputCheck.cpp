// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asks the file system by doing: permissions alone do not tell of read-only or virtual file systems.

#include "runtime/run/OutputCheck.h"

#include "runtime/tensorfile/TensorFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace cleave::runtime {

namespace fs = std::filesystem;

/// 0, or why the folder takes no file beside `path`.
static int tryFileBeside(const std::string &path) {
  std::string temporary = path + ".part" + std::to_string(getpid());
  int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return errno == EEXIST ? 0 : errno;
  ::close(descriptor);
  ::unlink(temporary.c_str());
  return 0;
}

static Error checkFile(std::string_view option, const std::string &path) {
  std::error_code code;
  fs::file_status status = fs::status(path, code);
  if (fs::is_directory(status))
    return makeError(Status::Failure, option, " expects a file, got the folder \"", path,
                     "\"; name a file in it or choose another");
  // A device or pipe is written as it is, not replaced.
  if (fs::exists(status) && !fs::is_regular_file(status))
    return ::access(path.c_str(), W_OK) == 0
               ? Error::success()
               : makeError(Status::Failure, option, " expects a file that can be written, got \"", path,
                           "\": ", std::strerror(errno), "; choose another");
  fs::path folder = fs::path(path).parent_path();
  fs::file_status parent = fs::status(folder.empty() ? "." : folder, code);
  if (!fs::exists(parent) && parent.type() == fs::file_type::not_found)
    return makeError(Status::Failure, option, " expects a file in a folder that exists, got \"", path,
                     "\"; make the folder \"", folder.string(), "\" first or choose another");
  if (fs::exists(parent) && !fs::is_directory(parent))
    return makeError(Status::Failure, option, " expects a file in a folder, got \"", path, "\", where \"",
                     folder.string(), "\" is none; choose another");
  int failed = tryFileBeside(path);
  if (failed == 0)
    return Error::success();
  return makeError(Status::Failure, option, " expects a file that can be written, got \"", path,
                   "\", whose folder takes no new files: ", std::strerror(failed), "; choose another");
}

Error checkOutput(std::string_view option, const std::string &path, OutputKind kind) {
  if (path.empty())
    return makeError(Status::Usage, option, " expects the name of a file, got none");
  if (kind == OutputKind::Any)
    return path == "-" ? Error::success() : checkFile(option, path);
  bool fits = kind == OutputKind::Tensor ? namesTensorFile(path) : namesTensorArchive(path);
  if (!fits && !(kind == OutputKind::Weights && path.ends_with(".onnx")))
    return makeError(Status::Usage, option, " expects a file whose name ends in ",
                     kind == OutputKind::Tensor    ? ".npy, .npz, .pb, .idx, .raw or .bin"
                     : kind == OutputKind::Archive ? ".npz"
                                                   : ".npz or .onnx",
                     ", got \"", path, '"');
  return checkFile(option, fileOfTensor(path));
}

} // namespace cleave::runtime
