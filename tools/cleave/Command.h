// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The commands of `cleave`: each adds itself to the command line in a file of its own.

#ifndef CLEAVE_TOOLS_CLEAVE_COMMAND_H
#define CLEAVE_TOOLS_CLEAVE_COMMAND_H

#include <functional>

namespace CLI {
class App;
} // namespace CLI

namespace cleave::tool {

/// What the chosen command does; returns the exit code. Errors have been printed.
using Action = std::function<int()>;

/// Does what a command line says; the exit code. Errors have been printed.
int runCommandLine(int argc, char **argv);

/// Each adds one command to `app`. Parsing the command line with it puts its action into `chosen`, which must live as
/// long as `app`.
void addBenchCommand(CLI::App &app, Action &chosen);
void addCalibrateCommand(CLI::App &app, Action &chosen);
void addCheckCommand(CLI::App &app, Action &chosen);
void addCompileCommand(CLI::App &app, Action &chosen);
void addDiffCommand(CLI::App &app, Action &chosen);
void addExplainCommand(CLI::App &app, Action &chosen);
void addExportCommand(CLI::App &app, Action &chosen);
void addImportCommand(CLI::App &app, Action &chosen);
void addLoadCommand(CLI::App &app, Action &chosen);
void addPartitionCommand(CLI::App &app, Action &chosen);
void addProbeCommand(CLI::App &app, Action &chosen);
void addProfileCommand(CLI::App &app, Action &chosen);
void addRunCommand(CLI::App &app, Action &chosen);
void addScheduleCommand(CLI::App &app, Action &chosen);
void addServeCommand(CLI::App &app, Action &chosen);
void addSimulateCommand(CLI::App &app, Action &chosen);
void addTrainCommand(CLI::App &app, Action &chosen);
/// Becomes cleave-run, which takes the same arguments, in processes that a launcher has started together to run a plan
/// or to train; the exit code when it cannot.
int runWithOthers(char **argv);
void addVerifyCommand(CLI::App &app, Action &chosen);
void addVocabularyCommand(CLI::App &app, Action &chosen);
void addZooCommand(CLI::App &app, Action &chosen);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_COMMAND_H
