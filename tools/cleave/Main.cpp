// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `cleave` command.

#include "tools/cleave/Command.h"

int main(int argc, char **argv) { return cleave::tool::runCommandLine(argc, argv); }
