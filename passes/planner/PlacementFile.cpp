// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads placement files.

#include "passes/planner/PlacementFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace llvm;

namespace cleave {

const PlacementGroup *Placement::find(StringRef name) const {
  for (const PlacementGroup &group : groups)
    if (group.name == name)
      return &group;
  return nullptr;
}

PlacementGroup *Placement::find(StringRef name) {
  return const_cast<PlacementGroup *>(std::as_const(*this).find(name));
}

Error Placement::addPattern(StringRef group, StringRef pattern, FilePosition position) {
  if (pattern.empty())
    return make_error<FileError>(position, ("group \"" + group + "\" expects patterns of node names, got \"\"").str());
  Expected<GlobPattern> glob = GlobPattern::create(pattern);
  if (!glob)
    return make_error<FileError>(position, ("group \"" + group +
                                            "\" expects patterns of names with *, ? and [a-z], "
                                            "got \"" +
                                            pattern + "\": " + toString(glob.takeError()))
                                               .str());
  PlacementGroup *found = find(group);
  if (!found) {
    found = &groups.emplace_back();
    found->name = group.str();
    found->position = position;
  }
  found->patterns.push_back({pattern.str(), position});
  return Error::success();
}

static Expected<unsigned> parseDevice(const YamlValue &value, StringRef subject) {
  unsigned device = 0;
  if (value.kind != YamlValue::Kind::Text || !to_integer(value.text, device, 10))
    return value.error(subject + " expects the index of a device" +
                       (value.kind == YamlValue::Kind::Text ? ", got \"" + value.text + "\"" : std::string()));
  return device;
}

static Error parseGroup(const YamlValue &key, const YamlValue &patterns, Placement &placement) {
  std::string subject = "group \"" + key.text + "\"";
  if (patterns.kind == YamlValue::Kind::Text)
    return placement.addPattern(key.text, patterns.text, patterns.position);
  if (Error failure = patterns.expect(YamlValue::Kind::List, subject))
    return failure;
  if (patterns.items.empty())
    return patterns.error(subject + " expects at least one pattern of node names, got an empty list");
  for (const YamlValue &pattern : patterns.items) {
    if (Error failure = pattern.expect(YamlValue::Kind::Text, "a pattern of " + subject))
      return failure;
    if (Error failure = placement.addPattern(key.text, pattern.text, pattern.position))
      return failure;
  }
  return Error::success();
}

static Error parseGroupDevice(const YamlValue &key, const YamlValue &value, Placement &placement) {
  std::string subject = "group \"" + key.text + "\"";
  const YamlValue *index = &value;
  if (value.kind == YamlValue::Kind::List) {
    if (value.items.empty())
      return value.error(subject + " expects at least one device, got an empty list");
    if (value.items.size() > 1)
      return value.error(subject + " expects one device, got a mesh of " + Twine(value.items.size()) +
                         ": placement by hand puts whole operators on single devices; name one device a group");
    index = &value.items.front();
  }
  Expected<unsigned> device = parseDevice(*index, subject);
  if (!device)
    return device.takeError();
  PlacementGroup *group = placement.find(key.text);
  if (!group) {
    group = &placement.groups.emplace_back();
    group->name = key.text;
  }
  group->device = *device;
  group->position = index->position;
  return Error::success();
}

Expected<Placement> parsePlacement(StringRef text, StringRef file) {
  Expected<YamlValue> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  if (Error failure = root->expect(YamlValue::Kind::Map, "a placement file"))
    return failure;
  if (Error failure = root->expectKeys({"groups", "devices", "default"}, "a placement file"))
    return failure;
  Placement placement;
  if (const YamlValue *groups = root->find("groups")) {
    if (Error failure = groups->expect(YamlValue::Kind::Map, "\"groups\""))
      return failure;
    for (auto &[key, patterns] : groups->entries)
      if (Error failure = parseGroup(key, patterns, placement))
        return failure;
  }
  const YamlValue *devices = root->find("devices");
  if (devices) {
    if (Error failure = devices->expect(YamlValue::Kind::Map, "\"devices\""))
      return failure;
    for (auto &[key, value] : devices->entries)
      if (Error failure = parseGroupDevice(key, value, placement))
        return failure;
  }
  if (const YamlValue *groups = root->find("groups"))
    for (auto &[key, patterns] : groups->entries)
      if (!devices || !devices->find(key.text))
        return key.error("group \"" + key.text + "\" expects a device in \"devices\", found none");
  if (const YamlValue *rest = root->find("default")) {
    Expected<unsigned> device = parseDevice(*rest, "\"default\"");
    if (!device)
      return device.takeError();
    placement.defaultDevice = *device;
    placement.defaultPosition = rest->position;
  }
  if (placement.groups.empty() && !placement.defaultDevice)
    return root->error("a placement file expects groups with devices, or \"default\"; got neither");
  return placement;
}

Expected<Placement> readPlacementFile(StringRef path) {
  Expected<std::string> text = readTextFile(path);
  if (!text)
    return text.takeError();
  return parsePlacement(*text, path);
}

} // namespace cleave
