// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares the options of the train command.

#include "tools/cleave-run/TrainArguments.h"

#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"

#include <CLI/CLI.hpp>

namespace cleave {

void addProcessOptions(CLI::App &command, std::vector<std::string> &devicesOfRank, runtime::WatchOptions &watch) {
  command
      .add_option("--devices-of-rank", devicesOfRank,
                  "under mpirun, once for each process, in their order: its devices as 0,2,4-7; otherwise equal blocks")
      ->type_name("LIST")
      ->allow_extra_args(false);
  command
      .add_option("--rank-timeout", watch.rankTimeout,
                  "under mpirun: after how many seconds a process that does not run is given up; 0: never")
      ->type_name("SECONDS")
      ->check(notNegative)
      ->capture_default_str();
  command
      .add_option("--step-timeout", watch.stepTimeout,
                  "under mpirun: how many seconds an instruction may take, waiting included; 0: any time")
      ->type_name("SECONDS")
      ->check(notNegative)
      ->capture_default_str();
}

void addTrainArguments(CLI::App &command, TrainArguments &arguments) {
  runtime::TrainOptions &options = arguments.options;
  command.add_option("PLAN", arguments.file, "a plan that was compiled with --train")->required();
  arguments.trust.addTo(command);
  auto addBinding = [&](const char *name, std::vector<std::string> &bindings, const char *type, const char *help) {
    command.add_option(name, bindings, help)->type_name(type)->allow_extra_args(false);
  };
  addBinding("--data", options.data, "NAME=FILE",
             "an input's samples: IDX, .npy, .npz, or tokens as .txt, .u16, .u32; FILE:next has the token after each");
  addBinding("--eval", options.evaluation, "NAME=FILE", "the same for the data on which each epoch is evaluated");
  addBinding("--scale", options.scales, "NAME=FACTOR[,OFFSET]",
             "what an input's numbers are multiplied with; bytes by 1/255 without it");
  command
      .add_option("--vocabulary", options.vocabularyFile,
                  "of text for a plan with --buckets: a token a line; cleave vocabulary writes one")
      ->type_name("FILE");
  command
      .add_option("--tokens", options.tokens,
                  "what of such a text is a token: bytes, characters or words; words with a vocabulary, bytes without")
      ->type_name("KIND");
  command.add_option("--epochs", options.epochs, "how many epochs to train in all; 1 without --steps")->type_name("N");
  command.add_option("--steps", options.steps, "how many steps to train in all, at most")->type_name("N");
  command.add_option("--seed", options.seed, "of the order of samples; 0 without it")->type_name("N");
  command.add_option("--checkpoint", options.checkpointFolder, "where checkpoints go")->type_name("DIR");
  command.add_option("--checkpoint-every", options.checkpointEvery, "steps between checkpoints; otherwise an epoch")
      ->type_name("N")
      ->check(positive);
  command.add_flag("--resume", options.resume, "go on from the last checkpoint, if there is one");
  bool writesModels = options.modelExport != nullptr;
  addOutputOption(command, "--export", options.exportFile,
                  writesModels ? "where the trained parameters go: .npz, or .onnx for a copy of the model with them"
                               : "where the trained parameters go, as .npz",
                  writesModels ? runtime::OutputKind::Weights : runtime::OutputKind::Archive);
  command
      .add_option("--learning-rate", options.learningRate.rate,
                  "of this run from here on; default: the checkpoint's, else the plan's")
      ->type_name("RATE")
      ->check(notNegative);
  command
      .add_option(
          "--lr-schedule", options.learningRate.schedule,
          "constant, step:PERIOD:GAMMA or cosine:TOTAL[:WARMUP], in steps from the run's first; default as above")
      ->type_name("TEXT");
  command
      .add_option("--weights", options.weightsFile,
                  "parameters from which training begins, by their names (.npz, as --export writes); not with a "
                  "checkpoint")
      ->type_name("FILE");
  command
      .add_option("--log-every", options.logEvery,
                  "a line about loss, learning rate, throughput and time left every N steps")
      ->type_name("N")
      ->check(positive);
  addOutputOption(command, "--log", options.logFile,
                  "the same as CSV, a row every --log-every steps or, without it, each step");
  command.add_option("--in-flight", options.inFlight, "how many steps at the same time")
      ->check(positive)
      ->capture_default_str();
  addOutputOption(command, "--json", options.jsonFile, "where the results go as JSON");
  command.add_flag("--json-steps", options.jsonSteps, "with the loss of each step in them");
  addOutputOption(command, "--trace", options.traceFile, "where a trace for Perfetto goes");
  addOutputOption(command, "--record", options.recordFile,
                  "of replicas (compile --sync): what each did with which version, for --replay");
  command.add_option("--replay", options.replayFile, "repeats bit for bit what replicas did in the run of a record")
      ->type_name("FILE");
  command
      .add_option_function<std::string>(
          "--lost-replica", [&options](const std::string &what) { options.goOnWithout = what == "go-on"; },
          "when a replica fails: stop, or go-on without it")
      ->check(CLI::IsMember({"stop", "go-on"}))
      ->type_name("WHAT");
  command
      .add_option(
          "--try-replica", options.trials,
          "what would happen if replica R took F times as long (R:slow=F) or failed in its N-th step (R:fail=N)")
      ->type_name("TRIAL")
      ->allow_extra_args(false);
  addProcessOptions(command, options.devicesOfRank, arguments.watch);
}

} // namespace cleave
