// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Curves and tiles of machine files.

#include "passes/cost/MachineFileEfficiency.h"

#include "passes/cost/MachineFile.h"
#include "passes/cost/MachineFileLinks.h"
#include "passes/cost/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace cleave {

/// Whether a key of "efficiency" is a class, or one followed by an element type.
static bool isEfficiencyKey(StringRef key) {
  auto [costClass, type] = key.split('.');
  return is_contained(efficiencyClasses, costClass) && (!key.contains('.') || is_contained(elementTypes, type));
}

static Error readCurvePoint(const YamlValue &item, ArrayRef<Unit> units, StringRef subject, EfficiencyCurve &curve) {
  if (Error failure = item.expect(YamlValue::Kind::Map, (subject + " point").str()))
    return failure;
  if (Error failure = item.expectKeys({"at", "share"}, (subject + " point").str()))
    return failure;
  EfficiencyCurve::Point point;
  for (StringRef key : {"at", "share"})
    if (auto value = requireKey(item, key, (subject + " point").str()); !value)
      return value.takeError();
  if (Error failure = readPositive(item, "at", units, subject, point.size))
    return failure;
  if (Error failure = readPositive(item, "share", noUnit, subject, point.share))
    return failure;
  if (!curve.points.empty() && curve.points.back().size >= point.size)
    return item.find("at")->error(subject + " expects points in ascending order, got \"" + item.find("at")->text +
                                  "\" after " + printQuantity(curve.points.back().size, units));
  curve.points.push_back(point);
  return Error::success();
}

/// One number for all sizes, or a list of points. Only a measured curve may exceed the rate, as caches do.
static Error readCurve(const YamlValue &value, StringRef costClass, StringRef subject, EfficiencyCurve &curve) {
  if (value.kind == YamlValue::Kind::List) {
    bool byWork = isByWork(costClass);
    bool byExtent = costClass == "depth" || costClass == "width";
    ArrayRef<Unit> units = byExtent ? ArrayRef<Unit>(noUnit) : byWork ? ArrayRef<Unit>(workUnits) : sizeUnits;
    for (const YamlValue &item : value.items)
      if (Error failure = readCurvePoint(item, units, subject, curve))
        return failure;
    return curve.points.empty() ? value.error(subject + " expects at least one point, found none") : Error::success();
  }
  Expected<double> share = parseQuantity(value, noUnit, subject);
  if (!share)
    return share.takeError();
  // Attention may reach more of the peak than it does on an A100.
  bool isOfPeak = !costClass.contains("attention");
  if ((isOfPeak && *share > 1) || *share <= 0)
    return value.error(subject + " expects more than 0" + (isOfPeak ? " and at most 1" : "") + ", got \"" + value.text +
                       "\"");
  curve.points = {{1, *share}};
  return Error::success();
}

static Error readTile(const YamlValue &item, StringRef subject, TileModel &model) {
  std::string inner = (subject + " tile").str();
  if (Error failure = item.expect(YamlValue::Kind::Map, inner))
    return failure;
  if (Error failure = item.expectKeys({"rows", "columns", "share"}, inner))
    return failure;
  TileModel::Tile tile;
  for (auto [key, target] : {std::pair("rows", &tile.rows), {"columns", &tile.columns}}) {
    if (auto value = requireKey(item, key, inner); !value)
      return value.takeError();
    if (Error failure = readPositive(item, key, noUnit, inner, *target))
      return failure;
  }
  if (Error failure = readPositive(item, "share", noUnit, inner, tile.share))
    return failure;
  model.tiles.push_back(tile);
  return Error::success();
}

/// `contraction: { units: 108, sustained: 0.87, tiles: [ … ], alignment: [ … ], depth: [ … ], width: [ … ] }`. What is
/// not said stays as it is in `model`.
static Error readTiles(const YamlValue &value, StringRef subject, TileModel &model) {
  if (Error failure = value.expectKeys({"units", "sustained", "tiles", "alignment", "depth", "width"}, subject))
    return failure;
  if (model.tiles.empty())
    for (StringRef key : {"units", "tiles"})
      if (auto found = requireKey(value, key, subject); !found)
        return found.takeError();
  if (Error failure = readCount(value, "units", subject, model.units))
    return failure;
  if (Error failure = readPositive(value, "sustained", noUnit, subject, model.sustained))
    return failure;
  if (const YamlValue *tiles = value.find("tiles")) {
    model.tiles.clear();
    if (Error failure = tiles->expect(YamlValue::Kind::List, (subject + " tiles").str()))
      return failure;
    for (const YamlValue &item : tiles->items)
      if (Error failure = readTile(item, subject, model))
        return failure;
    if (model.tiles.empty())
      return tiles->error(subject + " expects at least one tile, found none");
  }
  for (auto [key, curve] : {std::pair("alignment", &model.alignment), {"depth", &model.depth}, {"width", &model.width}})
    if (const YamlValue *found = value.find(key)) {
      curve->points.clear();
      if (Error failure = readCurve(*found, key, (subject + " " + key).str(), *curve))
        return failure;
    }
  return Error::success();
}

Error readEfficiency(const YamlValue &kind, StringRef subject, DeviceKind &target) {
  const YamlValue *values = kind.find("efficiency");
  if (!values)
    return Error::success();
  std::string inner = (subject + " efficiency").str();
  if (Error failure = values->expect(YamlValue::Kind::Map, inner))
    return failure;
  // The tiles of a type are those of all types, but for what is said of them.
  StringRef ofAll = "contraction";
  if (const YamlValue *value = values->find(ofAll); value && value->kind == YamlValue::Kind::Map)
    if (Error failure = readTiles(*value, (inner + " " + ofAll).str(), target.tiles[ofAll.str()]))
      return failure;
  for (auto &[name, value] : values->entries) {
    if (!isEfficiencyKey(name.text))
      return name.error(inner + " expects the keys " + join(ArrayRef(efficiencyClasses), ", ") +
                        ", also followed by an element type as in contraction.f32; got \"" + name.text + "\"");
    if (value.kind == YamlValue::Kind::Map && StringRef(name.text).starts_with(ofAll)) {
      if (name.text == ofAll)
        continue;
      TileModel model = target.tiles.contains(ofAll.str()) ? target.tiles[ofAll.str()] : TileModel();
      if (Error failure = readTiles(value, inner + " " + name.text, model))
        return failure;
      target.tiles[name.text] = std::move(model);
      continue;
    }
    if (Error failure = readCurve(value, name.text, inner + " " + name.text, target.efficiency[name.text]))
      return failure;
  }
  return Error::success();
}

} // namespace cleave
