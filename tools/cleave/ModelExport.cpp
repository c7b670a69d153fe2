// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Edits the model as a message, so that all else of it stays as it was.

#include "tools/cleave/ModelExport.h"

#include "compiler/ModelWeights.h"
#include "passes/import/OnnxProto.h"
#include "tools/cleave/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <filesystem>

namespace cleave::tool {

static Expected<std::unique_ptr<onnx::ModelProto>> readProto(const std::string &file) {
  auto bytes = llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes)
    return makeError(Status::Failure, "--export to a model expects the plan's model in \"", file,
                     "\": ", bytes.getError().message(), "; name it with --model");
  auto model = std::make_unique<onnx::ModelProto>();
  llvm::StringRef text = (*bytes)->getBuffer();
  if (text.size() > INT32_MAX || !model->ParseFromArray(text.data(), static_cast<int>(text.size())))
    return makeError(Status::Rejected, "--export to a model expects an ONNX file, got \"", file, '"');
  return model;
}

std::vector<std::string> symbolicDims(const std::string &file) {
  std::vector<std::string> names;
  auto model = readProto(file);
  if (!model)
    return names;
  for (const onnx::ValueInfoProto &input : (*model)->graph().input()) {
    const onnx::TensorShapeProto &shape = input.type().tensor_type().shape();
    for (int i = 0; i != shape.dim_size(); ++i) {
      const auto &dim = shape.dim(i);
      std::string name = dim.dim_param().empty() ? input.name() + "." + std::to_string(i) : dim.dim_param();
      if (!dim.has_dim_value() && !llvm::is_contained(names, name))
        names.push_back(name);
    }
  }
  return names;
}

Error ExportToModel::check(std::span<const std::pair<std::string, runtime::TensorType>> parameters) {
  auto model = readProto(modelFile);
  return model ? checkWeights(**model, parameters, "--export to \"" + modelFile + "\"") : model.error();
}

/// Tensors in files beside a model are not found from elsewhere.
static Error checkFiles(const onnx::GraphProto &graph, const std::string &from, const std::string &to) {
  std::error_code code;
  auto folder = [](const std::string &file) {
    auto parent = std::filesystem::path(file).parent_path();
    return parent.empty() ? std::filesystem::path(".") : parent;
  };
  for (const onnx::TensorProto &tensor : graph.initializer())
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL &&
        !std::filesystem::equivalent(folder(from), folder(to), code))
      return makeError(Status::Failure, "--export expects a place beside \"", from, "\", whose tensor \"",
                       tensor.name(), "\" is in a file there; got \"", to, '"');
  return Error::success();
}

Error ExportToModel::write(const std::string &path, std::span<const runtime::ArchiveMember> parameters) {
  auto model = readProto(modelFile);
  if (!model)
    return model.error();
  if (Error error = putWeights(**model, parameters, "--export to \"" + modelFile + "\""))
    return error;
  if (Error error = checkFiles((*model)->graph(), modelFile, path))
    return error;
  std::string bytes;
  if (!(*model)->SerializeToString(&bytes))
    return makeError(Status::Failure, "--export expects a model of less than 2 GiB; export to .npz");
  return writeBinary(path, [&](llvm::raw_ostream &out) { out << bytes; });
}

} // namespace cleave::tool
