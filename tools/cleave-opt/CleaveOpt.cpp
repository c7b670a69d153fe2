// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cleave's mlir-opt: runs passes on textual IR, for tests and for people who look at one stage.

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "dialects/plan/Plan.h"
#include "passes/codegen/KernelPasses.h"
#include "passes/codegen/Passes.h"
#include "passes/distribute/Passes.h"
#include "passes/distribute/Pipeline.h"
#include "passes/graph/Passes.h"
#include "passes/graph/Pipeline.h"
#include "passes/planner/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/train/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

static void registerPasses() {
  mlir::registerTransformsPasses();
  cleave::registerGraphPasses();
  cleave::registerGraphPipeline();
  cleave::registerPlannerPasses();
  cleave::registerDistributePasses();
  cleave::registerDistributePipeline();
  cleave::registerCodegenPasses();
  cleave::registerKernelPasses();
  cleave::registerSchedulePasses();
  cleave::registerTrainPasses();
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<cleave::dfg::DfgDialect, cleave::dist::DistDialect, cleave::plan::PlanDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Cleave's optimizer driver\n", registry));
}
