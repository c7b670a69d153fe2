// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which entries of a plan a command is about: `--entry`.

#ifndef CLEAVE_TOOLS_CLEAVE_ENTRYCHOICE_H
#define CLEAVE_TOOLS_CLEAVE_ENTRYCHOICE_H

#include "runtime/Plan.h"
#include "tools/cleave/Diagnostics.h"

namespace CLI {
class App;
} // namespace CLI

namespace cleave::tool {

/// What stands for all entries.
inline constexpr const char *allEntries = "all";

/// Adds --entry to a command.
void addEntryOption(CLI::App &command, std::string &entry);

/// The entries that `name` means: all, the one of that name, or, where it is empty, the first one, which a plan for
/// several lengths of sequences has for the longest; a note then names the others. Status::Usage for an unknown name.
Expected<std::vector<const runtime::Entry *>> chooseEntries(const runtime::Plan &plan, const std::string &name);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_ENTRYCHOICE_H
