// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes to the folder that was asked for, else to the first of some that takes the file.

#include "runtime/training/ParameterExport.h"

#include "runtime/run/OutputCheck.h"
#include "runtime/tensorfile/TensorFile.h"

#include <cstdlib>
#include <map>
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

Error checkExport(const PlanContents &plan, const Entry &entry, const TrainOptions &options) {
  OutputKind kind = options.modelExport ? OutputKind::Weights : OutputKind::Archive;
  if (Error error = checkOutput("--export", options.exportFile, kind))
    return error;
  std::vector<TensorType> types;
  std::vector<std::pair<std::string, TensorType>> named;
  for (uint32_t index : modelParameters(plan, keptParameters(entry))) {
    types.push_back(plan.parameters[index].type);
    named.emplace_back(plan.parameters[index].name, types.back());
  }
  if (options.exportFile.ends_with(".onnx"))
    if (Error error = options.modelExport->check(named))
      return error;
  return checkRoom(options.exportFile, types);
}

Error beginWith(const PlanContents &plan, const Entry &entry, const std::string &file,
                std::vector<ArchiveMember> &members, ValueSource &source, std::string &notice) {
  auto read = readTensorArchive(file);
  if (!read)
    return Error(read.error().status(), "--weights: " + read.error().message());
  members = std::move(*read);
  std::map<std::string, const Parameter *> byName;
  for (uint32_t index : modelParameters(plan, keptParameters(entry)))
    byName[plan.parameters[index].name] = &plan.parameters[index];
  const size_t all = byName.size();
  for (const ArchiveMember &member : members) {
    auto found = byName.find(member.name);
    if (found == byName.end())
      return makeError(Status::Failure, "--weights expects the names of the plan's parameters in \"", file,
                       "\", got \"", member.name, "\", which is none of them");
    if (found->second->type != member.tensor.type())
      return makeError(Status::Failure, "--weights expects ", found->second->type.text(), " for \"", member.name,
                       "\", got ", member.tensor.type().text(), " in \"", file, '"');
    source.add(member.name, member.tensor.bytes());
    // Each once: a second one of the name is one too many.
    byName.erase(found);
  }
  if (!byName.empty())
    notice = std::to_string(byName.size()) + " of " + std::to_string(all) + " parameters are not in " + file +
             " and begin as in the plan";
  return Error::success();
}

Error exportParameters(const std::string &path, std::span<const NamedTensor> tensors, const fs::path &kept,
                       ModelExport *model) {
  std::vector<ArchiveMember> members;
  for (const NamedTensor &named : tensors)
    members.push_back({named.name, named.tensor});
  Error failed = path.ends_with(".onnx") && model ? model->write(path, members) : writeTensorArchive(path, members);
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
