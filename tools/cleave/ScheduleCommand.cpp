// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave schedule`: a pipeline schedule from given stage costs: when each stage does what, how long a step takes, how
// much of it stages are idle, and how many microbatches they keep.

#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/CostFields.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PipelineReport.h"
#include "tools/cleave/ScheduleNames.h"
#include "tools/cleave/StageFile.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

namespace cleave::tool {
namespace {

struct ScheduleOptions {
  std::string stages, schedule, memoryLimit, format = "text", output = "-", trace, json;
  unsigned microbatches = 1;
  std::optional<unsigned> chunks;
};

/// Tasks that are timed in a moment and fit into memory.
constexpr uint64_t mostTasks = 50'000'000;

/// By stage, the microbatches that a limit allows: a number of them, or a size that their activations must fit.
Expected<std::vector<unsigned>> readLimits(const std::string &text, const StageFile &file) {
  unsigned count = 0;
  if (llvm::to_integer(text, count, 10) && count > 0)
    return std::vector<unsigned>(file.times.size(), count);
  auto bytes = parseQuantity(llvm::StringRef(text), sizeUnits, "--memory-limit");
  if (!bytes) {
    llvm::consumeError(bytes.takeError());
    return makeError(Status::Usage,
                     "--memory-limit expects a number of microbatches or a size such as \"8 GiB\", got \"", text, "\"");
  }
  std::vector<unsigned> limits;
  for (auto [i, activation] : llvm::enumerate(file.activations)) {
    if (activation <= 0)
      return makeError(Status::Usage, "--memory-limit ", text, " expects \"activation\" of every stage, stage ", i,
                       " has none; give it, or a number of microbatches");
    double most = std::floor(*bytes / activation);
    if (most < 1)
      return makeError(Status::Infeasible, "stage ", i, " expects memory for the activations of one microbatch, ",
                       static_cast<uint64_t>(activation), " bytes, got a limit of ", text);
    limits.push_back(static_cast<unsigned>(std::min(most, 1e9)));
  }
  return limits;
}

/// The names of schedules, as a user may choose among them.
template <typename Predicate> std::string namesWhere(Predicate predicate) {
  std::vector<llvm::StringRef> names;
  for (const pipeline::ScheduleRow &row : pipeline::scheduleTable())
    if (predicate(row))
      names.push_back(row.name);
  return llvm::join(names, " or ");
}

Error checkChunks(const pipeline::ScheduleRow &row, std::optional<unsigned> chunks) {
  if (!chunks || (row.fewestChunks <= *chunks && *chunks <= row.mostChunks))
    return Error::success();
  if (row.mostChunks == 1)
    return makeError(Status::Usage, "--chunks expects --schedule ",
                     namesWhere([](const auto &other) { return other.mostChunks > 1; }), ", got ", row.name);
  return makeError(Status::Usage, "--chunks expects ", row.fewestChunks, " to ", row.mostChunks, " with --schedule ",
                   row.name, ", got ", *chunks);
}

Expected<PipelineReport> makeReport(const ScheduleOptions &options) {
  PipelineReport report;
  pipeline::PipelineSchedule &schedule = report.schedule;
  schedule.schedule = *pipeline::findSchedule(options.schedule);
  schedule.microbatches = options.microbatches;
  const pipeline::ScheduleRow &row = *schedule.schedule;
  if (Error error = checkChunks(row, options.chunks))
    return error;
  schedule.chunks = options.chunks.value_or(row.fewestChunks);
  if (!options.memoryLimit.empty() && !row.takesLimits)
    return makeError(Status::Usage, "--memory-limit expects --schedule ",
                     namesWhere([](const auto &other) { return other.takesLimits; }), ", got ", options.schedule);
  auto file = readStageFile(options.stages);
  if (!file)
    return fromLlvm(Status::Failure, file.takeError());
  if (uint64_t(file->times.size()) * schedule.microbatches * schedule.chunks * 3 > mostTasks)
    return makeError(Status::Usage, "schedule expects at most ", mostTasks, " tasks, got ", file->times.size(),
                     " stages with ", schedule.microbatches, " microbatches; give fewer microbatches");
  if (!options.memoryLimit.empty()) {
    auto limits = readLimits(options.memoryLimit, *file);
    if (!limits)
      return limits.error();
    schedule.memoryLimits = *limits;
  }
  report.activations = file->activations;
  report.timeline = pipeline::simulatePipeline(file->times, schedule);
  if (report.timeline.stages.empty())
    return makeError(Status::Internal, "tasks of schedule ", options.schedule, " wait for each other");
  if (!std::isfinite(report.timeline.end()))
    return makeError(Status::Failure, "stages of \"", options.stages, "\" expect times with finite sums");
  return report;
}

Error schedule(const ScheduleOptions &options) {
  auto report = makeReport(options);
  if (!report)
    return report.error();
  if (!options.trace.empty())
    if (Error error = writeJson(options.trace, [&](JsonStream &json) { tracePipeline(json, *report); }))
      return error;
  if (!options.json.empty())
    if (Error error = writeJson(options.json, [&](JsonStream &json) { writePipeline(json, *report); }))
      return error;
  // JSON on standard output stands there alone.
  if (options.json == "-" && options.output == "-")
    return Error::success();
  return writeOutput(options.output, [&](llvm::raw_ostream &out) {
    if (options.format == "svg")
      drawPipeline(out, *report);
    else
      printPipeline(out, *report);
  });
}

} // namespace

void addScheduleCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App *command = app.add_subcommand("schedule", "Times a pipeline schedule from given costs of its stages.");
  command->add_option("--stages", options->stages, "the stages' costs, a YAML file")->type_name("FILE")->required();
  command->add_option("--schedule", options->schedule, "the order of tasks")
      ->check(CLI::IsMember(scheduleNames()))
      ->required();
  command->add_option("--microbatches", options->microbatches, "the parts of a batch")
      ->check(CLI::Range(1u, 1000000u))
      ->type_name("N")
      ->required();
  command->add_option("--chunks", options->chunks, "where stages have several parts: how many [as few as there may be]")
      ->check(CLI::Range(1u, 1024u))
      ->type_name("V");
  command
      ->add_option("--memory-limit", options->memoryLimit,
                   "zb-auto: the activations that a stage may keep: of N microbatches, or so many bytes [as many "
                   "microbatches as stages]")
      ->type_name("N|SIZE");
  command->add_option("--format", options->format, "the form: text or svg")
      ->check(CLI::IsMember({"text", "svg"}))
      ->capture_default_str();
  addOutputOption(*command, "-o,--output", options->output, "where it goes")->capture_default_str();
  addOutputOption(*command, "--trace", options->trace, "also write trace events for Perfetto");
  addOutputOption(*command, "--json", options->json, "also write the result as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(schedule(*options)); }; });
}

} // namespace cleave::tool
