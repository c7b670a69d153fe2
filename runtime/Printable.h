// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that a terminal shows and does not obey: names come from models and plans, whoever made them.

#ifndef CLEAVE_RUNTIME_PRINTABLE_H
#define CLEAVE_RUNTIME_PRINTABLE_H

#include <string>
#include <string_view>

namespace cleave::runtime {

/// The text with control characters of ASCII, except new lines and tabs, and U+0080 to U+009F in UTF-8 as \x1b and the
/// like. Other bytes stay as they are.
std::string printable(std::string_view text);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PRINTABLE_H
