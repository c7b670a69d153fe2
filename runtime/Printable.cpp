// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Escapes what terminals take for commands and what changes the order or the end of the text around it.

#include "runtime/Printable.h"

#include <cstdint>

namespace cleave::runtime {

/// How much of a message is shown: a name may be as long as a file.
static constexpr size_t longestMessage = 4096;

size_t utf8Length(std::string_view text) {
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

/// The character of a sequence of `length` bytes.
static uint32_t characterOf(std::string_view sequence) {
  auto lead = static_cast<uint8_t>(sequence[0]);
  uint32_t character = sequence.size() == 1 ? lead : lead & (0xffu >> (sequence.size() + 1));
  for (char byte : sequence.substr(1))
    character = character << 6 | (static_cast<uint8_t>(byte) & 0x3f);
  return character;
}

/// Whether a character acts on its surroundings: controls, marks and overrides of direction (Unicode's Bidi_Control),
/// separators of lines and paragraphs, and the mark of byte order, which nothing shows.
static bool isControl(uint32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

std::string printable(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    size_t length = utf8Length(text);
    uint32_t character = length ? characterOf(text.substr(0, length)) : static_cast<uint8_t>(text[0]);
    if (length && !isControl(character)) {
      result += text.substr(0, length);
    } else {
      result += character > 0xff ? "\\u" : "\\x";
      for (int shift = character > 0xff ? 12 : 4; shift >= 0; shift -= 4)
        result += digits[character >> shift & 15];
    }
    text.remove_prefix(length ? length : 1);
  }
  return result;
}

std::string printableMessage(std::string_view text) {
  if (text.size() <= longestMessage)
    return printable(text);
  // The end says what is wrong with what the beginning names. A cut does not divide a character.
  auto isWithin = [&](size_t i) { return (static_cast<uint8_t>(text[i]) & 0xc0) == 0x80; };
  size_t head = longestMessage / 2, tail = text.size() - longestMessage / 2;
  for (int i = 0; i != 3 && isWithin(head); ++i)
    --head;
  for (int i = 0; i != 3 && isWithin(tail); ++i)
    ++tail;
  return printable(text.substr(0, head)) + "…" + printable(text.substr(tail));
}

} // namespace cleave::runtime
