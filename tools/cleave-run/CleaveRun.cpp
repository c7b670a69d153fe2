// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a plan file, or trains with it. Links the runtime alone: a machine that only runs plans needs no compiler.

#include "runtime/Printable.h"
#include "runtime/Processes.h"
#include "runtime/profile/CollectiveBench.h"
#include "runtime/run/RunCommand.h"
#include "runtime/watch/CrashReport.h"
#if defined(CLEAVE_CUDA)
#include "runtime/drivers/cuda/CudaKernelTimer.h"
#endif
#include "runtime/StandardOutput.h"
#include "runtime/drivers/cpu/Spinning.h"
#include "runtime/training/StopSignals.h"
#if defined(CLEAVE_MPI)
#include "runtime/communicators/mpi/MpiProcesses.h"
#endif
#include "runtime/watch/Logbook.h"
#if defined(CLEAVE_CUDA)
#include "tools/cleave-run/GpuProbe.h"
#endif
#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave-run/PlanTrust.h"
#include "tools/cleave-run/TrainArguments.h"
#include "tools/cleave-run/UsageMessage.h"
#if defined(CLEAVE_SERVE)
#include "tools/cleave-run/LoadArguments.h"
#include "tools/cleave-run/ServeArguments.h"
#endif

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>
#include <optional>
#include <sstream>

using namespace cleave::runtime;

/// The processes of the run, of which each gets a guard; null for one alone.
static Expected<std::unique_ptr<Processes>> startProcesses() {
  if (!isStartedWithOthers())
    return std::unique_ptr<Processes>();
#if defined(CLEAVE_MPI)
  startGuard(rankOfLauncher());
  return startMpi();
#else
  return makeError(Status::Unsupported, "a run on several processes expects a cleave-run with MPI, got one without; "
                                        "configure it with -DCLEAVE_MPI=ON");
#endif
}

static int report(const Error &error, bool isFirst) {
  if (isFirst)
    std::cerr << error.report();
  return static_cast<int>(error.status());
}

/// Measures a GPU, and writes a machine file.
static int probeGpus(const std::string &machineFile, bool isFirst) {
#if defined(CLEAVE_CUDA)
  return isFirst ? cleave::runGpuProbe(machineFile, std::cout, std::cerr) : 0;
#else
  (void)machineFile;
  return report(makeError(Status::Unsupported, "--probe-gpu expects a cleave-run with CUDA, got one without; configure "
                                               "it with -DCLEAVE_CUDA=ON"),
                isFirst);
#endif
}

/// Times the plan's kernels on a GPU, and adds what the file does not have to it.
static Error measureKernels(const Plan &plan, const std::string &entryName, const std::string &file) {
#if defined(CLEAVE_CUDA)
  auto profile = Profile::read(file);
  if (!profile)
    return profile.error();
  bool isFound = false;
  for (const Entry &entry : plan->entries) {
    if (!entryName.empty() && entry.name != entryName)
      continue;
    isFound = true;
    Error error = profileCudaKernels(plan, entry, *profile);
    // What was measured before is not lost with what cannot be.
    if (Error unwritten = profile->write(file))
      return unwritten;
    if (error)
      return error;
  }
  if (!isFound)
    return makeError(Status::Usage, "--entry expects an entry of the plan, got \"", entryName, '"');
  std::cout << "wrote " << file << ": " << profile->numKernels() << " kernels\n";
  return Error::success();
#else
  (void)plan, (void)entryName, (void)file;
  return makeError(Status::Unsupported, "--kernel-times expects a cleave-run with CUDA, got one without; configure it "
                                        "with -DCLEAVE_CUDA=ON");
#endif
}

/// Reads a plan in all processes, refuses it where its code is not trusted, and does `work` with it and its
/// parameters.
template <typename Work>
static int withPlan(const std::string &file, const cleave::PlanTrust &trust, Processes *processes, const Work &work) {
  bool isFirst = !processes || processes->rank() == 0;
  auto plan = Plan::read(file);
  Error refusal = plan ? trust.check(*plan, file) : plan.error();
  if (Error error = processes ? processes->agree(refusal) : refusal)
    return report(error, isFirst);
  FolderSource parameters(plan->folder());
  return work(*plan, parameters);
}

