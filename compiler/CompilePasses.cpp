// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each pass reads its options, and has ModelCompiler do its stage of the module at hand.

#include "compiler/CompilePasses.h"

#include "compiler/ModelCompiler.h"
#include "compiler/PlanSettings.h"
#include "compiler/StageState.h"

#include "mlir/Pass/Pass.h"

#include <filesystem>

using namespace mlir;

namespace cleave {
namespace {

/// Says things at a module.
class ModuleMessages : public Messages {
public:
  explicit ModuleMessages(ModuleOp module) : module(module) {}

  void warning(const std::string &text) override { emitWarning(module.getLoc()) << text; }
  void note(const std::string &text) override { emitRemark(module.getLoc()) << text; }
  void internalError(const std::string &text) override { emitError(module.getLoc()) << "internal error: " << text; }

private:
  ModuleOp module;
};

/// Says an error at the module, unless it was said.
LogicalResult succeededAt(ModuleOp module, const Error &error) {
  if (!error)
    return success();
  if (!error.message().empty())
    emitError(module.getLoc()) << error.message();
  return failure();
}

/// A pass with the options of the table.
class TablePass : public OperationPass<ModuleOp> {
public:
  using Stage = Error (ModelCompiler::*)();

  TablePass(TypeID id, StringRef name, StringRef summary, Stage stage)
      : OperationPass(id), name(name), summary(summary), stage(stage) {
    addOptions();
  }
  TablePass(const TablePass &other)
      : OperationPass(other), name(other.name), summary(other.summary), stage(other.stage) {
    addOptions();
  }

  StringRef getName() const override { return name; }
  StringRef getArgument() const override { return name; }
  StringRef getDescription() const override { return summary; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(succeededAt(module, run(module))))
      signalPassFailure();
  }

protected:
  std::unique_ptr<Pass> clonePass() const override { return std::make_unique<TablePass>(*this); }

private:
  void addOptions() {
    for (const TargetOption &row : targetOptions())
      options.push_back(std::make_unique<Option<std::string>>(*this, row.name, llvm::cl::desc(row.help)));
  }

  Error run(ModuleOp module) {
    CompileRequest request;
    for (auto [row, option] : llvm::zip_equal(targetOptions(), options))
      if (!option->getValue().empty())
        if (Error error = setOption(request.target, row, option->getValue()))
          return error;
    // What was said of the model is in the module.
    auto settings = getSettings(module);
    if (!settings)
      return settings.error();
    TargetOptions ignored;
    if (Error error = applySettings(*settings, request.model, ignored))
      return error;
    ModuleMessages messages(module);
    ModelCompiler compiler(request, messages, module);
    return (compiler.*stage)();
  }

  StringRef name, summary;
  Stage stage;
  std::vector<std::unique_ptr<Option<std::string>>> options;
};

class EmitPass : public PassWrapper<EmitPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmitPass)

  EmitPass() = default;
  EmitPass(const EmitPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "compile-emit"; }
  StringRef getDescription() const override { return "Write the plan, and its weights beside it"; }

  void runOnOperation() override {
    if (failed(succeededAt(getOperation(), run(getOperation()))))
      signalPassFailure();
  }

private:
  Error run(ModuleOp module) {
    if (output.empty())
      return makeError(Status::Usage, "compile-emit expects output=FILE, got none");
    CompileRequest request;
    request.model.model = model;
    request.planFile = output;
    ModuleMessages messages(module);
    ModelCompiler compiler(request, messages, module);
    auto compiled = compiler.emitBorrowed(std::filesystem::path(model.getValue()).parent_path().string());
    if (!compiled)
      return compiled.error();
    return writePlan(*compiled, output);
  }

  Option<std::string> model{*this, "model", llvm::cl::desc("the model's file, as the plan says it")};
  Option<std::string> output{*this, "output", llvm::cl::desc("the plan's file")};
};

struct PlaceTag {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlaceTag)
};
struct TrainTag {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TrainTag)
};

} // namespace

void registerCompilePasses() {
  registerPass([]() -> std::unique_ptr<Pass> {
    return std::make_unique<TablePass>(TypeID::get<PlaceTag>(), "compile-place", "Decide where every operator runs",
                                       &ModelCompiler::placeBorrowed);
  });
  registerPass([]() -> std::unique_ptr<Pass> {
    return std::make_unique<TablePass>(TypeID::get<TrainTag>(), "compile-train",
                                       "Make the graphs of the plan's entries", &ModelCompiler::trainBorrowed);
  });
  registerPass([]() -> std::unique_ptr<Pass> { return std::make_unique<EmitPass>(); });
}

} // namespace cleave
