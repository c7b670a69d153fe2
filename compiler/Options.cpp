// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of options, and their values as text.

#include "compiler/Options.h"

#include "passes/pipeline/Schedule.h"
#include "passes/train/Optimizer.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

namespace cleave {

/// The names of all schedules, behind "auto".
static std::vector<std::string> scheduleChoices() {
  std::vector<std::string> names = {"auto"};
  for (const pipeline::ScheduleRow &row : pipeline::scheduleTable())
    names.emplace_back(row.name);
  return names;
}

static std::vector<std::string> optimizerChoices() {
  auto names = optimizerNames();
  return {names.begin(), names.end()};
}

static std::vector<TargetOption> makeRows() {
  using Options = TargetOptions;
  constexpr auto someSamples = std::pair(int64_t(1), int64_t(1) << 20);
  return {
      {"machine",
       &Options::machine,
       "the devices: host, host:N, host:NxC (N devices of C cores), null:N, a preset as in a100-80g:8x4 (four "
       "hosts of eight), a file; cuda:PRESET or cuda:FILE for devices that are GPUs",
       "",
       {},
       {},
       true},
      {"executor", &Options::executor,
       "the software that costs of training are predicted for: cleave, megatron-2021, megatron-core, fsdp, "
       "eager; default: what a machine file says, else cleave",
       "NAME"},
      {"cpu", &Options::cpu,
       "the processor that devices of this kind compile for, on whatever machine: native, x86-64-v2, "
       "x86-64-v3 (AVX2), x86-64-v4 (AVX-512), or another as LLVM names it; default: what a machine file "
       "says, else CLEAVE_CPU, else native",
       "NAME"},
      {"strategy",
       &Options::strategy,
       "how operators get their devices: auto (the best that the search finds); single (all on the first); place "
       "(by --place, else the model's "
       "ctx_group, each group on the next device); data (the batch in parts); tensor (layers in parts, by "
       "columns and rows); pipeline (auto with a stage for each device); alternate and split (for tests); default: "
       "place where there is something to go by, else auto",
       "",
       {"auto", "single", "place", "data", "tensor", "pipeline", "alternate", "split"}},
      {"place", &Options::placementFile, "pins operators to devices and meshes, and splits them, by name (YAML)",
       "FILE"},
      {"degrees", &Options::degrees,
       "how many parts are made: data=N, model=N; with the search also pipeline=N, sequence=N, expert=N; "
       "default: as many as there are devices, or what the search chooses",
       "AXIS=N,..."},
      {"train", &Options::train,
       "plan a training step: forward, backward, optimizer; without --loss only what is decided about it"},
      {"loss", &Options::loss,
       "make a training step that runs: cross-entropy, mse, or the name of an output; then "
       ",output=NAME ,labels=NAME ,classes=DIM ,ignore-index=LABEL"},
      {"buckets", &Options::buckets,
       "lengths of sequences: a step for each of these sizes of a symbolic dimension, on the same parameters; "
       "labels of padding are ignored",
       "DIM=N,N,..."},
      {"batches",
       &Options::batches,
       "an entry for each of these numbers of samples, by commas, on one set of parameters, whatever batch "
       "the model has; what cleave serve chooses from",
       "N,N,...",
       {},
       someSamples},
      {"max-batch", &Options::maxBatch, "the same for 1, 2, 4, … samples up to this, and this", "", {}, someSamples},
      {"batch",
       &Options::batch,
       "samples that the model takes at once, in training those of a whole step; default: the model's own",
       "",
       {},
       std::pair(int64_t(1), int64_t(1) << 40)},
      {"microbatches",
       &Options::microbatches,
       "into how many parts a training step divides its batch, or auto",
       "",
       {},
       {},
       true},
      {"schedule", &Options::schedule, "the order of microbatches in a pipeline", "", scheduleChoices(), {}, true},
      {"chunks",
       &Options::chunks,
       "parts of each stage, where the schedule has several; 0: as the search or the placement has it",
       "V",
       {},
       std::pair(int64_t(0), int64_t(1024)),
       true},
      {"recompute",
       &Options::recompute,
       "which activations the backward pass computes again, or has in the host's memory",
       "",
       {"auto", "none", "selective", "full", "offload"},
       {},
       true},
      {"zero",
       &Options::zero,
       "what replicas share: 1 optimizer state, 2 gradients, 3 parameters, too",
       "",
       {"auto", "0", "1", "2", "3"},
       {},
       true},
      {"optimizer-memory",
       &Options::optimizerMemory,
       "where the optimizer's state is kept: with host it comes to the device for the update",
       "",
       {"auto", "device", "host"},
       {},
       true},
      {"keys",
       &Options::keys,
       "how attention gets keys and values where positions are cut: gathered from all devices (gather), or a device's "
       "at "
       "a time from the neighbour (ring), which needs less memory; auto: what the search finds best",
       "",
       {"auto", "ring", "gather"},
       {},
       true},
      {"dtype",
       &Options::elementType,
       "the arithmetic: with bf16 products and what lies between them are bfloat16, parameters, sums and "
       "losses stay f32; f16 only for plans of training that do not run",
       "",
       {"f32", "bf16", "f16"},
       {},
       true},
      {"tf32", &Options::tf32,
       "let libraries of GPUs round the float32 that they multiply to TF32, with 10 bits of mantissa, which "
       "is many times as fast; sums stay f32. Without it float32 is exact"},
      {"optimizer", &Options::optimizer, "what changes parameters in training", "", optimizerChoices(), {}, true},
      {"optimizer-options", &Options::optimizerOptions,
       "momentum, alpha, beta1, beta2, epsilon, weight-decay, as KEY=VALUE,..."},
      {"learning-rate", &Options::learningRate, "default: the optimizer's"},
      {"lr-schedule",
       &Options::rateSchedule,
       "constant, step:PERIOD:GAMMA, cosine:TOTAL[:WARMUP], in steps",
       "",
       {},
       {},
       true},
      {"clip-norm", &Options::clipNorm, "scale gradients down to this norm of all together; 0: never"},
      {"batch-norm",
       &Options::batchNorm,
       "of what batch normalization takes its statistics in training: each device's part of a microbatch (the whole, "
       "where parts are unequal), the whole microbatch (synchronized), or no batch but the running ones",
       "",
       {"device", "synchronized", "running"},
       {},
       true},
      {"no-dropout", &Options::noDropout, "train without dropout"},
      {"expert-capacity",
       &Options::expertCapacity,
       "tokens of a sample that each expert of a mixture takes, of the experts' equal share of them, as 1.25; "
       "others get nothing from it. Tokens can then go to devices that have their experts. 0: as many as come",
       "",
       {},
       {},
       true},
      {"sync", &Options::sync,
       "train replicas that do not wait for each other: ssp:S lets one be S steps ahead of the slowest, "
       "ssp:inf any number; local:H exchanges parameters every H steps, local:auto chooses how often, with "
       ",outer-rate=R ,outer-momentum=M ,dtype=bf16 or int8 ,overlap=K, steps that hide an exchange",
       "HOW"},
      {"replicas",
       &Options::replicas,
       "with --sync: how many, each on its part of the devices; 0: one a device",
       "",
       {},
       std::pair(int64_t(0), int64_t(65536)),
       true},
      {"keeper",
       &Options::keeper,
       "with --sync: which devices keep the parameters and the optimizer's state, and update them: first (those of the "
       "first replica), all (those of all replicas, in shards), or devices=NAME,NAME,... (the last of the machine, in "
       "shards, on which no replica runs)",
       "WHERE",
       {},
       {},
       true},
      {"seed", &Options::seed, "what dropout in training follows from", "", {}, {}, true},
      {"memory", &Options::memory, "bytes of each device that a plan may use, as \"12 GiB\""},
      {"solver",
       &Options::solver,
       "how splits inside of a stage are searched",
       "",
       {"elimination", "ilp", "exhaustive"},
       {},
       true},
      {"search-seconds",
       &Options::timeBudget,
       "take the best plan after this many seconds of processor time, then bound it; 0: search to the end",
       "",
       {},
       {},
       true},
      {"objective",
       &Options::objective,
       "what the search makes least: the time of a step (throughput), or what it costs by the prices of the "
       "machine file (cost)",
       "",
       {"throughput", "cost"},
       {},
       true},
      {"max-step", &Options::mostStep, "with --objective cost: the longest that a step may take, as \"1.2 s\"", "TIME"},
      {"reference", &Options::reference, "plain loops for every operator by itself, without fusion and libraries"},
      {"no-libraries", &Options::noLibraries, "compile every kernel; use none of a library"},
      {"no-fused-attention", &Options::noFusedAttention,
       "GPUs: products and softmax for attention in bfloat16, not one kernel of cuDNN"},
      {"no-winograd", &Options::noWinograd,
       "windows of 3 x 3 computed directly, with smaller rounding errors and in less memory, not by Winograd's "
       "algorithm"},
      {"no-combine", &Options::noCombine, "a message for every gradient: collectives do not share any"},
      {"compile-threads", &Options::threads, "threads that compile; 0: one a core", "", {}, {}, true},
  };
}

const std::vector<TargetOption> &targetOptions() {
  static const std::vector<TargetOption> rows = makeRows();
  return rows;
}

const TargetOption *findTargetOption(llvm::StringRef name) {
  for (const TargetOption &row : targetOptions())
    if (name == row.name)
      return &row;
  return nullptr;
}

std::string shortestText(double number) {
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), number).ptr};
}

