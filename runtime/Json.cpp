// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Escapes strings and prints numbers the way RFC 8259 wants them.

#include "runtime/Json.h"

#include "runtime/Printable.h"

#include <array>
#include <charconv>
#include <cmath>

namespace cleave::runtime {

std::ostream &operator<<(std::ostream &out, JsonString string) {
  static constexpr std::string_view digits = "0123456789abcdef";
  out << '"';
  for (std::string_view rest = string.text; !rest.empty();) {
    size_t length = utf8Length(rest);
    auto c = static_cast<unsigned char>(rest.front());
    if (length == 0)
      out << "\\ufffd";
    else if (c == '"' || c == '\\')
      out << '\\' << c;
    else if (c < 0x20)
      out << "\\u00" << digits[c >> 4] << digits[c & 15];
    else
      out << rest.substr(0, length);
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  return out << '"';
}

std::ostream &operator<<(std::ostream &out, JsonNumber number) {
  if (!std::isfinite(number.value))
    return out << "null";
  std::array<char, 32> text;
  auto result = std::to_chars(text.data(), text.data() + text.size(), number.value);
  return out << std::string_view(text.data(), result.ptr - text.data());
}

} // namespace cleave::runtime
