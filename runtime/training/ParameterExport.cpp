// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes to the folder that was asked for, else to the first of some that takes the file.

#include "runtime/training/ParameterExport.h"

#include "runtime/tensorfile/TensorFile.h"

#include <cstdlib>
#include <unistd.h>

namespace cleave::runtime {

namespace fs = std::filesystem;

Error checkRoom(const std::string &path, std::span<const TensorType> types) {
  uint64_t bytes = 0;
  for (const TensorType &type : types)
    bytes += type.byteSize().value_or(0);
  std::error_code code;
  fs::path folder = fs::path(path).parent_path();
  fs::space_info space = fs::space(folder.empty() ? "." : folder, code);
  if (code || space.available >= bytes)
    return Error::success();
  return makeError(Status::Failure, "--export expects room for ", bytes, " bytes of parameters, got ", space.available,
                   " bytes free for \"", path, "\"; make room or choose another place");
}

/// Where parameters are safe when the folder that was asked for is not: first where the user looks first.
static std::vector<fs::path> otherFolders() {
  std::vector<fs::path> folders;
  std::error_code code;
  if (fs::path here = fs::current_path(code); !code)
    folders.push_back(here);
  if (const char *home = std::getenv("HOME"); home && *home)
    folders.emplace_back(home);
  if (fs::path temporary = fs::temp_directory_path(code); !code)
    folders.push_back(temporary);
  return folders;
}

Error exportParameters(const std::string &path, std::span<const NamedTensor> tensors, const fs::path &kept) {
  std::vector<ArchiveMember> members;
  for (const NamedTensor &named : tensors)
    members.push_back({named.name, named.tensor});
  Error failed = writeTensorArchive(path, members);
  if (!failed)
    return failed;
  if (!kept.empty())
    return makeError(failed.status(), failed.message(), "; the parameters are in checkpoint ", kept,
                     ": train again with --resume --epochs 0 and an --export that can be written");
  std::string name = fs::path(path).stem().string() + "-" + std::to_string(getpid()) + ".npz";
  for (const fs::path &folder : otherFolders()) {
    std::error_code code;
    fs::path other = folder / name;
    if (!fs::exists(other, code) && !writeTensorArchive(other.string(), members))
      return makeError(failed.status(), failed.message(), "; the parameters are in ", other, " instead");
  }
  return makeError(failed.status(), failed.message(), ", and no other folder takes the parameters: they are lost");
}

} // namespace cleave::runtime