static std::string textOf(const std::string &value) { return value; }
static std::string textOf(bool value) { return value ? "true" : "false"; }
static std::string textOf(double value) { return shortestText(value); }
template <typename Number> static std::string textOf(Number value) { return std::to_string(value); }
static std::string textOf(const std::vector<int64_t> &values) {
  return llvm::join(llvm::map_range(values, [](int64_t value) { return std::to_string(value); }), ",");
}

std::string optionText(const TargetOptions &options, const TargetOption &row) {
  return std::visit([&](auto member) { return textOf(options.*member); }, row.member);
}

/// Success where the row allows the value.
static Error check(const TargetOption &row, const std::string &value) {
  if (row.choices.empty() || llvm::is_contained(row.choices, value))
    return Error::success();
  return makeError(Status::Usage, row.name, " expects one of ", llvm::join(row.choices, ", "), "; got \"", value, "\"");
}

static Error check(const TargetOption &row, double value) {
  if (value >= 0 && std::isfinite(value))
    return Error::success();
  return makeError(Status::Usage, row.name, " expects a number that is not negative, got ", shortestText(value));
}

static Error check(const TargetOption &, bool) { return Error::success(); }

template <typename Number> static Error check(const TargetOption &row, Number value) {
  if (!row.range || (!std::cmp_less(value, row.range->first) && !std::cmp_greater(value, row.range->second)))
    return Error::success();
  return makeError(Status::Usage, row.name, " expects a number from ", row.range->first, " to ", row.range->second,
                   ", got ", value);
}

