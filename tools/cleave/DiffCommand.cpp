// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave diff`: what differs between two plans.

#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/PlanDiff.h"

#include "runtime/Verify.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct DiffOptions {
  std::string first, second, entry, format = "text", output = "-", json;
};

Error diff(const DiffOptions &options) {
  auto first = runtime::readVerifiedPlan(options.first), second = runtime::readVerifiedPlan(options.second);
  if (!first || !second)
    return first ? second.error() : first.error();
  auto firstEntry = first->entry(options.entry), secondEntry = second->entry(options.entry);
  if (!firstEntry || !secondEntry)
    return firstEntry ? secondEntry.error() : firstEntry.error();
  PlanSummary before(**first, **firstEntry), after(**second, **secondEntry);
  PlanDiff difference(before, after);
  auto write = [&](JsonStream &json) { writeDiff(json, difference); };
  if (!options.json.empty())
    if (Error error = writeJson(options.json, write); error || options.json == "-")
      return error;
  if (options.format == "json")
    return writeJson(options.output, write);
  return writeOutput(options.output, [&](llvm::raw_ostream &out) { printDiff(out, difference); });
}

} // namespace

void addDiffCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App *command = app.add_subcommand("diff", "Shows what differs between two plans; ends with 0 either way.");
  command->add_option("FIRST", options->first, "a plan file")->required();
  command->add_option("SECOND", options->second, "another")->required();
  command->add_option("--format", options->format, "the form: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_option("--entry", options->entry, "which entry of the plans; not needed when there is one");
  addOutputOption(*command, "-o,--output", options->output, "where it goes")->capture_default_str();
  addOutputOption(*command, "--json", options->json, "also write the form json");
  command->callback([options, &chosen] { chosen = [options] { return report(diff(*options)); }; });
}

} // namespace cleave::tool
