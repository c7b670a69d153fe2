// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave explain`: shows a plan. Needs no compiler, and makes no MLIR context.

#include "compiler/PlanMachine.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/EntryChoice.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/ReplicaReport.h"
#include "tools/cleave/TextTable.h"

#include "runtime/Verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <CLI/CLI.hpp>
#include <optional>

namespace cleave::tool {
namespace {

struct ExplainOptions {
  std::string plan, entry, op, format = "text", output = "-", json;
  bool all = false;
};

/// Names that somebody may have meant who wrote `name`: those that contain it, else those that need the fewest changes
/// to become it, at most a third of its letters.
std::vector<std::string> similarNames(const runtime::Entry &entry, llvm::StringRef name) {
  std::vector<std::pair<unsigned, std::string>> found;
  for (const runtime::Operator &op : entry.operators) {
    llvm::StringRef candidate = op.name;
    unsigned limit = static_cast<unsigned>(name.size() / 3 + 1);
    unsigned distance = candidate.contains_insensitive(name)
                            ? 0
                            : candidate.edit_distance_insensitive(name, /*AllowReplacements=*/true, limit);
    if (distance <= limit)
      found.emplace_back(distance, op.name);
  }
  llvm::stable_sort(found, llvm::less_first());
  found.resize(std::min<size_t>(found.size(), 5));
  std::vector<std::string> names;
  for (auto &[distance, similar] : found)
    names.push_back(std::move(similar));
  return names;
}

/// The operator of that name; an error that proposes others.
Expected<uint32_t> findOperator(const runtime::Entry &entry, const std::string &name) {
  for (uint32_t i = 0; i != entry.operators.size(); ++i)
    if (entry.operators[i].name == name)
      return i;
  std::string similar;
  for (const std::string &candidate : similarNames(entry, name))
    similar += (similar.empty() ? "\"" : ", \"") + candidate + "\"";
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

/// Entry after entry, each under its name.
Error explainAll(const ExplainOptions &options, const runtime::Plan &plan,
                 const std::vector<const runtime::Entry *> &entries) {
  if (options.format != "text" || !options.op.empty() || !options.json.empty())
    return makeError(Status::Usage, "--entry all expects --format text, no --op and no --json; name one entry");
  return writeOutput(options.output, [&](llvm::raw_ostream &out) {
    for (const runtime::Entry *entry : entries) {
      out << (entry == entries.front() ? "" : "\n") << "entry \"" << entry->name << "\"\n";
      explainAsText(out, PlanSummary(*plan, *entry), options.all ? Detail::All : Detail::Folded);
    }
  });
}

Error explain(const ExplainOptions &options) {
  auto plan = runtime::readVerifiedPlan(options.plan);
  if (!plan)
    return plan.error();
  auto entries = chooseEntries(*plan, options.entry);
  if (!entries)
    return entries.error();
  if (options.entry == allEntries)
    return explainAll(options, *plan, *entries);
  const runtime::Entry &entry = *entries->front();
  PlanSummary summary(**plan, entry);
  auto write = [&](JsonStream &json) { writeSummary(json, summary); };
  if (!options.json.empty())
    if (Error error = writeJson(options.json, write); error || options.json == "-")
      return error;
  if (options.format == "svg")
    return drawSvg(summary, options.output);
  if (options.format == "json")
    return writeJson(options.output, write);
  if (options.format == "dot")
    return writeOutput(options.output, [&](llvm::raw_ostream &out) { explainAsDot(out, summary); });
  if (options.format == "html")
    return writeOutput(options.output,
                       [&](llvm::raw_ostream &out) { explainAsHtml(out, summary, timelineOf(*plan, summary)); });
  if (options.op.empty()) {
    // Without the machine there is no prediction.
    std::string expected;
    if (auto machine = machineOf(*plan, entry, ""); (*plan)->replicas && machine) {
      llvm::raw_string_ostream text(expected);
      if (Error error = explainReplicas(text, *plan, *machine))
        return error;
    }
    return writeOutput(options.output, [&](llvm::raw_ostream &out) {
      explainAsText(out, summary, options.all ? Detail::All : Detail::Folded);
      out << expected;
    });
  }
  auto index = findOperator(entry, options.op);
  if (!index)
    return index.error();
  return writeOutput(options.output, [&](llvm::raw_ostream &out) { explainOperator(out, summary, *index); });
}

} // namespace

TimelineData timelineOf(const runtime::Plan &plan, const PlanSummary &summary) {
  if (!summary.entry.isDecision()) {
    auto simulated = simulatedTimeline(plan, summary);
    if (simulated && !simulated->events.empty())
      return std::move(*simulated);
  }
  return predictedTimeline(summary);
}

void addExplainCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App *command = app.add_subcommand("explain", "Shows what a plan does, who decided it, and what else there was.");
  command->add_option("PLAN", options->plan, "a plan file")->required();
  CLI::Option *op = command->add_option("--op", options->op, "everything about this operator")->type_name("NAME");
  CLI::Option *format =
      command->add_option("--format", options->format, "the form: text, json, html, dot, or svg (needs Graphviz)")
          ->check(CLI::IsMember({"text", "json", "html", "dot", "svg"}))
          ->capture_default_str();
  command->add_flag("--all", options->all, "text: every operator, device and stage, nothing folded");
  addEntryOption(*command, options->entry);
  addOutputOption(*command, "-o,--output", options->output, "where it goes")->capture_default_str();
  addOutputOption(*command, "--json", options->json, "also write the form json, of the whole entry");
  op->excludes(format);
  command->callback([options, &chosen] {
    chosen = [options] {
      if (options->all)
        widenLines();
      return report(explain(*options));
    };
  });
}

} // namespace cleave::tool