static Error check(const TargetOption &row, const std::vector<int64_t> &values) {
  for (int64_t value : values)
    if (Error error = check(row, value))
      return error;
  return Error::success();
}

static bool read(llvm::StringRef text, std::string &value) {
  value = text.str();
  return true;
}

static bool read(llvm::StringRef text, bool &value) {
  value = text == "true";
  return value || text == "false";
}

static bool read(llvm::StringRef text, double &value) {
  auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  return error == std::errc() && end == text.end();
}

template <typename Number> static bool read(llvm::StringRef text, Number &value) {
  return llvm::to_integer(text, value, 10);
}

static bool read(llvm::StringRef text, std::vector<int64_t> &values) {
  values.clear();
  for (llvm::StringRef part : llvm::split(text, ','))
    if (!text.empty() && !read(part, values.emplace_back()))
      return false;
  return true;
}

Error setOption(TargetOptions &options, const TargetOption &row, llvm::StringRef text) {
  return std::visit(
      [&](auto member) -> Error {
        std::decay_t<decltype(options.*member)> value{};
        if (!read(text, value))
          return makeError(Status::Usage, row.name, " expects ",
                           std::is_same_v<decltype(value), bool> ? "true or false" : "a number", ", got \"", text.str(),
                           "\"");
        if (Error error = check(row, value))
          return error;
        options.*member = std::move(value);
        return Error::success();
      },
      row.member);
}

} // namespace cleave
