// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Escapes bytes that terminals take for commands.

#include "runtime/Printable.h"

namespace cleave::runtime {

std::string printable(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  static constexpr unsigned char lead = 0xc2; // of U+0080 to U+00BF in UTF-8
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i != text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    auto next = static_cast<unsigned char>(i + 1 != text.size() ? text[i + 1] : 0);
    bool isWide = byte == lead && next >= 0x80 && next < 0xa0;
    bool isControl = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (!isWide && !isControl) {
      result += text[i];
      continue;
    }
    unsigned char shown = isWide ? next : byte;
    result += {'\\', 'x', digits[shown >> 4], digits[shown & 15]};
    i += isWide ? 1 : 0;
  }
  return result;
}

} // namespace cleave::runtime
