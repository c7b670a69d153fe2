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
  for (const char *text : {"größe", "层/卷积", "\xc2\xa0", "\xc3\x9b", "\xc2", ""})
    EXPECT_EQ(printable(text), text);
}

// Errors name what models and plans are called.
TEST(Printable, IsUsedByErrors) {
  EXPECT_EQ(makeError(Status::Failure, "\x1b[2J").atNode("\a").report(), "error: \\x1b[2J\nnote: at node \"\\x07\"\n");
}

} // namespace
} // namespace cleave::runtime
