// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds parameters' bytes and gives them places that the plan can name.

#include "compiler/PlanWeights.h"

#include "dialects/dfg/Dfg.h"

#include <algorithm>
#include <filesystem>
#include <map>

using namespace mlir;

namespace cleave {

Expected<std::span<const std::byte>> WeightsSource::bytes(const runtime::FileSource &source) {
  const char *data = weights.find(source.file, source.offset, source.bytes);
  if (!data)
    return makeError(Status::Failure, "parameter file \"", source.file, "\" expects ", source.bytes,
                     " bytes at offset ", source.offset, ", got fewer");
  return std::as_bytes(std::span(data, source.bytes));
}

/// The path of `file` relative to `folder`, if it is a regular file below it.
static std::optional<std::string> pathBelow(const std::filesystem::path &folder, const std::filesystem::path &file) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code))
    return std::nullopt;
  auto home = std::filesystem::canonical(folder.empty() ? "." : folder, code);
  auto real = code ? home : std::filesystem::canonical(file, code);
  if (code || std::mismatch(home.begin(), home.end(), real.begin(), real.end()).first != home.end())
    return std::nullopt;
  return real.lexically_relative(home).string();
}

WeightsStore anchorParameters(ModuleOp module, const WeightsStore &weights, StringRef modelFolder, StringRef planFolder,
                              const std::string &weightsFile,
                              std::map<std::string, runtime::FileChecksum, std::less<>> *checksums) {
  WeightsStore anchored(weightsFile);
  std::map<std::string, std::optional<std::string>> external;
  for (auto parameter : module.getOps<dfg::ParameterOp>()) {
    auto file = dyn_cast<dfg::FileAttr>(parameter.getInit());
    if (!file)
      continue;
    std::string path = file.getPath().str();
    uint64_t offset = file.getOffset();
    auto [found, isNew] = external.try_emplace(path);
    if (isNew && path != weights.getFileName())
      found->second = pathBelow(planFolder.str(), std::filesystem::path(modelFolder.str()) / path);
    RankedTensorType type = parameter.getTensorType();
    uint64_t bytes = HostTensor(type, nullptr, nullptr).getNumBytes();
    const char *data = weights.find(path, offset, bytes);
    if (checksums && data) {
      auto contents = std::as_bytes(std::span(data, bytes));
      (*checksums)[parameter.getSymName().str()] =
          found->second ? runtime::sampledChecksum(contents) : runtime::wholeChecksum(contents);
    }
    if (found->second) {
      path = *found->second;
    } else {
      // The store keeps its bytes: no owner is needed.
      auto place = anchored.add(HostTensor(type, data, nullptr));
      path = place.path;
      offset = place.offset;
    }
    parameter.setInitAttr(dfg::FileAttr::get(module.getContext(), path, offset));
  }
  return anchored;
}

} // namespace cleave
