// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cleave's mlir-opt: runs passes on textual IR, for tests and for people who look at one stage.

#include "compiler/CompilePasses.h"
#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/Passes.h"
#include "passes/codegen/Pipeline.h"
#include "passes/cost/ModuleMachine.h"
#include "passes/distribute/Passes.h"
#include "passes/distribute/Pipeline.h"
#include "passes/graph/Passes.h"
#include "passes/graph/Pipeline.h"
#include "passes/planner/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/Pipeline.h"
#include "passes/train/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

static void registerPasses() {
  mlir::registerTransformsPasses();
  cleave::registerGraphPasses();
  cleave::registerGraphPipeline();
  cleave::registerPlannerPasses();
  cleave::registerDistributePasses();
  cleave::registerDistributePipeline();
  cleave::registerCodegenPasses();
  cleave::registerKernelPasses();
  cleave::registerCodegenPipeline();
  cleave::registerSchedulePasses();
  cleave::registerSchedulePipeline();
  cleave::registerTrainPasses();
  cleave::registerCompilePasses();
}

namespace {

/// Reports a pass that succeeds after it has emitted an error. `--verify-diagnostics` compares diagnostics alone:
/// without this, a test of what a pass refuses would pass as well if the pass went on.
class ErrorsFail : public mlir::PassInstrumentation {
public:
  explicit ErrorsFail(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
          return mlir::failure(); // The handler below reports it.
        }) {}

  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override {
    if (errors.exchange(0) == 0)
      return;
    mlir::emitError(op->getLoc()) << "pass '" << pass->getName() << "' has emitted an error but did not fail";
    errors = 0;
  }

private:
  std::atomic<int> errors = 0;
  mlir::ScopedDiagnosticHandler handler;
};

/// Shuffles the uses of every value before each pass. Text has no order of uses: a pass whose result depends on it
/// makes other plans of a dump than of the module that was dumped.
class ShuffledUses : public mlir::PassInstrumentation {
public:
  explicit ShuffledUses(unsigned seed) : seed(seed) {}

  void runBeforePass(mlir::Pass *, mlir::Operation *op) override {
    std::mt19937 random(seed);
    auto shuffle = [&](mlir::Value value) {
      llvm::SmallVector<unsigned> order(std::distance(value.use_begin(), value.use_end()));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      if (order.size() > 1)
        value.shuffleUseList(order);
    };
    op->walk([&](mlir::Operation *inside) {
      llvm::for_each(inside->getResults(), shuffle);
      for (mlir::Region &region : inside->getRegions())
        for (mlir::Block &block : region)
          llvm::for_each(block.getArguments(), shuffle);
    });
  }

private:
  const unsigned seed;
};

/// Says again after each pass how to print: the linker that links native kernels takes all options of the command line
/// back.
class KeptPrinting : public mlir::PassInstrumentation {
public:
  explicit KeptPrinting(llvm::ArrayRef<const char *> arguments) {
    for (llvm::StringRef argument : arguments)
      if (argument.consume_front("--mlir-print-") || argument.consume_front("-mlir-print-"))
        said.push_back(argument.split('='));
  }

  void runAfterPass(mlir::Pass *, mlir::Operation *op) override {
    if (!llvm::isa<mlir::ModuleOp>(op)) // Passes of programs run beside each other, and link nothing.
      return;
    for (auto [name, value] : said) {
      llvm::cl::Option *option = llvm::cl::getRegisteredOptions().lookup(("mlir-print-" + name).str());
      if (option && option->getNumOccurrences() == 0)
        option->addOccurrence(0, option->ArgStr, value);
    }
  }

private:
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>> said;
};

} // namespace

static llvm::cl::opt<unsigned> shuffleUses("shuffle-uses",
                                           llvm::cl::desc("shuffle the uses of every value before each pass, by this "
                                                          "seed; 0, the default, does not"));

static mlir::LogicalResult run(int argc, char **argv, mlir::DialectRegistry &registry) {
  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "Cleave's optimizer driver\n", registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);
  config.setPassPipelineSetupFn([given = config, argc, argv](mlir::PassManager &manager) {
    manager.addInstrumentation(std::make_unique<ErrorsFail>(manager.getContext()));
    manager.addInstrumentation(std::make_unique<KeptPrinting>(llvm::ArrayRef<const char *>(argv, argc)));
    if (shuffleUses != 0)
      manager.addInstrumentation(std::make_unique<ShuffledUses>(shuffleUses));
    return given.setupPassPipeline(manager);
  });
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = mlir::openInputFile(input, &message);
  std::unique_ptr<llvm::ToolOutputFile> file = text ? mlir::openOutputFile(output, &message) : nullptr;
  if (!file) {
    llvm::errs() << message << "\n";
    return mlir::failure();
  }
  if (failed(mlir::MlirOptMain(file->os(), std::move(text), registry, config)))
    return mlir::failure();
  file->keep();
  return mlir::success();
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<cleave::dfg::DfgDialect, cleave::dist::DistDialect, cleave::plan::PlanDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
  cleave::registerMachineReader(registry);
  registerPasses();
  return mlir::asMainReturnCode(run(argc, argv, registry));
}
