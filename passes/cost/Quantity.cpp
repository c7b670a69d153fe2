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

/// Inverse powers of ten are not exact, but dividing by the power is rounded once.
static double scale(double number, double factor) {
  return factor < 1 ? number / std::round(1 / factor) : number * factor;
}

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
    if (known.name == unit && std::isfinite(scale(parsed, known.factor)))
      return scale(parsed, known.factor);
  SmallVector<StringRef> names;
  for (const Unit &known : units)
    names.push_back(known.name);
  return value.error(subject + " expects " +
                     (names == ArrayRef<StringRef>{""} ? "a number without unit"
                                                       : "a number, a space and a unit of " + join(names, ", ")) +
                     ", got \"" + value.text + "\"");
}

namespace {
struct Decimal {
  std::string text;
  int digits = 0; ///< that count; 0: there is none
};
} // namespace

/// The decimal number of fewest digits that in a unit is exactly `value`.
static Decimal printFactor(double value, double factor) {
  // Division rounds: the number may be a neighbour of the quotient.
  double quotient = value / factor;
  char text[64];
  for (int digits = 1; digits <= 17; ++digits)
    for (double candidate : {quotient, std::nextafter(quotient, 0.0), std::nextafter(quotient, INFINITY)}) {
      auto end = std::to_chars(text, std::end(text), candidate, std::chars_format::general, digits).ptr;
      double parsed = 0;
      std::from_chars(text, end, parsed);
      if (scale(parsed, factor) != value)
        continue;
      if (parsed >= 1e-3 && parsed < 1e15)
        end = std::to_chars(text, std::end(text), parsed, std::chars_format::fixed).ptr;
      return {std::string(text, end), digits};
    }
  return {};
}

std::string printQuantity(double value, ArrayRef<Unit> units) {
  std::string best;
  std::tuple<bool, int, size_t> bestRank;
  for (const Unit &unit : units) {
    Decimal number = printFactor(value, unit.factor);
    if (!number.digits)
      continue;
    std::string text = unit.name.empty() ? number.text : number.text + " " + unit.name.str();
    // Numbers from 1 to 1000 are the easiest to read.
    double size = value / unit.factor;
    std::tuple rank(size < 1 || size >= 1000, number.digits, text.size());
    if (best.empty() || rank < bestRank) {
      best = std::move(text);
      bestRank = rank;
    }
  }
  return best;
}

} // namespace cleave
