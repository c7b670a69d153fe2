// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of the load command.

#ifndef CLEAVE_TOOLS_CLEAVERUN_LOADARGUMENTS_H
#define CLEAVE_TOOLS_CLEAVERUN_LOADARGUMENTS_H

#include "runtime/serve/LoadGenerator.h"

namespace CLI {
class App;
} // namespace CLI

namespace cleave {

/// Adds the positional URL and the options to a command; parsing fills `options`, which must live as long.
void addLoadArguments(CLI::App &command, runtime::serve::LoadOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_LOADARGUMENTS_H
