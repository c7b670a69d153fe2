// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits lists and reads numbers.

#include "passes/train/OptionText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using namespace llvm;

namespace cleave {

Error optionError(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

Expected<SmallVector<TextOption>> splitOptions(StringRef text, StringRef subject) {
  SmallVector<TextOption> options;
  SmallVector<StringRef> items;
  text.split(items, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/!text.empty());
  for (StringRef item : items) {
    auto [key, value] = item.split('=');
    if (key.empty() || value.empty())
      return optionError(subject + " expects KEY=VALUE,…, got \"" + item + "\"");
    if (llvm::any_of(options, [key = key](const TextOption &other) { return other.key == key; }))
      return optionError(subject + " expects " + key + " once, got \"" + text + "\"");
    options.push_back({key, value});
  }
  return options;
}

Expected<double> parseNumber(StringRef text, StringRef subject, StringRef key, double low, double high) {
  double number = 0;
  if (!to_float(text, number) || !std::isfinite(number) || number < low || number >= high) {
    std::string range;
    raw_string_ostream stream(range);
    stream << format("%g", low);
    if (high != std::numeric_limits<double>::infinity())
      stream << format(" and less than %g", high);
    return optionError(subject + " expects a number of at least " + range + " for " + key + ", got \"" + text + "\"");
  }
  return number;
}

Expected<int64_t> parseWhole(StringRef text, StringRef subject, StringRef key, int64_t low) {
  int64_t number = 0;
  if (!to_integer(text, number, 10) || number < low)
    return optionError(subject + " expects a whole number of at least " + Twine(low) + " for " + key + ", got \"" +
                       text + "\"");
  return number;
}

std::string alternatives(ArrayRef<StringRef> words) {
  std::string text = words.front().str();
  for (auto [index, word] : enumerate(words.drop_front()))
    text += (index + 2 == words.size() ? " or " : ", ") + word.str();
  return text;
}

} // namespace cleave
