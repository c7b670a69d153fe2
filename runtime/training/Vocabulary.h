// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From text to tokens: the bytes of a line, its characters, or its words, and the numbers that they have.

#ifndef CLEAVE_RUNTIME_TRAINING_VOCABULARY_H
#define CLEAVE_RUNTIME_TRAINING_VOCABULARY_H

#include "runtime/Error.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

enum class TokenKind {
  Bytes,      ///< A token is a byte, and its number.
  Characters, ///< In UTF-8.
  Words       ///< What stands between white space.
};

/// "bytes", "characters" or "words"; nothing for anything else.
std::optional<TokenKind> findTokenKind(std::string_view name);

/// The token that ends a sequence and stands before its first, and the one that stands for all that are not known.
inline constexpr std::string_view endToken = "<eos>", unknownToken = "<unk>";

/// The lines of a text, counted from 1, without their ends.
void forEachLine(std::string_view text, const std::function<void(uint64_t number, std::string_view line)> &visit);

/// The tokens of a line. Status::Rejected for characters that are not UTF-8.
Expected<std::vector<std::string_view>> splitLine(std::string_view line, TokenKind kind);

/// Numbers of tokens.
class Vocabulary {
public:
  /// The one that all bytes have: a line ends in the byte 10.
  static Vocabulary ofBytes();
  /// From a file with a token a line, whose numbers count from 0. Status::Rejected for a token that comes twice, that
  /// is empty, or that no line of a text can hold.
  static Expected<Vocabulary> read(const std::string &file, TokenKind kind);
  /// The tokens of a text as a file of that kind: endToken, unknownToken, then the others, the most frequent first and
  /// equally frequent ones by their bytes; at most `size` in all if that is not 0. A carriage return within a line has
  /// no line of its own, and is unknownToken. Status::Rejected as splitLine.
  static Expected<std::string> make(std::string_view text, TokenKind kind, uint64_t size);

  uint64_t size() const { return count; }
  /// The number of endToken; nothing where the vocabulary has none.
  std::optional<int64_t> end() const { return endNumber; }
  /// The numbers of a line's tokens. Status::Failure for a token that is not known where unknownToken is not either.
  Expected<std::vector<int64_t>> encode(std::string_view line) const;
  /// What a number stands for, for messages.
  std::string nameOf(int64_t number) const;

private:
  explicit Vocabulary(TokenKind kind) : kind(kind) {}
  Error add(std::string_view token);

  TokenKind kind;
  uint64_t count = 0;
  std::map<std::string, int64_t, std::less<>> numbers;
  std::optional<int64_t> endNumber, unknown;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAINING_VOCABULARY_H
