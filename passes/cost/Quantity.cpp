// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads numbers with units.

#include "passes/cost/Quantity.h"

#include "passes/cost/Machine.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

using namespace llvm;

namespace cleave {

/// The number; else what is wrong with it, into `problem`.
static double parseNumber(StringRef whole, ArrayRef<Unit> units, StringRef subject, std::string &problem) {
  StringRef text = whole.trim();
  size_t end = text.find_first_of(" \t");
  StringRef number = text.take_front(end), unit = end == StringRef::npos ? StringRef() : text.drop_front(end).trim();
  double parsed = 0;
  if (!to_float(number, parsed) || !std::isfinite(parsed) || parsed < 0) {
    problem = (subject + " expects a finite number that is not negative, got \"" + whole + "\"").str();
    return 0;
  }
  for (const Unit &known : units)
    if (known.name == unit && std::isfinite(parsed * known.factor))
      return parsed * known.factor;
  SmallVector<StringRef> names;
  for (const Unit &known : units)
    names.push_back(known.name);
  problem = (subject + " expects " +
             (names == ArrayRef<StringRef>{""} ? "a number without unit"
                                               : "a number, a space and a unit of " + join(names, ", ")) +
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
