// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options that name what a command writes, for `cleave` and `cleave-run` alike: whether that can be written is found
// out before the command does anything else.

#ifndef CLEAVE_TOOLS_CLEAVERUN_OUTPUTOPTIONS_H
#define CLEAVE_TOOLS_CLEAVERUN_OUTPUTOPTIONS_H

#include "runtime/run/OutputCheck.h"

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace cleave {

/// Adds an option of type FILE whose file the command writes.
CLI::Option *addOutputOption(CLI::App &command, const std::string &names, std::string &file, const std::string &help,
                             runtime::OutputKind kind = runtime::OutputKind::Any);

/// Adds an option of type NAME=FILE that may come several times, each time with a file for a tensor.
CLI::Option *addTensorOutputOption(CLI::App &command, const std::string &names, std::vector<std::string> &bindings,
                                   const std::string &help);

/// Checks with runtime::checkOutput what such options of a parsed command line, and of the command that it has chosen,
/// were given.
runtime::Error checkOutputs(CLI::App &app);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_OUTPUTOPTIONS_H
