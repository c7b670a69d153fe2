// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of the train command, which `cleave` and `cleave-run` have alike.

#ifndef CLEAVE_TOOLS_CLEAVERUN_TRAINARGUMENTS_H
#define CLEAVE_TOOLS_CLEAVERUN_TRAINARGUMENTS_H

#include "runtime/training/TrainCommand.h"
#include "runtime/watch/Watch.h"
#include "tools/cleave-run/PlanTrust.h"

namespace CLI {
class App;
} // namespace CLI

namespace cleave {

/// What the command line says: the plan's file and the options.
struct TrainArguments {
  std::string file;
  PlanTrust trust;
  runtime::TrainOptions options;
  runtime::WatchOptions watch;
};

/// Adds what concerns a run on several processes: which devices each has, and when it is given up.
void addProcessOptions(CLI::App &command, std::vector<std::string> &devicesOfRank, runtime::WatchOptions &watch);

/// Adds the positional PLAN and the options to a command; parsing fills `arguments`, which must live as long.
void addTrainArguments(CLI::App &command, TrainArguments &arguments);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVERUN_TRAINARGUMENTS_H
