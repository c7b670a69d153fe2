// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tokens of text: how lines are split, what tokens are called, and what is no token.

#include "runtime/training/Vocabulary.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave::runtime::test {
namespace {

using Strings = std::vector<std::string_view>;

std::string writeFile(const std::string &text) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("cleave-vocabulary-test-" + std::to_string(getpid()))).string();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

/// The vocabulary of a file with this text; its error as text where it is none.
std::string errorOf(const std::string &text, TokenKind kind) {
  auto read = Vocabulary::read(writeFile(text), kind);
  return read ? "" : read.error().text();
}

// Lines end as on any system, the last one perhaps not at all, and empty ones are lines.
TEST(Vocabulary, FindsLines) {
  Strings lines;
  forEachLine("one\r\n\ntwo\nthree", [&](uint64_t number, std::string_view line) {
    EXPECT_EQ(number, lines.size() + 1);
    lines.push_back(line);
  });
  EXPECT_EQ(lines, (Strings{"one", "", "two", "three"}));
}

TEST(Vocabulary, SplitsLines) {
  EXPECT_EQ(*splitLine("  a bc\td ", TokenKind::Words), (Strings{"a", "bc", "d"}));
  EXPECT_EQ(*splitLine("", TokenKind::Words), Strings());
  EXPECT_EQ(*splitLine(" \t", TokenKind::Words), Strings());
  EXPECT_EQ(*splitLine("a\u00e9\u20ac\U0001f600", TokenKind::Characters),
            (Strings{"a", "\u00e9", "\u20ac", "\U0001f600"}));
  EXPECT_EQ(splitLine("\u00e9", TokenKind::Bytes)->size(), 2u);
}

// Each kind of byte sequence that RFC 3629 excludes: cut off, too long, half of a pair, above the last character.
TEST(Vocabulary, RefusesWhatIsNotUtf8) {
  for (const char *text :
       {"\xc3", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"})
    EXPECT_FALSE(splitLine(text, TokenKind::Characters)) << text;
  EXPECT_NE(splitLine("ab\xff", TokenKind::Characters).error().text().find("UTF-8, got others at byte 2"),
            std::string::npos);
}

TEST(Vocabulary, NumbersTokens) {
  auto words = Vocabulary::read(writeFile("<eos>\nthe\ncat\n<unk>\n"), TokenKind::Words);
  ASSERT_TRUE(words) << words.error().text();
  EXPECT_EQ(words->size(), 4u);
  EXPECT_EQ(words->end(), 0);
  EXPECT_EQ(*words->encode("the dog  the cat"), (std::vector<int64_t>{1, 3, 1, 2}));
  EXPECT_EQ(words->nameOf(2), "\"cat\" (2)");
  auto characters = Vocabulary::read(writeFile("a\n \n"), TokenKind::Characters);
  ASSERT_TRUE(characters) << characters.error().text();
  EXPECT_FALSE(characters->end());
  EXPECT_EQ(*characters->encode("a a"), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_NE(characters->encode("ab").error().text().find("got \"b\"; add it, or a line <unk>"), std::string::npos);
  EXPECT_EQ(*Vocabulary::ofBytes().encode("a\xff"), (std::vector<int64_t>{97, 255}));
  EXPECT_EQ(Vocabulary::ofBytes().end(), 10);
}

TEST(Vocabulary, RefusesFilesOfOtherThings) {
  EXPECT_NE(errorOf("", TokenKind::Words).find("expects a token a line, got none"), std::string::npos);
  EXPECT_NE(errorOf("a\nb\na\n", TokenKind::Words).find("line 3 expects each token once, got \"a\" again"),
            std::string::npos);
  EXPECT_NE(errorOf("a\n\nb\n", TokenKind::Words).find("line 2 expects one word a line, got \"\""), std::string::npos);
  EXPECT_NE(errorOf("a b\n", TokenKind::Words).find("line 1 expects one word a line"), std::string::npos);
  EXPECT_NE(errorOf("ab\n", TokenKind::Characters).find("line 1 expects one character a line"), std::string::npos);
  EXPECT_FALSE(Vocabulary::read("/nowhere/at/all", TokenKind::Words));
}

// The most frequent first, equally frequent ones by their bytes, and what it writes can be read.
TEST(Vocabulary, IsMadeOfText) {
  std::string text = "b a c a\n\nb a <unk> d\n";
  EXPECT_EQ(*Vocabulary::make(text, TokenKind::Words, 0), "<eos>\n<unk>\na\nb\nc\nd\n");
  EXPECT_EQ(*Vocabulary::make(text, TokenKind::Words, 4), "<eos>\n<unk>\na\nb\n");
  auto read = Vocabulary::read(writeFile(*Vocabulary::make(text, TokenKind::Words, 4)), TokenKind::Words);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read->encode("b c d"), (std::vector<int64_t>{3, 1, 1}));
  EXPECT_FALSE(Vocabulary::make("a\n\xff", TokenKind::Characters, 0));
  // A carriage return is a character of a line, but a line of its own would be an empty one.
  std::string withReturn = *Vocabulary::make("a\rb\n", TokenKind::Characters, 0);
  EXPECT_EQ(withReturn, "<eos>\n<unk>\na\nb\n");
  auto characters = Vocabulary::read(writeFile(withReturn), TokenKind::Characters);
  ASSERT_TRUE(characters) << characters.error().message();
  EXPECT_EQ(*characters->encode("a\rb"), (std::vector<int64_t>{2, 1, 3}));
}

} // namespace
} // namespace cleave::runtime::test
