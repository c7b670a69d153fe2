// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line of `cleave`: which command, and what becomes of what it throws.

#include "runtime/Processes.h"
#include "runtime/StandardOutput.h"
#include "runtime/training/StopSignals.h"
#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave-run/UsageMessage.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/Diagnostics.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/Reproducer.h"

#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>
#include <cstring>
#include <exception>
#include <new>

namespace cleave::tool {

/// Parses the command line, which chooses the action; the exit code when there is none to run.
static int parse(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty())
      throw CLI::RequiredError("a command");
    return 0;
  } catch (const CLI::Success &help) {
    app.exit(help);
    return 0;
  } catch (const CLI::ParseError &error) {
    printError(usageMessage(app, error));
    auto commands = app.get_subcommands();
    printNote("cleave " + (commands.empty() ? std::string() : commands.front()->get_name() + " ") +
              "--help shows what there is");
    return static_cast<int>(Status::Usage);
  }
}

/// The exit code of a program whose results may not have reached anyone.
static int finish(int code) {
  for (const Error &error : {flushStandardOutput(), runtime::flushStandardOutput()})
    if (int failed = report(error); code == 0)
      code = failed;
  return code;
}

static int runCommand(int argc, char **argv) {
  CLI::App app("Cleave places the operators of a model on devices, makes a plan of it, and runs the plan.", "cleave");
  app.set_version_flag("--version", "cleave " CLEAVE_VERSION);
  Action chosen;
  for (auto add : {addCheckCommand, addImportCommand,     addCompileCommand, addExplainCommand,  addExportCommand,
                   addDiffCommand,  addSimulateCommand,   addProfileCommand, addRunCommand,      addServeCommand,
                   addLoadCommand,  addTrainCommand,      addVerifyCommand,  addScheduleCommand, addPartitionCommand,
                   addZooCommand,   addVocabularyCommand, addBenchCommand,   addProbeCommand,    addCalibrateCommand})
    add(app, chosen);
  checkNumbers(app);
  int code = parse(app, argc, argv);
  if (code != 0 || !chosen)
    return code;
  if (Error error = checkOutputs(app))
    return report(error);
  try {
    return chosen();
  } catch (const std::bad_alloc &) {
    return report(makeError(Status::Infeasible, "the machine has not enough memory for this"));
  } catch (const std::exception &exception) {
    return reportInternalError(exception.what());
  }
}

int runCommandLine(int argc, char **argv) {
  // Processes that run a plan together know MPI, which the compiler does without.
  if (argc > 1 && runtime::isStartedWithOthers())
    for (const char *command : {"run", "serve", "train"})
      if (std::strcmp(argv[1], command) == 0)
        return runWithOthers(argv);
  installCrashHandler();
  int code = finish(runCommand(argc, argv));
  runtime::StopSignals::endAsAsked(code);
  return code;
}

} // namespace cleave::tool
