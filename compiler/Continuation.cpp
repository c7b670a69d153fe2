// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dumps say how cleave-opt goes on with them: the passes of the stages that are left, with their options.

#include "compiler/ModelCompiler.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <filesystem>

using namespace mlir;

namespace cleave {

/// The value as an option of a pass; what has spaces is quoted.
static std::string passOption(StringRef name, const std::string &value) {
  bool isPlain = value.find_first_of(" {}'\"") == std::string::npos;
  return (name + "=" + (isPlain ? value : "\"" + value + "\"")).str();
}

/// What stands between single quotes in a shell.
static std::string shellQuoted(const std::string &text) {
  std::string quoted;
  for (char letter : text)
    quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted;
}

static std::string passText(StringRef pass, ArrayRef<std::string> options) {
  return options.empty() ? pass.str() : (pass + "{" + llvm::join(options, " ") + "}").str();
}

/// Those of the table that are not as by default.
static std::vector<std::string> givenOptions(const TargetOptions &target) {
  std::vector<std::string> options;
  const TargetOptions defaults;
  for (const TargetOption &row : targetOptions())
    // How many threads compile is the code generator's.
    if (std::string text = optionText(target, row);
        text != optionText(defaults, row) && row.name != StringRef("compile-threads"))
      options.push_back(passOption(row.name, text));
  return options;
}

std::string ModelCompiler::continuation(StringRef stage) const {
  const TargetOptions &target = request.target;
  bool isPlaced = !llvm::is_contained({"import", "graph"}, stage), isBuilt = isPlaced && stage != "place";
  // Microbatches and entries of several sizes are imported anew, and a decision that was read is in no option.
  bool chooses = target.strategy.empty() || target.strategy == "auto" || target.strategy == "pipeline";
  bool resamples = trains() && (chooses || target.batch != 0 || sync ||
                                (target.microbatches != "auto" && target.microbatches != "1"));
  if ((!isPlaced && (resamples || request.decision || memoryShare < 1)) || (!isBuilt && buckets))
    return "";
  std::vector<std::string> options = givenOptions(target), codegen, emit;
  if (target.reference)
    codegen.push_back("reference=true");
  if (target.noLibraries)
    codegen.push_back("libraries=false");
  if (target.tf32)
    codegen.push_back("tf32=true");
  if (target.noFusedAttention)
    codegen.push_back("attention=false");
  if (target.noWinograd)
    codegen.push_back("winograd=false");
  emit.push_back(passOption("model", request.model.model));
  std::filesystem::path plan = request.planFile;
  if (plan.empty() || !request.lastStage.empty())
    plan = std::filesystem::path(request.model.model).filename().replace_extension(".plan");
  emit.push_back(passOption("output", plan.string()));
  std::vector<std::pair<StringRef, std::string>> passes = {{"import", ""}};
  passes.emplace_back("graph",
                      passText("simplify-graph",
                               target.expertCapacity == 0
                                   ? std::vector<std::string>()
                                   : std::vector{passOption("expert-capacity", shortestText(target.expertCapacity))}));
  passes.emplace_back("place", passText("compile-place", options));
  passes.emplace_back("train", passText("compile-train", options));
  if (!onlyPlans()) {
    std::vector<std::string> distribute;
    if (target.noCombine)
      distribute.push_back("combine=false");
    if (target.keys != TargetOptions().keys)
      distribute.push_back(passOption("keys", target.keys));
    passes.emplace_back("distribute", passText("distribute", distribute));
    passes.emplace_back("codegen", passText("codegen", codegen));
    passes.emplace_back("schedule", "schedule");
  }
  passes.emplace_back("emit", passText("compile-emit", emit));
  std::string text;
  bool isLeft = false;
  for (auto &[name, pass] : passes) {
    if (isLeft)
      text += (text.empty() ? "" : ",") + pass;
    isLeft |= name == stage;
  }
  return text.empty() ? "" : "builtin.module(" + text + ")";
}

std::string ModelCompiler::dump(StringRef stage, bool localLocations) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (std::string pipeline = continuation(stage); !pipeline.empty())
    stream << "// cleave-opt --pass-pipeline='" << shellQuoted(pipeline) << "'\n";
  OpPrintingFlags flags;
  flags.enableDebugInfo();
  if (localLocations)
    flags.useLocalScope();
  module.get().print(stream, flags);
  stream << '\n';
  return text;
}

} // namespace cleave
