// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a plan file. Links the runtime alone: a machine that only runs plans needs no compiler.

#include "runtime/CollectiveBench.h"
#include "runtime/RunCommand.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <new>

using namespace cleave::runtime;

static int run(int argc, char **argv) {
  CLI::App app("Runs a plan on tensor files; what it found goes to standard output.");
  std::string file;
  RunOptions options;
  CollectiveBenchOptions collectives;
  CLI::Option *planOption = app.add_option("PLAN", file, "the plan file");
  bool measuresCollectives = false;
  CLI::Option *collectivesFlag =
      app.add_flag("--collectives", measuresCollectives, "measure collectives between devices of this process instead");
  app.add_option("--operations", collectives.operations, "which collectives, by commas; otherwise all")
      ->delimiter(',')
      ->check(CLI::IsMember(collectiveNames()))
      ->needs(collectivesFlag);
  app.add_option("--sizes", collectives.sizes, "sizes by commas, as in 64KiB,64MiB")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->needs(collectivesFlag);
  app.add_option("--devices", collectives.devices, "how many devices")
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Status::Usage);
  }
  if (collectivesFlag->count() == planOption->count()) {
    std::cerr << "error: expected either a plan or --collectives; cleave-run --help shows more\n";
    return static_cast<int>(Status::Usage);
  }
  if (collectivesFlag->count() != 0) {
    collectives.jsonFile = options.jsonFile;
    return runCollectiveBench(collectives, std::cout, std::cerr);
  }
  auto plan = Plan::read(file);
  if (!plan) {
    std::cerr << "error: " << plan.error().message() << "\n";
    return static_cast<int>(plan.error().status());
  }
  FolderSource parameters(plan->folder());
  return runPlan(*plan, parameters, options);
}

int main(int argc, char **argv) {
  // The runtime throws nothing of its own; the standard library may.
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc &) {
    std::cerr << "error: this machine does not have the memory that the run needs\n";
    return static_cast<int>(Status::Infeasible);
  } catch (const std::exception &error) {
    std::cerr << "error: internal error: " << error.what() << "\n";
    return static_cast<int>(Status::Internal);
  }
}
