// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler's options on a command line.

#ifndef CLEAVE_TOOLS_CLEAVE_MODELARGUMENTS_H
#define CLEAVE_TOOLS_CLEAVE_MODELARGUMENTS_H

#include "compiler/Options.h"

#include <initializer_list>

namespace CLI {
class App;
} // namespace CLI

namespace cleave::tool {

/// Adds MODEL, and the options of the two below, to a command. The options must live as long as the command.
void addModelOptions(CLI::App &command, ModelOptions &options);
/// --dim, --weights, and the limits of an import.
void addModelDimOptions(CLI::App &command, ModelOptions &options);
/// --bind.
void addModelBindOption(CLI::App &command, ModelOptions &options);

/// Adds every row of the table of options.
void addTargetOptions(CLI::App &command, TargetOptions &options);

/// The first of the table's options, or of `others`, that the command line has; null where it has none. A plan takes
/// none.
const char *findGivenOption(const CLI::App &command, std::initializer_list<const char *> others = {});

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_MODELARGUMENTS_H
