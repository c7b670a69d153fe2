// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Lexer.h"

#include "Program.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <string>

namespace cleave::ptx {
namespace {

bool startsWord(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}
bool continuesWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.'; }

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  std::vector<Token> run() {
    while (skipSpace()) {
      char c = text[position];
      if (startsWord(c) &&
          !(c == '.' && position + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[position + 1]))))
        word();
      else if (std::isdigit(static_cast<unsigned char>(c)) || c == '.')
        number();
      else if (c == '"')
        string();
      else
        add(Token::Punctuation, position + 1);
    }
    add(Token::End, position);
    return std::move(tokens);
  }

private:
  /// False at the end of the text.
  bool skipSpace() {
    while (position < text.size()) {
      if (text[position] == '\n')
        ++line, ++position;
      else if (std::isspace(static_cast<unsigned char>(text[position])) || text[position] == '\0')
        ++position;
      else if (text.substr(position, 2) == "//")
        position = std::min(text.find('\n', position), text.size());
      else if (text.substr(position, 2) == "/*")
        comment();
      else
        return true;
    }
    return false;
  }

  void comment() {
    size_t end = text.find("*/", position + 2);
    if (end == std::string_view::npos)
      throw ParseFailure(line, "a comment that begins here does not end");
    for (; position != end + 2; ++position)
      line += text[position] == '\n';
  }

  void add(Token::Kind kind, size_t end, uint64_t bits = 0) {
    tokens.push_back({kind, text.substr(position, end - position), bits, line});
    position = end;
  }

  void word() {
    size_t end = position + 1;
    // A directive ends at the next one's dot: ".reg.b32" is two words.
    bool directive = text[position] == '.';
    while (end < text.size() && !(directive && text[end] == '.') &&
           (continuesWord(text[end]) || text.substr(end, 2) == "::"))
      end += text[end] == ':' ? 2 : 1;
    add(Token::Word, end);
  }

  void string() {
    size_t end = text.find('"', position + 1);
    if (end == std::string_view::npos)
      throw ParseFailure(line, "a string that begins here does not end");
    add(Token::String, end + 1);
  }

  void number() {
    size_t end = position;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '.'))
      ++end;
    std::string_view digits = text.substr(position, end - position);
    char second = digits.size() > 1 ? static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1]))) : ' ';
    if (digits[0] == '0' && second == 'f' && digits.size() == 10)
      return add(Token::Float32, end, parse(digits.substr(2), 16));
    if (digits[0] == '0' && second == 'd' && digits.size() == 18)
      return add(Token::Float64, end, parse(digits.substr(2), 16));
    if (digits.find('.') != std::string_view::npos)
      return decimal(end, digits);
    if (digits.back() == 'U')
      digits.remove_suffix(1);
    if (second == 'x')
      return add(Token::Integer, end, parse(digits.substr(2), 16));
    if (second == 'b')
      return add(Token::Integer, end, parse(digits.substr(2), 2));
    add(Token::Integer, end, parse(digits, digits.size() > 1 && digits[0] == '0' ? 8 : 10));
  }

  void decimal(size_t end, std::string_view digits) {
    double value = 0;
    auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || rest != digits.data() + digits.size())
      throw ParseFailure(line, "expected a number, got '" + std::string(digits) + "'");
    add(Token::Float64, end, std::bit_cast<uint64_t>(value));
  }

  uint64_t parse(std::string_view digits, int base) {
    uint64_t value = 0;
    auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (digits.empty() || error != std::errc() || rest != digits.data() + digits.size())
      throw ParseFailure(line, "expected a number, got '" + std::string(digits) + "'");
    return value;
  }

  std::string_view text;
  size_t position = 0;
  uint32_t line = 1;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> cutIntoTokens(std::string_view text) { return Lexer(text).run(); }

} // namespace cleave::ptx
