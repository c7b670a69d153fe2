// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave load`: asks a server again and again, and measures.

#include "tools/cleave/Command.h"

#include "tools/cleave-run/LoadArguments.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace cleave::tool {

void addLoadCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<runtime::serve::LoadOptions>();
  CLI::App *command = app.add_subcommand("load", "Asks a server again and again, and measures its answers.");
  addLoadArguments(*command, *options);
  command->callback([options, &chosen] {
    chosen = [options] { return runtime::serve::loadCommand(*options, std::cout, std::cerr); };
  });
}

} // namespace cleave::tool
