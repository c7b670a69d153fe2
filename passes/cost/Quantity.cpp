// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Units, and numbers in them.

#include "passes/cost/Quantity.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace cleave {

static constexpr Unit sizes[] = {{"B", 1},           {"kB", 1e3},           {"MB", 1e6},
                                 {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
                                 {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
static constexpr Unit bandwidths[] = {{"B/s", 1},      {"kB/s", 1e3},           {"MB/s", 1e6}, {"GB/s", 1e9},
                                      {"TB/s", 1e12},  {"GiB/s", 1073741824.0}, {"Kb/s", 125}, {"Mb/s", 125e3},
                                      {"Gb/s", 125e6}, {"Tb/s", 125e9}};
static constexpr Unit speeds[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
static constexpr Unit works[] = {{"FLOP", 1},    {"kFLOP", 1e3},  {"MFLOP", 1e6},
                                 {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
static constexpr Unit times[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
static constexpr Unit none[] = {{"", 1}};

const ArrayRef<Unit> sizeUnits = sizes, bandwidthUnits = bandwidths, speedUnits = speeds, workUnits = works,
                     timeUnits = times, noUnit = none;

Expected<double> parseQuantity(const YamlValue &value, ArrayRef<Unit> units, StringRef subject) {
  if (Error failure = value.expect(YamlValue::Kind::Text, subject))
    return failure;
  StringRef text = StringRef(value.text).trim();
  size_t end = text.find_first_of(" \t");
  StringRef number = text.take_front(end), unit = end == StringRef::npos ? StringRef() : text.drop_front(end).trim();
  double parsed = 0;
  if (!to_float(number, parsed) || !std::isfinite(parsed) || parsed < 0)
    return value.error(subject + " expects a finite number that is not negative, got \"" + value.text + "\"");
  for (const Unit &known : units)
    if (known.name == unit && std::isfinite(parsed * known.factor))
      return parsed * known.factor;
  SmallVector<StringRef> names;
  for (const Unit &known : units)
    names.push_back(known.name);
  return value.error(subject + " expects " +
                     (names == ArrayRef<StringRef>{""} ? "a number without unit"
                                                       : "a number, a space and a unit of " + join(names, ", ")) +
                     ", got \"" + value.text + "\"");
}

/// The shortest decimal number that times `factor` is exactly `value`; empty where there is none.
static std::string printFactor(double value, double factor) {
  // Division rounds: the number may be a neighbour of the quotient.
  double quotient = value / factor;
  for (double candidate : {quotient, std::nextafter(quotient, 0.0), std::nextafter(quotient, INFINITY)})
    for (int digits = 1; digits <= 17; ++digits) {
      char text[40];
      auto end = std::to_chars(text, std::end(text), candidate, std::chars_format::general, digits).ptr;
      double parsed = 0;
      std::from_chars(text, end, parsed);
      if (parsed * factor == value)
        return std::string(text, end);
    }
  return "";
}

std::string printQuantity(double value, ArrayRef<Unit> units) {
  std::string best;
  for (const Unit &unit : units) {
    std::string number = printFactor(value, unit.factor);
    if (number.empty())
      continue;
    std::string text = unit.name.empty() ? number : number + " " + unit.name.str();
    if (best.empty() || text.size() < best.size())
      best = std::move(text);
  }
  return best;
}

} // namespace cleave
