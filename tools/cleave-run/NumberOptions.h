// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What options with numbers do not mean, for `cleave` and `cleave-run` alike.

#ifndef CLEAVE_TOOLS_CLEAVERUN_NUMBEROPTIONS_H
#define CLEAVE_TOOLS_CLEAVERUN_NUMBEROPTIONS_H

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace cleave {

/// Checks for options: what is wrong with the text as a number; empty where it is none below zero, or one above zero.
/// Both refuse what is not finite.
std::string notNegative(const std::string &text);
std::string positive(const std::string &text);

/// Has the options of a command line, and of its commands, refuse another option where their value was left out, less
/// than nothing and more than 64 bits where something is counted (their type is "UINT" or "N"), and what is no number
/// where something is measured ("FLOAT", "SECONDS"). To be called when all options are there.
void checkNumbers(CLI::App &app);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_NUMBEROPTIONS_H
