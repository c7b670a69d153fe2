// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits lines, and looks tokens up.

#include "runtime/training/Vocabulary.h"

#include "runtime/MappedFile.h"

#include <algorithm>

namespace cleave::runtime {

std::optional<TokenKind> findTokenKind(std::string_view name) {
  if (name == "bytes")
    return TokenKind::Bytes;
  if (name == "characters")
    return TokenKind::Characters;
  return name == "words" ? std::optional(TokenKind::Words) : std::nullopt;
}

void forEachLine(std::string_view text, const std::function<void(uint64_t number, std::string_view line)> &visit) {
  for (uint64_t number = 1; !text.empty(); ++number) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    visit(number, line);
  }
}

/// The bytes of the character at the beginning of the text; 0 where it is not UTF-8 (RFC 3629).
static size_t characterLength(std::string_view text) {
  auto byteAt = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned lead = byteAt(0);
  size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byteAt(i) & 0xc0) != 0x80)
      return 0;
  if (length < 3)
    return length;
  // Not longer than need be, no half of a pair, and no number above the last one.
  unsigned second = byteAt(1);
  bool wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) || (lead == 0xf0 && second < 0x90) ||
               (lead == 0xf4 && second >= 0x90);
  return wrong ? 0 : length;
}

Expected<std::vector<std::string_view>> splitLine(std::string_view line, TokenKind kind) {
  static constexpr std::string_view space = " \t\v\f\r";
  std::vector<std::string_view> tokens;
  size_t position = 0;
  while (position != line.size()) {
    size_t length = 1;
    if (kind == TokenKind::Words) {
      position = std::min(line.find_first_not_of(space, position), line.size());
      length = std::min(line.find_first_of(space, position), line.size()) - position;
    } else if (kind == TokenKind::Characters) {
      length = characterLength(line.substr(position));
      if (length == 0)
        return makeError(Status::Rejected, "expects characters in UTF-8, got others at byte ", position,
                         "; take bytes as tokens, or convert the text");
    }
    if (length != 0)
      tokens.push_back(line.substr(position, length));
    position += length;
  }
  return tokens;
}

Vocabulary Vocabulary::ofBytes() {
  Vocabulary vocabulary(TokenKind::Bytes);
  vocabulary.count = 256;
  vocabulary.endNumber = '\n';
  return vocabulary;
}

Error Vocabulary::add(std::string_view token) {
  auto number = static_cast<int64_t>(count);
  if (!numbers.emplace(token, number).second)
    return makeError(Status::Rejected, "expects each token once, got \"", token, "\" again");
  ++count;
  if (token == endToken) {
    endNumber = number;
    return Error::success();
  }
  if (token == unknownToken) {
    unknown = number;
    return Error::success();
  }
  auto split = splitLine(token, kind);
  if (!split)
    return split.error();
  return split->size() == 1 && split->front() == token
             ? Error::success()
             : makeError(Status::Rejected, "expects one ", kind == TokenKind::Words ? "word" : "character",
                         " a line, got \"", token, "\"");
}

static Expected<std::string> readText(const std::string &file) {
  auto mapping = MappedFile::open(file);
  if (!mapping)
    return mapping.error();
  auto bytes = mapping->bytes();
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

Expected<Vocabulary> Vocabulary::read(const std::string &file, TokenKind kind) {
  auto text = readText(file);
  if (!text)
    return Error(text.error().status(), "vocabulary \"" + file + "\": " + text.error().message());
  Vocabulary vocabulary(kind);
  Error failed;
  forEachLine(*text, [&](uint64_t number, std::string_view line) {
    Error error = failed ? Error::success() : vocabulary.add(line);
    if (error)
      failed = makeError(Status::Rejected, "vocabulary \"", file, "\": line ", number, " ", error.message());
  });
  if (failed)
    return failed;
  if (vocabulary.count == 0)
    return makeError(Status::Rejected, "vocabulary \"", file, "\" expects a token a line, got none");
  return vocabulary;
}

Expected<std::string> Vocabulary::make(std::string_view text, TokenKind kind, uint64_t size) {
  std::map<std::string_view, uint64_t> counts;
  Error failed;
  forEachLine(text, [&](uint64_t number, std::string_view line) {
    auto tokens = splitLine(line, kind);
    if (!tokens && !failed)
      failed = makeError(tokens.error().status(), "line ", number, " ", tokens.error().message());
    if (tokens)
      for (std::string_view token : *tokens)
        ++counts[token];
  });
  if (failed)
    return failed;
  counts.erase(endToken);
  counts.erase(unknownToken);
  counts.erase("\r"); // alone in a line it would be part of the line's end
  std::vector<std::pair<std::string_view, uint64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string_view, uint64_t>::second);
  std::string file = std::string(endToken) + "\n" + std::string(unknownToken) + "\n";
  uint64_t lines = 2;
  for (const auto &[token, times] : sorted)
    if (size == 0 || lines++ < size)
      file += std::string(token) + "\n";
  return file;
}

Expected<std::vector<int64_t>> Vocabulary::encode(std::string_view line) const {
  auto tokens = splitLine(line, kind);
  if (!tokens)
    return tokens.error();
  std::vector<int64_t> encoded;
  for (std::string_view token : *tokens) {
    if (kind == TokenKind::Bytes) {
      encoded.push_back(static_cast<unsigned char>(token.front()));
      continue;
    }
    auto known = numbers.find(token);
    if (known == numbers.end() && !unknown)
      return makeError(Status::Failure, "expects tokens of the vocabulary, got \"", token, "\"; add it, or a line ",
                       unknownToken, " that stands for all others");
    encoded.push_back(known == numbers.end() ? *unknown : known->second);
  }
  return encoded;
}

std::string Vocabulary::nameOf(int64_t number) const {
  for (const auto &[token, known] : numbers)
    if (known == number)
      return "\"" + token + "\" (" + std::to_string(number) + ")";
  return std::to_string(number);
}

} // namespace cleave::runtime
