// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds numbers that JSON does not have.

#include "tools/cleave/JsonStream.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;

namespace cleave::tool {

/// Whether all numbers in it are finite.
static bool isFinite(const json::Value &value) {
  if (auto number = value.getAsNumber())
    return std::isfinite(*number);
  if (const json::Array *array = value.getAsArray())
    return all_of(*array, isFinite);
  if (const json::Object *object = value.getAsObject())
    return all_of(*object, [](const auto &entry) { return isFinite(entry.second); });
  return true;
}

static json::Value withoutNonFinite(json::Value value) {
  if (auto number = value.getAsNumber(); number && !std::isfinite(*number))
    return nullptr;
  if (json::Array *array = value.getAsArray())
    for (json::Value &element : *array)
      element = withoutNonFinite(element);
  if (json::Object *object = value.getAsObject())
    for (auto &[key, element] : *object)
      element = withoutNonFinite(element);
  return value;
}

void JsonStream::value(const json::Value &contents) {
  OStream::value(isFinite(contents) ? contents : withoutNonFinite(contents));
}

void JsonStream::attribute(StringRef key, const json::Value &contents) {
  attributeBegin(key);
  value(contents);
  attributeEnd();
}

} // namespace cleave::tool
