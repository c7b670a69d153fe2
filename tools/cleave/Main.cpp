// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `cleave` command.

#include "runtime/drivers/cpu/Spinning.h"
#include "tools/cleave/Command.h"

#include <algorithm>
#include <string_view>

/// Those that run plans on this machine's cores.
static bool computes(std::string_view command) {
  constexpr std::string_view commands[] = {"run", "train", "verify", "bench", "profile", "probe"};
  return std::find(std::begin(commands), std::end(commands), command) != std::end(commands);
}

int main(int argc, char **argv) {
  if (argc > 1 && computes(argv[1]))
    cleave::runtime::limitSpinning(argv);
  return cleave::tool::runCommandLine(argc, argv);
}
