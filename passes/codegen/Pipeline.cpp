// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the codegen stage.

#include "passes/codegen/Pipeline.h"

#include "passes/codegen/KernelPasses.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace cleave {

void buildCodegenPipeline(OpPassManager &manager, const CodegenOptions &options) {
  // Before anything that asks what the processor can do.
  manager.addPass(createChooseProcessorPass({!options.reference && options.libraries}));
  // Before normalizations and factors are folded into reals. The reference rounds where the plan does that it is
  // compared with: a step of 8 bits more or less is not an error of either.
  if (options.reference || options.libraries)
    manager.nest<dist::ProgramOp>().addPass(createFormIntegerProductsPass({/*reals=*/!options.reference}));
  if (!options.reference) {
    OpPassManager &programs = manager.nest<dist::ProgramOp>();
    // Before selection: it leaves a plain bias behind the convolution, which selection then fuses.
    programs.addPass(createFoldBatchNormPass());
    // Both before its products are brought into the form of libraries.
    programs.addPass(createFuseAttentionPass());
    if (options.libraries && options.attention)
      manager.addPass(createSelectAttentionPass());
    if (options.libraries) {
      OpPassManager &programs = manager.nest<dist::ProgramOp>();
      // Before selection, which knows products of two or three dimensions only; the reshapes it leaves fold here.
      programs.addPass(createNormalizeContractionsPass());
      programs.addPass(createCanonicalizerPass());
      programs.addPass(createCSEPass());
      manager.addPass(createSelectLibraryKernelsPass({options.tf32, options.winograd}));
    }
    // After selection: what libraries fuse by themselves stays with them.
    manager.nest<dist::ProgramOp>().addPass(createCSEPass());
    manager.nest<dist::ProgramOp>().addPass(createFuseElementwisePass());
    // After the clusters that are good everywhere: it joins whole ones.
    manager.addPass(createFuseGpuKernelsPass());
  }
  manager.addPass(createOutlineNativeKernelsPass());
  // Views of values that nobody reads.
  manager.nest<dist::ProgramOp>().addPass(createCSEPass());
  // Last before compilation: other passes know kernels by their operators. Loops are decided where they are written
  // next, so that no module has those of all kernels for long.
  ChooseNativeLoopsPassOptions loops;
  loops.reference = options.reference;
  loops.threads = options.threads;
  manager.addPass(createChooseNativeLoopsPass(loops));
  CompileNativeKernelsPassOptions compile;
  compile.reference = options.reference;
  compile.threads = options.threads;
  manager.addPass(createCompileNativeKernelsPass(compile));
  ChooseGpuLaunchesPassOptions launches;
  launches.reference = options.reference;
  launches.threads = options.threads;
  manager.addPass(createChooseGpuLaunchesPass(launches));
  CompileGpuKernelsPassOptions compileGpu;
  compileGpu.threads = options.threads;
  manager.addPass(createCompileGpuKernelsPass(compileGpu));
}

namespace {

/// CodegenOptions as options of a pipeline.
struct CodegenPipelineOptions : PassPipelineOptions<CodegenPipelineOptions> {
  static inline const CodegenOptions defaults;
  Option<bool> reference{*this, "reference", llvm::cl::desc("plain loops for every operator by itself"),
                         llvm::cl::init(defaults.reference)};
  Option<bool> libraries{*this, "libraries", llvm::cl::desc("use library kernels"), llvm::cl::init(defaults.libraries)};
  Option<bool> tf32{*this, "tf32", llvm::cl::desc("let libraries of GPUs round products of float32 to TF32"),
                    llvm::cl::init(defaults.tf32)};
  Option<bool> attention{*this, "attention", llvm::cl::desc("let libraries compute attention whole"),
                         llvm::cl::init(defaults.attention)};
  Option<bool> winograd{*this, "winograd",
                        llvm::cl::desc("let libraries compute windows of 3 x 3 by Winograd's algorithm"),
                        llvm::cl::init(defaults.winograd)};
  Option<unsigned> threads{*this, "threads", llvm::cl::desc("threads that compile"), llvm::cl::init(defaults.threads)};
};

} // namespace

void registerCodegenPipeline() {
  static PassPipelineRegistration<CodegenPipelineOptions> registration(
      "codegen", "Operators of programs to launches of kernels",
      [](OpPassManager &manager, const CodegenPipelineOptions &options) {
        buildCodegenPipeline(manager, {options.reference, options.libraries, options.tf32, options.attention,
                                       options.winograd, options.threads});
      });
}

} // namespace cleave
