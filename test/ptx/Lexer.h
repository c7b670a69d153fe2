// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts PTX text into tokens.

#ifndef CLEAVE_TEST_PTX_LEXER_H
#define CLEAVE_TEST_PTX_LEXER_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace cleave::ptx {

struct Token {
  /// A word is a name, register, label, directive or opcode with all its modifiers: dots belong to it.
  enum Kind : uint8_t { Word, Integer, Float32, Float64, String, Punctuation, End };
  Kind kind;
  std::string_view text;
  /// The value of an integer, or the bits of a number.
  uint64_t bits;
  uint32_t line;

  bool is(std::string_view expected) const { return kind != String && text == expected; }
};

/// The tokens of `text`, which must outlive them; the last one is `End`. Throws ParseFailure.
std::vector<Token> cutIntoTokens(std::string_view text);

} // namespace cleave::ptx

#endif
