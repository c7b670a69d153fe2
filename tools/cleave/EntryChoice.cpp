// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds entries by name.

#include "tools/cleave/EntryChoice.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {

void addEntryOption(CLI::App &command, std::string &entry) {
  command.add_option("--entry", entry, "which entry of the plan, or all; the first without it");
}

Expected<std::vector<const runtime::Entry *>> chooseEntries(const runtime::Plan &plan, const std::string &name) {
  std::vector<const runtime::Entry *> chosen;
  if (name == allEntries) {
    for (const runtime::Entry &entry : plan->entries)
      chosen.push_back(&entry);
    return chosen;
  }
  auto entry = plan.entry(name);
  if (!entry)
    return entry.error();
  if (name.empty() && (*entry)->bucket != 0) {
    std::string others;
    for (const runtime::Entry &other : plan->entries)
      if (&other != *entry)
        others += (others.empty() ? "" : ", ") + other.name;
    printNote("this is entry " + (*entry)->name + "; --entry shows all, or one of " + others);
  }
  chosen.push_back(*entry);
  return chosen;
}

} // namespace cleave::tool
