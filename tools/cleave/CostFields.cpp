// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads quantities and counts of maps.

#include "tools/cleave/CostFields.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave::tool {

llvm::Expected<YamlValue> readListFile(StringRef path, StringRef key, StringRef subject) {
  llvm::Expected<std::string> text = readTextFile(path);
  if (!text)
    return text.takeError();
  llvm::Expected<YamlValue> root = parseYaml(*text, path);
  if (!root)
    return root.takeError();
  if (llvm::Error failure = root->expect(YamlValue::Kind::Map, subject))
    return failure;
  if (llvm::Error failure = root->expectKeys({key}, subject))
    return failure;
  auto list = requireKey(*root, key, subject);
  if (!list)
    return list.takeError();
  if (llvm::Error failure = (*list)->expect(YamlValue::Kind::List, ("\"" + key + "\"").str()))
    return failure;
  return **list;
}

llvm::Expected<double> quantityOf(const YamlValue &map, StringRef key, ArrayRef<Unit> units, StringRef subject,
                                  std::optional<double> missing) {
  if (missing && !map.find(key))
    return *missing;
  auto value = requireKey(map, key, subject);
  if (!value)
    return value.takeError();
  return parseQuantity(**value, units, (subject + " " + key).str());
}

llvm::Expected<unsigned> countOf(const YamlValue &map, StringRef key, unsigned most, StringRef subject) {
  const YamlValue *value = map.find(key);
  if (!value)
    return 1u;
  unsigned count = 0;
  if (!to_integer(value->text, count, 10) || count < 1 || count > most)
    return value->error(subject + " " + key + " expects a whole number from 1 to " + Twine(most) + ", got \"" +
                        value->text + "\"");
  return count;
}

} // namespace cleave::tool
