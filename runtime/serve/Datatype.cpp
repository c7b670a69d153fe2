// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One table, in the order of ElementType.

#include "runtime/serve/Datatype.h"

#include <array>

namespace cleave::runtime::serve {

static constexpr std::array<std::string_view, numElementTypes> names = {
    "BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FP16", "BF16", "FP32", "FP64"};

std::string_view datatypeName(ElementType type) { return names[static_cast<size_t>(type)]; }

std::optional<ElementType> datatypeNamed(std::string_view name) {
  for (size_t index = 0; index != names.size(); ++index)
    if (names[index] == name)
      return static_cast<ElementType>(index);
  return std::nullopt;
}

} // namespace cleave::runtime::serve
