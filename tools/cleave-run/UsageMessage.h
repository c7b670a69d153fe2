// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is said about a command line that is none of ours, for `cleave` and `cleave-run` alike.

#ifndef CLEAVE_TOOLS_CLEAVERUN_USAGEMESSAGE_H
#define CLEAVE_TOOLS_CLEAVERUN_USAGEMESSAGE_H

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace cleave {

/// The message for an error of `app.parse`. It names the first argument that the chosen command does not take and, for
/// a misspelt option or command, the one that was probably meant, or which commands have the option.
std::string usageMessage(const CLI::App &app, const CLI::ParseError &error);

/// The candidate that `word` probably misspells; empty where none is near.
std::string nearestWord(const std::string &word, const std::vector<std::string> &candidates);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_USAGEMESSAGE_H
