// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the distribute stage.

#include "passes/distribute/Pipeline.h"

#include "passes/distribute/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace cleave {

void buildDistributePipeline(OpPassManager &manager, const DistributeOptions &options) {
  // Before communication is inserted, which sees the simpler operators.
  manager.addPass(createDecomposeSplitPass());
  // After placement, which it reads. No simplification may come between: it could join operators of two places. Before
  // all that looks at programs: nothing else makes them.
  manager.addPass(createInsertTransfersPass());
  // After gathers are there, and before they are joined with others.
  manager.addPass(createExchangeInRingsPass({options.keys}));
  // After the collectives are there. Before kernels are made: where a result is needed decides what is fused with what.
  if (options.combine)
    manager.addPass(createCombineCollectivesPass());
  // After the messages are known that updates wait for.
  manager.addPass(createAdvanceUpdatesPass());
}

void registerDistributePipeline() {
  struct Options : PassPipelineOptions<Options> {
    Option<bool> combine{*this, "combine", llvm::cl::desc("let collectives share messages"), llvm::cl::init(true)};
    Option<std::string> keys{*this, "keys", llvm::cl::desc("how keys and values come: auto, ring or gather"),
                             llvm::cl::init("auto")};
  };
  static PassPipelineRegistration<Options> registration(
      "distribute", "Placed graphs to programs with transfers", [](OpPassManager &manager, const Options &options) {
        buildDistributePipeline(manager, {options.combine, options.keys});
      });
}

} // namespace cleave
