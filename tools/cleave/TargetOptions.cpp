// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options that say where and how a model is to run.

#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave/CompileModel.h"
#include "tools/cleave/ScheduleNames.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {

void TargetOptions::addTo(CLI::App &command) {
  command
      .add_option(
          "--machine", machine,
          "the devices: host, host:N, host:NxC (N devices of C cores), null:N, a preset as in a100-80g:8x4 (four "
          "hosts of eight), a file; cuda:PRESET or cuda:FILE for devices that are GPUs")
      ->capture_default_str();
  command
      .add_option("--executor", executor,
                  "the software that costs of training are predicted for: cleave, megatron-2021, megatron-core, fsdp, "
                  "eager; default: what a machine file says, else cleave")
      ->type_name("NAME");
  command
      .add_option("--cpu", cpu,
                  "the processor that devices of this kind compile for, on whatever machine: native, x86-64-v2, "
                  "x86-64-v3 (AVX2), x86-64-v4 (AVX-512), or another as LLVM names it; default: what a machine file "
                  "says, else CLEAVE_CPU, else native")
      ->type_name("NAME");
  command
      .add_option(
          "--strategy", strategy,
          "how operators get their devices: auto (the best that the search finds); single (all on the first); place "
          "(by --place, else the model's "
          "ctx_group, each group on the next device); data (the batch in parts); tensor (layers in parts, by "
          "columns and rows); pipeline (auto with a stage for each device); alternate and split (for tests); default: "
          "place where there is something to go by, else auto")
      ->check(CLI::IsMember({"auto", "single", "place", "data", "tensor", "pipeline", "alternate", "split"}));
  command.add_option("--place", placementFile, "pins operators to devices and meshes, and splits them, by name (YAML)")
      ->type_name("FILE");
  command
      .add_option("--degrees", degrees,
                  "how many parts are made: data=N, model=N; with the search also pipeline=N, sequence=N, expert=N; "
                  "default: as many as there are devices, or what the search chooses")
      ->type_name("AXIS=N,...");
  command.add_flag("--train", train,
                   "plan a training step: forward, backward, optimizer; without --loss only what is decided about it");
  command.add_option("--loss", loss,
                     "make a training step that runs: cross-entropy, mse, or the name of an output; then "
                     ",output=NAME ,labels=NAME ,classes=DIM ,ignore-index=LABEL");
  command
      .add_option(
          "--buckets", buckets,
          "lengths of sequences: a step for each of these sizes of a symbolic dimension, on the same parameters; "
          "labels of padding are ignored")
      ->type_name("DIM=N,N,...");
  command
      .add_option("--batches", batches,
                  "an entry for each of these numbers of samples, by commas, on one set of parameters, whatever batch "
                  "the model has; what cleave serve chooses from")
      ->delimiter(',')
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->type_name("N,N,...");
  command.add_option("--max-batch", maxBatch, "the same for 1, 2, 4, … samples up to this, and this")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  command
      .add_option("--batch", batch,
                  "samples that the model takes at once, in training those of a whole step; default: the model's own")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 40));
  command.add_option("--microbatches", microbatches, "into how many parts a training step divides its batch, or auto")
      ->capture_default_str();
  command.add_option("--schedule", schedule, "the order of microbatches in a pipeline")
      ->check(CLI::IsMember(scheduleNames("auto")))
      ->capture_default_str();
  command
      .add_option("--chunks", chunks,
                  "parts of each stage, where the schedule has several; 0: as the search or the placement has it")
      ->check(CLI::Range(0u, 1024u))
      ->type_name("V")
      ->capture_default_str();
  command.add_option("--recompute", recompute, "which activations the backward pass computes again")
      ->check(CLI::IsMember({"auto", "none", "selective", "full"}))
      ->capture_default_str();
  command.add_option("--zero", zero, "what replicas share: 1 optimizer state, 2 gradients, 3 parameters, too")
      ->check(CLI::IsMember({"auto", "0", "1", "2", "3"}))
      ->capture_default_str();
  command
      .add_option("--dtype", elementType,
                  "the arithmetic: with bf16 products and what lies between them are bfloat16, parameters, sums and "
                  "losses stay f32; f16 only for plans of training that do not run")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command.add_flag(
      "--tf32", tf32,
      "let libraries of GPUs round the float32 that they multiply to TF32, with 10 bits of mantissa, which "
      "is many times as fast; sums stay f32. Without it float32 is exact");
  command.add_option("--optimizer", optimizer, "what changes parameters in training")
      ->check(CLI::IsMember({"sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"}))
      ->capture_default_str();
  command.add_option("--optimizer-options", optimizerOptions,
                     "momentum, alpha, beta1, beta2, epsilon, weight-decay, as KEY=VALUE,...");
  command.add_option("--learning-rate", learningRate, "default: the optimizer's")->check(notNegative);
  command.add_option("--lr-schedule", rateSchedule, "constant, step:PERIOD:GAMMA, cosine:TOTAL[:WARMUP], in steps")
      ->capture_default_str();
  command.add_option("--clip-norm", clipNorm, "scale gradients down to this norm of all together; 0: never")
      ->check(notNegative);
  command
      .add_option(
          "--batch-norm", batchNorm,
          "of what batch normalization takes its statistics in training: each device's part of a microbatch, the "
          "whole microbatch (synchronized), or no batch but the running ones")
      ->check(CLI::IsMember({"device", "synchronized", "running"}))
      ->capture_default_str();
  command.add_flag("--no-dropout", noDropout, "train without dropout");
  command
      .add_option(
          "--expert-capacity", expertCapacity,
          "tokens of a sample that each expert of a mixture takes, of the experts' equal share of them, as 1.25; "
          "others get nothing from it. Tokens can then go to devices that have their experts. 0: as many as come")
      ->check(notNegative)
      ->capture_default_str();
  command
      .add_option("--sync", sync,
                  "train replicas that do not wait for each other: ssp:S lets one be S steps ahead of the slowest, "
                  "ssp:inf any number; local:H exchanges parameters every H steps, local:auto chooses how often, with "
                  ",outer-rate=R ,outer-momentum=M ,dtype=bf16 or int8")
      ->type_name("HOW");
  command.add_option("--replicas", replicas, "with --sync: how many, each on its part of the devices; 0: one a device")
      ->check(CLI::Range(0u, 65536u))
      ->capture_default_str();
  command.add_option("--seed", seed, "what dropout in training follows from")->capture_default_str();
  command.add_option("--memory", memory, "bytes of each device that a plan may use, as \"12 GiB\"");
  command.add_option("--solver", solver, "how splits inside of a stage are searched")
      ->check(CLI::IsMember({"elimination", "ilp", "exhaustive"}))
      ->capture_default_str();
  command.add_option("--search-seconds", timeBudget, "take the best plan after so many seconds; 0: search to the end")
      ->check(notNegative)
      ->capture_default_str();
  command
      .add_option("--objective", objective,
                  "what the search makes least: the time of a step (throughput), or what it costs by the prices of the "
                  "machine file (cost)")
      ->check(CLI::IsMember({"throughput", "cost"}))
      ->capture_default_str();
  command.add_option("--max-step", mostStep, "with --objective cost: the longest that a step may take, as \"1.2 s\"")
      ->type_name("TIME");
  command.add_flag("--reference", reference, "plain loops for every operator by itself, without fusion and libraries");
  command.add_flag("--no-libraries", noLibraries, "compile every kernel; use none of a library");
  command.add_flag("--no-combine", noCombine, "a message for every gradient: collectives do not share any");
  command.add_option("--compile-threads", threads, "threads that compile; 0: one a core")->capture_default_str();
}

const char *TargetOptions::findGiven(const CLI::App &command, std::initializer_list<const char *> others) {
  std::vector<const char *> names = {
      "--machine",   "--cpu",          "--strategy",       "--place",          "--degrees",
      "--reference", "--no-libraries", "--train",          "--batch",          "--batches",
      "--max-batch", "--microbatches", "--schedule",       "--chunks",         "--recompute",
      "--zero",      "--loss",         "--learning-rate",  "--lr-schedule",    "--optimizer-options",
      "--clip-norm", "--dtype",        "--batch-norm",     "--no-dropout",     "--seed",
      "--optimizer", "--memory",       "--solver",         "--search-seconds", "--compile-threads",
      "--buckets",   "--no-combine",   "--tf32",           "--sync",           "--replicas",
      "--objective", "--max-step",     "--expert-capacity"};
  names.insert(names.end(), others);
  for (const char *name : names)
    if (command.count(name))
      return name;
  return nullptr;
}

} // namespace cleave::tool
