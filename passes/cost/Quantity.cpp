// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Units, and numbers in them.

#include "passes/cost/Quantity.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace cleave {

static constexpr Unit sizes[] = {{"B", 1},         {"kB", 1, 3},          {"MB", 1, 6},
                                 {"GB", 1, 9},     {"TB", 1, 12},         {"KiB", 1024.0},
                                 {"MiB", 1048576}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
static constexpr Unit bandwidths[] = {{"B/s", 1},       {"kB/s", 1, 3},          {"MB/s", 1, 6}, {"GB/s", 1, 9},
                                      {"TB/s", 1, 12},  {"GiB/s", 1073741824.0}, {"Kb/s", 125},  {"Mb/s", 125, 3},
                                      {"Gb/s", 125, 6}, {"Tb/s", 125, 9}};
static constexpr Unit speeds[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1, 6}, {"GFLOP/s", 1, 9}, {"TFLOP/s", 1, 12}, {"PFLOP/s", 1, 15}};
static constexpr Unit works[] = {{"FLOP", 1},     {"kFLOP", 1, 3},  {"MFLOP", 1, 6},
                                 {"GFLOP", 1, 9}, {"TFLOP", 1, 12}, {"PFLOP", 1, 15}};
static constexpr Unit times[] = {{"s", 1}, {"ms", 1, -3}, {"us", 1, -6}, {"ns", 1, -9}};
static constexpr Unit none[] = {{"", 1}};

const ArrayRef<Unit> sizeUnits = sizes, bandwidthUnits = bandwidths, speedUnits = speeds, workUnits = works,
                     timeUnits = times, noUnit = none;

double Unit::size() const { return factor * std::pow(10, exponent); }

/// A decimal number of units.
static double scale(StringRef number, const Unit &unit) {
  auto [mantissa, exponentText] = number.split(number.contains('e') ? 'e' : 'E');
  int exponent = 0;
  double result = 0;
  if (exponentText.consume_front("+") || !exponentText.empty())
    if (!to_integer(exponentText, exponent, 10) || std::abs(exponent) > 400)
      return NAN;
  if (!to_float(mantissa.str() + "e" + std::to_string(exponent + unit.exponent), result))
    return NAN;
  return result * unit.factor;
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
    if (double scaled = scale(number, known); known.name == unit && std::isfinite(scaled))
      return scaled;
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
static Decimal printIn(double value, const Unit &unit) {
  // Division rounds: the number may be a neighbour of the quotient.
  double quotient = value / unit.size();
  char text[64];
  for (int digits = 1; digits <= 17; ++digits)
    for (double candidate : {quotient, std::nextafter(quotient, 0.0), std::nextafter(quotient, INFINITY)}) {
      auto end = std::to_chars(text, std::end(text), candidate, std::chars_format::general, digits).ptr;
      if (scale(StringRef(text, end - text), unit) != value)
        continue;
      double parsed = 0;
      std::from_chars(text, end, parsed);
      // Without an exponent, where that is the same number.
      char plain[64];
      auto plainEnd = std::to_chars(plain, std::end(plain), parsed, std::chars_format::fixed).ptr;
      if (parsed >= 1e-3 && parsed < 1e15 && scale(StringRef(plain, plainEnd - plain), unit) == value)
        return {std::string(plain, plainEnd), digits};
      return {std::string(text, end), digits};
    }
  return {};
}

std::string printQuantity(double value, ArrayRef<Unit> units) {
  std::string best;
  std::pair<int, size_t> bestRank;
  for (const Unit &unit : units) {
    Decimal number = printIn(value, unit);
    if (!number.digits)
      continue;
    std::string text = unit.name.empty() ? number.text : number.text + " " + unit.name.str();
    // Numbers from 1 to 1000 are the easiest to read, and bytes, unless they are much longer.
    double size = value / unit.size();
    int penalty = (size < 1 || size >= 1000 ? 3 : 0) + (unit.name.ends_with("b/s") ? 2 : 0);
    std::pair rank(number.digits + penalty, text.size());
    if (best.empty() || rank < bestRank) {
      best = std::move(text);
      bestRank = rank;
    }
  }
  return best;
}

} // namespace cleave