/// Parses the command line of one process. Whoever asks for help gets it in `help`.
static Error parseAlone(CLI::App &app, int argc, char **argv, std::ostream &help) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &asked) {
    app.exit(asked, help, help);
  } catch (const CLI::ParseError &error) {
    return Error(Status::Usage, cleave::usageMessage(app, error));
  }
  return Error::success();
}

/// Parses the command line in all processes, which go on together or not at all: then the exit code.
static std::optional<int> parse(CLI::App &app, int argc, char **argv, Processes *processes) {
  std::ostringstream help;
  Error error = parseAlone(app, argc, argv, help);
  bool isFirst = !processes || processes->rank() == 0;
  if (processes)
    error = processes->agree(error);
  if (error) {
    if (isFirst)
      std::cerr << error.report() << "note: cleave-run --help shows what there is\n";
    return static_cast<int>(Status::Usage);
  }
  bool asksForHelp = !help.str().empty();
  if (processes)
    asksForHelp = processes->maximum(asksForHelp ? 1 : 0) > 0;
  if (!asksForHelp)
    return std::nullopt;
  if (isFirst)
    std::cout << help.str();
  return 0;
}

static int run(int argc, char **argv, std::unique_ptr<Processes> &processes) {
  CLI::App app("Runs a plan on tensor files; what it found goes to standard output. Under mpirun the processes share "
               "the plan's devices.",
               "cleave-run");
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
  bool probesGpu = false;
  std::string machineFile;
  CLI::Option *probeFlag = app.add_flag("--probe-gpu", probesGpu, "measure a GPU instead, and write a machine file");
  cleave::addOutputOption(app, "-o", machineFile, "where the machine file goes; otherwise to standard output")
      ->needs(probeFlag);
  app.add_option("--entry", options.entry, "which entry of the plan to run; not needed when there is one");
  app.add_option("--input", options.inputs, "an input: NAME=FILE, or @0=FILE by position")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app.add_option("--expect", options.expects, "what an output should be")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  cleave::addTensorOutputOption(app, "--output", options.outputs,
                                "where an output goes; FILE.npz without a name: all, by their names");
  app.add_option("--rtol", options.rtol, "relative tolerance of --expect")
      ->check(cleave::notNegative)
      ->capture_default_str();
  app.add_option("--atol", options.atol, "absolute tolerance of --expect")
      ->check(cleave::notNegative)
      ->capture_default_str();
  app.add_option("--repeat", options.repeat, "how many steps to run")->check(cleave::positive)->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before those that are measured")->capture_default_str();
  app.add_option("--duration", options.duration, "how many seconds to run for, instead of --repeat")
      ->type_name("SECONDS")
      ->check(cleave::positive);
  app.add_flag("--profile", options.profile, "what each node of the model took, as a table");
  app.add_option("--in-flight", options.inFlight, "how many steps at the same time")
      ->check(cleave::positive)
      ->capture_default_str();
  std::string kernelTimes;
  cleave::addOutputOption(app, "--kernel-times", kernelTimes,
                          "run nothing, but time each kernel of a plan for GPUs by itself, into this file, which keeps "
                          "what it has: for cleave simulate --kernel-times");
  cleave::addOutputOption(app, "--trace", options.traceFile, "where a trace for Perfetto goes");
  cleave::addOutputOption(app, "--json", options.jsonFile, "where the results go as JSON");
  cleave::PlanTrust trust;
  trust.addTo(app);
  cleave::TrainArguments training;
  cleave::addProcessOptions(app, options.devicesOfRank, training.watch);
  CLI::App *trainCommand =
      app.add_subcommand("train", "Trains: runs a plan that was compiled with --train on data. See train --help.");
  addTrainArguments(*trainCommand, training);
#if defined(CLEAVE_SERVE)
  cleave::ServeArguments serving;
  CLI::App *serveCommand = app.add_subcommand("serve", "Serves plans over HTTP and gRPC. See serve --help.");
  serveCommand->add_option("PLAN", serving.options.plans, "plans, or NAME=PLAN; or --models");
  addServeArguments(*serveCommand, serving);
  serve::LoadOptions load;
  CLI::App *loadCommand = app.add_subcommand("load", "Asks a server again and again, and measures. See load --help.");
  cleave::addLoadArguments(*loadCommand, load);
#endif
  cleave::checkNumbers(app);
  auto started = startProcesses();
  if (!started)
    return report(started.error(), true);
  processes = std::move(*started);
  if (processes)
    reportCrashes(processes->rank());
  if (auto code = parse(app, argc, argv, processes.get()))
    return *code;
  // The first process alone writes.
  bool isFirst = !processes || processes->rank() == 0;
  Error unwritable = isFirst ? cleave::checkOutputs(app) : Error::success();
  if (Error error = processes ? processes->agree(unwritable) : unwritable)
    return report(error, isFirst);
  WatchOptions watch = training.watch;
#if defined(CLEAVE_SERVE)
  if (serveCommand->parsed())
    watch = serving.watch;
#endif
  if (processes)
    if (Error error = processes->watch(watch))
      return report(error, isFirst);
#if defined(CLEAVE_SERVE)
  if (loadCommand->parsed())
    return serve::loadCommand(load, std::cout, std::cerr);
  if (serveCommand->parsed()) {
    serving.options.processes = processes.get();
    serving.trust.refusesCode |= trust.refusesCode;
    serving.trust.acceptsAny |= trust.acceptsAny;
    return serve::serveCommand(serving.complete(), {}, std::cout, std::cerr);
  }
#endif
  if (trainCommand->parsed()) {
    // Either place of the options counts.
    training.trust.refusesCode |= trust.refusesCode;
    training.trust.acceptsAny |= trust.acceptsAny;
    training.options.processes = processes.get();
    return withPlan(training.file, training.trust, processes.get(), [&](const Plan &plan, ParameterSource &parameters) {
      return trainPlan(plan, parameters, training.options);
    });
  }
  if (planOption->count() + (measuresCollectives ? 1 : 0) + (probesGpu ? 1 : 0) != 1) {
    if (isFirst)
      std::cerr << "error: expected either a plan, --collectives or --probe-gpu\n"
                   "note: cleave-run --help shows what there is\n";
    return static_cast<int>(Status::Usage);
  }
  if (probesGpu)
    return probeGpus(machineFile, isFirst);
  if (measuresCollectives) {
    collectives.jsonFile = options.jsonFile;
    collectives.processes = processes.get();
    if (processes && devicesOption->count() == 0)
      collectives.devices = std::max(collectives.devices, processes->count());
    return runCollectiveBench(collectives, std::cout, std::cerr);
  }
  if (!kernelTimes.empty() && processes)
    return report(makeError(Status::Usage, "--kernel-times expects one process, got ", processes->count(),
                            "; run it without mpirun"),
                  isFirst);
  if (!kernelTimes.empty())
    return withPlan(file, trust, nullptr, [&](const Plan &plan, ParameterSource &) {
      return report(measureKernels(plan, options.entry, kernelTimes), isFirst);
    });
  options.processes = processes.get();
  return withPlan(file, trust, processes.get(),
                  [&](const Plan &plan, ParameterSource &parameters) { return runPlan(plan, parameters, options); });
}

/// For what is not agreed on with the others: says it and ends them as well.
static int fail(Processes *processes, Status status, const std::string &message) {
  if (processes && processes->count() > 1)
    processes->abort(Error(status, message));
  std::cerr << "error: " << message << std::endl;
  return static_cast<int>(status);
}

int main(int argc, char **argv) {
  limitSpinning(argv);
  // Whoever writes a file that grows beyond the limit gets an error, and says so.
  std::signal(SIGXFSZ, SIG_IGN);
  // Ends last, after whatever uses it.
  std::unique_ptr<Processes> processes;
  // The runtime throws nothing of its own; the standard library may.
  try {
    int code = run(argc, argv, processes);
    if (Error error = flushStandardOutput()) {
      std::cerr << error.report();
      code = code == 0 ? static_cast<int>(error.status()) : code;
    }
    if (Logbook *book = Logbook::own())
      book->leave();
    StopSignals::endAsAsked(code);
    return code;
  } catch (const std::bad_alloc &) {
    return fail(processes.get(), Status::Infeasible, "this machine does not have the memory that the run needs");
  } catch (const std::exception &error) {
    return fail(processes.get(), Status::Internal, std::string("internal error: ") + error.what());
  }
}
