// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that a terminal shows and does not obey: names come from models and plans, whoever made them.

#ifndef CLEAVE_RUNTIME_PRINTABLE_H
#define CLEAVE_RUNTIME_PRINTABLE_H

#include <string>
#include <string_view>

namespace cleave::runtime {

/// Bytes of the UTF-8 sequence at the start of `text`, which is not empty, or 0 when there is no valid one (RFC 3629).
size_t utf8Length(std::string_view text);

/// The text with controls, except new lines and tabs, and bytes that are no UTF-8 as \x1b and the like, and characters
/// that change the direction or the end of lines as \u202e and the like. Other characters stay as they are.
std::string printable(std::string_view text);

/// The same of a message to a person, without its middle where it is very long.
std::string printableMessage(std::string_view text);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PRINTABLE_H
