// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes are copied box by box; generated values are made only where they are needed.

#include "runtime/ParameterLoad.h"

namespace cleave::runtime {

Error loadParameter(ParameterSource &source, const Parameter &parameter, const TileLoad &load,
                    std::span<std::byte> buffer) {
  if (auto value = source.value(parameter)) {
    loadTile(load, *value, buffer);
    return Error::success();
  }
  if (const auto *made = std::get_if<GeneratedSource>(&parameter.source)) {
    generateTile(load, *made, parameter.type.element, buffer);
    return Error::success();
  }
  std::span<const std::byte> bytes;
  if (const auto *data = std::get_if<InlineSource>(&parameter.source)) {
    bytes = data->data;
  } else {
    auto found = source.bytes(std::get<FileSource>(parameter.source));
    if (!found)
      return Error(found.error().status(), "parameter \"" + parameter.name + "\": " + found.error().message());
    bytes = *found;
  }
  loadTile(load, bytes, buffer);
  return Error::success();
}

} // namespace cleave::runtime
