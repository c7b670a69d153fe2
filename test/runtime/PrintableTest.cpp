// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a terminal would obey is shown.

#include "runtime/Printable.h"
#include "runtime/Error.h"

#include <gtest/gtest.h>

namespace cleave::runtime {
namespace {

// Controls of ASCII and those of U+0080 to U+009F, also where a string ends in the middle of one; lines stay lines.
TEST(Printable, EscapesControls) {
  using namespace std::string_literals;
  EXPECT_EQ(printable("fc1 \x1b[31mred\x1b[0m\x7f\r\b"), "fc1 \\x1b[31mred\\x1b[0m\\x7f\\x0d\\x08");
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J\xc2\x80\xc2\x9f"),
            "\\x9b2J\\x80\\x9f");
  EXPECT_EQ(printable("line\n\tnext"), "line\n\tnext");
}

// Other letters than ASCII's are names as well, also those whose bytes look like controls.
TEST(Printable, KeepsLetters) {
  for (const char *text : {"größe", "层/卷积", "\xc2\xa0", "\xc3\x9b", "👍", ""})
    EXPECT_EQ(printable(text), text);
}

// Bytes that are no UTF-8: none that leads, an overlong one, a surrogate, one beyond Unicode, one cut off.
TEST(Printable, EscapesBytesThatAreNoText) {
  EXPECT_EQ(printable("a\xff\x80z"), "a\\xff\\x80z");
  EXPECT_EQ(printable("\xc0\xaf \xed\xa0\x80 \xf5\x80"), "\\xc0\\xaf \\xed\\xa0\\x80 \\xf5\\x80");
  EXPECT_EQ(printable("gr\xc3"), "gr\\xc3");
}

// Text that is shown in another order than it is written.
TEST(Printable, EscapesDirections) {
  EXPECT_EQ(printable("a\u202eb\u2066c\u200fd\u061c"), "a\\u202eb\\u2066c\\u200fd\\u061c");
  EXPECT_EQ(printable("a\u2028b\u2029\ufeff"), "a\\u2028b\\u2029\\ufeff");
}

// What a message says about a long name comes after it.
TEST(Printable, ShortensMessages) {
  std::string name(1 << 20, 'n');
  std::string shown = printableMessage("node \"" + name + "\" is odd");
  EXPECT_LT(shown.size(), 5000u);
  EXPECT_EQ(shown.substr(0, 10), "node \"nnnn");
  EXPECT_EQ(shown.substr(shown.size() - 11), "nnn\" is odd");
  std::string wide;
  for (int i = 0; i != 4000; ++i)
    wide += "größe";
  EXPECT_EQ(printableMessage(wide).find('\\'), std::string::npos);
  EXPECT_LT(makeError(Status::Failure, name).atNode(name).report().size(), 10000u);
}

// Errors name what models and plans are called.
TEST(Printable, IsUsedByErrors) {
  EXPECT_EQ(makeError(Status::Failure, "\x1b[2J").atNode("\a").report(), "error: \\x1b[2J\nnote: at node \"\\x07\"\n");
}

} // namespace
} // namespace cleave::runtime
