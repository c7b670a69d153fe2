// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads placement files.

#include "passes/planner/PlacementFile.h"

#include "passes/cost/Machine.h"
#include "passes/planner/Degrees.h"

#include "llvm/ADT/DenseSet.h"
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

/// Appends a device, or the devices of a range `0..3`.
static Error parseDevices(const YamlValue &value, StringRef subject, std::vector<unsigned> &devices) {
  if (value.kind != YamlValue::Kind::Text || !StringRef(value.text).contains("..")) {
    Expected<unsigned> device = parseDevice(value, subject);
    if (!device)
      return device.takeError();
    devices.push_back(*device);
    return Error::success();
  }
  auto [firstText, lastText] = StringRef(value.text).split("..");
  unsigned first = 0, last = 0;
  if (!to_integer(firstText.trim(), first, 10) || !to_integer(lastText.trim(), last, 10) || last < first ||
      last - first >= mostDevices)
    return value.error(subject + " expects a range of devices as 0..3, got \"" + value.text + "\"");
  for (unsigned device = first; device <= last; ++device)
    devices.push_back(device);
  return Error::success();
}

/// A device, a range, or a list of both; each device once. None for `all`.
static Expected<std::vector<unsigned>> parseDeviceList(const YamlValue &value, StringRef subject) {
  std::vector<unsigned> devices;
  if (value.kind == YamlValue::Kind::Text && value.text == "all")
    return devices;
  if (value.kind == YamlValue::Kind::List) {
    if (value.items.empty())
      return value.error(subject + " expects at least one device, got an empty list");
    for (const YamlValue &item : value.items)
      if (Error failure = parseDevices(item, subject, devices))
        return failure;
  } else if (Error failure = parseDevices(value, subject, devices)) {
    return failure;
  }
  DenseSet<unsigned> seen;
  for (unsigned device : devices)
    if (!seen.insert(device).second)
      return value.error(subject + " expects each device once, got " + Twine(device) + " again");
  return devices;
}

/// A mesh of those devices whose axes are not said.
static MeshSpec meshOf(StringRef name, std::vector<unsigned> devices) {
  MeshSpec mesh{name.str(), std::move(devices), {}};
  if (!mesh.devices.empty())
    mesh.nameAxes();
  return mesh;
}

/// A number of devices, or a list of their shares.
static Expected<MeshAxis> parseAxis(StringRef name, const YamlValue &value, StringRef subject) {
  unsigned number = 0;
  if (value.kind != YamlValue::Kind::List) {
    if (value.kind != YamlValue::Kind::Text || !to_integer(value.text, number, 10) || number < 1 ||
        number > mostDevices)
      return value.error(subject + " expects a number of devices along axis \"" + name + "\", or a list of shares" +
                         (value.kind == YamlValue::Kind::Text ? ", got \"" + value.text + "\"" : std::string()));
    return MeshAxis{name.str(), number};
  }
  MeshAxis axis{name.str(), static_cast<int64_t>(value.items.size())};
  for (const YamlValue &item : value.items) {
    if (item.kind != YamlValue::Kind::Text || !to_integer(item.text, number, 10) || number < 1 || number > largestShare)
      return item.error(subject + " expects shares from 1 to " + Twine(largestShare) + " along axis \"" + name + "\"" +
                        (item.kind == YamlValue::Kind::Text ? ", got \"" + item.text + "\"" : std::string()));
    axis.shares.push_back(number);
  }
  if (axis.shares.empty())
    return value.error(subject + " expects a share for each device along axis \"" + name + "\", got none");
  // Equal shares are none.
  if (all_equal(axis.shares))
    axis.shares.clear();
  return axis;
}

/// Reads the axes of a mesh, whose sizes must make up its devices. As "degrees" they have the names of `--degrees`.
static Error parseAxes(const YamlValue &axes, StringRef subject, MeshSpec &mesh) {
  if (Error failure =
          axes.expect(YamlValue::Kind::Map, (subject + (mesh.axesAreDegrees ? " \"degrees\"" : " \"axes\"")).str()))
    return failure;
  if (mesh.axesAreDegrees)
    for (auto &[key, value] : axes.entries)
      if (!is_contained({dataAxis, modelAxis, sequenceAxis, expertAxis}, key.text))
        return key.error(subject + " expects degrees data, model, sequence or expert, got \"" + key.text + "\"");
  mesh.axes.clear();
  int64_t product = 1;
  for (auto &[key, value] : axes.entries) {
    Expected<MeshAxis> axis = parseAxis(key.text, value, subject);
    if (!axis)
      return axis.takeError();
    if (!axis->shares.empty() && any_of(mesh.axes, [](const MeshAxis &other) { return !other.shares.empty(); }))
      return value.error(subject + " expects shares along one axis at most, found them along \"" + key.text +
                         "\" as well");
    product *= axis->size;
    mesh.axes.push_back(std::move(*axis));
    if (product > mostDevices)
      break;
  }
  if (!mesh.devices.empty() && product != static_cast<int64_t>(mesh.devices.size()))
    return axes.error(subject + " expects axes whose sizes multiply to its " + Twine(mesh.devices.size()) +
                      " devices, got " + Twine(product));
  return Error::success();
}

