// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave export`: a plan's decision for other programs. Needs no compiler, and makes no MLIR context.

#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/ExportedPlan.h"
#include "tools/cleave/OutputFile.h"

#include "runtime/Verify.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct ExportOptions {
  std::string plan, entry, format, output = "-", json;
};

/// Says what the file cannot, a line each, unless there is much of it.
void warnOf(const std::vector<Inexpressible> &tensors, const std::string &format) {
  static constexpr size_t shown = 8;
  for (const Inexpressible &tensor : llvm::ArrayRef(tensors).take_front(shown))
    printWarning(tensor.subject + " cannot be said to " + format + ": " + tensor.reason);
  if (tensors.size() > shown)
    printWarning(std::to_string(tensors.size() - shown) + " more cannot, which the file lists in NOT_EXPRESSIBLE");
}

Error exportPlan(const ExportOptions &options) {
  auto plan = runtime::readVerifiedPlan(options.plan);
  if (!plan)
    return plan.error();
  auto entry = plan->entry(options.entry);
  if (!entry)
    return entry.error();
  bool isJson = options.format == "json";
  ExportedPlan exported(**plan, **entry);
  if (!isJson && !exported.placesParameters())
    return makeError(
        Status::Usage, "--format ", options.format, " expects a plan that says where parameters are; \"", options.plan,
        "\" was decided by an older compiler, which did not keep that: compile again, or use --format json");
  auto write = [&](JsonStream &json) { writeExport(json, exported); };
  std::vector<Inexpressible> inexpressible;
  if (options.json == "-" && options.output == "-")
    return writeJson("-", write);
  Error error = isJson ? writeJson(options.output, write) : writeOutput(options.output, [&](llvm::raw_ostream &out) {
    inexpressible = writePython(out, exported, options.format == "jax" ? Framework::Jax : Framework::Torch);
  });
  if (!error && !options.json.empty())
    error = writeJson(options.json, write);
  warnOf(inexpressible, options.format);
  return error;
}

} // namespace

void addExportCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App *command = app.add_subcommand("export", "Says what a plan decided so that other frameworks can use it.");
  command->add_option("PLAN", options->plan, "a plan file")->required();
  command
      ->add_option("--format", options->format,
                   "json; or a file in Python that needs only torch, or only jax and numpy")
      ->check(CLI::IsMember({"torch", "jax", "json"}))
      ->required();
  command->add_option("--entry", options->entry, "which entry of the plan [the first]")->type_name("NAME");
  addOutputOption(*command, "-o,--output", options->output, "where it goes")->capture_default_str();
  addOutputOption(*command, "--json", options->json, "also write the form json");
  command->callback([options, &chosen] { chosen = [options] { return report(exportPlan(*options)); }; });
}

} // namespace cleave::tool
