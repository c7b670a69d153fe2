// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command that runs a plan on tensor files, compares, measures and reports: the whole of `cleave-run`, and what
// `cleave run` does once it has a plan.

#ifndef CLEAVE_RUNTIME_RUN_RUNCOMMAND_H
#define CLEAVE_RUNTIME_RUN_RUNCOMMAND_H

#include "runtime/ParameterSource.h"
#include "runtime/Plan.h"

#include <iosfwd>

namespace cleave::runtime {

class Processes;

/// What the user asked for. Bindings are "NAME=FILE", where NAME is a port's name or "@" and its position; of outputs
/// also "FILE.npz", for all of them by their names.
struct RunOptions {
  std::string entry;
  std::vector<std::string> inputs, expects, outputs;
  double rtol = 1e-3, atol = 1e-5;
  unsigned repeat = 1;
  unsigned inFlight = 1;
  unsigned warmup = 0;  ///< steps before those that are measured
  double duration = 0;  ///< seconds to run for instead of `repeat` steps; 0: not
  bool profile = false; ///< whether to report what each node took
  std::string traceFile, jsonFile;
  /// Those that run the plan together, null for one alone, and their devices (see divideDevices).
  Processes *processes = nullptr;
  std::vector<std::string> devicesOfRank;
};

/// Runs the plan: verifies it, fills inputs that have no file with deterministic random numbers (with a notice), runs
/// `repeat` steps of which at most `inFlight` at a time, writes outputs, compares |a - b| <= atol + rtol |b| where b is
/// the expected value (NaN equals NaN). Results go to `out`, notices and errors to `err`. Returns the exit code. Of
/// several processes rank 0 compares, writes and reports for all.
int runPlan(const Plan &plan, ParameterSource &parameters, const RunOptions &options, std::ostream &out,
            std::ostream &err);

/// The same with standard output and standard error.
int runPlan(const Plan &plan, ParameterSource &parameters, const RunOptions &options);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RUN_RUNCOMMAND_H
