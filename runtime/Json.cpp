// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Escapes strings and prints numbers the way RFC 8259 wants them.

#include "runtime/Json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace cleave::runtime {

/// Bytes of the UTF-8 sequence at the start of `text`, or 0 when there is no valid one (RFC 3629).
static size_t sequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t lead = byte(0);
  size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : 4;
  if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || length > text.size())
    return 0;
  for (size_t i = 1; i != length; ++i)
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
  bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  bool outside = (lead == 0xed && byte(1) > 0x9f) || (lead == 0xf4 && byte(1) > 0x8f);
  return overlong || outside ? 0 : length;
}

std::ostream &operator<<(std::ostream &out, JsonString string) {
  static constexpr std::string_view digits = "0123456789abcdef";
  out << '"';
  for (std::string_view rest = string.text; !rest.empty();) {
    size_t length = sequenceLength(rest);
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
