// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a plan file, or trains with it. Links the runtime alone: a machine that only runs plans needs no compiler.

#include "runtime/CollectiveBench.h"
#include "runtime/CrashReport.h"
#include "runtime/Processes.h"
#include "runtime/RunCommand.h"
#if defined(CLEAVE_MPI)
#include "runtime/communicators/mpi/MpiProcesses.h"
#endif
#include "tools/cleave-run/TrainArguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <sstream>

using namespace cleave::runtime;

/// Whether something has started this process together with others: what Open MPI, MPICH and PMIx tell their processes.
static bool isStartedWithOthers() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE") || std::getenv("PMIX_RANK");
}

/// The processes of the run; null for one alone.
static Expected<std::unique_ptr<Processes>> startProcesses() {
  if (!isStartedWithOthers())
    return std::unique_ptr<Processes>();
#if defined(CLEAVE_MPI)
  return startMpi();
#else
  return makeError(Status::Unsupported, "a run on several processes expects a cleave-run with MPI, got one without; "
                                        "configure it with -DCLEAVE_MPI=ON");
#endif
}

static int report(const Error &error, bool isFirst) {
  if (isFirst)
    std::cerr << "error: " << error.message() << "\n";
  return static_cast<int>(error.status());
}

/// Reads a plan in all processes and does `work` with it and its parameters.
template <typename Work> static int withPlan(const std::string &file, Processes *processes, const Work &work) {
  bool isFirst = !processes || processes->rank() == 0;
  auto plan = Plan::read(file);
  if (Error error = processes ? processes->agree(plan.error()) : plan.error())
    return report(error, isFirst);
  FolderSource parameters(plan->folder());
  return work(*plan, parameters);
}

static void addDevicesOfRank(CLI::App &app, std::vector<std::string> &lists) {
  app.add_option("--devices-of-rank", lists,
                 "once for each process, in their order: its devices as 0,2,4-7; without it equal blocks")
      ->type_name("LIST")
      ->allow_extra_args(false);
}

static int run(int argc, char **argv, std::unique_ptr<Processes> &processes) {
  CLI::App app("Runs a plan on tensor files; what it found goes to standard output. Under mpirun the processes share "
               "the plan's devices.");
  std::string file;
  RunOptions options;
  CollectiveBenchOptions collectives;
  CLI::Option *planOption = app.add_option("PLAN", file, "the plan file");
  bool measuresCollectives = false;
  CLI::Option *collectivesFlag =
      app.add_flag("--collectives", measuresCollectives,
                   "measure collectives instead, between devices of this process or, under mpirun, of all");
  app.add_option("--operations", collectives.operations, "which collectives, by commas; otherwise all")
      ->delimiter(',')
      ->check(CLI::IsMember(collectiveNames()))
      ->needs(collectivesFlag);
  app.add_option("--sizes", collectives.sizes, "sizes by commas, as in 64KiB,64MiB")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->needs(collectivesFlag);
  CLI::Option *devicesOption =
      app.add_option("--devices", collectives.devices, "how many devices; under mpirun, otherwise one a process")
          ->check(CLI::Range(2, 1024))
          ->capture_default_str()
          ->needs(collectivesFlag);
  app.add_option("--entry", options.entry, "which entry of the plan to run; not needed when there is one");
  app.add_option("--input", options.inputs, "an input: NAME=FILE, or @0=FILE by position")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app.add_option("--expect", options.expects, "what an output should be")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app.add_option("--output", options.outputs, "where an output goes")->type_name("NAME=FILE")->allow_extra_args(false);
  app.add_option("--rtol", options.rtol, "relative tolerance of --expect")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--atol", options.atol, "absolute tolerance of --expect")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--repeat", options.repeat, "how many steps to run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--in-flight", options.inFlight, "how many steps at the same time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--trace", options.traceFile, "where a trace for Perfetto goes");
  app.add_option("--json", options.jsonFile, "where the results go as JSON");
  addDevicesOfRank(app, options.devicesOfRank);
  cleave::TrainArguments training;
  CLI::App *trainCommand =
      app.add_subcommand("train", "Trains: runs a plan that was compiled with --train on data. See train --help.");
  addTrainArguments(*trainCommand, training);
  addDevicesOfRank(*trainCommand, training.options.devicesOfRank);
  auto started = startProcesses();
  if (!started)
    return report(started.error(), true);
  processes = std::move(*started);
  if (processes)
    reportCrashes(processes->rank());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // The processes have the same command line; one of them says what is wrong with it.
    std::ostringstream nowhere;
    bool isFirst = !processes || processes->rank() == 0;
    int code = isFirst ? app.exit(error) : app.exit(error, nowhere, nowhere);
    return code == 0 ? 0 : static_cast<int>(Status::Usage);
  }
  if (trainCommand->parsed()) {
    training.options.processes = processes.get();
    return withPlan(training.file, processes.get(), [&](const Plan &plan, ParameterSource &parameters) {
      return trainPlan(plan, parameters, training.options);
    });
  }
  if (collectivesFlag->count() == planOption->count()) {
    if (!processes || processes->rank() == 0)
      std::cerr << "error: expected either a plan or --collectives; cleave-run --help shows more\n";
    return static_cast<int>(Status::Usage);
  }
  if (collectivesFlag->count() != 0) {
    collectives.jsonFile = options.jsonFile;
    collectives.processes = processes.get();
    if (processes && devicesOption->count() == 0)
      collectives.devices = std::max(collectives.devices, processes->count());
    return runCollectiveBench(collectives, std::cout, std::cerr);
  }
  options.processes = processes.get();
  return withPlan(file, processes.get(),
                  [&](const Plan &plan, ParameterSource &parameters) { return runPlan(plan, parameters, options); });
}

/// For what is not agreed on with the others: says it and ends them as well.
static int fail(Processes *processes, Status status, const std::string &message) {
  bool alone = !processes || processes->count() == 1;
  std::cerr << "error: " << (alone ? "" : "rank " + std::to_string(processes->rank()) + ": ") << message << std::endl;
  if (!alone)
    processes->abort(status);
  return static_cast<int>(status);
}

int main(int argc, char **argv) {
  // Ends last, after whatever uses it.
  std::unique_ptr<Processes> processes;
  // The runtime throws nothing of its own; the standard library may.
  try {
    return run(argc, argv, processes);
  } catch (const std::bad_alloc &) {
    return fail(processes.get(), Status::Infeasible, "this machine does not have the memory that the run needs");
  } catch (const std::exception &error) {
    return fail(processes.get(), Status::Internal, std::string("internal error: ") + error.what());
  }
}
