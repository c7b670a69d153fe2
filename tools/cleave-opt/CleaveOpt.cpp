// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cleave's mlir-opt: runs passes on textual IR, for tests and for people who look at one stage.

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#ifdef CLEAVE_HAS_GRAPH
#include "passes/graph/Passes.h"
#include "passes/graph/Pipeline.h"
#endif
#ifdef CLEAVE_HAS_PLANNER
#include "passes/planner/Passes.h"
#endif
#ifdef CLEAVE_HAS_DISTRIBUTE
#include "passes/distribute/Passes.h"
#include "passes/distribute/Pipeline.h"
#endif
#ifdef CLEAVE_HAS_CODEGEN
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/Passes.h"
#endif
#ifdef CLEAVE_HAS_SCHEDULE
#include "passes/schedule/Passes.h"
#endif

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

static void registerPasses() {
  mlir::registerTransformsPasses();
#ifdef CLEAVE_HAS_GRAPH
  cleave::registerGraphPasses();
  cleave::registerGraphPipeline();
#endif
#ifdef CLEAVE_HAS_PLANNER
  cleave::registerPlannerPasses();
#endif
#ifdef CLEAVE_HAS_DISTRIBUTE
  cleave::registerDistributePasses();
  cleave::registerDistributePipeline();
#endif
#ifdef CLEAVE_HAS_CODEGEN
  cleave::registerCodegenPasses();
  cleave::registerKernelPasses();
#endif
#ifdef CLEAVE_HAS_SCHEDULE
  cleave::registerSchedulePasses();
#endif
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<cleave::dfg::DfgDialect, cleave::dist::DistDialect, cleave::plan::PlanDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Cleave's optimizer driver\n", registry));
}
