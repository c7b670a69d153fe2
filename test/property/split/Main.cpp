// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program split-property-test.

#include "test/property/split/CaseRunner.h"
#include "test/property/split/CheckCase.h"

#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>
#include <random>

using namespace cleave;
using namespace cleave::test;

/// Every operator must be tested.
static bool checkTemplates() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<dfg::DfgDialect>();
  std::vector<std::string> missing = operatorsWithoutTemplate(context);
  for (const std::string &name : missing)
    llvm::errs() << "error: 'dfg." << name << "' has no template; add one beside those of its family\n";
  return missing.empty();
}

/// Runs the case of a file.
static int runFile(const std::string &file, bool optimized) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<dfg::DfgDialect, dist::DistDialect, plan::PlanDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
  if (!module)
    return 2;
  std::string found = checkInProcess(*module, {optimized});
  llvm::outs() << (found.empty() ? "equal" : found) << "\n";
  return found.empty() ? 0 : 1;
}

int main(int argc, char **argv) {
  CLI::App app("Compares operators and graphs that are divided over devices with themselves on one device.",
               "split-property-test");
  RunOptions options;
  std::string file;
  bool fresh = false;
  app.add_option("--seed", options.seed, "what all cases follow from")->capture_default_str();
  app.add_flag("--fresh", fresh, "another seed every time");
  app.add_option("--instances", options.instances, "instances of each operator")->capture_default_str();
  app.add_option("--splits", options.splits, "splits of an instance, at most")->capture_default_str();
  app.add_option("--graphs", options.graphs, "graphs of 3 to 30 operators")->capture_default_str();
  app.add_option("--gradients", options.gradients, "instances of each operator with its gradients")
      ->capture_default_str();
  app.add_option("--attention", options.attention, "attention cut by positions, alone and with its gradient")
      ->capture_default_str();
  app.add_option("--only", options.only, "instances of this operator only, such as conv");
  app.add_option("--unit", options.unit, "only the instance or graph of this number");
  app.add_option("--optimized", options.optimizedPercent, "of a hundred, compiled with fusion and libraries")
      ->capture_default_str();
  app.add_option("--jobs", options.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--folder", options.folder, "where the modules of failing cases are written")->capture_default_str();
  app.add_option("--file", file, "only the case in this file");
  CLI11_PARSE(app, argc, argv);
  if (fresh)
    options.seed = std::random_device()();
  if (!checkTemplates())
    return 1;
  if (!file.empty())
    return runFile(file, options.optimizedPercent == 100);
  return runCases(options) == 0 ? 0 : 1;
}
