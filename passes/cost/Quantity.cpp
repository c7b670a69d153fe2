// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes numbers with units.

#include "passes/cost/Quantity.h"

#include "passes/cost/Machine.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace cleave {

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

/// Where a number ends at the begin of a text. An e belongs to it only with an exponent.
static size_t endOfNumber(StringRef text) {
  size_t end = text.find_first_not_of("0123456789.+-");
  if (end == 0) {
    // "nan" and "inf" are read as numbers, to be refused as such.
    size_t word = text.find_first_of(" \t");
    double parsed = 0;
    return to_float(text.take_front(word), parsed) ? word : 0;
  }
  if (end == StringRef::npos || !StringRef("eE").contains(text[end]))
    return end;
  StringRef exponent = text.drop_front(end + 1);
  (void)(exponent.consume_front("+") || exponent.consume_front("-"));
  return exponent.empty() || !isDigit(exponent.front()) ? end : text.size() - exponent.ltrim("0123456789").size();
}

/// The number; else what is wrong with it, into `problem`. A space before the unit is for readers.
static double parseNumber(StringRef whole, ArrayRef<Unit> units, StringRef subject, std::string &problem) {
  StringRef text = whole.trim();
  size_t end = endOfNumber(text);
  StringRef number = text.take_front(end), unit = end == StringRef::npos ? StringRef() : text.drop_front(end).trim();
  double parsed = 0;
  if (!to_float(number, parsed) || !std::isfinite(parsed) || parsed < 0) {
    problem = (subject + " expects a finite number that is not negative, got \"" + whole + "\"").str();
    return 0;
  }
  for (const Unit &known : units)
    if (double scaled = scale(number, known); known.name == unit && std::isfinite(scaled))
      return scaled;
  SmallVector<StringRef> names;
  for (const Unit &known : units)
    names.push_back(known.name);
  problem =
      (subject + " expects " +
       (names == ArrayRef<StringRef>{""} ? "a number without unit" : "a number and a unit of " + join(names, ", ")) +
       ", got \"" + whole + "\"")
          .str();
  return 0;
}

Expected<double> parseQuantity(const YamlValue &value, ArrayRef<Unit> units, StringRef subject) {
  if (Error failure = value.expect(YamlValue::Kind::Text, subject))
    return failure;
  std::string problem;
  double parsed = parseNumber(value.text, units, subject, problem);
  if (!problem.empty())
    return value.error(problem);
  return parsed;
}

Expected<double> parseQuantity(StringRef text, ArrayRef<Unit> units, StringRef subject) {
  std::string problem;
  double parsed = parseNumber(text, units, subject, problem);
  if (!problem.empty())
    return createStringError(problem);
  return parsed;
}

Expected<unsigned> parseCount(const YamlValue &value, StringRef subject) {
  unsigned count = 0;
  if (value.kind != YamlValue::Kind::Text || !to_integer(value.text, count, 10) || count < 1 || count > mostDevices)
    return value.error(subject + " expects a whole number from 1 to " + Twine(mostDevices) +
                       (value.kind == YamlValue::Kind::Text ? ", got \"" + value.text + "\"" : std::string()));
  return count;
}

Expected<const YamlValue *> requireKey(const YamlValue &map, StringRef key, StringRef subject) {
  if (const YamlValue *value = map.find(key))
    return value;
  return map.error(subject + " expects the key \"" + key + "\", found none");
}

Error readQuantities(const YamlValue &map, StringRef key, ArrayRef<Unit> units, StringRef subject,
                     std::map<std::string, double> &target) {
  const YamlValue *values = map.find(key);
  if (!values)
    return Error::success();
  std::string inner = (subject + " " + key).str();
  if (Error failure = values->expect(YamlValue::Kind::Map, inner))
    return failure;
  for (auto &[name, value] : values->entries) {
    Expected<double> quantity = parseQuantity(value, units, inner + " " + name.text);
    if (!quantity)
      return quantity.takeError();
    target[name.text] = *quantity;
  }
  return Error::success();
}

Error readCount(const YamlValue &map, StringRef key, StringRef subject, unsigned &target) {
  const YamlValue *value = map.find(key);
  if (!value)
    return Error::success();
  Expected<unsigned> count = parseCount(*value, (subject + " " + key).str());
  if (!count)
    return count.takeError();
  target = *count;
  return Error::success();
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
