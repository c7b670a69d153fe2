// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds and reads inputs' files, once each.

#include "compiler/InputFiles.h"

#include "passes/codegen/LayoutTypes.h"
#include "runtime/tensorfile/TensorFile.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace cleave {

Expected<std::pair<std::string, std::string>> splitBinding(const std::string &text, const char *option) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return makeError(Status::Usage, option, " expects NAME=VALUE, got \"", text, "\"");
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

HostTensor toCompiler(MLIRContext *context, const runtime::HostTensor &tensor) {
  auto owner = std::make_shared<runtime::HostTensor>(tensor);
  const std::byte *data = owner->bytes().data();
  return HostTensor(fromRuntimeType(context, tensor.type()), data, std::move(owner));
}

Expected<InputFiles> InputFiles::create(const std::vector<std::string> &bindings) {
  InputFiles result;
  for (const std::string &binding : bindings) {
    auto parts = splitBinding(binding, "--input");
    if (!parts)
      return parts.error();
    result.files.insert(*parts);
  }
  return result;
}

const std::string *InputFiles::fileOf(StringRef input) {
  auto [position, isNew] = positions.try_emplace(input.str(), positions.size());
  auto found = files.find(input.str());
  if (found == files.end())
    found = files.find("@" + std::to_string(position->second));
  return found == files.end() ? nullptr : &found->second;
}

const runtime::HostTensor *InputFiles::tensorOf(StringRef input) {
  const std::string *file = fileOf(input);
  if (!file)
    return nullptr;
  auto [entry, isNew] = read.try_emplace(*file);
  if (isNew)
    if (auto tensor = runtime::readTensorFile(*file))
      entry->second = *tensor;
  return entry->second ? &*entry->second : nullptr;
}

std::optional<SmallVector<int64_t>> InputFiles::shapeOf(StringRef input) {
  const runtime::HostTensor *tensor = tensorOf(input);
  if (auto shape = shapes.find(input.str()); shape != shapes.end())
    return llvm::to_vector(shape->second);
  if (!tensor)
    return std::nullopt;
  return llvm::to_vector(tensor->type().shape);
}

std::optional<HostTensor> InputFiles::valueOf(StringRef input, RankedTensorType type) {
  const runtime::HostTensor *tensor = tensorOf(input);
  if (!tensor)
    return std::nullopt;
  HostTensor value = toCompiler(type.getContext(), *tensor);
  return value.getType() == type ? std::optional(value) : std::nullopt;
}

} // namespace cleave
