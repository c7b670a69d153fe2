// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers with units in YAML files: sizes, bandwidths, rates, times and counts, read with errors that name line and
// column.

#ifndef CLEAVE_PASSES_COST_QUANTITY_H
#define CLEAVE_PASSES_COST_QUANTITY_H

#include "passes/cost/YamlValue.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <string>
#include <type_traits>

namespace cleave {

/// `factor` times ten to the power of `exponent`, which is kept apart so that numbers are rounded once.
struct Unit {
  llvm::StringLiteral name;
  double factor;
  int exponent = 0;

  double size() const;
};

/// In bytes.
inline constexpr Unit sizeUnits[] = {{"B", 1},         {"kB", 1, 3},     {"MB", 1, 6},
                                     {"GB", 1, 9},     {"TB", 1, 12},    {"KiB", 1024},
                                     {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1099511627776.0}};
/// In bytes a second.
inline constexpr Unit bandwidthUnits[] = {{"B/s", 1},       {"kB/s", 1, 3},     {"MB/s", 1, 6}, {"GB/s", 1, 9},
                                          {"TB/s", 1, 12},  {"GiB/s", 1 << 30}, {"Kb/s", 125},  {"Mb/s", 125, 3},
                                          {"Gb/s", 125, 6}, {"Tb/s", 125, 9}};
/// In floating-point operations a second.
inline constexpr Unit speedUnits[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1, 6}, {"GFLOP/s", 1, 9}, {"TFLOP/s", 1, 12}, {"PFLOP/s", 1, 15}};
/// In floating-point operations.
inline constexpr Unit workUnits[] = {{"FLOP", 1},     {"kFLOP", 1, 3},  {"MFLOP", 1, 6},
                                     {"GFLOP", 1, 9}, {"TFLOP", 1, 12}, {"PFLOP", 1, 15}};
/// In seconds.
inline constexpr Unit timeUnits[] = {{"s", 1}, {"ms", 1, -3}, {"us", 1, -6}, {"ns", 1, -9}};
/// In US dollars an hour.
inline constexpr Unit priceUnits[] = {{"USD/h", 1}};
/// Shares have none.
inline constexpr Unit noUnit[] = {{"", 1}};

/// A finite number that is not negative, in one of `units`. `subject` begins the message.
llvm::Expected<double> parseQuantity(const YamlValue &value, llvm::ArrayRef<Unit> units, llvm::StringRef subject);

/// The same in a text from elsewhere, the command line; the error has no place.
llvm::Expected<double> parseQuantity(llvm::StringRef text, llvm::ArrayRef<Unit> units, llvm::StringRef subject);

/// A whole number from 1 to the most devices that a machine may have.
llvm::Expected<unsigned> parseCount(const YamlValue &value, llvm::StringRef subject);

/// The value of a key that must be there.
llvm::Expected<const YamlValue *> requireKey(const YamlValue &map, llvm::StringRef key, llvm::StringRef subject);

/// Sets `target` from a key, if the map has it.
template <typename Number>
llvm::Error readQuantity(const YamlValue &map, llvm::StringRef key, llvm::ArrayRef<Unit> units, llvm::StringRef subject,
                         Number &target) {
  const YamlValue *value = map.find(key);
  if (!value)
    return llvm::Error::success();
  llvm::Expected<double> quantity = parseQuantity(*value, units, (subject + " " + key).str());
  if (!quantity)
    return quantity.takeError();
  if (std::is_integral_v<Number> && *quantity >= 9e18)
    return value->error(subject + " " + key + " expects less than 9e18 bytes, got \"" + value->text + "\"");
  target = static_cast<Number>(*quantity);
  return llvm::Error::success();
}

/// As readQuantity, for every entry of a map.
llvm::Error readQuantities(const YamlValue &map, llvm::StringRef key, llvm::ArrayRef<Unit> units,
                           llvm::StringRef subject, std::map<std::string, double> &target);

/// Sets `target` from a count, if the map has it.
llvm::Error readCount(const YamlValue &map, llvm::StringRef key, llvm::StringRef subject, unsigned &target);

/// A short text that reads back as exactly this number, of 1 to 1000 units where that can be.
std::string printQuantity(double value, llvm::ArrayRef<Unit> units);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_QUANTITY_H
