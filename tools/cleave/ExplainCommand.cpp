// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave explain`: shows a plan. Needs no compiler, and makes no MLIR context.

#include "tools/cleave/Command.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/OutputFile.h"

#include "runtime/Verify.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <CLI/CLI.hpp>
#include <optional>

namespace cleave::tool {
namespace {

struct ExplainOptions {
  std::string plan, entry, op, format = "text", output = "-";
};

/// The operator of that name; an error that proposes names which contain it.
Expected<uint32_t> findOperator(const runtime::Entry &entry, const std::string &name) {
  std::string similar;
  unsigned count = 0;
  for (uint32_t i = 0; i != entry.operators.size(); ++i) {
    const std::string &candidate = entry.operators[i].name;
    if (candidate == name)
      return i;
    if (llvm::StringRef(candidate).contains_insensitive(name) && count++ < 5)
      similar += (similar.empty() ? "" : ", ") + ("\"" + candidate + "\"");
  }
  return makeError(Status::Usage, "--op expects the name of an operator, got \"", name, "\"",
                   similar.empty() ? "; the table without --op shows all names" : "; similar: " + similar);
}

/// Writes the picture that Graphviz makes of the plan.
Error drawSvg(const PlanSummary &summary, llvm::StringRef output) {
  auto program = llvm::sys::findProgramByName("dot");
  if (!program)
    return makeError(Status::Failure, "--format svg expects Graphviz's program \"dot\" on the path, got none; install "
                                      "graphviz or use --format dot");
  llvm::SmallString<128> source, picture;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave", "dot", source))
    return makeError(Status::Failure, "cannot make a temporary file: ", code.message());
  llvm::FileRemover removeSource(source);
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave", "svg", picture))
    return makeError(Status::Failure, "cannot make a temporary file: ", code.message());
  llvm::FileRemover removePicture(picture);
  if (Error error = writeOutput(source, [&](llvm::raw_ostream &out) { explainAsDot(out, summary); }))
    return error;
  std::string message;
  int code =
      llvm::sys::ExecuteAndWait(*program, {*program, "-Tsvg", source, "-o", picture}, std::nullopt, {}, 0, 0, &message);
  auto drawn = llvm::MemoryBuffer::getFile(picture);
  if (code != 0 || !drawn)
    return makeError(Status::Failure, "\"dot\" expects to draw the plan, got exit code ", code,
                     message.empty() ? "" : ": ", message);
  return writeOutput(output, [&](llvm::raw_ostream &out) { out << (*drawn)->getBuffer(); });
}

Error explain(const ExplainOptions &options) {
  auto plan = runtime::Plan::read(options.plan);
  if (!plan)
    return plan.error();
  if (Error error = verifyPlan(*plan))
    return error;
  auto entry = plan->entry(options.entry);
  if (!entry)
    return entry.error();
  PlanSummary summary(**plan, **entry);
  if (options.format == "svg")
    return drawSvg(summary, options.output);
  if (options.format == "json")
    return writeJson(options.output, [&](llvm::json::OStream &json) { writeSummary(json, summary); });
  if (options.format == "dot")
    return writeOutput(options.output, [&](llvm::raw_ostream &out) { explainAsDot(out, summary); });
  if (options.op.empty())
    return writeOutput(options.output, [&](llvm::raw_ostream &out) { explainAsText(out, summary); });
  auto index = findOperator(**entry, options.op);
  if (!index)
    return index.error();
  return writeOutput(options.output, [&](llvm::raw_ostream &out) { explainOperator(out, summary, *index); });
}

} // namespace

void addExplainCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App *command = app.add_subcommand("explain", "Shows which device computes what in a plan, and who decided it.");
  command->add_option("PLAN", options->plan, "a plan file")->required();
  CLI::Option *op = command->add_option("--op", options->op, "everything about this operator")->type_name("NAME");
  CLI::Option *format =
      command->add_option("--format", options->format, "the form: text, json, dot, or svg (needs Graphviz)")
          ->check(CLI::IsMember({"text", "json", "dot", "svg"}))
          ->capture_default_str();
  command->add_option("--entry", options->entry, "which entry of the plan; not needed when there is one");
  command->add_option("-o,--output", options->output, "where it goes")->capture_default_str();
  op->excludes(format);
  command->callback([options, &chosen] { chosen = [options] { return report(explain(*options)); }; });
}

} // namespace cleave::tool