/// What a stage on a mesh keeps: "recompute" and "zero" as the options of these names.
static Error parseKeeping(const YamlValue &mesh, StringRef subject, search::StageKeeping &keeping) {
  auto textOf = [](const YamlValue &value) {
    return value.kind == YamlValue::Kind::Text ? ", got \"" + value.text + "\"" : std::string();
  };
  if (const YamlValue *value = mesh.find("recompute")) {
    auto segments = value->kind == YamlValue::Kind::Text ? search::parseRecompute(value->text) : std::nullopt;
    if (!segments)
      return value->error(subject +
                          " expects none, selective, full or offload as \"recompute\", or how many segments do each, "
                          "as in \"11 full, 17 none\"" +
                          textOf(*value));
    keeping.fix(std::move(*segments));
  }
  if (const YamlValue *value = mesh.find("zero")) {
    unsigned zero = 0;
    if (value->kind != YamlValue::Kind::Text || !to_integer(value->text, zero, 10) || zero > 3)
      return value->error(subject + " expects 0, 1, 2 or 3 as \"zero\"" + textOf(*value));
    keeping.zero = zero;
  }
  return Error::success();
}

/// An entry of `meshes`.
static Expected<MeshSpec> parseMesh(StringRef name, const YamlValue &value) {
  std::string subject = ("mesh \"" + name + "\"").str();
  if (Error failure = value.expect(YamlValue::Kind::Map, subject))
    return failure;
  if (Error failure = value.expectKeys({"devices", "axes", "degrees", "recompute", "zero"}, subject))
    return failure;
  const YamlValue *list = value.find("devices"), *axes = value.find("axes"), *degrees = value.find("degrees");
  if (axes && degrees)
    return degrees->error(subject + " expects axes or degrees, found both");
  if (!list)
    return value.error(subject + " expects the key \"devices\", found none");
  Expected<std::vector<unsigned>> devices = parseDeviceList(*list, subject);
  if (!devices)
    return devices.takeError();
  MeshSpec mesh = meshOf(name, std::move(*devices));
  mesh.axesAreDegrees = degrees != nullptr;
  if (axes || degrees) {
    mesh.name = name.str();
    if (Error failure = parseAxes(axes ? *axes : *degrees, subject, mesh))
      return failure;
  }
  if (Error failure = parseKeeping(value, subject, mesh.keeping))
    return failure;
  return mesh;
}

static void placeGroup(StringRef name, MeshSpec mesh, const FilePosition &position, Placement &placement) {
  PlacementGroup *group = placement.find(name);
  if (!group) {
    group = &placement.groups.emplace_back();
    group->name = name.str();
  }
  group->mesh = std::move(mesh);
  group->position = position;
}

/// An entry of `devices`.
static Error parseGroupDevice(const YamlValue &key, const YamlValue &value, Placement &placement) {
  Expected<std::vector<unsigned>> devices = parseDeviceList(value, "group \"" + key.text + "\"");
  if (!devices)
    return devices.takeError();
  bool single = value.kind == YamlValue::Kind::List && value.items.size() == 1;
  placeGroup(key.text, meshOf(key.text, std::move(*devices)), single ? value.items.front().position : value.position,
             placement);
  return Error::success();
}

/// An axis, or a list of axes.
static Error parseFactor(const YamlValue &key, const YamlValue &value, StringRef subject, SplitPattern &split) {
  FactorSplit factor{key.text, key.position, {}};
  if (value.kind == YamlValue::Kind::Text) {
    factor.axes.push_back(value.text);
  } else {
    if (Error failure = value.expect(YamlValue::Kind::List, (subject + " factor \"" + key.text + "\"").str()))
      return failure;
    for (const YamlValue &axis : value.items) {
      if (Error failure = axis.expect(YamlValue::Kind::Text, ("an axis of " + subject).str()))
        return failure;
      factor.axes.push_back(axis.text);
    }
  }
  split.factors.push_back(std::move(factor));
  return Error::success();
}

static Error checkPattern(const YamlValue &key, const std::string &subject) {
  Expected<GlobPattern> glob = GlobPattern::create(key.text);
  if (!glob || key.text.empty())
    return key.error(subject + " expects a pattern of names with *, ? and [a-z]" +
                     (glob ? std::string() : ": " + toString(glob.takeError())));
  return Error::success();
}

/// An entry of `keys`.
static Error parseKeys(const YamlValue &key, const YamlValue &value, Placement &placement) {
  std::string subject = "keys of \"" + key.text + "\"";
  if (Error failure = checkPattern(key, subject))
    return failure;
  if (value.kind != YamlValue::Kind::Text || !is_contained({"ring", "gather"}, value.text))
    return value.error(subject + " expects ring or gather" +
                       (value.kind == YamlValue::Kind::Text ? ", got \"" + value.text + "\"" : std::string()));
  placement.keys.push_back({{key.text, key.position}, value.text == "ring"});
  return Error::success();
}

