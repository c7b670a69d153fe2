// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two values whose JSON form needs care: strings and numbers.

#ifndef CLEAVE_RUNTIME_JSON_H
#define CLEAVE_RUNTIME_JSON_H

#include <ostream>
#include <string_view>

namespace cleave::runtime {

/// A string as a JSON literal. Bytes that are not valid UTF-8 become U+FFFD.
struct JsonString {
  std::string_view text;
};
std::ostream &operator<<(std::ostream &out, JsonString string);

/// A number as a JSON literal with the digits that a double needs; null when it is not finite.
struct JsonNumber {
  double value;
};
std::ostream &operator<<(std::ostream &out, JsonNumber number);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_JSON_H