/// An entry of `splits`.
static Error parseSplit(const YamlValue &key, const YamlValue &value, Placement &placement) {
  std::string subject = "split \"" + key.text + "\"";
  if (Error failure = checkPattern(key, subject))
    return failure;
  if (Error failure = value.expect(YamlValue::Kind::Map, subject))
    return failure;
  SplitPattern split{{key.text, key.position}, {}};
  for (auto &[factor, axes] : value.entries)
    if (Error failure = parseFactor(factor, axes, subject, split))
      return failure;
  placement.splits.push_back(std::move(split));
  return Error::success();
}

/// A device, a list, or the name of a group whose mesh it is.
static Error parseDefault(const YamlValue &value, Placement &placement) {
  placement.defaultPosition = value.position;
  if (const PlacementGroup *group = value.kind == YamlValue::Kind::Text ? placement.find(value.text) : nullptr) {
    placement.defaultMesh = group->mesh;
    placement.defaultGroup = group->name;
    return Error::success();
  }
  Expected<std::vector<unsigned>> devices = parseDeviceList(value, "\"default\"");
  if (!devices)
    return devices.takeError();
  placement.defaultMesh = meshOf("all", std::move(*devices));
  return Error::success();
}

/// Calls a function with every entry of a section, which may be missing.
static Error parseSection(const YamlValue &root, StringRef name,
                          function_ref<Error(const YamlValue &key, const YamlValue &value)> parse) {
  const YamlValue *section = root.find(name);
  if (!section)
    return Error::success();
  if (Error failure = section->expect(YamlValue::Kind::Map, ("\"" + name + "\"").str()))
    return failure;
  for (auto &[key, value] : section->entries)
    if (Error failure = parse(key, value))
      return failure;
  return Error::success();
}

/// Every group has its devices in one place.
static Error checkGroups(const YamlValue &root) {
  auto has = [&](StringRef section, const YamlValue &key) {
    const YamlValue *map = root.find(section);
    return map && map->find(key.text);
  };
  if (Error failure = parseSection(root, "meshes", [&](const YamlValue &key, const YamlValue &) -> Error {
        if (has("devices", key))
          return key.error("mesh \"" + key.text + "\" expects its devices here, found them in \"devices\" as well");
        return Error::success();
      }))
    return failure;
  return parseSection(root, "groups", [&](const YamlValue &key, const YamlValue &) -> Error {
    if (!has("devices", key) && !has("meshes", key))
      return key.error("group \"" + key.text + "\" expects a device in \"devices\", found none");
    return Error::success();
  });
}

Expected<Placement> parsePlacement(StringRef text, StringRef file) {
  Expected<YamlValue> root = parseYaml(text, file);
  if (!root)
    return root.takeError();
  if (Error failure = root->expect(YamlValue::Kind::Map, "a placement file"))
    return failure;
  if (Error failure =
          root->expectKeys({"groups", "devices", "meshes", "default", "splits", "keys"}, "a placement file"))
    return failure;
  Placement placement;
  auto group = [&](const YamlValue &key, const YamlValue &value) { return parseGroup(key, value, placement); };
  auto devices = [&](const YamlValue &key, const YamlValue &value) { return parseGroupDevice(key, value, placement); };
  auto mesh = [&](const YamlValue &key, const YamlValue &value) -> Error {
    Expected<MeshSpec> spec = parseMesh(key.text, value);
    if (!spec)
      return spec.takeError();
    placeGroup(key.text, std::move(*spec), value.position, placement);
    return Error::success();
  };
  auto split = [&](const YamlValue &key, const YamlValue &value) { return parseSplit(key, value, placement); };
  if (Error failure = parseSection(*root, "groups", group))
    return failure;
  if (Error failure = parseSection(*root, "devices", devices))
    return failure;
  if (Error failure = parseSection(*root, "meshes", mesh))
    return failure;
  if (Error failure = checkGroups(*root))
    return failure;
  if (const YamlValue *rest = root->find("default"))
    if (Error failure = parseDefault(*rest, placement))
      return failure;
  if (placement.groups.empty() && !placement.defaultMesh)
    return root->error("a placement file expects groups with devices, or \"default\"; got neither");
  if (Error failure = parseSection(*root, "splits", split))
    return failure;
  auto keys = [&](const YamlValue &key, const YamlValue &value) { return parseKeys(key, value, placement); };
  if (Error failure = parseSection(*root, "keys", keys))
    return failure;
  return placement;
}

Expected<Placement> readPlacementFile(StringRef path) {
  Expected<std::string> text = readTextFile(path);
  if (!text)
    return text.takeError();
  return parsePlacement(*text, path);
}

} // namespace cleave
